//! `cargo xtask fuzz`: coverage-guided fuzzing for a given time. See fuzz/README.md.

#[macro_use]
extern crate tooling;

mod corpus;
mod program;
mod record;
mod session;

use anyhow::{Context, Result, bail, ensure};
use lexopt::Parser;
use lexopt::prelude::*;
use program::{Program, Target};
use session::Session;
use std::path::PathBuf;
use std::time::Duration;
use tooling::Tally;
use tooling::project::Project;

/// Default number of minutes for all targets.
const MINUTES: f64 = 10.0;

/// Time per target in the step of `cargo xtask test`, which always has the same seed, so it finds
/// mostly the same inputs after the corpora: `cargo xtask fuzz` explores further.
const SHORT: Duration = Duration::from_secs(8);

/// Command-line options.
struct Options {
    targets: Vec<String>,
    minutes: f64,
    /// Number of targets that run in parallel.
    jobs: usize,
    sanitizer: Option<String>,
    /// The folder of the inputs found.
    corpora: PathBuf,
    input: Option<PathBuf>,
    list: bool,
    minimize: bool,
    record: bool,
}

impl Options {
    fn parse(project: &Project, mut parser: Parser) -> Result<Options> {
        let mut options = Options {
            targets: Vec::new(),
            minutes: MINUTES,
            jobs: jobs(),
            sanitizer: None,
            corpora: project.target.join("fuzz/corpus"),
            input: None,
            list: false,
            minimize: false,
            record: false,
        };
        while let Some(argument) = parser.next()? {
            match argument {
                Long("target") => options.targets.push(parser.value()?.string()?),
                Long("minutes") => options.minutes = parser.value()?.parse()?,
                Long("jobs") => options.jobs = parser.value()?.parse::<usize>()?.max(1),
                Long("sanitizer") => options.sanitizer = Some(parser.value()?.string()?),
                Long("corpora") => options.corpora = std::path::absolute(parser.value()?)?,
                Long("input") => options.input = Some(std::path::absolute(parser.value()?)?),
                Long("list") => options.list = true,
                Long("minimize") => options.minimize = true,
                Long("record") => options.record = true,
                other => return Err(other.unexpected().into()),
            }
        }
        Ok(options)
    }
}

/// The default number of jobs: one for each processor.
fn jobs() -> usize {
    std::thread::available_parallelism().map_or(1, |count| count.get())
}

/// Fuzzes for the given time, or does what the options ask for instead.
pub fn command(project: &Project, parser: Parser) -> Result<()> {
    let options = Options::parse(project, parser)?;
    if options.record {
        return record::write(project);
    }
    let program = project.part("building the targets", || build(project, options.sanitizer.as_deref()))?;
    let targets = chosen(&program, &options.targets)?;
    if options.list {
        targets.iter().for_each(|target| say!("{:<14} {}", target.name, target.what));
        return Ok(());
    }
    if let Some(input) = &options.input {
        let [target] = &targets[..] else { bail!("--input needs the --target that it is for.") };
        return program.run_again(target, input);
    }
    if options.minimize {
        return corpus::minimize(project, &program, &targets, &options.corpora);
    }
    let seconds = options.minutes * 60.0 * options.jobs as f64 / targets.len() as f64;
    let time = Duration::try_from_secs_f64(seconds).context("--minutes")?;
    let session = Session { time, jobs: options.jobs, seed: None, corpora: Some(options.corpora) };
    let failed = session.run(project, &program, &targets, "")?;
    ensure!(failed == 0, "{failed} of {} targets failed.", targets.len());
    Ok(())
}

/// Returns the totals of the record.
pub fn figures(project: &Project) -> Result<String> {
    record::figures(project)
}

/// Runs the short form, a step of `cargo xtask test`: all corpora, and some seconds of each target,
/// always from the same seed.
pub fn step(project: &Project) -> Result<Tally> {
    if let Err(reason) = program::can_be_built(project) {
        return Tally::skipped(format!("{reason:#}"));
    }
    let program = build(project, None)?;
    let targets = chosen(&program, &[])?;
    let session = Session { time: SHORT, jobs: jobs(), seed: Some(1), corpora: None };
    let failed = session.run(project, &program, &targets, "      ")?;
    Ok(Tally { passed: targets.len() - failed, failed, skipped: 0 })
}

/// Builds the program for a later [`step`].
pub fn build_ahead(project: &Project) -> Result<()> {
    build(project, None).map(drop)
}

/// Runs Clippy on the targets, which are in a separate workspace.
pub fn clippy(project: &Project) -> Result<()> {
    let cargo = project.cargo("clippy").args(["--lib", "--bin", "any", "--manifest-path"]);
    let cargo = cargo.arg(project.path("fuzz/Cargo.toml")).env("RUSTFLAGS", "--cfg fuzzing");
    let cargo = cargo.arg("--target-dir").arg(project.target.join("fuzz/clippy"));
    cargo.args(["--", "-D", "warnings"]).go().map(drop)
}

fn build(project: &Project, sanitizer: Option<&str>) -> Result<Program> {
    program::can_be_built(project)?;
    Program::build(project, sanitizer)
}

/// Returns the targets with these names, or all of them.
fn chosen(program: &Program, names: &[String]) -> Result<Vec<Target>> {
    let all = program.targets()?;
    if let Some(unknown) = names.iter().find(|name| all.iter().all(|target| target.name != **name)) {
        bail!("There is no target '{unknown}'. cargo xtask fuzz --list names them.");
    }
    Ok(all.into_iter().filter(|target| names.is_empty() || names.contains(&target.name)).collect())
}
