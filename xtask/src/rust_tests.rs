//! The step `rust`: the test programs of the library, several at a time.
//!
//! `cargo test` runs one program after the other, and many of them wait: for timeouts, for other
//! processes, for one long test. So cargo only compiles them here.

use crate::project::Project;
use crate::run::Run;
use crate::steps::{Tally, libtest};
use crate::{dist, machine};
use anyhow::{Context, Result, anyhow, bail};
use serde_json::Value;
use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Programs that run for long. They begin first, so that none of them runs alone at the end.
const LONG: &[&str] = &["cntk_reader", "faults", "model", "golden", "images_decode", "cancel", "storage"];

/// How many of the slowest programs the step names.
const NAMED: usize = 8;

/// A program, or the examples of the documentation.
struct Work {
    name: String,
    run: Run,
}

/// What a program printed, or why it failed, and how long it took.
struct Done {
    name: String,
    outcome: Result<String>,
    time: Duration,
}

/// Compiles and runs the tests of the library and of this project's own commands.
pub fn step(project: &Project) -> Result<Tally> {
    let clock = Instant::now();
    let library = programs(project)?;
    say!("      compiled in {:.0} s", clock.elapsed().as_secs_f64());
    let examples = dist::release(project, "test").args(["--package", "cntk-reader", "--doc"]);
    // In the profile of the command that runs, whose dependencies are compiled already.
    let commands = project.cargo("test").args(["--package", "xtask", "--profile", "tasks"]);
    let mut works: VecDeque<Work> = library.into();
    works.push_back(Work { name: "doc".to_owned(), run: examples });
    works.push_back(Work { name: "xtask".to_owned(), run: commands });
    let mut done = run_all(works);
    done.sort_by_key(|done| std::cmp::Reverse(done.time));
    let slowest: Vec<String> = done
        .iter()
        .take(NAMED)
        .map(|done| format!("{} {:.0} s", done.name, done.time.as_secs_f64()))
        .collect();
    say!("      {} programs, the slowest: {}", done.len(), slowest.join(", "));
    tally(done)
}

/// The tests that passed; an error if a program failed.
fn tally(done: Vec<Done>) -> Result<Tally> {
    let (mut tally, mut failures) = (Tally::default(), Vec::new());
    for Done { name, outcome, .. } in done {
        match outcome {
            Ok(output) => tally = tally.and(libtest(&output)),
            Err(error) => failures.push(format!("{name}:\n{error:#}")),
        }
    }
    if failures.is_empty() { Ok(tally) } else { bail!("{}", failures.join("\n\n")) }
}

/// Compiles the test programs of the library.
fn programs(project: &Project) -> Result<Vec<Work>> {
    let build = dist::release(project, "test").args(["--package", "cntk-reader", "--no-run"]);
    let messages = build.arg("--message-format=json-render-diagnostics").output()?;
    let mut works = Vec::new();
    for message in messages.lines().filter(|line| line.contains("\"executable\":\"")) {
        let message: Value = serde_json::from_str(message).context("a message of cargo")?;
        let text = |value: &Value| value.as_str().map(str::to_owned).ok_or_else(|| anyhow!("{message}"));
        if message["profile"]["test"] != true {
            continue;
        }
        let (name, program) = (text(&message["target"]["name"])?, text(&message["executable"])?);
        let run = project.run(&program).named(&name);
        let run = if project.long { run.env("CNTK_READER_TEST_LONG", "1") } else { run };
        works.push(Work { name, run });
    }
    if works.is_empty() {
        bail!("cargo names no test program:\n{messages}");
    }
    works.sort_by_key(|work| {
        let place = LONG.iter().position(|name| *name == work.name);
        (place.unwrap_or(LONG.len()), PathBuf::from(&work.name))
    });
    Ok(works)
}

/// Runs programs, as many at a time as there are processors.
fn run_all(works: VecDeque<Work>) -> Vec<Done> {
    let (works, done) = (Mutex::new(works), Mutex::new(Vec::new()));
    let take = || works.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
    std::thread::scope(|scope| {
        for _ in 0..machine::cores() {
            scope.spawn(|| {
                while let Some(Work { name, run }) = take() {
                    let clock = Instant::now();
                    let outcome = run.go();
                    let ended = Done { name, outcome, time: clock.elapsed() };
                    done.lock().unwrap_or_else(PoisonError::into_inner).push(ended);
                }
            });
        }
    });
    done.into_inner().unwrap_or_else(PoisonError::into_inner)
}
