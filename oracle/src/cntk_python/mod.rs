//! `cargo xtask cntk-python`: compares Python programs under an unmodified CNTK, with its own
//! reader modules and with this project's.

mod exit;
mod judge;
mod operator;
mod side;
mod train;
mod v1;

pub use v1::Paths;

use crate::NOT_INSTALLED;
use crate::cases::short;
use crate::install::{self, Cntk, Installed};
use anyhow::{Context, Result, bail};
use dropin::{self, HOSTS, Host};
use judge::{Allowed, Announced, Verdict, judge};
use lexopt::Parser;
use lexopt::prelude::*;
use side::{Modules, Side};
use std::collections::BTreeMap;
use tooling::Tally;
use tooling::project::Project;

/// Maximum number of runs of a case that differs.
const ATTEMPTS: usize = 3;

/// Command-line options.
struct Options {
    versions: Vec<String>,
    /// Prefixes of the names of cases; all cases if empty.
    names: Vec<String>,
    /// Whether to run only the cases of the step in `cargo xtask test`.
    short: bool,
    modules: Modules,
}

impl Options {
    fn new(short: bool) -> Options {
        Options {
            versions: vec![install::VERSIONS[0].to_owned()],
            names: Vec::new(),
            short,
            modules: Modules::Ours,
        }
    }

    fn parse(mut parser: Parser) -> Result<Options> {
        let mut options = Options::new(false);
        while let Some(argument) = parser.next()? {
            match argument {
                Long("version") => {
                    options.versions = match parser.value()?.string()?.as_str() {
                        "all" => install::VERSIONS.map(str::to_owned).to_vec(),
                        version => vec![version.to_owned()],
                    };
                }
                Long("short") => options.short = true,
                Long("below-original") => options.modules = Modules::BelowOriginal,
                Value(name) => options.names.push(name.string()?),
                option => return Err(option.unexpected().into()),
            }
        }
        Ok(options)
    }
}

/// Runs the command.
pub fn command(project: &Project, parser: Parser) -> Result<()> {
    let options = Options::parse(parser)?;
    for version in &options.versions {
        dropin::build_for(project, Host::by_version(version)?)?;
    }
    project.part("driver host_v1", || dropin::driver(project, "host_v1", HOSTS[0]).map(drop))?;
    let mut failed = 0;
    for version in &options.versions {
        match install::install(project, version)? {
            Installed::Yes(cntk) => failed += run(project, &cntk, &options)?.failed,
            Installed::No(reason) => {
                say!("\nCNTK {version}: nothing was compared: {reason}.");
                std::process::exit(NOT_INSTALLED);
            }
        }
    }
    if failed > 0 {
        std::process::exit(1);
    }
    Ok(())
}

/// Runs the short form, a step of `cargo xtask test`, which expects the modules to be built.
pub fn step(project: &Project) -> Result<Tally> {
    let options = Options::new(true);
    match install::install(project, &options.versions[0])? {
        Installed::Yes(cntk) => run(project, &cntk, &options),
        Installed::No(reason) => Tally::without_cntk(reason),
    }
}

/// A case from the list of the scripts.
struct Case {
    name: String,
    announced: Option<Announced>,
    /// Whether a module that is CNTK's on both sides may end the process.
    crashes: bool,
}

/// Compares everything with one version of CNTK, and sums up the results.
fn run(project: &Project, cntk: &Cntk, options: &Options) -> Result<Tally> {
    let original = Side::new(project, cntk, Modules::Original)?;
    let ours = Side::new(project, cntk, options.modules)?;
    let mut tally = Tally::default();
    if options.names.is_empty() && options.modules == Modules::Ours {
        tally = operator::check(project, cntk, &original)?;
    }
    // CNTK itself tells what it can load; the short form installs nothing else.
    let images = !options.short
        && install::images(project, cntk)?
            .inspect(|reason| {
                say!("The image module cannot be loaded: {reason}. Cases with images are left out.");
            })
            .is_none();
    let cases = choose(&original, options, images)?;
    let mut sums = Sums::default();
    let names: Vec<String> = cases.iter().map(|case| case.name.clone()).collect();
    let mut verdicts = compare(&ours, &original, &cases, &names)?;
    // CNTK reads a binary or secondary file on two threads through one handle: sometimes it fails
    // or delivers wrong values, and is right the next time.
    for _ in 1..ATTEMPTS {
        let again: Vec<String> = verdicts
            .iter()
            .filter(|(_, verdict)| matches!(verdict, Verdict::Different(..)))
            .map(|(name, _)| name.clone())
            .collect();
        if again.is_empty() {
            break;
        }
        verdicts.extend(compare(&ours, &original, &cases, &again)?);
    }
    for (name, verdict) in verdicts {
        sums.add(&name, verdict, project.verbose);
    }
    sums.print(&format!("Python with CNTK {}", cntk.version()));
    tally = tally.and(sums.tally());
    if options.names.is_empty() {
        let may_crash = ours.is_composed_by_cntk();
        let paths = Paths { ours: ours.library_path(), cntk: original.library_path(), may_crash };
        tally = tally.and(brainscript(project, cntk.host, paths)?);
        let trained = train::compare(project, &ours, &original)?;
        say!("      training: {} programs with the same losses, {} not", trained.passed, trained.failed);
        tally = tally.and(trained);
        if options.modules == Modules::Ours {
            tally = tally.and(exit::check(project, &ours, &original, options.short)?);
        }
    }
    Ok(tally)
}

