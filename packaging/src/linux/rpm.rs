//! `package rpm`: packages of Fedora and its relatives, by cargo-generate-rpm.
//!
//! This machine is no such system: the packages are installed into a Debian, by rpm itself, without
//! their dependencies.

use super::debian::{CXX, Debian};
use super::staged::{self, REVISION, twice};
use crate::{Made, Packages, tools};
use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};
use tooling::project::Project;
use tooling::tools::{self as system, Tool};

/// The packages: the folder of the crate with the metadata, and the variant there.
const PACKAGES: [(&str, &str, Option<&str>); 4] = [
    ("libcntk-reader1", "clib", Some("runtime")),
    ("libcntk-reader-devel", "clib", None),
    ("cntk-reader", "cli", None),
    ("cntk-reader-dropin", "dropin", None),
];

/// A file and a requirement of each package, in the order of [`PACKAGES`].
const EXPECTED: [(&str, &str); 4] = [
    ("/usr/lib64/libcntk_reader.so.1", "libc.so.6(GLIBC_2.17)(64bit)"),
    ("/usr/lib64/pkgconfig/cntk_reader.pc", "libcntk-reader1(x86-64) = "),
    ("/usr/bin/cntk-reader", "libc.so.6(GLIBC_2.17)(64bit)"),
    ("/usr/lib/cntk-reader-dropin/2.7/Cntk.Composite-2.7.so", "libstdc++ >= 5"),
];

/// Folders that every Fedora has.
const FEDORAS: [&str; 5] = [
    "usr/lib64/cmake",
    "usr/lib64/pkgconfig",
    "usr/share/fish/vendor_completions.d",
    "usr/share/licenses",
    "usr/share/zsh/site-functions",
];

/// Builds the packages.
pub fn make(project: &Project, packages: &Packages) -> Result<Made> {
    let program = tools::from_crates(project, "cargo-generate-rpm", "0.21.1")?;
    system::need(project, &[Tool::Rpm])?;
    let staged = staged::stage(project)?;
    ensure!(staged.dist.abi == "1", "The name libcntk-reader1 in clib/Cargo.toml has another ABI's number.");
    let version = &staged.dist.version;
    let again = project.target.join("packaging/rpm");
    let mut files = Vec::new();
    for (name, package, variant) in PACKAGES {
        let build = |folder: &Path| {
            let run = project.run(&program.to_string_lossy()).args(["--package", package]);
            let run = run.args(variant.map(|name| format!("--variant={name}")));
            let run = run.arg("--set-metadata").arg(format!("version = '{version}'\nrelease = '{REVISION}'"));
            let run = run.env("CARGO_TARGET_DIR", &project.target).env("SOURCE_DATE_EPOCH", &staged.time);
            let file = folder.join(format!("{name}-{version}-{REVISION}.x86_64.rpm"));
            run.arg("--output").arg(&file).go()?;
            Ok(file)
        };
        files.push(project.part(name, || twice([&packages.folder, &again], build))?);
    }
    for (file, (path, requirement)) in files.iter().zip(EXPECTED) {
        let ask = |what: &str| project.run("rpm").args(["-qp", what]).arg(file).output();
        let (paths, requirements) = (ask("--list")?, ask("--requires")?);
        let name = file.display();
        ensure!(paths.lines().any(|line| line == path), "{name} has no {path}, only\n{paths}");
        ensure!(requirements.contains(requirement), "{name} only requires\n{requirements}");
    }
    let mut trials = vec!["Building the packages twice gives the same bytes.".to_owned()];
    trials.push(
        project.part("trial in a Debian with rpm's own database", || try_them(project, &files, version))?,
    );
    Ok(Made { files, trials })
}

/// Installs the packages with rpm, uses them, and removes them.
fn try_them(project: &Project, files: &[PathBuf], version: &str) -> Result<String> {
    let debian = Debian::unpack(project, CXX)?;
    // As in Fedora: Debian's loader does not search this folder.
    std::fs::write(debian.root().join("etc/ld.so.conf.d/lib64.conf"), "/usr/lib64\n")?;
    for folder in FEDORAS {
        std::fs::create_dir_all(debian.root().join(folder))?;
    }
    let before = debian.files()?;
    let rpm = || {
        let run = project.run("rpm").arg("--root").arg(debian.root()).args(["--dbpath", "/trial/rpm"]);
        run.args(["--nodeps"])
    };
    rpm().args(["--install", "--nosignature"]).args(files).go()?;
    let cmake = "-Dcntk_reader_DIR=/usr/lib64/cmake/cntk_reader";
    debian.build_readme(cmake, "PKG_CONFIG_PATH=/usr/lib64/pkgconfig")?;
    debian.try_tool(version)?;
    debian.try_dropin()?;
    rpm().arg("--erase").args(PACKAGES.map(|(name, ..)| name)).go()?;
    debian.expect_files(&before).context("after `rpm --erase`")?;
    Ok("rpm installs them (--nodeps) into a Debian whose loader searches /usr/lib64. The README's C++ \
        program builds with CMake, with pkg-config and statically, and prints the README's output; the \
        tool and the installer run; erasing the packages leaves nothing. Not tried: Fedora and its \
        relatives, and the dependencies there."
        .to_owned())
}
