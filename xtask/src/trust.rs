//! `cargo xtask trust`: the promises of the library, each with the command that verifies it and its
//! last result.
//!
//! Only this command writes the table in docs/trust.md. Long commands run only if they are named;
//! other rows keep their figures.

use crate::packages::{self, ORACLE};
use crate::sanitize::{self, Kind};
use crate::{build, deny, differences, port, reproducible, schedules, soak};
use anyhow::{Context, Result, bail, ensure};
use lexopt::Parser;
use lexopt::prelude::*;
use std::collections::BTreeMap;
use tooling::project::Project;
use tooling::{Tally, libtest, machine};

/// The document with the table.
const DOCUMENT: &str = "docs/trust.md";

/// The first cell of the table's head.
const HEAD: &str = "| name |";

/// The text of a row until its command has run.
const NOTHING: &str = "not run yet | ";

/// Number of random cases compared with CNTK, through the C++ header and through the module in
/// CNTK.
const CASES: &str = "1000";

/// The prefix of figures for the table in the output of integration tests.
const FIGURES: &str = "figures: ";

/// A row of the table.
struct Promise {
    /// Its name on the command line.
    name: &'static str,
    /// The promise to users.
    promise: &'static str,
    /// The command or tests that verify it.
    kept_by: &'static str,
    /// Whether it takes only seconds, so that it runs without being named.
    quick: bool,
    /// Runs the verification, and returns its figures.
    measure: fn(&Project) -> Result<String>,
}

const PROMISES: &[Promise] = &[
    Promise {
        name: "equal",
        promise: "The C++ header delivers CNTK 2.7's minibatches bit for bit, apart from the [listed differences](differences.md)",
        kept_by: "`cargo xtask oracle`",
        quick: false,
        measure: |project| compared(project, "oracle"),
    },
    Promise {
        name: "module",
        promise: "CNTK 2.7 gets the same minibatches from these modules as from its own, and exits cleanly",
        kept_by: "`cargo xtask oracle --module`",
        quick: false,
        measure: |project| compared(project, "dropin"),
    },
    Promise {
        name: "differences",
        promise: "Where CNTK 2.7 crashes, hangs, loses data or delivers wrong data, this reader does not",
        kept_by: "the tests named in [differences.md](differences.md)",
        quick: true,
        measure: |project| Ok(differences::check(project)?.to_string()),
    },
    Promise {
        name: "model",
        promise: "Order, packing, shares of workers and checkpoints equal those of a naive, single-threaded reader",
        kept_by: "`tests/model.rs`, long form",
        quick: false,
        measure: |project| integration_test(project, "model"),
    },
    Promise {
        name: "fuzz",
        promise: "Whatever is in a file, an index cache, a checkpoint or a call, reading ends in data or in an error that says where",
        kept_by: "`cargo xtask fuzz`, [record](../fuzz/record.md)",
        quick: true,
        measure: fuzz_runs::figures,
    },
    Promise {
        name: "faults",
        promise: "Files that fail, shrink, grow or are replaced while they are read lead to the same data or to an error, and reading \
                  goes on; a process that is killed while it writes leaves no torn file",
        kept_by: "`tests/faults`, long form",
        quick: false,
        measure: |project| integration_test(project, "faults"),
    },
    Promise {
        name: "memory",
        promise: "A failed allocation of 64 KB or more is an error, and reading goes on",
        kept_by: "`tests/allocation_failure.rs`, long form",
        quick: false,
        measure: |project| integration_test(project, "allocation_failure"),
    },
    Promise {
        name: "soak",
        promise: "Readers live for long: nothing hangs, no answer changes, memory and descriptors do not grow",
        kept_by: "`cargo xtask soak`",
        quick: false,
        measure: soak::figures,
    },
    Promise {
        name: "schedules",
        promise: "The protocols between threads neither deadlock nor lose anything under any tested schedule",
        kept_by: "`cargo xtask schedules --long`",
        quick: false,
        measure: schedules::long_form,
    },
    Promise {
        name: "address",
        promise: "Neither Rust nor C++ accesses memory out of bounds or after it was freed, and C++ leaks none",
        kept_by: "`cargo xtask sanitize address`",
        quick: false,
        measure: |project| sanitize::figures(&short(project), Kind::Address),
    },
    Promise {
        name: "thread",
        promise: "No data race",
        kept_by: "`cargo xtask sanitize thread`",
        quick: false,
        measure: |project| sanitize::figures(&short(project), Kind::Thread),
    },
    Promise {
        name: "initialized",
        promise: "Nothing depends on uninitialized memory",
        kept_by: "`cargo xtask sanitize memory`",
        quick: false,
        measure: |project| sanitize::figures(&short(project), Kind::Memory),
    },
    Promise {
        name: "undefined",
        promise: "C++ has no undefined behaviour",
        kept_by: "`cargo xtask sanitize undefined`",
        quick: false,
        measure: |project| sanitize::figures(&short(project), Kind::Undefined),
    },
    Promise {
        name: "valgrind",
        promise: "The library as users get it has no invalid access, no use of uninitialized memory, and no leak",
        kept_by: "`cargo xtask sanitize valgrind`",
        quick: false,
        measure: |project| sanitize::figures(&short(project), Kind::Valgrind),
    },
    Promise {
        name: "port",
        promise: "64-bit ARM delivers the same bits as x86-64; CPUs on which the library would be wrong are refused",
        kept_by: "`cargo xtask port`",
        quick: false,
        measure: |project| tally(port::all(&short(project), false)?),
    },
    Promise {
        name: "reproducible",
        promise: "Two builds of the library in different folders are equal, byte for byte",
        kept_by: "`cargo xtask reproducible`",
        quick: false,
        measure: reproducible::figures,
    },
    Promise {
        name: "deny",
        promise: "Crates have a licence, source and version that the project accepts, and no known vulnerability",
        kept_by: "step `deny`, [dependencies.md](dependencies.md)",
        quick: true,
        measure: |project| tally(deny::step(project)?),
    },
];

