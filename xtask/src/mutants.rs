//! `cargo xtask mutants`: how many small changes of a module its unit tests notice, by
//! cargo-mutants.

use anyhow::{Context, Result, bail};
use lexopt::Parser;
use lexopt::prelude::*;
use std::path::Path;
use tooling::project::Project;

/// A module, and the tests that have to notice its mutants.
struct Module {
    name: &'static str,
    package: &'static str,
    files: &'static str,
    /// Part of the names of the tests.
    tests: &'static str,
}

const fn module(
    name: &'static str,
    package: &'static str,
    files: &'static str,
    tests: &'static str,
) -> Module {
    Module { name, package, files, tests }
}

const MODULES: &[Module] = &[
    module("compact", "cntk-reader-core", "crates/core/src/memory/compact/**", "memory::compact"),
    module("randomize", "cntk-reader-engine", "crates/engine/src/randomize/**", "randomize"),
    module("pack", "cntk-reader-engine", "crates/engine/src/pack/**", "pack"),
    module("forms", "cntk-reader-engine", "crates/engine/src/forms/**", "forms"),
    module("compose", "cntk-reader-engine", "crates/engine/src/compose/**", "compose"),
    module("reader", "cntk-reader-engine", "crates/engine/src/reader/**", ""),
    module("ctf", "cntk-reader-text", "crates/text/src/ctf/**", "ctf"),
    module("cbf", "cntk-reader-text", "crates/text/src/cbf/**", "cbf"),
    module("concat", "cntk-reader-text", "crates/text/src/concat/**", "concat"),
    module("htk", "cntk-reader-speech", "crates/speech/src/htk/**", "htk"),
    module("language", "cntk-reader", "src/language/**", "language"),
];

/// Seconds after which a mutant counts as timed out: its tests take less than one.
const TIMEOUT: &str = "60";

/// Tests the modules that the arguments name, or all: every mutant, or one of N.
pub fn command(project: &Project, mut parser: Parser) -> Result<()> {
    let (mut chosen, mut share) = (Vec::new(), None);
    while let Some(argument) = parser.next()? {
        match argument {
            Long("share") => share = Some(parser.value()?.string()?),
            Value(name) => match MODULES.iter().find(|module| name == module.name) {
                Some(module) => chosen.push(module),
                None => {
                    let names: Vec<&str> = MODULES.iter().map(|module| module.name).collect();
                    bail!("There is no module '{}'. There are {}.", name.display(), names.join(", "));
                }
            },
            option => return Err(option.unexpected().into()),
        }
    }
    if project.cargo("mutants").arg("--version").silent().go().is_err() {
        bail!("cargo-mutants is missing: cargo install --locked cargo-mutants");
    }
    if chosen.is_empty() {
        chosen.extend(MODULES);
    }
    say!(
        "| module | mutants | caught | timed out | missed | do not compile | missed of those that compile |"
    );
    say!("| --- | ---: | ---: | ---: | ---: | ---: | ---: |");
    for module in chosen {
        let found = run(project, module, share.as_deref())?;
        say!("{}", found.row(module.name));
        found.missed.iter().for_each(|mutant| eprintln!("missed: {mutant}"));
    }
    Ok(())
}

/// The outcomes of the mutants of a module.
struct Found {
    caught: usize,
    timed_out: usize,
    unviable: usize,
    missed: Vec<String>,
}

impl Found {
    fn read(folder: &Path) -> Result<Found> {
        let lines = |name: &str| -> Result<Vec<String>> {
            let path = folder.join("mutants.out").join(name);
            let text =
                std::fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
            Ok(text.lines().map(str::to_owned).collect())
        };
        Ok(Found {
            caught: lines("caught.txt")?.len(),
            timed_out: lines("timeout.txt")?.len(),
            unviable: lines("unviable.txt")?.len(),
            missed: lines("missed.txt")?,
        })
    }

    fn row(&self, name: &str) -> String {
        let Found { caught, timed_out, unviable, missed } = self;
        let missed = missed.len();
        let viable = caught + timed_out + missed;
        let share = 100.0 * missed as f64 / viable.max(1) as f64;
        let all = viable + unviable;
        format!("| {name} | {all} | {caught} | {timed_out} | {missed} | {unviable} | {share:.1} % |")
    }
}

fn run(project: &Project, module: &Module, share: Option<&str>) -> Result<Found> {
    let folder = project.target.join("mutants").join(module.name);
    std::fs::create_dir_all(&folder)?;
    let run = project.cargo("mutants").args(["--package", module.package, "--file", module.files]);
    let run = run.args(["--timeout", TIMEOUT, "--no-shuffle", "--output"]).arg(&folder);
    // Every Nth mutant, so that all files have their share.
    let run =
        share.into_iter().fold(run, |run, share| run.args(["--shard", share, "--sharding", "round-robin"]));
    let run = run.env("PROPTEST_DISABLE_FAILURE_PERSISTENCE", "true");
    let run = run.env("CARGO_PROFILE_DEV_OPT_LEVEL", "0").env("CARGO_PROFILE_DEV_DEBUG", "0");
    // It ends with an error where a mutant was missed, and has written its lists then.
    let outcome = run.args(["--", "--lib", module.tests]).silent().go();
    Found::read(&folder).map_err(|reading| outcome.err().unwrap_or(reading))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_of_missed_mutants_is_that_of_those_that_compile() {
        let found = Found { caught: 6, timed_out: 1, unviable: 10, missed: vec![String::new()] };
        assert_eq!(found.row("m"), "| m | 18 | 6 | 1 | 1 | 10 | 12.5 % |");
    }
}
