//! `cargo xtask schedules`: the protocols between the library's threads, run under many orders of
//! their steps.
//!
//! The tests are those of the modules named `schedules` in the library, compiled with `--cfg
//! shuttle`: see `crates/core/src/runtime/sync/`. Only the library itself is compiled anew for that; what it depends
//! on is shared with the tests of release mode.

use anyhow::{Context, Result, ensure};
use lexopt::Parser;
use lexopt::prelude::*;
use std::time::{SystemTime, UNIX_EPOCH};
use tooling::programs::executables;
use tooling::project::Project;
use tooling::run::Run;
use tooling::{Tally, dist, libtest};

/// Orders of each test with `--long`. Tests of whole readers have fewer.
const LONG: u64 = 100_000;

/// Runs the tests, and prints for each how many orders it was run in.
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

/// The long form, as a sentence.
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

/// Runs the tests, each in this many orders from this seed on, where these are given.
fn run(project: &Project, schedules: Option<u64>, seed: Option<u64>) -> Result<String> {
    let run = tests(project)?;
    let run =
        schedules.into_iter().fold(run, |run, number| run.env("CNTK_READER_SCHEDULES", number.to_string()));
    let run = seed.into_iter().fold(run, |run, seed| run.env("CNTK_READER_SCHEDULE_SEED", seed.to_string()));
    run.go()
}

/// The first seed of a run that shall differ from the last one.
fn fresh_seed() -> Result<u64> {
    Ok(SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs())
}

/// The short form, a step of `cargo xtask test`: the same orders each time.
pub fn step(project: &Project) -> Result<Tally> {
    let output = run(project, None, None)?;
    figures(&output).for_each(|line| say!("      {line}"));
    Ok(libtest(&output))
}

/// The lines that say how many orders a test was run in.
fn figures(output: &str) -> impl Iterator<Item = &str> {
    output.lines().filter_map(|line| line.split_once("schedules: ").map(|(_, figures)| figures))
}

/// The number of orders in such a line.
fn orders(line: &str) -> Option<u64> {
    let (_, figures) = line.rsplit_once(": ")?;
    figures.split_whitespace().find_map(|word| word.parse().ok())
}

/// The test program, built.
fn tests(project: &Project) -> Result<Run> {
    // This profile of cargo's makes a test program in release mode.
    let quick = Project { quick: true, ..project.clone() };
    let build = project.cargo("rustc").envs(&dist::release_variables(&quick));
    let build = build.args(["--package", "cntk-reader", "--lib", "--profile", "bench"]);
    let build = build.args(["--quiet", "--message-format=json", "--", "--cfg", "shuttle", "-D", "warnings"]);
    // Compiled quickly: the tests take seconds.
    let build = build.args(["-C", "opt-level=0", "-C", "debuginfo=0"]);
    let messages = build.output()?;
    let mut programs =
        executables(&messages).filter(|program| program.is_test && program.name == "cntk_reader");
    let program = programs.next().context("cargo names no test program")?.path;
    // One test after the other: what they print comes in whole lines then.
    let run = project.run(&program).named("the library's tests of schedules");
    Ok(run.args(["schedules::", "--nocapture", "--test-threads=1"]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_are_those_that_were_run() {
        let output = "test a ... schedules: one: 7 of random order, seed 3\nok\ntest b ... schedules: two: the first 5\nok\n";
        assert_eq!(figures(output).filter_map(orders).collect::<Vec<_>>(), [7, 5]);
    }
}
