//! The C++ programs that do what scripts of reader calls say.

use crate::cmake::{Build, install};
use crate::dist::Dist;
use crate::project::Project;
use crate::tools::Tool;
use anyhow::Result;

/// Tools that building takes.
pub const TOOLS: [Tool; 2] = [Tool::Cxx, Tool::CMake];

/// The drivers that replay scripts of reader calls: `replay` this library's, `host_replay` those of
/// a module that CNTK loads, `host_v1` those of CNTK's reader for BrainScript.
pub fn build(project: &Project, dist: &Dist) -> Result<()> {
    let build = Build::configure(project, dist, "cpp_tests", "cmake/drivers", &[])?;
    for driver in ["replay", "host_replay", "host_v1"] {
        build.build(Some(driver))?;
        install(&build.file(driver), &project.target.join("drivers").join(driver))?;
    }
    Ok(())
}
