//! `package bare-python`: the Python wheel in a Debian that has Python and NumPy only.

use super::debian::{Debian, PYTHON};
use crate::{Made, Packages};
use anyhow::{Context, Result, ensure};
use std::path::PathBuf;
use tooling::consumers::Readme;
use tooling::project::Project;

/// Builds the wheel for users, and installs it there.
pub fn make(project: &Project, packages: &Packages) -> Result<Made> {
    let xtask = project.cargo("run").args(["--profile", "tasks", "--package", "xtask", "--quiet"]);
    project.part("wheel, release mode", || xtask.args(["--", "wheel"]).go())?;
    let built = wheel(project)?;
    let file = packages.folder.join(built.file_name().context("a wheel has a name")?);
    std::fs::copy(&built, &file)?;
    let trial = project.part("trial in a Debian with Python", || try_it(project, &file))?;
    Ok(Made { files: vec![file], trials: vec![trial] })
}

/// Finds the wheel for users.
fn wheel(project: &Project) -> Result<PathBuf> {
    for entry in std::fs::read_dir(project.target.join("wheel"))? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if name.contains("manylinux_2_17_x86_64") {
            return Ok(path);
        }
    }
    anyhow::bail!("`cargo xtask wheel` has made no wheel for manylinux_2_17_x86_64.")
}

/// Installs the wheel, runs the README's program and the tool, and removes it.
fn try_it(project: &Project, wheel: &std::path::Path) -> Result<String> {
    let debian = Debian::unpack(project, PYTHON)?;
    let without = debian.sh("command -v cc c++ gcc cargo rustc || echo none")?;
    ensure!(without == "none\n", "This Debian has a compiler:\n{without}");
    let name = wheel.file_name().context("a wheel has a name")?;
    std::fs::copy(wheel, debian.trial().join(name))?;
    let readme = Readme::read(project)?;
    std::fs::write(debian.trial().join("readme.py"), &readme.python)?;
    debian.sh("python3 -m venv --system-site-packages /trial/venv")?;
    // pip leaves the empty folders of what it installs beside its packages.
    let list = || debian.sh("find /trial/venv ! -type d ! -name '*.pyc' | sort");
    let before = list()?;
    // NumPy is Debian's: pip fails if the wheel asks for a newer one.
    debian.run("/trial/venv/bin/pip").args(["install", "--no-index"]).arg(name).go()?;
    readme.expect("The README's program", &debian.sh("/trial/venv/bin/python readme.py")?)?;
    let shown = debian.sh("/trial/venv/bin/cntk-reader info examples/data/digits.train.ctf")?;
    ensure!(shown.contains("1,437 sequences"), "The tool printed:\n{shown}");
    debian.run("/trial/venv/bin/pip").args(["uninstall", "--yes", "cntk-reader"]).go()?;
    let after = list()?;
    ensure!(before == after, "pip uninstall left files: before\n{before}\nafter\n{after}");
    Ok("In a Debian with Python and NumPy only, pip installs the wheel into a virtual environment; the \
        README's Python program prints the README's output, the tool runs, and uninstalling leaves no file."
        .to_owned())
}
