//! The step `rust`: the test programs of the library, several at a time.
//!
//! `cargo test` runs one program after the other, and many of them wait: for timeouts, for other
//! processes, for one long test. So cargo only compiles them here.

use crate::packages;
use anyhow::Result;
use std::time::Instant;
use tooling::programs::{Executable, Work, outputs, run_all, slowest};
use tooling::project::Project;
use tooling::{Tally, dist, joint, libtest, machine};

/// The folder of the command-line tool.
const TOOL: &str = "cli";

/// Random cases of a property that names no number, in the long form. Otherwise
/// `.cargo/config.toml` says how many.
const LONG_CASES: &str = "256";

/// Programs that begin first: those that run for long, so that none of them runs alone at the end,
/// and those that notice most faults.
const FIRST: &[&str] = &[
    "cntk_reader_engine",
    "golden",
    "model",
    "reading",
    "allocation_failure",
    "cntk_reader_text",
    "cntk_reader",
    "faults",
    "memory",
    "storage",
    "cntk_reader_core",
    "formats",
    "images_decode",
    "cancel",
];

/// Runs the tests of the library; unless the run is short, also the examples of its documentation
/// and the tests of this project's own commands.
pub fn step(project: &Project) -> Result<Tally> {
    let clock = Instant::now();
    let mut works = programs(project, |program| program.folder != project.path(TOOL))?;
    say!("      compiled in {:.0} s", clock.elapsed().as_secs_f64());
    works.sort_by_key(|work| FIRST.iter().position(|name| *name == work.name).unwrap_or(FIRST.len()));
    if !project.short {
        let examples = dist::release(project, "test").args(packages::library()).arg("--doc");
        works.push(Work { name: "examples of the documentation".to_owned(), run: examples });
        // In the profile of the command that runs, whose dependencies are compiled already.
        let packages = packages::ALL.into_iter().flat_map(|package| ["--package", package]);
        let commands = project.cargo("test").args(["--profile", "tasks"]).args(packages);
        works.push(Work { name: "the project's own commands".to_owned(), run: commands });
    }
    run(works)
}

/// Runs the tests of the command-line tool.
pub fn tool(project: &Project) -> Result<Tally> {
    run(programs(project, |program| program.folder == project.path(TOOL))?)
}

fn run(works: Vec<Work>) -> Result<Tally> {
    let done = run_all(works, machine::cores());
    say!("      {} programs, the slowest: {}", done.len(), slowest(&done));
    let tallies = outputs(done)?.into_iter().map(|output| libtest(&output));
    Ok(tallies.fold(Tally::default(), Tally::and))
}

/// The test programs that are chosen.
fn programs(project: &Project, is_chosen: impl Fn(&Executable) -> bool) -> Result<Vec<Work>> {
    let programs = joint::build(project)?;
    let works = programs.iter().filter(|program| is_chosen(program)).map(|program| {
        let run = project.run(&program.path).named(&program.name).folder(&program.folder);
        let run = match project.long {
            true => run.env("CNTK_READER_TEST_LONG", "1").env("PROPTEST_CASES", LONG_CASES),
            false => run,
        };
        Work { name: program.name.clone(), run }
    });
    Ok(works.collect())
}
