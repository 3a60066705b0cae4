//! `cargo xtask oracle`: this library against real CNTK, case by case, line by line.

use crate::cntk_python::{self, Paths};
use crate::compare::{self, Lines, RACE, Rule, Verdict, alone, can_race, compare};
use crate::drive::{self, Drivers, Output};
use crate::generate::{self, Kind};
use crate::golden::{self, Case};
use crate::install::{self, Cntk, Installed};
use crate::{NOT_INSTALLED, exits, expressed, host_golden, third_party, train};
use anyhow::{Result, ensure};
use dropin::Flavor;
use lexopt::Parser;
use lexopt::prelude::*;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use tooling::project::{Project, empty_folder};
use tooling::{Tally, dist, drivers, tools};

/// Number of random cases in the step of `cargo xtask test`.
const STEP_CASES: u64 = 150;
/// Number of random cases for each old CNTK.
const OLD_CASES: u64 = 50;
/// Number of runs per ending, in that step, of a program that ends while chunks are loaded.
const STEP_EXITS: usize = 10;
/// Maximum number of characters shown of a line.
const SHOWN: usize = 600;

/// Command-line options.
struct Options {
    version: String,
    cases: u64,
    seed: u64,
    kind: Option<Kind>,
    golden: bool,
    /// Whether this project's module in CNTK is compared, instead of the C++ header.
    module: bool,
    /// The folder to write the random cases to, instead of comparing them.
    write: Option<PathBuf>,
    /// With `module`: the number of runs, per ending, of a program that ends while chunks are
    /// loaded.
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

    /// Returns the seed of a random case.
    fn seed_of(&self, number: usize) -> u64 {
        self.seed.wrapping_add(number as u64)
    }

    /// Returns the command that compares a single random case.
    fn again(&self, number: usize) -> String {
        let kind = self.kind.map_or_else(String::new, |kind| format!(" --kind {}", kind.name()));
        format!("cargo xtask oracle --no-golden --cases 1 --seed {}{kind}", self.seed_of(number))
    }
}

/// Runs the command.
pub fn command(project: &Project, parser: Parser) -> Result<()> {
    let options = Options::parse(parser)?;
    if let Some(folder) = &options.write {
        for number in 0..usize::try_from(options.cases)? {
            let case = generate::case(options.seed_of(number), options.kind);
            case.unpack(&folder.join(&case.name))?;
        }
        return Ok(());
    }
    let cntk = match install::find_or_install(project, &options.version)? {
        Installed::Yes(cntk) => cntk,
        Installed::No(reason) => {
            say!("\nNothing was compared: {reason}.");
            std::process::exit(NOT_INSTALLED);
        }
    };
    if whole(project, &cntk, &options)?.failed > 0 {
        std::process::exit(1);
    }
    Ok(())
}

/// Builds everything needed, and compares with a CNTK.
fn whole(project: &Project, cntk: &Cntk, options: &Options) -> Result<Tally> {
    tools::need(project, &drivers::TOOLS)?;
    let dist = project.part("library, release mode, into target/dist", || dist::build(project))?;
    project.part("drivers, with CMake against target/dist", || drivers::build(project, &dist))?;
    if options.module {
        dropin::build_for(project, cntk.host)?;
    }
    if cntk.host.has_own_driver() {
        ensure!(
            options.module,
            "Readers of CNTK {} are compared through the modules in its modules' place: add --module.",
            cntk.version()
        );
        project.part("drivers", || {
            let build = |name| dropin::driver(project, name, cntk.host).map(drop);
            ["host_replay", "host_v1"].into_iter().try_for_each(build)
        })?;
    }
    let tally = run(project, cntk, options)?;
    if !options.module || !cntk.is_old() {
        // `cargo xtask cntk-python` compares published versions, too.
        return Ok(tally);
    }
    let theirs = cntk.library_path();
    let ours = format!("{}:{theirs}", cntk.host.folder(project).display());
    let paths = Paths { ours: &ours, cntk: &theirs, may_crash: false };
    let tally = tally.and(cntk_python::brainscript(project, cntk.host, paths)?);
    match cntk.program().exists() {
        true => Ok(tally.and(train::compare(project, cntk, paths)?)),
        false => Ok(tally),
    }
}

