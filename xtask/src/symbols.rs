//! What the shared library shows to the world: its own names only, under the SONAME that programs are linked against.

use crate::project::Project;
use anyhow::{Result, bail, ensure};
use std::path::Path;

/// Checks the shared library; returns the number of exported symbols.
pub fn check(project: &Project, library: &Path, soname: &str) -> Result<usize> {
    let symbols =
        project.run("nm").args(["--dynamic", "--defined-only", "--format=posix"]).arg(library).output()?;
    let names: Vec<&str> = symbols.lines().filter_map(|line| line.split_whitespace().next()).collect();
    let foreign: Vec<&str> = names.iter().copied().filter(|name| !name.starts_with("cntk_reader_")).collect();
    ensure!(foreign.is_empty(), "The library exports names that are not its own: {}", foreign.join(", "));
    let dynamic = project.run("readelf").args(["--dynamic", "--wide"]).arg(library).output()?;
    if !dynamic.lines().any(|line| line.contains("(SONAME)") && line.contains(&format!("[{soname}]"))) {
        bail!("The library's SONAME is not {soname}:\n{dynamic}");
    }
    let header = std::fs::read_to_string(project.path(crate::header::PATH))?;
    let declared = |name: &str| header.contains(&format!("{name}("));
    let hidden: Vec<&str> = names.iter().copied().filter(|name| !declared(name)).collect();
    ensure!(hidden.is_empty(), "Exported, but not declared in the header: {}", hidden.join(", "));
    Ok(names.len())
}
