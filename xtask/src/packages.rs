//! Commands and steps in packages of their own: built and run by cargo when somebody wants them.

use anyhow::Result;
use lexopt::Parser;
use std::path::Path;
use tooling::Tally;
use tooling::joint::LIBRARY;
use tooling::project::Project;
use tooling::run::Run;

/// Comparisons with real CNTK, and with its records.
pub const ORACLE: &str = "cntk-reader-oracle";
/// Measurements.
pub const BENCHES: &str = "cntk-reader-benches";
/// The library's crates as arguments of cargo.
pub fn library() -> impl Iterator<Item = &'static str> {
    LIBRARY.into_iter().flat_map(|package| ["--package", package])
}

/// All packages with code for the project's own commands: their unit tests are part of the step
/// `rust`.
pub const ALL: [&str; 7] = [
    "xtask",
    "cntk-reader-tooling",
    "cntk-reader-dropin",
    "cntk-reader-examples",
    "cntk-reader-fuzz-runs",
    ORACLE,
    BENCHES,
];

/// Becomes a program, which gets the command and the arguments that are left.
pub fn instead(project: &Project, package: &str, command: &str, mut parser: Parser) -> Result<()> {
    let run = cargo_run(project, package, &[]).arg(command);
    with_verbosity(project, run.args(parser.raw_args()?)).replace()
}

/// Has a program do a step, and prints what it prints, but for its last line: that is the result.
pub fn step(project: &Project, package: &str, arguments: &[&str]) -> Result<Tally> {
    let run = cargo_run(project, package, &["--quiet"]).arg("step").args(arguments);
    let run = if project.quick { run.arg("--quick") } else { run };
    with_verbosity(project, run).relay()
}

/// Replays every `every`-th golden record by the driver in a folder, which is run under a program
/// if there is one.
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
