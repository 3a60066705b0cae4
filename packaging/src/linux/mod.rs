//! Packages for Linux on x86-64: the tarball, and those of distributions.

pub mod bare_python;
pub mod cinstall;
pub mod deb;
mod debian;
pub mod rpm;
mod staged;
pub mod static_tool;
pub mod tarball;

use anyhow::{Context, Result};
use std::path::Path;
use tooling::dist::{self, Dist};
use tooling::licences;
use tooling::project::Project;

/// The target in Rust's spelling.
const TARGET: &str = "x86_64-unknown-linux-gnu";

/// The packages compiled into library and tool.
const CRATES: [&str; 2] = ["cntk-reader-clib", "cntk-reader-cli"];

/// Installs library and tool for users into target/dist.
fn dist(project: &Project) -> Result<Dist> {
    let dist = project.part("library, release mode", || dist::build(project))?;
    project.part("tool, release mode", || dist::tool(project, &dist))?;
    Ok(dist)
}

/// Copies what is installed in target/dist into a folder, without line numbers for debuggers, which
/// are three quarters of its size.
fn copy_stripped(project: &Project, dist: &Dist, to: &Path) -> Result<()> {
    for part in ["include", "lib", "bin", "share"] {
        project.run("cp").arg("-a").arg(dist.folder.join(part)).arg(to).go()?;
    }
    let shared = dist.library();
    let shared = to.join("lib").join(shared.file_name().context("a library has a name")?);
    let strip = || project.run(&project.binutil("strip")).arg("--enable-deterministic-archives");
    strip().arg("--strip-unneeded").arg(&shared).arg(to.join("bin/cntk-reader")).go()?;
    strip().arg("--strip-debug").arg(to.join("lib/libcntk_reader.a")).go().map(drop)
}

/// Returns the licences of the crates in library and tool.
fn third_party(project: &Project) -> Result<String> {
    licences::text(project, TARGET, &CRATES, "The library and the tool contain")
}
