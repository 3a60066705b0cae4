//! Commands and steps in separate packages, which cargo builds and runs on demand.

use anyhow::Result;
use lexopt::Parser;
use std::path::Path;
use tooling::Tally;
use tooling::joint::LIBRARY;
use tooling::project::Project;
use tooling::run::Run;

/// Comparisons with real CNTK and with its records.
pub const ORACLE: &str = "cntk-reader-oracle";
/// Packages of the library for its users' systems.
pub const PACKAGING: &str = "cntk-reader-packaging";
/// Measurements.
pub const BENCHES: &str = "cntk-reader-benches";
/// Returns the library's crates as arguments for cargo.
pub fn library() -> impl Iterator<Item = &'static str> {
    LIBRARY.into_iter().flat_map(|package| ["--package", package])
}

/// All packages of the project's own commands: their unit tests are part of the step `rust`.
pub const ALL: [&str; 8] = [
    "xtask",
    "cntk-reader-tooling",
    "cntk-reader-dropin",
    "cntk-reader-examples",
    "cntk-reader-fuzz-runs",
    ORACLE,
    PACKAGING,
    BENCHES,
];

/// Replaces this process with the program of a package, which gets the command and the remaining
/// arguments.
pub fn instead(project: &Project, package: &str, command: &str, mut parser: Parser) -> Result<()> {
    let run = cargo_run(project, package, &[]).arg(command);
    with_verbosity(project, run.args(parser.raw_args()?)).replace()
}

/// Runs a step in the program of a package, and prints its output except the last line, which is
/// the result.
pub fn step(project: &Project, package: &str, arguments: &[&str]) -> Result<Tally> {
    let run = cargo_run(project, package, &["--quiet"]).arg("step").args(arguments);
    let run = if project.quick { run.arg("--quick") } else { run };
    with_verbosity(project, run).relay()
}

/// Replays every `every`-th golden record with the drivers in a folder, run under the program
/// `under` if it is not empty.
pub fn replay(project: &Project, every: usize, drivers: &Path, under: &[&str]) -> Result<Tally> {
    let run = cargo_run(project, ORACLE, &["--quiet"]).args(["replay", "--every", &every.to_string()]);
    let run = run.arg("--drivers").arg(drivers).args(under);
    with_verbosity(project, run).relay()
}

fn cargo_run(project: &Project, package: &str, options: &[&str]) -> Run {
    project.cargo("run").args(["--profile", "tasks", "--package", package]).args(options).arg("--")
}

fn with_verbosity(project: &Project, run: Run) -> Run {
    if project.verbose { run.arg("--verbose") } else { run }
}
