//! `cargo xtask oracle`: this library against real CNTK, case by case, line by line.

mod compare;
pub mod drive;
mod exits;
mod generate;
pub mod install;
mod third_party;

use crate::golden::{self, Case};
use crate::project::{Project, empty_folder};
use crate::steps::Tally;
use crate::{build, dist, dropin, tools};
use anyhow::Result;
use compare::{RACE, Rule, Verdict, can_race, compare, is_race};
use drive::{Drivers, Output};
use generate::Kind;
use install::{Cntk, Installed};
use lexopt::Parser;
use lexopt::prelude::*;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// The command's exit status when CNTK cannot be installed and nothing was compared.
pub const NOT_INSTALLED: i32 = 3;
/// Random cases of the step in `cargo xtask test`.
const STEP_CASES: u64 = 150;
/// Runs of a program that ends while chunks are loaded, with each of its endings, in that step.
const STEP_EXITS: usize = 10;
/// Characters of a line that a report shows.
const SHOWN: usize = 600;

/// What to compare.
struct Options {
    version: String,
    cases: u64,
    seed: u64,
    kind: Option<Kind>,
    golden: bool,
    /// Through this project's module in CNTK's place, instead of through the C++ header.
    module: bool,
    /// Instead of comparing, the random cases are written into this folder.
    write: Option<PathBuf>,
    /// With `module`: runs of a program that ends while chunks are loaded, with each of its endings.
    exits: usize,
    threads: usize,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            version: install::VERSIONS[0].to_owned(),
            cases: 300,
            seed: 1,
            kind: None,
            golden: true,
            module: false,
            write: None,
            exits: 30,
            threads: 3,
        }
    }
}

impl Options {
    fn parse(mut parser: Parser) -> Result<Options> {
        let mut options = Options::default();
        while let Some(argument) = parser.next()? {
            match argument {
                Long("no-golden") => options.golden = false,
                Long("module") => options.module = true,
                Long("write") => options.write = Some(parser.value()?.into()),
                Long("version") => options.version = parser.value()?.string()?,
                Long("cases") => options.cases = parser.value()?.parse()?,
                Long("seed") => options.seed = parser.value()?.parse()?,
                Long("kind") => options.kind = Some(Kind::by_name(&parser.value()?.string()?)?),
                Long("exits") => options.exits = parser.value()?.parse()?,
                Long("threads") => options.threads = parser.value()?.parse()?,
                option => return Err(option.unexpected().into()),
            }
        }
        Ok(options)
    }

    /// The seed of a random case.
    fn seed_of(&self, number: usize) -> u64 {
        self.seed.wrapping_add(number as u64)
    }

    /// The command that compares a random case alone.
    fn again(&self, number: usize) -> String {
        let kind = self.kind.map_or_else(String::new, |kind| format!(" --kind {}", kind.name()));
        format!("cargo xtask oracle --no-golden --cases 1 --seed {}{kind}", self.seed_of(number))
    }
}

/// The command.
pub fn command(project: &Project, parser: Parser) -> Result<()> {
    let options = Options::parse(parser)?;
    if let Some(folder) = &options.write {
        for number in 0..usize::try_from(options.cases)? {
            let case = generate::case(options.seed_of(number), options.kind);
            case.unpack(&folder.join(&case.name))?;
        }
        return Ok(());
    }
    let cntk = match install::install(project, &options.version)? {
        Installed::Yes(cntk) => cntk,
        Installed::No(reason) => {
            println!("\nNothing was compared: {reason}.");
            std::process::exit(NOT_INSTALLED);
        }
    };
    tools::need(project, &build::TOOLS)?;
    let dist = project.part("library, release mode, into target/dist", || dist::build(project))?;
    project.part("drivers, with CMake against target/dist", || build::drivers(project, &dist))?;
    if options.module {
        dropin::build_for(project, &options.version)?;
    }
    let tally = run(project, &cntk, &options)?;
    if tally.failed > 0 {
        std::process::exit(1);
    }
    Ok(())
}

