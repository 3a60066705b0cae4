//! The C++ programs that replay scripts of reader calls.

use crate::cmake::{Build, install};
use crate::dist::Dist;
use crate::project::Project;
use crate::tools::Tool;
use anyhow::Result;

/// Tools needed for building.
pub const TOOLS: [Tool; 2] = [Tool::Cxx, Tool::CMake];

/// Builds the drivers: `replay` replays calls to this library, `host_replay` calls to a module that
/// CNTK loads, `host_v1` calls to CNTK's reader for BrainScript.
pub fn build(project: &Project, dist: &Dist) -> Result<()> {
    let build = Build::configure(project, dist, "cpp_tests", "cmake/drivers", &[])?;
    for driver in ["replay", "host_replay", "host_v1"] {
        build.build(Some(driver))?;
        install(&build.file(driver), &project.target.join("drivers").join(driver))?;
    }
    Ok(())
}
