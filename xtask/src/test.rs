//! `cargo xtask test`: runs the steps, times them, and sums up.

use crate::ahead::Ahead;
use crate::project::Project;
use crate::steps::{ALL, Step, Tally};
use anyhow::{Result, bail};
use lexopt::Parser;
use lexopt::prelude::*;
use std::time::Instant;

/// Runs the steps that the arguments name, or all.
pub fn command(project: &Project, mut parser: Parser) -> Result<()> {
    let (mut keep_going, mut project) = (false, Project { quick: true, ..project.clone() });
    let mut names = Vec::new();
    while let Some(argument) = parser.next()? {
        match argument {
            Long("list") => {
                for step in ALL {
                    println!("{:<14} {}", step.name, step.what);
                }
                return Ok(());
            }
            Long("keep-going") => keep_going = true,
            Long("long") => project.long = true,
            Value(name) => match ALL.iter().find(|step| name == step.name) {
                Some(step) => names.push(step.name),
                None => bail!("There is no step '{}'. See cargo xtask test --list.", name.display()),
            },
            option => return Err(option.unexpected().into()),
        }
    }
    let chosen: Vec<&Step> =
        ALL.iter().filter(|step| names.is_empty() || names.contains(&step.name)).collect();
    run(&project, &chosen, keep_going)
}

/// Runs the steps in turn. The last line that it prints is `N passed, N failed, N skipped`.
fn run(project: &Project, steps: &[&Step], keep_going: bool) -> Result<()> {
    let clock = Instant::now();
    let ahead = (steps.len() == ALL.len()).then(|| Ahead::start(project));
    let mut total = Tally::default();
    let (mut failed, mut skipped) = (Vec::new(), Vec::new());
    for (number, step) in steps.iter().enumerate() {
        println!("[{}/{}] {}: {}", number + 1, steps.len(), step.name, step.what);
        let clock = Instant::now();
        let tally = (step.work)(project).unwrap_or_else(|error| {
            println!("{error:#}");
            Tally { failed: 1, ..Tally::default() }
        });
        let outcome = if tally.failed == 0 { "ok" } else { "FAILED" };
        println!("      {outcome}, {tally}, {:.1} s", clock.elapsed().as_secs_f64());
        total = total.and(tally);
        if tally.skipped > 0 {
            skipped.push(step.name);
        }
        if tally.failed > 0 {
            failed.push(step.name);
            if !keep_going {
                break;
            }
        }
    }
    drop(ahead);
    println!("\n{} steps in {:.0} s", steps.len(), clock.elapsed().as_secs_f64());
    if !skipped.is_empty() {
        println!("skipped, at least in part: {}", skipped.join(", "));
    }
    if !failed.is_empty() {
        println!("failed: {} (one step alone: cargo xtask test {})", failed.join(", "), failed[0]);
    }
    println!("{total}");
    if !failed.is_empty() {
        std::process::exit(1);
    }
    Ok(())
}