/// Measures the named promises, or all that take seconds, and writes the table.
pub fn command(project: &Project, mut parser: Parser) -> Result<()> {
    let mut chosen = Vec::new();
    while let Some(argument) = parser.next()? {
        match argument {
            Long("all") => chosen.extend(PROMISES),
            Value(name) => match PROMISES.iter().find(|promise| name == promise.name) {
                Some(promise) => chosen.push(promise),
                None => {
                    let names: Vec<&str> = PROMISES.iter().map(|promise| promise.name).collect();
                    bail!("There is no promise '{}'; there are {}.", name.display(), names.join(", "))
                }
            },
            option => return Err(option.unexpected().into()),
        }
    }
    if chosen.is_empty() {
        chosen.extend(PROMISES.iter().filter(|promise| promise.quick));
    }
    let long = Project { long: true, ..project.clone() };
    let mut failed = Vec::new();
    for promise in chosen {
        say!("{}: {}", promise.name, promise.kept_by);
        match (promise.measure)(&long) {
            Ok(figures) => {
                say!("  {figures}");
                let measured = format!("{figures} | {}, {} CPUs", machine::date(project)?, machine::cores());
                write(project, Some((promise.name, measured)))?;
            }
            // A failed promise keeps its last figures, which say when it was last verified.
            Err(error) => {
                say!("  FAILED: {error:#}");
                failed.push(promise.name);
            }
        }
    }
    write(project, None)?;
    ensure!(failed.is_empty(), "Not kept: {}. The table has their last figures.", failed.join(", "));
    say!("\n{DOCUMENT} is written.");
    Ok(())
}

/// Tests in their short form, because slow tools run all of them. The long forms have their own
/// rows.
fn short(project: &Project) -> Project {
    Project { long: false, ..project.clone() }
}

/// Fails if the rows of the table differ from the promises. Returns the number of rows with
/// figures.
pub fn check(project: &Project) -> Result<usize> {
    let text = std::fs::read_to_string(project.path(DOCUMENT))?;
    ensure!(
        text == filled(&text, None)?,
        "{DOCUMENT} has other promises than xtask. Write it: cargo xtask trust"
    );
    Ok(rows(&text)?.2.values().filter(|figures| !figures.starts_with(NOTHING.trim_end())).count())
}