/// Compares the data read by CNTK's reader for BrainScript.
pub fn brainscript(project: &Project, host: Host, paths: Paths<'_>) -> Result<Tally> {
    let mut sums = Sums::default();
    for (name, verdict) in v1::compare(project, host, paths)? {
        sums.add(&name, verdict, project.verbose);
    }
    sums.print(&format!("BrainScript's interface of CNTK {}", host.version));
    Ok(sums.tally())
}

/// Returns the selected cases that this CNTK supports.
fn choose(side: &Side, options: &Options, images: bool) -> Result<Vec<Case>> {
    let mut cases = Vec::new();
    for about in side.list()? {
        let name = about["name"].as_str().context("a case without a name")?.to_owned();
        let asked =
            options.names.is_empty() || options.names.iter().any(|start| name.starts_with(start.as_str()));
        let fits = !options.short || about["short"] == true;
        if asked && fits && (images || about["needs"] != "images") {
            let text = |key: &str| about[key].as_str().map(str::to_owned);
            let what = match (text("only"), about["line"].as_u64(), text("ours")) {
                (Some(member), None, None) => Allowed::Member(member),
                (None, Some(line), Some(ours)) => Allowed::From(usize::try_from(line)?, ours),
                (None, None, None) => Allowed::Death,
                _ => bail!("{name}: a difference is in one member, from one line on, or CNTK's end"),
            };
            let announced = text("differs").or(text("dies")).map(|reason| Announced { reason, what });
            cases.push(Case { name, announced, crashes: about["crashes"].is_string() });
        }
    }
    if cases.is_empty() { bail!("There are no such cases.") } else { Ok(cases) }
}

/// Runs the named cases on both sides in parallel, and judges them.
fn compare(ours: &Side, cntk: &Side, cases: &[Case], names: &[String]) -> Result<BTreeMap<String, Verdict>> {
    let by_cntk = ours.is_composed_by_cntk();
    let (ours, cntk) = std::thread::scope(|scope| {
        let cntk = scope.spawn(|| cntk.cases(names));
        let ours = ours.cases(names);
        let cntk = cntk.join().unwrap_or_else(|_| bail!("a thread has panicked"));
        (ours, cntk)
    });
    let (ours, cntk) = (ours?, cntk?);
    let chosen = cases.iter().filter(|case| names.contains(&case.name));
    let verdicts = chosen.map(|case| {
        let both = ours.get(&case.name).zip(cntk.get(&case.name));
        let (ours, cntk) = both.with_context(|| format!("{} did not run", case.name))?;
        Ok((case.name.clone(), judge(case.announced.as_ref(), by_cntk || case.crashes, ours, cntk)))
    });
    verdicts.collect()
}

#[derive(Default)]
struct Sums {
    same: usize,
    failed: usize,
    known: BTreeMap<String, usize>,
}

impl Sums {
    fn add(&mut self, name: &str, verdict: Verdict, verbose: bool) {
        match verdict {
            Verdict::Same => self.same += 1,
            Verdict::Known(reason) => {
                if verbose {
                    say!("{name}: {reason}");
                }
                *self.known.entry(reason).or_default() += 1;
            }
            Verdict::Different(ours, cntk) => {
                self.failed += 1;
                say!("{name}\n  ours   {}\n  CNTK   {}\n", short(&ours), short(&cntk));
            }
        }
    }

    fn tally(&self) -> Tally {
        Tally {
            passed: self.same + self.known.values().sum::<usize>(),
            failed: self.failed,
            ..Tally::default()
        }
    }

    fn print(&self, what: &str) {
        let known: usize = self.known.values().sum();
        say!(
            "      {what}: {} cases: {} the same, {known} with a known difference, {} not",
            self.same + known + self.failed,
            self.same,
            self.failed
        );
        for (reason, count) in &self.known {
            say!("      {count:>5} {reason}");
        }
    }
}
