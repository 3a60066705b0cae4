//! Programs that cargo has built; and running several at a time, because each of them waits now and
//! then.

use crate::run::Run;
use anyhow::Result;
use serde_json::Value;
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A program that cargo has built.
pub struct Executable {
    /// The name of its target.
    pub name: String,
    /// It was built to run tests.
    pub is_test: bool,
    /// Its path.
    pub path: String,
    /// The folder of its package, in which cargo runs tests.
    pub folder: PathBuf,
}

/// The programs among cargo's messages in JSON.
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
pub struct Work {
    /// Its name in reports.
    pub name: String,
    /// The program.
    pub run: Run,
}

/// A program that has ended.
pub struct Done {
    /// Its name in reports.
    pub name: String,
    /// Its output, or the reason of its failure.
    pub outcome: Result<String>,
    /// How long it took.
    pub time: Duration,
}

/// Runs programs in this order, `at_once` at a time. A failure is shown at once, and no further
/// program begins after it. The slowest comes first in the result.
pub fn run_all(works: impl IntoIterator<Item = Work>, at_once: usize) -> Vec<Done> {
    let works: Mutex<VecDeque<Work>> = Mutex::new(works.into_iter().collect());
    let done = Mutex::new(Vec::new());
    let take = || works.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
    std::thread::scope(|scope| {
        for _ in 0..at_once {
            scope.spawn(|| {
                while let Some(Work { name, run }) = take() {
                    let clock = Instant::now();
                    let outcome = run.go();
                    if let Err(error) = &outcome {
                        say!("      {name} FAILED:\n{error:#}");
                        works.lock().unwrap_or_else(PoisonError::into_inner).clear();
                    }
                    let ended = Done { name, outcome, time: clock.elapsed() };
                    done.lock().unwrap_or_else(PoisonError::into_inner).push(ended);
                }
            });
        }
    });
    let mut done: Vec<Done> = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_by_key(|done| std::cmp::Reverse(done.time));
    done
}

/// The slowest programs, as a list for a report.
pub fn slowest(done: &[Done]) -> String {
    const NAMED: usize = 8;
    let named = done.iter().take(NAMED);
    named.map(|done| format!("{} {:.0} s", done.name, done.time.as_secs_f64())).collect::<Vec<_>>().join(", ")
}

/// The outputs of programs; an error with their names if some failed.
pub fn outputs(done: Vec<Done>) -> Result<Vec<String>> {
    let (mut outputs, mut failures) = (Vec::new(), Vec::new());
    for Done { name, outcome, .. } in done {
        match outcome {
            Ok(output) => outputs.push(output),
            Err(_) => failures.push(name),
        }
    }
    anyhow::ensure!(failures.is_empty(), "failed: {}", failures.join(", "));
    Ok(outputs)
}
