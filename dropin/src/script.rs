//! The scripts that install the modules without Rust, in the checkout and beside built modules.

use crate::{Flavor, Host};
use anyhow::Result;
use std::path::{Path, PathBuf};
use tooling::cmake::install;
use tooling::project::Project;

/// Installs and restores modules.
pub const INSTALLER: &str = "cntk-reader-dropin";
/// Runs a program with the modules.
pub const WRAPPER: &str = "with-cntk-reader";

/// Files beside the folders of modules, all below `dropin/` in the checkout.
const FILES: [&str; 3] = [INSTALLER, WRAPPER, "trial.py"];

/// The file in a folder of modules that have never run in their release of CNTK.
const UNTRIED: &str = "untried";

/// Returns the folder with the scripts and, for each release of CNTK, the folder of its modules.
pub fn folder(project: &Project) -> PathBuf {
    project.target.join(Flavor::Release.name(project))
}

/// Puts the scripts beside the modules.
pub fn gather(project: &Project) -> Result<()> {
    for name in FILES {
        install(&project.path("dropin").join(name), &folder(project).join(name))?;
    }
    install(&project.path("LICENSE"), &folder(project).join("LICENSE"))
}

/// Marks the modules in a folder if they have never run in their release of CNTK.
pub fn mark(modules: &Path, host: Host) -> Result<()> {
    if host.is_tried {
        return Ok(());
    }
    std::fs::create_dir_all(modules)?;
    let text =
        "These modules were built for the interface of this release of CNTK, and have never run in it.\n";
    Ok(std::fs::write(modules.join(UNTRIED), text)?)
}

/// Returns the host whose libraries are in a folder, or in its subfolder for libraries.
pub fn host_of(project: &Project, folder: &Path) -> Result<Host> {
    let script = project.path("dropin").join(INSTALLER);
    let release = project.run(&script.to_string_lossy()).silent().arg("release").arg(folder).output()?;
    Host::by_version(release.trim())
}

/// Runs the installer beside the modules, with its output on the terminal.
pub fn installer(project: &Project, arguments: &[&str], cntk: &Path) -> Result<()> {
    let script = folder(project).join(INSTALLER);
    project.run(&script.to_string_lossy()).args(arguments).arg(cntk).live()
}
