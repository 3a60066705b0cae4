//! `package deb`: packages of Debian and its relatives, by cargo-deb.

use super::debian::{CXX, Debian, EMPTY};
use super::staged::{self, REVISION, twice};
use crate::{Made, Packages, tools};
use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};
use tooling::project::Project;
use tooling::tools::{self as system, Tool};

/// The packages: the crate with the metadata, the variant there, and whether the package may be
/// installed for several processors at once (`same`) or serves programs of all (`foreign`).
const PACKAGES: [(&str, &str, Option<&str>, &str); 4] = [
    ("libcntk-reader1", "cntk-reader-clib", Some("runtime"), "same"),
    ("libcntk-reader-dev", "cntk-reader-clib", None, "same"),
    ("cntk-reader", "cntk-reader-cli", None, "foreign"),
    ("cntk-reader-dropin", "cntk-reader-dropin", None, "none"),
];

/// Builds the packages.
pub fn make(project: &Project, packages: &Packages) -> Result<Made> {
    let program = tools::from_crates(project, "cargo-deb", "3.8.0")?;
    let staged = staged::stage(project)?;
    ensure!(staged.dist.abi == "1", "The name libcntk-reader1 in clib/Cargo.toml has another ABI's number.");
    let version = format!("{}-{REVISION}", staged.dist.version);
    let again = project.target.join("packaging/deb");
    let mut files = Vec::new();
    for (name, package, variant, multiarch) in PACKAGES {
        let build = |folder: &Path| {
            let run = project.run(&program.to_string_lossy()).args(["--no-build", "--no-strip", "--quiet"]);
            let run = run.args(["--package", package, "--deb-version", &version]);
            let run = run.arg(format!("--multiarch={multiarch}"));
            let run = run.args(variant.map(|name| format!("--variant={name}")));
            let run = run.env("CARGO_TARGET_DIR", &project.target).env("SOURCE_DATE_EPOCH", &staged.time);
            run.arg("--output").arg(folder).go()?;
            let file = folder.join(format!("{name}_{version}_amd64.deb"));
            ensure!(file.is_file(), "cargo-deb has not made {}", file.display());
            Ok(file)
        };
        files.push(project.part(name, || twice([&packages.folder, &again], build))?);
    }
    let mut trials = vec!["Building the packages twice gives the same bytes.".to_owned()];
    trials.push(project.part("lintian", || lint(project, &files))?);
    trials.push(project.part("trial in an empty Debian", || {
        let [library, _, tool, dropin] = files.as_slice() else { unreachable!("there are four packages") };
        without_compiler(project, &[library.clone(), tool.clone(), dropin.clone()], &staged.dist.version)
    })?);
    trials
        .push(project.part("trial in a Debian with a C++ compiler", || with_compiler(project, &files[..2]))?);
    Ok(Made { files, trials })
}

/// Fails if lintian finds errors.
fn lint(project: &Project, files: &[PathBuf]) -> Result<String> {
    system::need(project, &[Tool::Lintian])?;
    let run = project.run("lintian").args(["--allow-root", "--fail-on", "error"]);
    let printed = run.args(["--suppress-tags", SUPPRESSED]).args(files).go()?;
    let warnings: Vec<&str> = printed.lines().filter(|line| line.starts_with("W:")).collect();
    for line in &warnings {
        say!("\n      {line}");
    }
    Ok(format!("lintian finds no errors, and warns {} times.", warnings.len()))
}

/// Rules that do not apply outside Debian's own archive: a package closes the bug that asks for it;
/// and a table for building other packages of Debian, which cargo-deb cannot add.
const SUPPRESSED: &str = "initial-upload-closes-no-bugs,no-shlibs";

/// Installs library, tool and modules for CNTK, uses them, and removes them.
fn without_compiler(project: &Project, packages: &[PathBuf], version: &str) -> Result<String> {
    let debian = Debian::unpack(project, EMPTY)?;
    let before = debian.files()?;
    debian.install(packages)?;
    debian.try_tool(version)?;
    let cached = debian.sh("ldconfig -p")?;
    ensure!(cached.contains("libcntk_reader.so.1"), "ldconfig does not know the library.");
    debian.try_dropin()?;
    remove(&debian, &["libcntk-reader1", "cntk-reader", "cntk-reader-dropin"], &before)?;
    Ok("In an empty Debian, apt-get installs library, tool and modules for CNTK. The tool runs, its manual \
        page is there, and the installer checks, changes and restores a made-up CNTK. Purging them leaves \
        no file."
        .to_owned())
}

/// Installs library and development files, builds programs, and removes them.
fn with_compiler(project: &Project, packages: &[PathBuf]) -> Result<String> {
    let debian = Debian::unpack(project, CXX)?;
    let before = debian.files()?;
    debian.install(packages)?;
    debian.build_readme("", "")?;
    remove(&debian, &["libcntk-reader1", "libcntk-reader-dev"], &before)?;
    Ok("With g++, CMake and pkg-config, the README's C++ program builds with CMake, with pkg-config and \
        statically, and prints the README's output. Purging the packages leaves no file."
        .to_owned())
}

fn remove(debian: &Debian<'_>, names: &[&str], before: &[String]) -> Result<()> {
    debian.run("dpkg").arg("--purge").args(names).go()?;
    debian.expect_files(before).context("after `dpkg --purge`")
}
