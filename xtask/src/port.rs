//! `cargo xtask port`: other processors than x86-64. Runs the Rust tests, and the golden records
//! through the C++ header, on 64-bit ARM under an emulator, and checks that compiling for
//! unsupported processors fails.

use crate::packages;
use anyhow::{Context, Result, ensure};
use lexopt::Parser;
use lexopt::prelude::*;
use tooling::cross::{self, Cross};
use tooling::project::Project;
use tooling::{Tally, dist, drivers, libtest};

/// A 32-bit processor, and a big-endian one.
const REFUSED: [&str; 2] = ["i686-unknown-linux-gnu", "s390x-unknown-linux-gnu"];

/// Part of the compiler's error message for them.
const REFUSAL: &str = "64-bit little-endian processors";

/// The short form replays one record out of this many.
const SHORT: usize = 10;

/// Runs all checks, or the short form.
pub fn command(project: &Project, mut parser: Parser) -> Result<()> {
    let mut is_short = false;
    while let Some(argument) = parser.next()? {
        match argument {
            Long("short") => is_short = true,
            option => return Err(option.unexpected().into()),
        }
    }
    let tally = all(project, is_short)?;
    say!("\n{tally}");
    ensure!(tally.failed == 0, "Checks failed on aarch64.");
    Ok(())
}

/// Makes all checks, or the checks of the short form.
pub fn all(project: &Project, is_short: bool) -> Result<Tally> {
    let built = cross::aarch64(project)?;
    let cross = built.cross.as_ref().context("nothing is built for another processor")?;
    say!("  {}, {}", cross.version(project)?, cross.emulator());
    let mut tally = tests(&built, is_short)?;
    tally = tally.and(records(project, &built, cross, if is_short { SHORT } else { 1 })?);
    if !is_short {
        tally = tally.and(refusals(&built, cross)?);
    }
    Ok(tally)
}

/// A test that counts page faults, of which an emulator sometimes has more.
const OF_FAULTS: &str = "whole_pages_are_there_afterwards";

/// Runs the Rust tests; in the short form those of the library's modules. Documentation tests are
/// left out: under an emulator they run in one process, and each sets the current folder.
fn tests(built: &Project, is_short: bool) -> Result<Tally> {
    let chosen: Vec<&str> = match is_short {
        true => packages::library().chain(["--lib"]).collect(),
        false => vec!["--workspace", "--lib", "--bins", "--examples", "--tests"],
    };
    let not_ours = packages::ALL.into_iter().filter(|_| !is_short).flat_map(|package| ["--exclude", package]);
    let tests = built.part("Rust tests", || {
        let run = built.cargo("test").args(chosen).args(not_ours).arg("--no-fail-fast");
        Ok(libtest(&run.args(["--", "--skip", OF_FAULTS]).go()?))
    })?;
    say!("      {tests}");
    Ok(tests)
}

fn records(project: &Project, built: &Project, cross: &Cross, every: usize) -> Result<Tally> {
    let dist = built.part("library, release mode", || dist::build(built))?;
    built.part("drivers", || drivers::build(built, &dist))?;
    let what = "golden records through the C++ header";
    let records = built
        .part(what, || packages::replay(project, every, &built.target.join("drivers"), &cross.runner()))?;
    say!("      {records}");
    Ok(records)
}

/// Compiles for unsupported processors until the expected error. Needs the sources of Rust's
/// standard library.
fn refusals(built: &Project, cross: &Cross) -> Result<Tally> {
    if !cross.has_sources(built)? {
        return Tally::skipped(
            "refused processors: there are no sources of the standard library (Debian: rust-web-src)",
        );
    }
    let mut passed = 0;
    for target in REFUSED {
        built.part(&format!("{target} is refused"), || {
            let cargo =
                built.cargo("check").args(["--package", "cntk-reader", "--lib", "--no-default-features"]);
            let cargo = cargo.args(["-Zbuild-std=std", "--target", target]).env("RUSTC_BOOTSTRAP", "1");
            let output = cargo.go().unwrap_or_else(|error| error.to_string());
            ensure!(output.contains(REFUSAL), "{output}");
            Ok(())
        })?;
        passed += 1;
    }
    Tally::passed(passed)
}
