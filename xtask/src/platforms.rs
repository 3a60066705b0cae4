//! `cargo xtask platforms`: the library and the tool on other operating systems than this one.
//!
//! Programs for Windows run under Wine, those for musl on this machine. Nothing here can run those
//! for macOS, which are only linked.

use crate::packages;
use anyhow::{Context, Result, ensure};
use lexopt::Parser;
use lexopt::prelude::*;
use std::path::Path;
use tooling::platform::{ALL, Builder, FRONT_ENDS, MACOS, MUSL, MUSL_AARCH64, WINDOWS};
use tooling::project::Project;
use tooling::tools::{self, Tool};
use tooling::{Tally, libtest, windows};

/// The extension module of the Python package.
const EXTENSION: [&str; 2] = ["--package", "cntk-reader-python"];

/// The tests of the command-line tool.
const TOOL: [&str; 3] = ["--package", "cntk-reader-cli", "--tests"];

/// Leaves out the test of an instruction that unoptimized code does not use.
const FUSED: [&str; 3] = ["--", "--skip", "all_values_equal_quotients"];

/// A property has this many random cases: programs start slowly under Wine.
const CASES: &str = "8";

/// Runs everything for the named platforms, or for all.
pub fn command(project: &Project, mut parser: Parser) -> Result<()> {
    let mut chosen = Vec::new();
    while let Some(argument) = parser.next()? {
        match argument {
            Value(name) => {
                let known = ALL.into_iter().find(|platform| name == platform.name);
                let names = ALL.map(|platform| platform.name).join(", ");
                chosen.push(
                    known.with_context(|| {
                        format!("There is no platform '{}', only {names}.", name.display())
                    })?,
                );
            }
            option => return Err(option.unexpected().into()),
        }
    }
    let mut tally = Tally::default();
    for platform in if chosen.is_empty() { ALL.to_vec() } else { chosen } {
        say!("{} ({})", platform.name, platform.target);
        let builder = Builder::new(project, platform)?;
        tally = tally.and(match platform {
            WINDOWS => on_windows(project, &builder)?,
            MUSL | MUSL_AARCH64 => on_musl(project, &builder)?,
            _ => on_macos(&builder)?,
        });
    }
    say!("\n{tally}");
    ensure!(tally.failed == 0, "Checks failed.");
    Ok(())
}

/// The step `platforms`: checks that the library, the tool and the Python extension module compile
/// for other systems.
pub fn step(project: &Project) -> Result<Tally> {
    let mut tally = Tally::default();
    for platform in [MUSL, WINDOWS, MACOS] {
        let builder = match Builder::new(project, platform) {
            Ok(builder) => builder,
            Err(reason) => {
                tally = tally.and(Tally::skipped(format!("{}: {reason:#}", platform.name))?);
                continue;
            }
        };
        let check = builder.cargo("check").args(FRONT_ENDS).args(EXTENSION);
        project.part(platform.target, || check.go())?;
        tally = tally.and(Tally::passed(1)?);
    }
    Ok(tally)
}

fn on_windows(project: &Project, builder: &Builder<'_>) -> Result<Tally> {
    // Compiling takes minutes, so what is missing is said before.
    tools::need(project, &[Tool::CMake])?;
    builder.prepare_wine()?;
    let built = builder.release()?;
    let dist = project.part("the library for C and C++", || windows::install(project, builder, &built))?;
    tool(project, builder, &built.join("cntk-reader.exe"))?;
    project.part("the program of the README, under Wine", || {
        windows::check_readme(project, builder, &dist, &builder.folder().join("readme"))
    })?;
    let driver = project.part("the driver of golden records", || {
        let source = project.path("cpp_tests/replay.cpp");
        windows::compile(project, &dist, &source, &builder.folder().join("replay"))
    })?;
    let wine = tools::wine().context("Wine is gone")?;
    let folder = driver.parent().context("a driver has a folder")?;
    let variables = builder.wine_variables().map(|(name, value)| format!("{name}={value}"));
    let under = ["env", &variables[0], &variables[1], &wine];
    let records = project.part("golden records through the C++ header, under Wine", || {
        packages::replay(project, 1, folder, &under)
    })?;
    say!("      {records}");
    // The other tests of the library's crates need the files and the functions of Linux.
    let library = packages::library().chain(["--lib"]).collect::<Vec<_>>();
    let tests = tests(project, builder, "Rust tests of the library", &library)?;
    let tool = self::tests(project, builder, "Rust tests of the tool", &TOOL)?;
    Tally::passed(3).map(|passed| passed.and(records).and(tests).and(tool))
}

/// Builds and tries the static tool. This machine also runs the Rust tests with musl; the emulator
/// of 64-bit ARM runs them with glibc, in `cargo xtask port`.
fn on_musl(project: &Project, builder: &Builder<'_>) -> Result<Tally> {
    let program = builder.release()?.join("cntk-reader");
    let headers = project.run("readelf").args(["--program-headers", "--wide"]).arg(&program).output()?;
    ensure!(!headers.contains("INTERP"), "{} needs a dynamic linker.", program.display());
    tool(project, builder, &program)?;
    let passed = Tally::passed(2)?;
    if builder.platform() != MUSL {
        return Ok(passed);
    }
    let all = packages::library().chain(TOOL).chain(["--lib", "--bins"]).collect::<Vec<_>>();
    Ok(passed.and(tests(project, builder, "Rust tests", &all)?))
}

fn on_macos(builder: &Builder<'_>) -> Result<Tally> {
    let built = builder.release()?;
    for name in ["cntk-reader", "libcntk_reader_clib.dylib"] {
        let bytes = std::fs::read(built.join(name)).with_context(|| format!("reading {name}"))?;
        // The magic number of 64-bit programs and libraries, and that of the processor.
        let is_right = bytes.starts_with(&[0xcf, 0xfa, 0xed, 0xfe, 0x0c, 0, 0, 1]);
        ensure!(is_right, "{name} is nothing that macOS on arm64 loads.");
    }
    Tally::passed(2)
}

/// Runs chosen Rust tests.
fn tests(project: &Project, builder: &Builder<'_>, what: &str, chosen: &[&str]) -> Result<Tally> {
    let test = builder.cargo("test").args(chosen).arg("--no-fail-fast");
    let test = test.env("CARGO_PROFILE_DEV_OPT_LEVEL", "0").env("PROPTEST_CASES", CASES);
    // Unoptimized code calls the C library's `fmaf`, which rounds wrongly; `windows::install` checks
    // that released code does not.
    let test = test.args((builder.platform() == WINDOWS).then_some(FUSED).into_iter().flatten());
    let tally = project.part(what, || Ok(libtest(&test.go()?)))?;
    say!("      {tally}");
    Ok(tally)
}

/// Compares what the tool prints with what this machine's own tool prints.
fn tool(project: &Project, builder: &Builder<'_>, program: &Path) -> Result<()> {
    let commands: [&[&str]; 3] = [
        &["info", "examples/data/digits.train.ctf"],
        &["head", "-n", "3", "examples/data/digits.train.ctf"],
        &["validate", "examples/data/digits.train.ctf"],
    ];
    project.part("the tool", || {
        for command in commands {
            let own = project.cargo("run").args(["--quiet", "--package", "cntk-reader-cli", "--"]);
            let native = own.args(command).output()?;
            let printed = builder.run(program).args(command).output()?.replace("\r\n", "\n");
            ensure!(
                printed == native,
                "`cntk-reader {}` printed\n{printed}\ninstead of\n{native}",
                command.join(" ")
            );
        }
        Ok(())
    })
}