/// The short form, a step of `cargo xtask test`: expects the drivers to be built.
pub fn step(project: &Project) -> Result<Tally> {
    short_form(project, false)
}

/// The short form for this project's composite module, another step.
pub fn module_step(project: &Project) -> Result<Tally> {
    short_form(project, true)
}

fn short_form(project: &Project, module: bool) -> Result<Tally> {
    let options = Options { cases: STEP_CASES, module, exits: STEP_EXITS, ..Options::default() };
    match install::install(project, &options.version)? {
        Installed::Yes(cntk) => run(project, &cntk, &options),
        Installed::No(reason) => Tally::without_cntk(reason),
    }
}

/// Compares all cases and sums up.
fn run(project: &Project, cntk: &Cntk, options: &Options) -> Result<Tally> {
    let images = install::images(project, cntk)?;
    let mut golden = if options.golden { golden::load(project)? } else { Vec::new() };
    if options.golden && options.module {
        golden.extend(third_party::cases(project, install::has_images(project, cntk.version()))?);
    }
    let total = golden.len() + usize::try_from(options.cases)?;
    let folders = Folders::new(project)?;
    let module = options.module.then(|| dropin::composite(project, cntk.version())).transpose()?;
    let drivers = Drivers::new(project, cntk, module);
    let sums = Mutex::new(Sums::default());
    let next = AtomicUsize::new(0);
    let work = |thread: usize| {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= total {
                return;
            }
            let random;
            let case = match golden.get(number) {
                Some(case) => case,
                None => {
                    random = generate::case(options.seed_of(number - golden.len()), options.kind);
                    &random
                }
            };
            if images.is_some() && drive::reads_images(case) {
                sums.lock().unwrap_or_else(PoisonError::into_inner).left_out += 1;
                continue;
            }
            let again = number.checked_sub(golden.len()).map(|number| options.again(number));
            let report = examine(case, &drivers, &folders, thread, again.as_deref());
            sums.lock().unwrap_or_else(PoisonError::into_inner).add(report, project.verbose);
        }
    };
    std::thread::scope(|scope| {
        for thread in 0..options.threads.max(1) {
            let work = &work;
            scope.spawn(move || work(thread));
        }
    });
    let sums = sums.into_inner().unwrap_or_else(PoisonError::into_inner);
    sums.print(cntk, golden.len(), total);
    if let Some(reason) = images {
        println!("      {} cases with images were left out: {reason}.", sums.left_out);
    }
    let tally =
        Tally { passed: total - sums.failed - sums.left_out, failed: sums.failed, ..Tally::default() };
    match options.module && options.exits > 0 {
        true => Ok(tally.and(exits::check(&drivers, &folders.work.join("exits"), options.exits)?)),
        false => Ok(tally),
    }
}

/// Where cases run, and where those that failed are kept.
struct Folders {
    work: PathBuf,
    failures: PathBuf,
}

impl Folders {
    fn new(project: &Project) -> Result<Folders> {
        let folder = project.target.join("oracle");
        let folders = Folders { work: folder.join("work"), failures: folder.join("failures") };
        empty_folder(&folders.work)?;
        empty_folder(&folders.failures)?;
        Ok(folders)
    }

    /// Keeps the case that ran in a folder.
    fn keep(&self, name: &str, folder: &Path) -> Result<PathBuf> {
        let kept = self.failures.join(name);
        std::fs::rename(folder, &kept)?;
        Ok(kept)
    }
}

/// How often, at most, a case that differs is run. On a busy machine CNTK needs several attempts to be right once.
const ATTEMPTS: usize = 10;
/// Runs of CNTK that are compared among themselves, to see whether its output changes.
const RUNS_OF_CNTK: usize = 5;

