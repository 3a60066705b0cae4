//! `cargo xtask fuzz`: damaged input and differential checks, for as long as asked.

use crate::project::Project;
use crate::run::Run;
use crate::steps::Tally;
use anyhow::{Result, ensure};
use lexopt::Parser;
use std::ffi::OsString;

/// Minutes for all targets, unless the arguments give an end.
const MINUTES: &str = "10";

/// Fuzzes for a while, with fresh seeds. The arguments are passed on to the program.
pub fn command(project: &Project, mut parser: Parser) -> Result<()> {
    let arguments: Vec<OsString> = parser.raw_args()?.collect();
    let is_given = |option: &str| arguments.iter().any(|argument| argument == option);
    let run = program(project).args(&arguments);
    let has_end = ["--minutes", "--cases", "--list"].into_iter().any(is_given);
    if has_end { run.live() } else { run.args(["--minutes", MINUTES]).live() }
}

/// The short form, a step of `cargo xtask test`: the same cases each time.
pub fn step(project: &Project) -> Result<Tally> {
    let output = program(project).go()?;
    let targets = output.lines().filter(|line| line.contains(" cases from seed "));
    let count = targets.inspect(|line| println!("      {line}")).count();
    ensure!(count > 0, "Nothing was fuzzed:\n{output}");
    Tally::passed(count)
}

/// The program of the folder `fuzz`, built with assertions and checks for overflow.
fn program(project: &Project) -> Run {
    project.cargo("test").args(["--quiet", "--package", "cntk-reader", "--test", "fuzz", "--"])
}
