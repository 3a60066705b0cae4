//! `cargo xtask sanitize`: runs the tests under programs that check memory accesses, threads and
//! undefined behaviour.

mod rust;

use crate::build;
use crate::packages::{self, ORACLE};
use anyhow::{Context, Result, bail};
use lexopt::Parser;
use lexopt::prelude::*;
use std::time::Instant;
use tooling::cmake::Build;
use tooling::project::Project;
use tooling::tools::{self, Tool};
use tooling::{Tally, dist, drivers};

/// A sanitizer, or Valgrind.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Address,
    Thread,
    Memory,
    Undefined,
    Valgrind,
}

const KINDS: [Kind; 5] = [Kind::Address, Kind::Thread, Kind::Memory, Kind::Undefined, Kind::Valgrind];

impl Kind {
    /// Its name, also in options of compilers.
    fn name(self) -> &'static str {
        match self {
            Kind::Address => "address",
            Kind::Thread => "thread",
            Kind::Memory => "memory",
            Kind::Undefined => "undefined",
            Kind::Valgrind => "valgrind",
        }
    }

    /// Its checks.
    fn checks(self) -> &'static [Check] {
        match self {
            Kind::Address => &[
                Check {
                    what: "Rust tests, standard library instrumented",
                    run: |p| rust::tests(p, Kind::Address),
                },
                Check { what: "C++ tests, with leaks", run: |p| cpp(p, "address", &[]) },
            ],
            Kind::Thread => &[Check {
                what: "Rust tests, standard library instrumented",
                run: |p| rust::tests(p, Kind::Thread),
            }],
            Kind::Memory => &[Check {
                what: "Rust tests without images and compression, standard library instrumented",
                run: |p| rust::tests(p, Kind::Memory),
            }],
            Kind::Undefined => &[
                Check { what: "C++ tests", run: |p| cpp(p, "undefined", &[]) },
                Check {
                    what: "golden records inside CNTK, by instrumented modules",
                    run: |p| packages::step(p, ORACLE, &["undefined"]),
                },
            ],
            Kind::Valgrind => &[Check {
                what: "golden records through the C++ header, with leaks",
                run: |p| valgrind(p, 1),
            }],
        }
    }
}

/// Some tests under one sanitizer.
struct Check {
    what: &'static str,
    run: fn(&Project) -> Result<Tally>,
}

/// Runs the named kinds, or all, and prints a line with figures for each check.
pub fn command(project: &Project, mut parser: Parser) -> Result<()> {
    let mut kinds = Vec::new();
    while let Some(argument) = parser.next()? {
        let Value(name) = argument else { return Err(argument.unexpected().into()) };
        match KINDS.into_iter().find(|kind| name == kind.name()) {
            Some(kind) => kinds.push(kind),
            None => {
                let known = KINDS.map(Kind::name).join(", ");
                bail!("There is no sanitizer '{}'; there are {known}.", name.display())
            }
        }
    }
    if kinds.is_empty() {
        kinds.extend(KINDS);
    }
    let (mut lines, mut failed) = (Vec::new(), false);
    for kind in kinds {
        for (line, tally) in run(project, kind) {
            lines.push(format!("{}: {line}", kind.name()));
            failed |= tally.failed > 0;
        }
    }
    say!("\n{}", lines.join("\n"));
    if failed { bail!("Something was found: see above.") } else { Ok(()) }
}

/// Runs one kind, and returns a sentence for each of its checks. Skipped checks are an error.
pub fn figures(project: &Project, kind: Kind) -> Result<String> {
    let checks = run(project, kind);
    let is_kept = checks.iter().all(|(_, tally)| tally.failed == 0 && tally.passed > 0);
    let lines: Vec<String> = checks.into_iter().map(|(line, _)| line).collect();
    if is_kept { Ok(lines.join("; ")) } else { bail!("{}", lines.join("\n")) }
}

/// Runs the checks of a kind. Returns a line with figures and a tally for each.
fn run(project: &Project, kind: Kind) -> Vec<(String, Tally)> {
    let checks = kind.checks().iter().map(|check| {
        let clock = Instant::now();
        say!("{}: {}", kind.name(), check.what);
        let tally = (check.run)(project).unwrap_or_else(|error| {
            say!("{error:#}");
            Tally { failed: 1, ..Tally::default() }
        });
        let seconds = clock.elapsed().as_secs_f64();
        (format!("{}: {tally}, {seconds:.0} s", check.what), tally)
    });
    checks.collect()
}

/// Runs the C++ tests under sanitizers, with additional CMake options. A finding ends the test.
pub fn cpp(project: &Project, sanitizers: &str, options: &[&str]) -> Result<Tally> {
    tools::need(project, &[&drivers::TOOLS[..], &[Tool::GoogleTest]].concat())?;
    let dist = dist::build(project)?;
    let folder = format!("cmake/tests-{}", sanitizers.replace(',', "-"));
    let option = format!("-DCNTK_READER_SANITIZE={sanitizers}");
    // Instrumented code takes four times as long to compile with optimization, and the tests take
    // only seconds.
    let options = [&[option.as_str(), "-DCMAKE_BUILD_TYPE=Debug"], options].concat();
    let build = Build::configure(project, &dist, "cpp_tests", &folder, &options)?;
    build.build(None)?;
    let mut variables = dist::release_variables(project);
    variables.push(("ASAN_OPTIONS", "detect_leaks=1".to_owned()));
    variables.push(("UBSAN_OPTIONS", "halt_on_error=1:print_stacktrace=1".to_owned()));
    build.test(&variables).with_context(|| format!("C++ tests under -fsanitize={sanitizers}"))
}

/// Replays every `every`-th golden record under Valgrind.
pub fn valgrind(project: &Project, every: usize) -> Result<Tally> {
    tools::need(project, &[Tool::Valgrind])?;
    build::everything(project)?;
    let under = [
        "valgrind",
        "--quiet",
        "--error-exitcode=1",
        "--leak-check=full",
        "--errors-for-leak-kinds=definite",
    ];
    packages::replay(project, every, &project.target.join("drivers"), &under)
}
