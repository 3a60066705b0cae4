//! `cargo xtask build`: everything for users, in release mode.

use anyhow::Result;
use tooling::dist::{self, Dist};
use tooling::project::Project;
use tooling::{drivers, tools};

/// Builds library, drivers and examples.
pub fn command(project: &Project) -> Result<()> {
    let dist = everything(project)?;
    project.part("command-line tool, into target/dist/bin", || dist::tool(project, &dist))?;
    say!("\nlibrary   {}", dist.folder.display());
    say!("tool      {}", dist.folder.join("bin/cntk-reader").display());
    say!("drivers   {}", project.target.join("drivers").display());
    say!("examples  {}", project.target.join("examples").display());
    say!("modules   {}", project.target.join("dropin").display());
    Ok(())
}

/// Builds everything, and prints each part with its run time.
pub fn everything(project: &Project) -> Result<Dist> {
    tools::need(project, &drivers::TOOLS)?;
    let dist = project.part("library, release mode, into target/dist", || dist::build(project))?;
    project.part("drivers, with CMake against target/dist", || drivers::build(project, &dist))?;
    project.part("examples", || examples::build(project, &dist))?;
    dropin::modules(project)?;
    Ok(dist)
}
