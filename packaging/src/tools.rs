//! Tools from crates.io, installed once under target/packaging.

use anyhow::Result;
use std::path::PathBuf;
use tooling::project::Project;

/// Installs a crate's program, unless this version of it is there already, and returns its path.
/// Compiling one takes one to ten minutes.
pub fn from_crates(project: &Project, name: &str, version: &str) -> Result<PathBuf> {
    let root = project.target.join("packaging").join(format!("{name}-{version}"));
    let program = root.join("bin").join(name);
    if !program.exists() {
        let install =
            project.run("cargo").args(["install", "--locked", "--quiet", name, "--version", version]);
        project.part(&format!("{name} {version}"), || install.arg("--root").arg(&root).go())?;
    }
    Ok(program)
}
