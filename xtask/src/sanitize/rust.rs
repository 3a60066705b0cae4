//! Runs the Rust tests under sanitizers, with an instrumented standard library.
//!
//! Rust's own distribution has the standard library only precompiled, and sanitizers cannot see
//! into it: ThreadSanitizer would report the hand-over in a channel as a race. Debian has a current
//! compiler and the sources of its standard library, so the library is compiled again. This needs
//! an unstable option, which `RUSTC_BOOTSTRAP` enables. The sanitizer run-time libraries come from
//! the Clang with the compiler's LLVM.

use super::Kind;
use crate::packages;
use anyhow::Result;
use tooling::project::Project;
use tooling::run::Run;
use tooling::tools::{self, CLANG_OF_RUST, DEBIAN_CARGO, DEBIAN_RUSTC, Tool};
use tooling::{Tally, libtest};

/// The platform whose sanitizers are used.
const TARGET: &str = "x86_64-unknown-linux-gnu";

/// Tests that measure memory and pages of the process, of which sanitizers need more than the
/// tests.
const OF_MEMORY: [&str; 4] = [
    "whole_pages_are_there_afterwards",
    "window_bounds_the_memory",
    "index_is_small",
    "destroyed_readers_release_their_memory",
];

/// Runs all tests except the documentation tests and [`OF_MEMORY`].
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
        // Bytes written by uninstrumented code count as uninitialized: C code can be compiled with
        // instrumentation by Clang, assembler code cannot.
        Kind::Memory => run.arg("--no-default-features"),
        _ => run,
    };
    let skipped = OF_MEMORY.iter().flat_map(|test| ["--skip", test]);
    Ok(libtest(&run.arg("--").args(skipped).go()?))
}

/// Prepares `cargo test` with Debian's Rust and everything instrumented.
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
        // A forked child inherits the memory of threads that do not exist in it.
        .env("TSAN_OPTIONS", "die_after_fork=0")
}