/// Writes the table, with new figures for one row.
fn write(project: &Project, new: Option<(&str, String)>) -> Result<()> {
    let text = std::fs::read_to_string(project.path(DOCUMENT))?;
    Ok(std::fs::write(project.path(DOCUMENT), filled(&text, new)?)?)
}

/// Returns the document with a row for each promise. Rows without new figures keep their old ones.
fn filled(text: &str, new: Option<(&str, String)>) -> Result<String> {
    let lines: Vec<&str> = text.lines().collect();
    let (first, end, old) = rows(text)?;
    let row = |promise: &Promise| {
        let Promise { name, promise, kept_by, .. } = promise;
        let new = new.as_ref().filter(|(of, _)| of == name).map(|(_, figures)| figures.as_str());
        let figures = new.or_else(|| old.get(name).copied()).unwrap_or(NOTHING);
        format!("| {name} | {promise} | {kept_by} | {} |", figures.trim_end())
    };
    let before = lines[..first].iter().map(|line| (*line).to_owned());
    let after = lines[end..].iter().map(|line| (*line).to_owned());
    let all: Vec<String> = before.chain(PROMISES.iter().map(row)).chain(after).collect();
    Ok(all.join("\n") + "\n")
}

/// Returns the first line of the table's body, the line after its last, and the figures with their
/// date by name.
fn rows(text: &str) -> Result<(usize, usize, BTreeMap<&str, &str>)> {
    let lines: Vec<&str> = text.lines().collect();
    let head = lines.iter().position(|line| line.starts_with(HEAD));
    let first = head.with_context(|| format!("{DOCUMENT} has no table"))? + 2;
    let rest = lines.get(first..).unwrap_or_default();
    let end = first + rest.iter().position(|line| !line.starts_with('|')).unwrap_or(rest.len());
    let figures = lines[first.min(end)..end].iter().filter_map(|line| {
        let mut cells = line.strip_prefix("| ")?.strip_suffix(" |")?.splitn(4, " | ");
        Some((cells.next()?, cells.nth(2)?))
    });
    Ok((first, end, figures.collect()))
}

/// Builds everything, compares golden and random cases, and returns the result in words. Failures
/// are an error.
fn compared(project: &Project, step: &str) -> Result<String> {
    build::everything(project)?;
    let tally = packages::step(project, ORACLE, &[step, "--cases", CASES])?;
    ensure!(tally.failed == 0, "{tally}");
    ensure!(tally.passed > 0, "CNTK could not be had here, so nothing was compared");
    Ok(format!("{} cases, all equal", tally.passed))
}

/// Returns a tally in words. Failures are an error.
fn tally(tally: Tally) -> Result<String> {
    ensure!(tally.failed == 0, "{tally}");
    Ok(tally.to_string())
}

/// Runs the long form of an integration test, which prints its figures.
fn integration_test(project: &Project, name: &str) -> Result<String> {
    let run = project.cargo("test").args(["--package", "cntk-reader", "--test", name]);
    let output = run.args(["--", "--nocapture"]).go()?;
    // The output of the soak test has its own row.
    let own = output.lines().filter(|line| !line.contains("soak: "));
    let figures: Vec<&str> = own.filter_map(|line| Some(line.split_once(FIGURES)?.1)).collect();
    ensure!(!figures.is_empty(), "The test {name} prints no figures ({}).", libtest(&output));
    Ok(figures.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    const EMPTY: &str = "# A\n\n| name | a | b | c | d |\n| --- | --- | --- | --- | --- |\n\nend\n";

    #[test]
    fn figures_stay_until_measured_again() {
        let text = filled(EMPTY, None).expect("a table");
        assert_eq!(text.matches("| not run yet |").count(), PROMISES.len());
        let text = filled(&text, Some(("model", "7 cases | today".to_owned()))).expect("a table");
        let text = filled(&text, Some(("port", "8 | now".to_owned()))).expect("a table");
        assert!(text.contains(" | 7 cases | today |\n") && text.contains(" | 8 | now |\n"), "{text}");
        assert_eq!(text, filled(&text, None).expect("a table"));
        assert!(text.ends_with("|\n\nend\n"));
        assert!(filled("no table\n", None).is_err());
    }
}
