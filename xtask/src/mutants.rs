//! `cargo xtask mutants`: counts the small changes of a module that its unit tests notice, with
//! cargo-mutants.

use anyhow::{Context, Result, bail};
use lexopt::Parser;
use lexopt::prelude::*;
use std::path::Path;
use tooling::project::Project;

/// A module, and the tests that should notice its mutants.
struct Module {
    name: &'static str,
    package: &'static str,
    files: &'static str,
    /// A part of the tests' names.
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

/// Seconds after which a mutant counts as timed out; the tests take less than one.
const TIMEOUT: &str = "60";

/// Tests the named modules, or all: every mutant, or one of N.
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
struct MutantOutcomes {
    caught: usize,
    timed_out: usize,
    unviable: usize,
    missed: Vec<String>,
}

impl MutantOutcomes {
    fn read(folder: &Path) -> Result<MutantOutcomes> {
        let lines = |name: &str| -> Result<Vec<String>> {
            let path = folder.join("mutants.out").join(name);
            let text =
                std::fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
            Ok(text.lines().map(str::to_owned).collect())
        };
        Ok(MutantOutcomes {
            caught: lines("caught.txt")?.len(),
            timed_out: lines("timeout.txt")?.len(),
            unviable: lines("unviable.txt")?.len(),
            missed: lines("missed.txt")?,
        })
    }

    fn row(&self, name: &str) -> String {
        let MutantOutcomes { caught, timed_out, unviable, missed } = self;
        let missed = missed.len();
        let viable = caught + timed_out + missed;
        let share = 100.0 * missed as f64 / viable.max(1) as f64;
        let all = viable + unviable;
        format!("| {name} | {all} | {caught} | {timed_out} | {missed} | {unviable} | {share:.1} % |")
    }
}

fn run(project: &Project, module: &Module, share: Option<&str>) -> Result<MutantOutcomes> {
    let folder = project.target.join("mutants").join(module.name);
    std::fs::create_dir_all(&folder)?;
    let run = project.cargo("mutants").args(["--package", module.package, "--file", module.files]);
    let run = run.args(["--timeout", TIMEOUT, "--no-shuffle", "--output"]).arg(&folder);
    // Every Nth mutant, so that all files are covered.
    let run =
        share.into_iter().fold(run, |run, share| run.args(["--shard", share, "--sharding", "round-robin"]));
    let run = run.env("PROPTEST_DISABLE_FAILURE_PERSISTENCE", "true");
    let run = run.env("CARGO_PROFILE_DEV_OPT_LEVEL", "0").env("CARGO_PROFILE_DEV_DEBUG", "0");
    // It fails if a mutant was missed, but has written its lists by that time.
    let outcome = run.args(["--", "--lib", module.tests]).silent().go();
    MutantOutcomes::read(&folder).map_err(|reading| outcome.err().unwrap_or(reading))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missed_share_counts_only_viable_mutants() {
        let found = MutantOutcomes { caught: 6, timed_out: 1, unviable: 10, missed: vec![String::new()] };
        assert_eq!(found.row("m"), "| m | 18 | 6 | 1 | 1 | 10 | 12.5 % |");
    }
}