/// Compares the modules in the old CNTKs that are available: a step.
pub fn old_step(project: &Project) -> Result<Tally> {
    let names = install::old_hosts();
    if names.is_empty() {
        return Tally::skipped(format!("${} names no folder with an old CNTK", install::OLD_HOSTS));
    }
    let options = Options { cases: OLD_CASES, exits: 0, module: true, ..Options::default() };
    names.iter().try_fold(Tally::default(), |tally, name| {
        let Installed::Yes(cntk) = install::find_or_install(project, name)? else { return Ok(tally) };
        Ok(tally.and(whole(project, &cntk, &options)?))
    })
}

/// Compares the golden cases, and `cases` random ones or the number of the short form: a step,
/// which expects the drivers.
pub fn step(project: &Project, cases: Option<u64>) -> Result<Tally> {
    without_arguments(project, false, cases)
}

/// Like [`step`], for this project's composite module. The short form adds the golden cases with
/// CNTK's composite module over this project's other modules.
pub fn module_step(project: &Project, cases: Option<u64>) -> Result<Tally> {
    let tally = without_arguments(project, true, cases)?;
    let Installed::Yes(cntk) = install::install(project, install::VERSIONS[0])? else { return Ok(tally) };
    if cases.is_some() {
        return Ok(tally);
    }
    let libraries = host_golden::Libraries::find(project, &cntk.library_path())?;
    Ok(tally.and(host_golden::check_below(project, &libraries, Flavor::Release)?))
}

fn without_arguments(project: &Project, module: bool, cases: Option<u64>) -> Result<Tally> {
    let long = Options { module, ..Options::default() };
    let options = match cases {
        Some(cases) => Options { cases, ..long },
        None => Options { cases: STEP_CASES, exits: STEP_EXITS, ..long },
    };
    match install::install(project, &options.version)? {
        Installed::Yes(cntk) => run(project, &cntk, &options),
        Installed::No(reason) => Tally::without_cntk(reason),
    }
}

/// Compares all cases, and sums up the results.
fn run(project: &Project, cntk: &Cntk, options: &Options) -> Result<Tally> {
    let images = install::images(project, cntk)?;
    let mut golden = if options.golden { golden::load(project)? } else { Vec::new() };
    if options.golden && options.module && cntk.host.exchanges_sequences() {
        golden.extend(third_party::cases(project, cntk.host, install::has_images(project, cntk.version()))?);
    }
    let total = golden.len() + usize::try_from(options.cases)?;
    let folders = Folders::new(project)?;
    let module = options.module.then(|| dropin::composite(project, cntk.host));
    let drivers = Drivers::new(project, cntk, module);
    let sums = Mutex::new(Sums::default());
    let next = AtomicUsize::new(0);
    let work = |thread: usize| {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= total {
                return;
            }
            let case = match golden.get(number) {
                Some(case) => case.clone(),
                None => generate::case(options.seed_of(number - golden.len()), options.kind),
            };
            let Some(case) = expressed::expressed(case, cntk.host) else {
                sums.lock().unwrap_or_else(PoisonError::into_inner).unknown += 1;
                continue;
            };
            if images.is_some() && drive::reads_images(&case) {
                sums.lock().unwrap_or_else(PoisonError::into_inner).left_out += 1;
                continue;
            }
            let again = number.checked_sub(golden.len()).map(|number| options.again(number));
            let report = examine(&case, &drivers, &folders, thread, again.as_deref());
            let is_golden = number < golden.len();
            sums.lock().unwrap_or_else(PoisonError::into_inner).add(report, is_golden, project.verbose);
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
        say!("      {} cases with images were left out: {reason}.", sums.left_out);
    }
    if sums.unknown > 0 {
        say!("      {} cases were left out because this version of CNTK cannot read them.", sums.unknown);
    }
    let passed = total - sums.failed - sums.left_out - sums.unknown;
    let tally = Tally { passed, failed: sums.failed, ..Tally::default() };
    match options.module && options.exits > 0 {
        true => Ok(tally.and(exits::check(&drivers, &folders.work.join("exits"), options.exits)?)),
        false => Ok(tally),
    }
}

