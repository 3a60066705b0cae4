//! Programs built by cargo, and running several programs in parallel, because each of them waits at
//! times.

use crate::run::Run;
use anyhow::Result;
use serde_json::Value;
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A program built by cargo.
pub struct Executable {
    /// The name of its target.
    pub name: String,
    /// Whether it is a test program.
    pub is_test: bool,
    /// Its path.
    pub path: String,
    /// The folder of its package, in which cargo runs tests.
    pub folder: PathBuf,
}

/// Extracts the programs from cargo's JSON messages.
pub fn executables(messages: &str) -> impl Iterator<Item = Executable> {
    messages.lines().filter_map(|line| {
        let message: Value = serde_json::from_str(line).ok()?;
        Some(Executable {
            path: message["executable"].as_str()?.to_owned(),
            name: message["target"]["name"].as_str()?.to_owned(),
            is_test: message["profile"]["test"] == true,
            folder: Path::new(message["manifest_path"].as_str()?).parent()?.to_owned(),
        })
    })
}

/// A program to run.
pub struct Program {
    /// Its name in reports.
    pub name: String,
    /// The program.
    pub run: Run,
}

/// A finished program.
pub struct FinishedProgram {
    /// Its name in reports.
    pub name: String,
    /// Its output, or its error.
    pub outcome: Result<String>,
    /// Its run time.
    pub time: Duration,
}

/// Runs programs in this order, `at_once` in parallel. Shows a failure immediately, and starts no
/// further program after it. The result is sorted by run time, the slowest first.
pub fn run_all(works: impl IntoIterator<Item = Program>, at_once: usize) -> Vec<FinishedProgram> {
    let works: Mutex<VecDeque<Program>> = Mutex::new(works.into_iter().collect());
    let done = Mutex::new(Vec::new());
    let take = || works.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
    std::thread::scope(|scope| {
        for _ in 0..at_once {
            scope.spawn(|| {
                while let Some(Program { name, run }) = take() {
                    let clock = Instant::now();
                    let outcome = run.go();
                    if let Err(error) = &outcome {
                        say!("      {name} FAILED:\n{error:#}");
                        works.lock().unwrap_or_else(PoisonError::into_inner).clear();
                    }
                    let ended = FinishedProgram { name, outcome, time: clock.elapsed() };
                    done.lock().unwrap_or_else(PoisonError::into_inner).push(ended);
                }
            });
        }
    });
    let mut done: Vec<FinishedProgram> = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_by_key(|done| std::cmp::Reverse(done.time));
    done
}

/// Lists the slowest programs for a report.
pub fn slowest(done: &[FinishedProgram]) -> String {
    const NAMED: usize = 8;
    let named = done.iter().take(NAMED);
    named.map(|done| format!("{} {:.0} s", done.name, done.time.as_secs_f64())).collect::<Vec<_>>().join(", ")
}

/// Returns the outputs of the programs, or an error that names the failed ones.
pub fn outputs(done: Vec<FinishedProgram>) -> Result<Vec<String>> {
    let (mut outputs, mut failures) = (Vec::new(), Vec::new());
    for FinishedProgram { name, outcome, .. } in done {
        match outcome {
            Ok(output) => outputs.push(output),
            Err(_) => failures.push(name),
        }
    }
    anyhow::ensure!(failures.is_empty(), "failed: {}", failures.join(", "));
    Ok(outputs)
}
