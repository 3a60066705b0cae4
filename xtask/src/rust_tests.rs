//! The step `rust`: runs the test programs of the library in parallel.
//!
//! `cargo test` runs one program after the other, and many of them wait: for timeouts, for other
//! processes, for one long test. So cargo only compiles them.

use crate::packages;
use anyhow::Result;
use std::time::Instant;
use tooling::programs::{Executable, Program, outputs, run_all, slowest};
use tooling::project::Project;
use tooling::{Tally, dist, joint, libtest, machine};

/// The folder of the command-line tool.
const TOOL: &str = "cli";

/// Random cases of a property that sets no number, in the long form. Otherwise
/// `.cargo/config.toml` sets it.
const LONG_CASES: &str = "256";

/// Programs that start first: those that run longest, so that none of them runs alone at the end,
/// and those that find most faults.
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

/// Runs the tests of the library; unless the run is short, also the documentation tests and the
/// tests of the project's own commands.
pub fn step(project: &Project) -> Result<Tally> {
    let clock = Instant::now();
    let mut works = programs(project, |program| program.folder != project.path(TOOL))?;
    say!("      compiled in {:.0} s", clock.elapsed().as_secs_f64());
    works.sort_by_key(|work| FIRST.iter().position(|name| *name == work.name).unwrap_or(FIRST.len()));
    if !project.short {
        let examples = dist::release(project, "test").args(packages::library()).arg("--doc");
        works.push(Program { name: "examples of the documentation".to_owned(), run: examples });
        // With the profile of this program, whose dependencies are compiled already.
        let packages = packages::ALL.into_iter().flat_map(|package| ["--package", package]);
        let commands = project.cargo("test").args(["--profile", "tasks"]).args(packages);
        works.push(Program { name: "the project's own commands".to_owned(), run: commands });
    }
    run(works)
}

/// Runs the tests of the command-line tool; in the long form also without Arrow and Parquet, as the
/// wheel has it.
pub fn tool(project: &Project) -> Result<Tally> {
    let mut works = programs(project, |program| program.folder == project.path(TOOL))?;
    if project.long {
        // In a folder of its own: the other programs run the tool while this one builds it.
        let bare = dist::release(project, "test").args(["--package", "cntk-reader-cli"]);
        let bare = bare.args(["--no-default-features", "--test", "arrow"]);
        let bare = bare.env("CARGO_TARGET_DIR", project.target.join("bare"));
        works.push(Program { name: "the tool without Arrow and Parquet".to_owned(), run: bare });
    }
    run(works)
}

fn run(works: Vec<Program>) -> Result<Tally> {
    let done = run_all(works, machine::cores());
    say!("      {} programs, the slowest: {}", done.len(), slowest(&done));
    let tallies = outputs(done)?.into_iter().map(|output| libtest(&output));
    Ok(tallies.fold(Tally::default(), Tally::and))
}

/// Returns the selected test programs.
fn programs(project: &Project, is_chosen: impl Fn(&Executable) -> bool) -> Result<Vec<Program>> {
    let programs = joint::build(project)?;
    let works = programs.iter().filter(|program| is_chosen(program)).map(|program| {
        let run = project.run(&program.path).named(&program.name).folder(&program.folder);
        let run = match project.long {
            true => run.env("CNTK_READER_TEST_LONG", "1").env("PROPTEST_CASES", LONG_CASES),
            false => run,
        };
        Program { name: program.name.clone(), run }
    });
    Ok(works.collect())
}