/// The folders for running cases, and for keeping failed ones.
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

    /// Keeps a failed case, which ran in `folder`.
    fn keep(&self, name: &str, folder: &Path) -> Result<PathBuf> {
        let kept = self.failures.join(name);
        std::fs::rename(folder, &kept)?;
        Ok(kept)
    }
}

/// Maximum number of runs of a case that differs. On a busy machine CNTK needs several attempts
/// until its output is right.
const ATTEMPTS: usize = 10;
/// Number of consecutive runs of CNTK that are compared with each other, to see whether its output
/// changes.
const RUNS_OF_CNTK: usize = 5;

/// Maximum number of times that the rest of a case after a known difference is run on its own.
const MAX_RESTS: usize = 4;

/// The result of one case.
enum Report {
    Same,
    Known(String, &'static Rule),
    Failed(String),
}

/// Runs a case, repeatedly if it differs, and reports the result.
fn examine(case: &Case, drivers: &Drivers, folders: &Folders, thread: usize, again: Option<&str>) -> Report {
    let folder = folders.work.join(thread.to_string());
    let failed = |case: &Case, what: String| -> Result<Report> {
        let kept = folders.keep(&case.name, &folder)?.display().to_string();
        Ok(Report::Failed(format!("{what}\n  kept   {kept}")))
    };
    let changes = |case: &Case| format!("{}: this library's output changes from run to run", case.name);
    let report = || -> Result<Report> {
        let (result, cntk) = settle(case, drivers, &folder)?;
        let mut rest = match &result {
            Settled::As(Verdict::Known(rule, lines)) => alone(rule, case, lines.number),
            _ => None,
        };
        for _ in 0..MAX_RESTS {
            let Some(case) = rest else { break };
            rest = match settle(&case, drivers, &folder)?.0 {
                Settled::As(Verdict::Same) | Settled::Race => None,
                Settled::As(Verdict::Known(rule, lines)) => alone(rule, &case, lines.number),
                Settled::As(Verdict::Different(lines)) => {
                    let what =
                        format!("{}\n  what follows a known difference, by itself", described(&case, &lines));
                    return failed(&case, what);
                }
                Settled::Unsteady => return failed(&case, changes(&case)),
            };
        }
        // Two equal errors prove nothing about a third-party module: something must have been read.
        let is_read = || cntk.lines.iter().any(|line| line.contains("\"keys\":[\""));
        match result {
            Settled::As(Verdict::Same) if case.name.starts_with(third_party::NAMES) && !is_read() => {
                Ok(Report::Failed(format!("{}: nothing was read", case.name)))
            }
            Settled::As(Verdict::Same) => Ok(Report::Same),
            Settled::As(Verdict::Known(rule, lines)) => Ok(Report::Known(described(case, &lines), rule)),
            Settled::Race => Ok(Report::Known(case.name.clone(), &RACE)),
            Settled::As(Verdict::Different(lines)) => {
                let again = again.map_or_else(String::new, |command| format!("\n  again  {command}"));
                failed(case, described(case, &lines) + &again)
            }
            Settled::Unsteady => failed(case, changes(case)),
        }
    };
    report().unwrap_or_else(|error| Report::Failed(format!("{}: {error:#}", case.name)))
}

/// The result of a case after all its runs.
enum Settled {
    As(Verdict),
    /// CNTK's output changes from run to run.
    Race,
    /// This library's output changes from run to run.
    Unsteady,
}

/// Runs a case, repeatedly if it differs and CNTK is known to race ([`can_race`]): in that case one
/// equal run is enough, because CNTK sometimes fails or delivers wrong values, and is right the
/// next time. A rule must explain any other difference in the first run. This library's output must
/// be the same in each run. Also returns CNTK's first output.
fn settle(case: &Case, drivers: &Drivers, folder: &Path) -> Result<(Settled, Output)> {
    let host = (drivers.cntk, drivers.are_of_modules());
    let judge = |ours: &Output, cntk: &Output| {
        let positions = || drivers.positions(case, folder).ok().flatten();
        compare(case, host, ours, cntk, &positions)
    };
    let (ours, cntk) = drivers.run(case, folder)?;
    let mut verdict = judge(&ours, &cntk);
    let mut runs = vec![cntk];
    let mut is_race = false;
    while let Verdict::Different(..) = verdict
        && can_race(case)
        && runs.len() < ATTEMPTS
        && !is_race
    {
        let (ours_again, cntk) = drivers.run(case, folder)?;
        if ours_again.lines != ours.lines {
            return Ok((Settled::Unsteady, runs.swap_remove(0)));
        }
        verdict = judge(&ours, &cntk);
        runs.push(cntk);
        is_race = matches!(&verdict, Verdict::Different(Lines { number, .. })
            if runs.len() >= RUNS_OF_CNTK && compare::is_race(&runs[runs.len() - RUNS_OF_CNTK..], *number));
    }
    let settled = if is_race { Settled::Race } else { Settled::As(verdict) };
    Ok((settled, runs.swap_remove(0)))
}

/// Describes where and how a case differs.
fn described(case: &Case, lines: &Lines) -> String {
    let step = match lines.number.checked_sub(1).map(|step| case.steps.get(step)) {
        None => "creation",
        Some(None) => "the end",
        Some(Some(step)) => step,
    };
    let (number, ours, cntk) = (lines.number + 1, short(&lines.ours), short(&lines.cntk));
    format!("{}: line {number} ({step})\n  ours   {ours}\n  CNTK   {cntk}", case.name)
}

/// Returns the beginning of a line.
pub fn short(line: &str) -> String {
    match line.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{} ...", &line[..end]),
        None => line.to_owned(),
    }
}

