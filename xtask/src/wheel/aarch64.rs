//! A trial of the wheel for 64-bit ARM under an emulator: the tool in it, and the package in
//! Debian's Python.

use super::unpack;
use crate::python_tests::FIRST_PROGRAM;
use anyhow::{Context, Result, ensure};
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use tooling::cross::DEBIAN;
use tooling::project::{Project, empty_folder};

/// Debian's packages of Python with NumPy, and of all that they load.
const PACKAGES: [&str; 17] = [
    "libblas3",
    "libbz2-1.0",
    "libc6",
    "libexpat1",
    "libffi8",
    "libgcc-s1",
    "libgfortran5",
    "liblapack3",
    "liblzma5",
    "libpython3.11-minimal",
    "libpython3.11-stdlib",
    "libssl3",
    "libstdc++6",
    "libuuid1",
    "python3-numpy",
    "python3.11-minimal",
    "zlib1g",
];

/// Runs the tool, and what a user of the package runs first; says so where there is no Python.
pub fn run(project: &Project, built: &Project, wheel: &Path) -> Result<()> {
    let unpacked = built.target.join("wheel-unpacked");
    unpack(project, wheel, &unpacked)?;
    let digits = project.path("examples/data/digits.train.ctf");
    project.part("the tool in the wheel, under the emulator", || tool(built, &unpacked, &digits))?;
    match project.part("Debian's Python for aarch64", || python(built)) {
        Ok(python) => {
            project.part("the package in this Python", || package(built, &python, &unpacked, &digits))
        }
        Err(reason) => {
            say!("  the package was not run: {reason:#}");
            Ok(())
        }
    }
}

fn tool(built: &Project, unpacked: &Path, digits: &Path) -> Result<()> {
    let mut folders = std::fs::read_dir(unpacked)?.filter_map(|entry| Some(entry.ok()?.path()));
    let data = folders.find(|path| path.extension().is_some_and(|extension| extension == "data"));
    let tool = data.context("the wheel has no tool")?.join("scripts/cntk-reader");
    // As installers make scripts.
    std::fs::set_permissions(&tool, Permissions::from_mode(0o755))?;
    let shown = built.run_built(&tool).arg("info").arg(digits).output()?;
    ensure!(shown.contains("1,437 sequences"), "The tool printed:\n{shown}");
    Ok(())
}

/// A folder like a root of Debian with Python in it, which apt-get fetches and nobody installs.
fn python(built: &Project) -> Result<PathBuf> {
    let (root, packages) = (built.target.join("debian"), built.target.join("debian-packages"));
    if !root.join("usr/bin/python3.11").exists() {
        empty_folder(&packages)?;
        let names = PACKAGES.map(|name| format!("{name}:{DEBIAN}"));
        built.run("apt-get").args(["download", "-q"]).args(names).folder(&packages).go()?;
        empty_folder(&root)?;
        for entry in std::fs::read_dir(&packages)? {
            built.run("dpkg-deb").arg("-x").arg(entry?.path()).arg(&root).go()?;
        }
        std::fs::remove_dir_all(&packages)?;
    }
    Ok(root)
}

fn package(built: &Project, root: &Path, unpacked: &Path, digits: &Path) -> Result<()> {
    let cross = built.cross.as_ref().context("the package is for another processor")?;
    let root = root.to_string_lossy();
    let python = built.run(cross.emulator()).args(["-L", &root]).arg(format!("{root}/usr/bin/python3.11"));
    // Wherever the linear algebra of NumPy lies, its libraries are alternatives, which only an
    // installation links.
    let libraries = ["aarch64-linux-gnu/blas", "aarch64-linux-gnu/lapack"];
    let libraries = libraries.map(|folder| format!("{root}/usr/lib/{folder}")).join(":");
    let modules = format!("{}:{root}/usr/lib/python3/dist-packages", unpacked.display());
    let python = python.env("PYTHONPATH", modules).env("PYTHONDONTWRITEBYTECODE", "1");
    let python = python.env("QEMU_SET_ENV", format!("LD_LIBRARY_PATH={libraries}"));
    python.args(["-c", FIRST_PROGRAM]).arg(digits).go().map(drop)
}
