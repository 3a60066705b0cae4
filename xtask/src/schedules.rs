//! `cargo xtask schedules`: runs the protocols between the library's threads under many
//! interleavings.
//!
//! Runs the tests in modules named `schedules`, compiled with `--cfg shuttle`: see
//! `crates/core/src/runtime/sync/`.

use anyhow::{Result, ensure};
use lexopt::Parser;
use lexopt::prelude::*;
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};
use tooling::programs::{Executable, executables};
use tooling::project::Project;
use tooling::run::Run;
use tooling::{Tally, libtest};

/// Number of interleavings of each test with `--long`. Tests of whole readers have fewer.
const LONG: u64 = 100_000;

/// Runs the tests, and prints the number of interleavings of each.
pub fn command(project: &Project, mut parser: Parser) -> Result<()> {
    let (mut schedules, mut seed) = (None, None);
    while let Some(argument) = parser.next()? {
        match argument {
            Long("long") => {
                schedules = schedules.or(Some(LONG));
                seed = seed.or(Some(fresh_seed()?));
            }
            Long("schedules") => schedules = Some(parser.value()?.parse()?),
            Long("seed") => seed = Some(parser.value()?.parse()?),
            other => return Err(other.unexpected().into()),
        }
    }
    let output = run(project, schedules, seed)?;
    figures(&output).for_each(|line| say!("{line}"));
    say!("{}", libtest(&output));
    Ok(())
}

/// Runs the long form, and returns the result as a sentence.
pub fn long_form(project: &Project) -> Result<String> {
    let output = run(project, Some(LONG), Some(fresh_seed()?))?;
    let orders: Vec<u64> = figures(&output).filter_map(orders).collect();
    let tests = libtest(&output).passed;
    ensure!(
        orders.len() >= tests,
        "{tests} tests have passed, and {} say how many orders they had",
        orders.len()
    );
    Ok(format!("{} protocols in {} orders", orders.len(), orders.iter().sum::<u64>()))
}

/// Runs the tests with this number of interleavings and this first seed, if given.
fn run(project: &Project, schedules: Option<u64>, seed: Option<u64>) -> Result<String> {
    let mut output = String::new();
    for run in tests(project)? {
        let run = schedules
            .into_iter()
            .fold(run, |run, number| run.env("CNTK_READER_SCHEDULES", number.to_string()));
        let run =
            seed.into_iter().fold(run, |run, seed| run.env("CNTK_READER_SCHEDULE_SEED", seed.to_string()));
        output += &run.go()?;
    }
    Ok(output)
}

/// Returns a first seed that differs from the last run's.
fn fresh_seed() -> Result<u64> {
    Ok(SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs())
}

/// Runs the short form, a step of `cargo xtask test`: the same interleavings each time.
pub fn step(project: &Project) -> Result<Tally> {
    let output = run(project, None, None)?;
    figures(&output).for_each(|line| say!("      {line}"));
    Ok(libtest(&output))
}

/// The lines with the number of interleavings of a test.
fn figures(output: &str) -> impl Iterator<Item = &str> {
    output.lines().filter_map(|line| line.split_once("schedules: ").map(|(_, figures)| figures))
}

/// Parses the number of interleavings in such a line.
fn orders(line: &str) -> Option<u64> {
    let (_, figures) = line.rsplit_once(": ")?;
    figures.split_whitespace().find_map(|word| word.parse().ok())
}

/// The crates with concurrent protocols.
const CRATES: [&str; 4] = ["cntk-reader-core", "cntk-reader-text", "cntk-reader-engine", "cntk-reader"];

/// Builds the test programs, in a separate target folder, because all crates of the library are
/// compiled with the model.
fn tests(project: &Project) -> Result<Vec<Run>> {
    let flags = "--cfg shuttle -D warnings";
    let build = project.cargo("test").env("RUSTFLAGS", flags).env("CARGO_TARGET_DIR", folder(project));
    let build = build.args(CRATES.into_iter().flat_map(|name| ["--package", name]));
    // Unoptimized: the tests only take seconds.
    let build = build.env("CARGO_PROFILE_DEV_OPT_LEVEL", "0").env("CARGO_PROFILE_DEV_DEBUG", "0");
    let build = build.args(["--lib", "--no-run", "--quiet", "--message-format=json"]);
    let messages = build.output()?;
    let programs = executables(&messages).filter(|program| program.is_test);
    // One test at a time, so that their output has whole lines.
    let run = |Executable { name, path, .. }: Executable| {
        let run = project.run(&path).named(&format!("the tests of schedules in {name}"));
        run.args(["schedules::", "--nocapture", "--test-threads=1"])
    };
    let runs: Vec<Run> = programs.map(run).collect();
    ensure!(runs.len() == CRATES.len(), "cargo names {} test programs", runs.len());
    Ok(runs)
}

fn folder(project: &Project) -> PathBuf {
    project.target.join("schedules")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_are_parsed_from_the_output() {
        let output = "test a ... schedules: one: 7 of random order, seed 3\nok\ntest b ... schedules: two: the first 5\nok\n";
        assert_eq!(figures(output).filter_map(orders).collect::<Vec<_>>(), [7, 5]);
    }
}