/// The result of one case.
enum Report {
    Same,
    Known(String, &'static Rule),
    Failed(String),
}

/// Runs a case, again if it differs, and reports how it came out.
///
/// Where CNTK is known to race ([`can_race`]), one equal run is enough: now and then CNTK fails, or delivers wrong values,
/// where it is right the next time. Other differences have to be explained by a rule in the first run. This library's
/// output must be the same in each run.
fn examine(case: &Case, drivers: &Drivers, folders: &Folders, thread: usize, again: Option<&str>) -> Report {
    let folder = folders.work.join(thread.to_string());
    let report = || -> Result<Report> {
        let positions = || drivers.positions(case, &folder).ok().flatten();
        let judge = |ours: &Output, cntk: &Output| compare(case, &drivers.version, ours, cntk, &positions);
        let (ours, cntk) = drivers.run(case, &folder)?;
        let mut verdict = judge(&ours, &cntk);
        let mut runs = vec![cntk];
        if can_race(case) {
            while let Verdict::Different(..) = verdict
                && runs.len() < ATTEMPTS
            {
                let (ours_again, cntk) = drivers.run(case, &folder)?;
                if ours_again.lines != ours.lines {
                    let kept = folders.keep(&case.name, &folder)?.display().to_string();
                    return Ok(Report::Failed(format!(
                        "{}: this library's output changes from run to run\n  kept   {kept}",
                        case.name
                    )));
                }
                verdict = judge(&ours, &cntk);
                runs.push(cntk);
                if let Verdict::Different(line, ..) = verdict
                    && runs.len() >= RUNS_OF_CNTK
                    && is_race(&runs[..RUNS_OF_CNTK], line)
                {
                    return Ok(Report::Known(case.name.clone(), &RACE));
                }
            }
        }
        // Two equal errors prove nothing about a third party's module: something must have been read.
        let is_read = || runs[0].lines.iter().any(|line| line.contains("\"keys\":[\""));
        Ok(match verdict {
            Verdict::Same if case.name.starts_with(third_party::NAMES) && !is_read() => {
                Report::Failed(format!("{}: nothing was read", case.name))
            }
            Verdict::Same => Report::Same,
            Verdict::Known(rule) => Report::Known(case.name.clone(), rule),
            Verdict::Different(line, ours, cntk) => {
                let kept = folders.keep(&case.name, &folder)?;
                let step = match line.checked_sub(1).map(|step| case.steps.get(step)) {
                    None => "creation",
                    Some(None) => "the end",
                    Some(Some(step)) => step,
                };
                let again = again.map_or_else(String::new, |command| format!("\n  again  {command}"));
                Report::Failed(format!(
                    "{}: line {} ({step})\n  ours   {}\n  CNTK   {}\n  kept   {}{again}",
                    case.name,
                    line + 1,
                    short(&ours),
                    short(&cntk),
                    kept.display(),
                ))
            }
        })
    };
    report().unwrap_or_else(|error| Report::Failed(format!("{}: {error:#}", case.name)))
}

/// The beginning of a line.
pub fn short(line: &str) -> String {
    match line.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{} ...", &line[..end]),
        None => line.to_owned(),
    }
}

#[derive(Default)]
struct Sums {
    failed: usize,
    /// Cases that CNTK cannot run here.
    left_out: usize,
    known: BTreeMap<&'static str, (usize, &'static str)>,
}

impl Sums {
    fn add(&mut self, report: Report, verbose: bool) {
        match report {
            Report::Same => {}
            Report::Known(case, rule) => {
                if verbose {
                    println!("{case}: {}", rule.name);
                }
                self.known.entry(rule.name).or_insert((0, rule.what)).0 += 1;
            }
            Report::Failed(text) => {
                self.failed += 1;
                println!("{text}\n");
            }
        }
    }

    fn print(&self, cntk: &Cntk, golden: usize, total: usize) {
        let known: usize = self.known.values().map(|(count, _)| count).sum();
        println!(
            "      CNTK {}: {total} cases ({golden} golden, {} random): {} the same, {known} with a known difference, {} not",
            cntk.version(),
            total - golden,
            total - known - self.failed - self.left_out,
            self.failed
        );
        for (name, (count, what)) in &self.known {
            let share = 100.0 * *count as f64 / total as f64;
            println!("      {count:>5} ({share:.1} % of the cases) {name}: {what}");
        }
    }
}
