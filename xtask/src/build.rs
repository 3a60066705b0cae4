//! `cargo xtask build`: everything that users get, in release mode.

use anyhow::Result;
use tasks::cmake::{Build, install};
use tasks::dist::{self, Dist};
use tasks::project::Project;
use tasks::{drivers, tools};

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

/// Warnings that the examples do not cause in anybody's project.
const WARNINGS: &str = "-Wall -Wextra -Wpedantic -Wconversion -Werror";

/// Builds all of it, and prints each part with its time.
pub fn everything(project: &Project) -> Result<Dist> {
    tools::need(project, &drivers::TOOLS)?;
    let dist = project.part("library, release mode, into target/dist", || dist::build(project))?;
    project.part("drivers, with CMake against target/dist", || drivers::build(project, &dist))?;
    project.part("examples", || examples(project, &dist))?;
    dropin::modules(project)?;
    Ok(dist)
}

/// The example programs, each language as a project of its own.
pub fn examples(project: &Project, dist: &Dist) -> Result<()> {
    example(project, dist, "c", "print_minibatches")?;
    example(project, dist, "cpp", "train_digits")?;
    example(project, dist, "speech", "train_phones")?;
    example(project, dist, "images", "train_shapes")?;
    example(project, dist, "images", "contact_sheet")
}

/// One example program, into target/examples.
pub fn example(project: &Project, dist: &Dist, language: &str, program: &str) -> Result<()> {
    let source = format!("examples/{language}");
    let warnings = ["C", "CXX"].map(|language| format!("-DCMAKE_{language}_FLAGS={WARNINGS}"));
    // They train: without optimization that takes longer than compiling.
    let options = [warnings[0].as_str(), warnings[1].as_str(), "-DCMAKE_BUILD_TYPE=RelWithDebInfo"];
    let build = Build::configure(project, dist, &source, &format!("cmake/examples-{language}"), &options)?;
    build.build(None)?;
    install(&build.file(program), &project.target.join("examples").join(program))
}
