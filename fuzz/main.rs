//! Fuzzing: damaged input of every kind, and different ways to the same result. See README.md.

#[path = "../tests/common/mod.rs"]
mod common;

mod case;
mod mutate;
mod targets;

use case::{Case, Corpus};
use common::rng::Rng;
use lexopt::Parser;
use lexopt::prelude::*;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant, SystemTime};
use targets::{ALL, Target};

const USAGE: &str = "fuzz [--target NAME] [--minutes N] [--seed S] [--cases N] [--list]";

/// Time after which a case counts as hung. Cases take milliseconds.
const PATIENCE: Duration = Duration::from_secs(30);

/// Bytes of address space. Damaged input that makes the library ask for more ends the process.
const MEMORY: u64 = 16 << 30;

struct Options {
    targets: Vec<&'static Target>,
    /// Time for all targets together. Without it, each target runs its small number of cases.
    time: Option<Duration>,
    /// Seed of the first case. Each further case has the next number as its seed.
    seed: u64,
    cases: Option<u64>,
}

impl Options {
    fn parse(mut parser: Parser) -> Result<Options, lexopt::Error> {
        let mut options = Options { targets: Vec::new(), time: None, seed: 1, cases: None };
        let mut seed = None;
        while let Some(argument) = parser.next()? {
            match argument {
                Long("target") => {
                    let name = parser.value()?.string()?;
                    let found = ALL.iter().find(|target| target.name == name);
                    options.targets.push(found.ok_or_else(|| format!("there is no target '{name}'"))?);
                }
                Long("minutes") => {
                    let minutes: f64 = parser.value()?.parse()?;
                    let time = Duration::try_from_secs_f64(minutes * 60.0);
                    options.time = Some(time.map_err(|error| error.to_string())?);
                }
                Long("seed") => seed = Some(parser.value()?.parse()?),
                Long("cases") => options.cases = Some(parser.value()?.parse()?),
                Long("list") => {
                    ALL.iter().for_each(|target| println!("{:<14} {}", target.name, target.what));
                    std::process::exit(0);
                }
                other => return Err(other.unexpected()),
            }
        }
        if options.targets.is_empty() {
            options.targets = ALL.iter().collect();
        }
        // Long runs begin with a different seed each time; short runs always have equal cases.
        let clock = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let fresh = options.time.map(|_| clock.as_secs() * 1_000_000);
        options.seed = seed.or(fresh).unwrap_or(options.seed);
        Ok(options)
    }
}

/// How a target is run.
struct Run {
    target: &'static Target,
    folder: PathBuf,
    corpus: Arc<Corpus>,
    first: u64,
    cases: u64,
    until: Option<Instant>,
}

impl Run {
    /// Runs case after case, and sends the seed of each. Stops at the first case that fails, and returns its seed.
    fn go(&self, started: &Sender<u64>) -> Option<u64> {
        for number in (self.first..).take(usize::try_from(self.cases).unwrap_or(usize::MAX)) {
            if self.until.is_some_and(|until| Instant::now() >= until) {
                break;
            }
            if started.send(number).is_err() {
                break;
            }
            let again = || empty(&self.folder).and_then(|()| self.note(number));
            if let Err(error) = again() {
                eprintln!("{}: {error}", self.folder.display());
                return Some(number);
            }
            let case = || {
                let (folder, corpus) = (self.folder.as_path(), &*self.corpus);
                (self.target.run)(&mut Case { rng: Rng::new(number), folder, corpus });
            };
            if catch_unwind(AssertUnwindSafe(case)).is_err() {
                return Some(number);
            }
        }
        None
    }

    /// Writes the command that runs the case again into its folder, where it remains if the process dies.
    fn note(&self, number: u64) -> std::io::Result<()> {
        let line = format!("cargo xtask fuzz --target {} --seed {number} --cases 1\n", self.target.name);
        std::fs::write(self.folder.join("again.txt"), line)
    }
}

fn empty(folder: &Path) -> std::io::Result<()> {
    match std::fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    std::fs::create_dir_all(folder)
}

/// Runs a target on a thread of its own. Returns whether all its cases passed.
fn watch(run: Run) -> bool {
    let (started, cases) = channel();
    let (name, folder, first) = (run.target.name, run.folder.clone(), run.first);
    let clock = Instant::now();
    let thread = std::thread::spawn(move || run.go(&started));
    let mut last = None;
    let failed = loop {
        match cases.recv_timeout(PATIENCE) {
            Ok(number) => last = Some(number),
            Err(RecvTimeoutError::Timeout) => {
                eprintln!("case {} of {name} hangs", last.unwrap_or(first));
                break last;
            }
            Err(RecvTimeoutError::Disconnected) => break thread.join().unwrap_or(last),
        }
    };
    let seconds = clock.elapsed().as_secs_f64();
    let count = last.map_or(0, |last| last - first + 1);
    match failed {
        None => println!("{name:<14} {count} cases from seed {first}, {seconds:.1} s"),
        Some(number) => println!(
            "{name:<14} FAILED with seed {number}. Its input: {}\nAgain: cargo xtask fuzz --target {name} --seed {number} --cases 1",
            folder.display()
        ),
    }
    failed.is_none()
}

/// Limits the address space, so that a request for unbounded memory fails.
fn limit_memory() {
    let limit = libc::rlimit { rlim_cur: MEMORY, rlim_max: MEMORY };
    // SAFETY: the pointer is to `limit`, a valid `rlimit`, which the call only reads.
    unsafe { libc::setrlimit(libc::RLIMIT_AS, &limit) };
}

fn main() -> ExitCode {
    let options = match Options::parse(Parser::from_env()) {
        Ok(options) => options,
        Err(error) => {
            eprintln!("{error}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    let corpus = match Corpus::load() {
        Ok(corpus) => Arc::new(corpus),
        Err(error) => {
            eprintln!("fuzz/corpus: {error}");
            return ExitCode::from(2);
        }
    };
    limit_memory();
    common::quiet();
    let share = options.time.map(|time| time / u32::try_from(options.targets.len()).unwrap_or(1));
    let mut good = true;
    for &target in &options.targets {
        let cases = options.cases.unwrap_or(if share.is_some() { u64::MAX } else { target.cases });
        good &= watch(Run {
            target,
            folder: Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("fuzz").join(target.name),
            corpus: Arc::clone(&corpus),
            first: options.seed,
            cases,
            until: share.map(|share| Instant::now() + share),
        });
    }
    if good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
