//! The Rust tests under sanitizers, with a standard library that is instrumented too.
//!
//! Rust's own distribution has its standard library only as it was compiled, and a sanitizer sees
//! nothing of what happens inside of it: ThreadSanitizer would take the hand-over in a channel for
//! a race. Debian has a current compiler together with the sources of its standard library, so
//! there it is compiled again. Building it takes an unstable option, which `RUSTC_BOOTSTRAP`
//! allows. The run-time libraries are those of the Clang with the compiler's LLVM.

use super::Kind;
use crate::packages;
use anyhow::Result;
use tooling::project::Project;
use tooling::run::Run;
use tooling::tools::{self, CLANG_OF_RUST, DEBIAN_CARGO, DEBIAN_RUSTC, Tool};
use tooling::{Tally, libtest};

/// The platform whose sanitizers are used.
const TARGET: &str = "x86_64-unknown-linux-gnu";

/// Tests that look at the memory and the pages of the process, of which the sanitizers have more
/// than the tests.
const OF_MEMORY: [&str; 4] = [
    "whole_pages_are_there_afterwards",
    "a_window_bounds_the_memory",
    "an_index_is_small",
    "readers_that_are_destroyed_leave_no_memory",
];

/// All tests but those of the documentation and [`OF_MEMORY`].
pub fn tests(project: &Project, kind: Kind) -> Result<Tally> {
    match tools::need(project, &[Tool::RustWithSources, Tool::Cxx]) {
        Ok(()) => run(project, kind),
        Err(reason) => Tally::skipped(format!("{reason:#}")),
    }
}

fn run(project: &Project, kind: Kind) -> Result<Tally> {
    let run = cargo(project, kind);
    let run = run.args(packages::library()).args(["--lib", "--tests", "--no-fail-fast"]);
    let run = match kind {
        // Every byte counts as not initialized that code without instrumentation writes: C code is
        // compiled by Clang, with it, but what is written in assembler cannot be.
        Kind::Memory => run.arg("--no-default-features"),
        _ => run,
    };
    let skipped = OF_MEMORY.iter().flat_map(|test| ["--skip", test]);
    Ok(libtest(&run.arg("--").args(skipped).go()?))
}

/// `cargo test` by Debian's Rust, everything instrumented.
fn cargo(project: &Project, kind: Kind) -> Run {
    let name = kind.name();
    let flags = format!(
        "-Zsanitizer={name} -Zexternal-clangrt -Clinker={CLANG_OF_RUST} -Clink-arg=-fsanitize={name} -Cforce-frame-pointers=yes"
    );
    let run = project.run(DEBIAN_CARGO).named("cargo").args(["test", "-Zbuild-std", "--target", TARGET]);
    let run = run.env("RUSTC", DEBIAN_RUSTC).env("RUSTC_BOOTSTRAP", "1").env("RUSTFLAGS", flags);
    let run =
        run.env("CC", CLANG_OF_RUST).env("CFLAGS", format!("-fsanitize={name} -fno-omit-frame-pointer"));
    let run = run.env("CARGO_TARGET_DIR", project.target.join("sanitize").join(name));
    let run = run.env("CARGO_INCREMENTAL", "0").env("CARGO_PROFILE_DEV_DEBUG", "line-tables-only");
    run.env("CARGO_TERM_COLOR", "never")
        .env("ASAN_OPTIONS", "detect_leaks=1")
        // The child of a fork has the memory of threads that do not exist in it.
        .env("TSAN_OPTIONS", "die_after_fork=0")
}