#[derive(Default)]
struct Sums {
    same_golden: usize,
    same_random: usize,
    failed: usize,
    /// Cases that CNTK cannot run here.
    left_out: usize,
    /// Cases that use features which this version of CNTK lacks.
    unknown: usize,
    known: BTreeMap<&'static str, (usize, &'static str)>,
}

impl Sums {
    fn add(&mut self, report: Report, is_golden: bool, verbose: bool) {
        match report {
            Report::Same if is_golden => self.same_golden += 1,
            Report::Same => self.same_random += 1,
            Report::Known(case, rule) => {
                if verbose {
                    say!("{case}\n  known  {}", rule.name);
                }
                self.known.entry(rule.name).or_insert((0, rule.what)).0 += 1;
            }
            Report::Failed(text) => {
                self.failed += 1;
                say!("{text}\n");
            }
        }
    }

    fn print(&self, cntk: &Cntk, golden: usize, total: usize) {
        let known: usize = self.known.values().map(|(count, _)| count).sum();
        say!(
            "      CNTK {}: {total} cases ({golden} golden, {} random): {} the same ({} golden, {} random), {known} with a known \
             difference, {} not",
            cntk.version(),
            total - golden,
            self.same_golden + self.same_random,
            self.same_golden,
            self.same_random,
            self.failed
        );
        for (name, (count, what)) in &self.known {
            let share = 100.0 * *count as f64 / total as f64;
            say!("      {count:>5} ({share:.1} % of the cases) {name}: {what}");
        }
    }
}
