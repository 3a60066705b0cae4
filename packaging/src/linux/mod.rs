//! Packages for Linux on x86-64: the tarball, and those of distributions.

pub mod bare_python;
pub mod cinstall;
pub mod deb;
mod debian;
pub mod rpm;
mod staged;
pub mod static_tool;
pub mod tarball;

use anyhow::Result;
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

/// Returns the licences of the crates in library and tool.
fn third_party(project: &Project) -> Result<String> {
    licences::text(project, TARGET, &CRATES, "The library and the tool contain")
}
