//! `cargo xtask soak`: runs many readers in one process for a long time. See
//! `tests/faults/soak.rs`.

use anyhow::{Context, Result};
use lexopt::Parser;
use lexopt::prelude::*;
use tooling::project::Project;
use tooling::run::Run;

/// The default duration.
const MINUTES: f64 = 30.0;

/// Runs the readers, which print their progress and the resources of the process.
pub fn command(project: &Project, mut parser: Parser) -> Result<()> {
    let (mut minutes, mut seed) = (MINUTES, None);
    while let Some(argument) = parser.next()? {
        match argument {
            Long("minutes") => minutes = parser.value()?.parse::<f64>()?,
            Long("seed") => seed = Some(parser.value()?.parse::<u64>()?),
            other => return Err(other.unexpected().into()),
        }
    }
    let run = readers(project, minutes);
    let run = seed.into_iter().fold(run, |run, seed| run.env("CNTK_READER_SOAK_SEED", seed.to_string()));
    run.live()
}

/// Runs the readers for the default duration, and returns their figures.
pub fn figures(project: &Project) -> Result<String> {
    let output = readers(project, MINUTES).go()?;
    let figures = output.lines().filter_map(|line| line.strip_prefix("soak: figures: ")).next_back();
    Ok(figures.context("the readers print no figures")?.to_owned())
}

fn readers(project: &Project, minutes: f64) -> Run {
    let run = project.cargo("test").args(["--package", "cntk-reader", "--test", "faults", "--quiet"]);
    let run = run.args(["--", "--exact", "many_readers_for_a_while", "--nocapture"]);
    run.env("CNTK_READER_SOAK_SECONDS", format!("{:.0}", minutes * 60.0))
}
