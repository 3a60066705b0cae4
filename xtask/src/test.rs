//! `cargo xtask test`: runs the steps, times them, and sums up.

use crate::ahead::Ahead;
use crate::steps::{ALL, Form, Step};
use anyhow::{Result, bail};
use lexopt::Parser;
use lexopt::prelude::*;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::time::Instant;
use tooling::project::Project;
use tooling::{Tally, console};

/// Runs the steps that the arguments name, or all.
pub fn command(project: &Project, mut parser: Parser) -> Result<()> {
    let mut project = Project { quick: true, installs: true, ..project.clone() };
    let (mut keep_going, mut form) = (false, Form::Short);
    let mut names = Vec::new();
    while let Some(argument) = parser.next()? {
        match argument {
            Long("list") => {
                for step in ALL {
                    say!("{:<14} {:<5} {}", step.name, step.form.name(), step.what);
                }
                return Ok(());
            }
            Long("keep-going") => keep_going = true,
            Long("all") => form = form.max(Form::All),
            Long("long") => form = Form::Long,
            Value(name) => match ALL.iter().find(|step| name == step.name) {
                Some(step) => names.push(step.name),
                None => bail!("There is no step '{}'. See cargo xtask test --list.", name.display()),
            },
            option => return Err(option.unexpected().into()),
        }
    }
    let is_chosen = |step: &&Step| match names.is_empty() {
        true => step.form <= form,
        false => names.contains(&step.name),
    };
    let chosen: Vec<&Step> = ALL.iter().filter(is_chosen).collect();
    project.short = form == Form::Short && chosen.iter().all(|step| step.form == Form::Short);
    project.long = form == Form::Long;
    run(&project, &chosen, keep_going)
}

/// Runs the steps. The last line that it prints is `N passed, N failed, N skipped`.
fn run(project: &Project, steps: &[&Step], keep_going: bool) -> Result<()> {
    let clock = Instant::now();
    let are_all = ALL.iter().filter(|step| step.form <= Form::All).count() <= steps.len();
    let has_python = || steps.len() > 1 && steps.iter().any(|step| step.name == "python");
    let ahead = (are_all || project.short && has_python()).then(|| Ahead::start(project));
    // A verbose command shows what programs print as it comes, and so of one step at a time.
    let two_at_once = are_all && !project.verbose && tooling::machine::cores() > 1;
    let mut tallies = run_all(project, steps, keep_going, two_at_once);
    drop(ahead);
    tallies.sort_unstable_by_key(|&(number, _)| number);
    let total = tallies.iter().fold(Tally::default(), |total, &(_, tally)| total.and(tally));
    let names = |is_meant: fn(&Tally) -> bool| -> Vec<&str> {
        let meant = tallies.iter().filter(|(_, tally)| is_meant(tally));
        meant.map(|&(number, _)| steps[number].name).collect()
    };
    let (failed, skipped) = (names(|tally| tally.failed > 0), names(|tally| tally.skipped > 0));
    say!("\n{} steps in {:.0} s", steps.len(), clock.elapsed().as_secs_f64());
    if !skipped.is_empty() {
        say!("skipped, at least in part: {}", skipped.join(", "));
    }
    if !failed.is_empty() {
        say!("failed: {} (one step alone: cargo xtask test {})", failed.join(", "), failed[0]);
    }
    say!("{total}");
    if !failed.is_empty() {
        std::process::exit(1);
    }
    Ok(())
}

/// Runs the steps in turn, until one fails or all have run. With `two_at_once`, steps marked as
/// apart run on a second thread. Returns the numbers of the finished steps with their results.
fn run_all(project: &Project, steps: &[&Step], keep_going: bool, two_at_once: bool) -> Vec<(usize, Tally)> {
    let is_over = AtomicBool::new(false);
    let run = |number: usize| -> Option<(usize, Tally)> {
        if is_over.load(Ordering::Relaxed) {
            return None;
        }
        let tally = run_one(project, number, steps);
        is_over.fetch_or(tally.failed > 0 && !keep_going, Ordering::Relaxed);
        Some((number, tally))
    };
    let (apart, in_turn): (Vec<usize>, Vec<usize>) =
        (0..steps.len()).partition(|&number| two_at_once && steps[number].is_apart);
    let before =
        apart.first().map_or(in_turn.len(), |&first| in_turn.partition_point(|&number| number < first));
    let (before, beside) = in_turn.split_at(before);
    let mut tallies: Vec<_> = before.iter().copied().filter_map(run).collect();
    std::thread::scope(|scope| {
        let (sender, ended) = channel();
        scope.spawn(|| {
            for number in apart {
                // The receiver is there until the sender is dropped.
                let _ = sender.send(console::keep(|| run(number)));
            }
            drop(sender);
        });
        let show = |(tally, printed)| {
            console::print(format_args!("{printed}"));
            tally
        };
        for &number in beside {
            tallies.extend(run(number));
            tallies.extend(ended.try_iter().filter_map(show));
        }
        tallies.extend(ended.iter().filter_map(show));
    });
    tallies
}

/// Runs a step.
fn run_one(project: &Project, number: usize, steps: &[&Step]) -> Tally {
    let step = steps[number];
    say!("[{}/{}] {}: {}", number + 1, steps.len(), step.name, step.what);
    let clock = Instant::now();
    let tally = (step.work)(project).unwrap_or_else(|error| {
        say!("{error:#}");
        Tally { failed: 1, ..Tally::default() }
    });
    let outcome = if tally.failed == 0 { "ok" } else { "FAILED" };
    say!("      {outcome}, {tally}, {:.1} s", clock.elapsed().as_secs_f64());
    tally
}
