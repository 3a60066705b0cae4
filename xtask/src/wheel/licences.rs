//! Writes the licences of the crates in the extension module to a file beside
//! `python/pyproject.toml`, which maturin adds to wheels and source distributions.

use anyhow::{Context, Result};
use tooling::licences;
use tooling::project::Project;

/// The file. It is not under version control, because `Cargo.lock` determines its content.
const FILE: &str = "python/THIRD-PARTY.txt";

/// The crate of the extension module.
const EXTENSION: &str = "cntk-reader-python";

/// Writes the file for a Rust target.
pub fn write(project: &Project, target: &str) -> Result<()> {
    let text = licences::text(project, target, &[EXTENSION], "The extension module contains")?;
    std::fs::write(project.path(FILE), text).with_context(|| format!("writing {FILE}"))
}
