//! Checks of the example programs: builds them as their users do, runs them as their READMEs say,
//! and checks their output, accuracy and pictures.

#[macro_use]
extern crate tooling;

pub mod csharp;
pub mod demo;
pub mod ends;
pub mod images;
pub mod mpi;
pub mod speech;

use anyhow::Result;
use tooling::cmake::{Build, install};
use tooling::dist::Dist;
use tooling::project::Project;

/// Warnings that the examples must not cause.
const WARNINGS: &str = "-Wall -Wextra -Wpedantic -Wconversion -Werror";

/// Builds the examples that `cargo xtask build` leaves in target/examples.
pub fn build(project: &Project, dist: &Dist) -> Result<()> {
    example(project, dist, "c", "print_minibatches")?;
    example(project, dist, "cpp", "train_digits")?;
    example(project, dist, "speech", "train_phones")?;
    example(project, dist, "images", "train_shapes")?;
    example(project, dist, "images", "contact_sheet")
}

/// Builds one example program into target/examples.
pub fn example(project: &Project, dist: &Dist, language: &str, program: &str) -> Result<()> {
    let source = format!("examples/{language}");
    let warnings = ["C", "CXX"].map(|language| format!("-DCMAKE_{language}_FLAGS={WARNINGS}"));
    // Without optimization, training takes longer than compiling.
    let options = [warnings[0].as_str(), warnings[1].as_str(), "-DCMAKE_BUILD_TYPE=RelWithDebInfo"];
    let build = Build::configure(project, dist, &source, &format!("cmake/examples-{language}"), &options)?;
    build.build(None)?;
    install(&build.file(program), &project.target.join("examples").join(program))
}
