//! The step `rust`: the test programs of the library, several at a time.
//!
//! `cargo test` runs one program after the other, and many of them wait: for timeouts, for other
//! processes, for one long test. So cargo only compiles them here.

use crate::packages;
use anyhow::{Result, bail};
use std::time::Instant;
use tooling::programs::{Executable, Work, executables, outputs, run_all, slowest};
use tooling::project::Project;
use tooling::{Tally, dist, libtest, machine};

/// Programs that run for long. They begin first, so that none of them runs alone at the end.
const LONG: &[&str] = &[
    "allocation_failure",
    "cntk_reader_text",
    "cntk_reader_engine",
    "cntk_reader_core",
    "cntk_reader",
    "faults",
    "formats",
    "reading",
    "model",
    "golden",
    "images_decode",
    "cancel",
    "storage",
];

/// Compiles and runs the tests of the library and of this project's own commands.
pub fn step(project: &Project) -> Result<Tally> {
    let clock = Instant::now();
    let mut works = programs(project)?;
    say!("      compiled in {:.0} s", clock.elapsed().as_secs_f64());
    let examples = dist::release(project, "test").args(packages::library()).arg("--doc");
    works.push(Work { name: "examples of the documentation".to_owned(), run: examples });
    // In the profile of the command that runs, whose dependencies are compiled already.
    let packages = packages::ALL.into_iter().flat_map(|package| ["--package", package]);
    let commands = project.cargo("test").args(["--profile", "tasks"]).args(packages);
    works.push(Work { name: "the project's own commands".to_owned(), run: commands });
    let done = run_all(works, machine::cores());
    say!("      {} programs, the slowest: {}", done.len(), slowest(&done));
    let tallies = outputs(done)?.into_iter().map(|output| libtest(&output));
    Ok(tallies.fold(Tally::default(), Tally::and))
}

/// Compiles the test programs of the library. Those that run for long come first.
fn programs(project: &Project) -> Result<Vec<Work>> {
    let build = dist::release(project, "test").args(packages::library()).arg("--no-run");
    let messages = build.arg("--message-format=json-render-diagnostics").output()?;
    let tests = executables(&messages).filter(|program| program.is_test);
    let mut works: Vec<Work> = tests
        .map(|Executable { name, path, .. }| {
            let run = project.run(&path).named(&name);
            let run = if project.long { run.env("CNTK_READER_TEST_LONG", "1") } else { run };
            Work { name, run }
        })
        .collect();
    if works.is_empty() {
        bail!("cargo names no test program:\n{messages}");
    }
    works.sort_by_key(|work| LONG.iter().position(|name| *name == work.name).unwrap_or(LONG.len()));
    Ok(works)
}
