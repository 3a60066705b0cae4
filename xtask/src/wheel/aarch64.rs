//! Tries the wheel for 64-bit ARM under an emulator, in Debian's Python.

use super::unpack;
use crate::python_tests::FIRST_PROGRAM;
use anyhow::{Result, ensure};
use std::path::{Path, PathBuf};
use tooling::cross::{Cross, DEBIAN};
use tooling::project::{Project, empty_folder};
use tooling::run::Run;

/// Debian's packages of Python with NumPy, and of everything they load.
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

/// Runs a user's first program, and the tool. Reports if there is no Python. Folders are below
/// `target`.
pub fn run(project: &Project, cross: &Cross, wheel: &Path, target: &Path) -> Result<()> {
    let unpacked = target.join("wheel-unpacked");
    unpack(project, wheel, &unpacked)?;
    let digits = project.path("examples/data/digits.train.ctf");
    let root = match project.part("Debian's Python for aarch64", || python(project, target)) {
        Ok(root) => root,
        Err(reason) => {
            say!("  the package was not run: {reason:#}");
            return Ok(());
        }
    };
    let python = || emulated(project, cross, &root, &unpacked);
    project.part("the package in this Python, under the emulator", || {
        python().args(["-c", FIRST_PROGRAM]).arg(&digits).go()
    })?;
    project.part("the tool in it", || {
        let shown = python().args(["-m", "cntk_reader", "info"]).arg(&digits).output()?;
        ensure!(shown.contains("1,437 sequences"), "The tool printed:\n{shown}");
        Ok(())
    })
}

/// Unpacks Debian's Python into a folder like a root file system. apt-get downloads it, but nothing
/// is installed.
fn python(project: &Project, target: &Path) -> Result<PathBuf> {
    let (root, packages) = (target.join("debian"), target.join("debian-packages"));
    if !root.join("usr/bin/python3.11").exists() {
        empty_folder(&packages)?;
        let names = PACKAGES.map(|name| format!("{name}:{DEBIAN}"));
        project.run("apt-get").args(["download", "-q"]).args(names).folder(&packages).go()?;
        empty_folder(&root)?;
        for entry in std::fs::read_dir(&packages)? {
            project.run("dpkg-deb").arg("-x").arg(entry?.path()).arg(&root).go()?;
        }
        std::fs::remove_dir_all(&packages)?;
    }
    Ok(root)
}

/// Prepares to run this Python with the unpacked wheel on its path.
fn emulated(project: &Project, cross: &Cross, root: &Path, unpacked: &Path) -> Run {
    let root = root.to_string_lossy();
    let python = project.run(cross.emulator()).args(["-L", &root]).arg(format!("{root}/usr/bin/python3.11"));
    // NumPy's linear algebra libraries are Debian alternatives, for which only an installation
    // creates links.
    let libraries = ["aarch64-linux-gnu/blas", "aarch64-linux-gnu/lapack"];
    let libraries = libraries.map(|folder| format!("{root}/usr/lib/{folder}")).join(":");
    let modules = format!("{}:{root}/usr/lib/python3/dist-packages", unpacked.display());
    let python = python.env("PYTHONPATH", modules).env("PYTHONDONTWRITEBYTECODE", "1");
    python.env("QEMU_SET_ENV", format!("LD_LIBRARY_PATH={libraries}"))
}
