//! `cargo xtask platforms`: the library and the tool on other operating systems than this one.
//!
//! Programs for Windows run under Wine, those for musl on this machine. Nothing here can run those
//! for macOS, which are only linked.

use crate::packages;
use anyhow::{Context, Result, ensure};
use lexopt::Parser;
use lexopt::prelude::*;
use std::path::{Path, PathBuf};
use tooling::consumers::{CMAKE_PROJECT, Readme};
use tooling::dist::{self, Dist, Layout};
use tooling::platform::{ALL, Builder, MACOS, MUSL, WINDOWS};
use tooling::project::{Project, empty_folder};
use tooling::tools;
use tooling::{Tally, libtest};

/// The packages of the library for C and of the tool.
const FRONT_ENDS: [&str; 4] = ["--package", "cntk-reader-clib", "--package", "cntk-reader-cli"];

/// The extension module of the Python package.
const EXTENSION: [&str; 2] = ["--package", "cntk-reader-python"];

/// Libraries of Windows that Rust's standard library needs.
const WINDOWS_LIBRARIES: [&str; 6] =
    ["-lkernel32", "-lntdll", "-luserenv", "-lws2_32", "-ldbghelp", "-lbcrypt"];

/// The compiler for Windows; its other variant lacks C++ threads.
const CXX: &str = "x86_64-w64-mingw32-g++-posix";

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
            WINDOWS => windows(project, &builder)?,
            MUSL => musl(project, &builder)?,
            _ => macos(project, &builder)?,
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
    for platform in [WINDOWS, MACOS] {
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

fn windows(project: &Project, builder: &Builder<'_>) -> Result<Tally> {
    builder.prepare_wine()?;
    let built = release(project, builder)?;
    let library = project.part("the library for C and C++", || dll(project, builder, &built))?;
    tool(project, builder, &built.join("cntk-reader.exe"))?;
    project.part("the program of the README, under Wine", || readme(project, builder, &library))?;
    let driver = project.part("the driver of golden records", || {
        let source = project.path("cpp_tests/replay.cpp");
        compile(project, &library, &source, &library.join("replay"))
    })?;
    let wine = tools::wine().context("Wine is gone")?;
    let folder = driver.parent().context("a driver has a folder")?;
    let variables = builder.wine_variables().map(|(name, value)| format!("{name}={value}"));
    let under = ["env", &variables[0], &variables[1], &wine];
    let records = project.part("golden records through the C++ header, under Wine", || {
        packages::replay(project, 1, folder, &under)
    })?;
    say!("      {records}");
    let tests = tests(project, builder, &["--lib"])?;
    Tally::passed(3).map(|passed| passed.and(records).and(tests))
}

fn musl(project: &Project, builder: &Builder<'_>) -> Result<Tally> {
    let built = release(project, builder)?;
    let program = built.join("cntk-reader");
    let headers = project.run("readelf").args(["--program-headers", "--wide"]).arg(&program).output()?;
    ensure!(!headers.contains("INTERP"), "{} needs a dynamic linker.", program.display());
    tool(project, builder, &program)?;
    let tests = tests(project, builder, &["--lib", "--bins", "--tests"])?;
    Tally::passed(2).map(|passed| passed.and(tests))
}

fn macos(project: &Project, builder: &Builder<'_>) -> Result<Tally> {
    let built = release(project, builder)?;
    for name in ["cntk-reader", "libcntk_reader_clib.dylib"] {
        let bytes = std::fs::read(built.join(name)).with_context(|| format!("reading {name}"))?;
        // The magic number of 64-bit programs and libraries, and that of the processor.
        let is_right = bytes.starts_with(&[0xcf, 0xfa, 0xed, 0xfe, 0x0c, 0, 0, 1]);
        ensure!(is_right, "{name} is nothing that macOS on arm64 loads.");
    }
    Tally::passed(2)
}

/// Builds the library and the tool in release mode. Returns their folder.
fn release(project: &Project, builder: &Builder<'_>) -> Result<PathBuf> {
    let build = builder.cargo("build").arg("--release").args(FRONT_ENDS);
    project.part("library and tool, release mode", || build.go())?;
    Ok(builder.built("release"))
}

/// Runs the tests of the library's crates.
fn tests(project: &Project, builder: &Builder<'_>, kinds: &[&str]) -> Result<Tally> {
    let test = builder.cargo("test").args(packages::library()).args(kinds).arg("--no-fail-fast");
    let test = test.env("CARGO_PROFILE_DEV_OPT_LEVEL", "0").env("PROPTEST_CASES", CASES);
    // Unoptimized code calls the C library's `fmaf`, which rounds wrongly; `dll` checks that released
    // code does not.
    let test = test.args((builder.platform() == WINDOWS).then_some(FUSED).into_iter().flatten());
    let tally = project.part("Rust tests", || Ok(libtest(&test.go()?)))?;
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

/// Links the library for Windows, `bin/cntk_reader.dll` with its import libraries for MinGW and for
/// Microsoft's linker, beside the headers. Returns the folder.
fn dll(project: &Project, builder: &Builder<'_>, built: &Path) -> Result<PathBuf> {
    let folder = builder.folder().join("dist");
    empty_folder(&folder)?;
    for part in ["bin", "lib"] {
        std::fs::create_dir_all(folder.join(part))?;
    }
    project.run("cp").arg("-r").arg(project.path("include")).arg(folder.join("include")).go()?;
    let archive = built.join("libcntk_reader_clib.a");
    let nm = project.run("x86_64-w64-mingw32-nm").args(["--extern-only", "--defined-only", "--format=posix"]);
    let symbols = nm.arg(&archive).output()?;
    let names = symbols.lines().filter_map(|line| line.split_whitespace().next());
    let mut names: Vec<&str> = names.filter(|name| name.starts_with("cntk_reader_")).collect();
    names.sort_unstable();
    ensure!(!names.is_empty(), "{} exports nothing.", archive.display());
    let definition = folder.join("lib/cntk_reader.def");
    std::fs::write(&definition, format!("LIBRARY cntk_reader.dll\nEXPORTS\n  {}\n", names.join("\n  ")))?;
    let import = folder.join("lib/libcntk_reader.dll.a");
    let library = folder.join("bin/cntk_reader.dll");
    let link = project.run("x86_64-w64-mingw32-gcc").args(["-shared", "-static-libgcc", "-o"]);
    let link = link.arg(&library).arg(&definition).arg(&archive);
    link.arg(format!("-Wl,--out-implib={}", import.display())).args(WINDOWS_LIBRARIES).go()?;
    // The C library's `fmaf` rounds wrongly: the processor's instruction has to be there instead.
    let names = project.run("x86_64-w64-mingw32-nm").arg("--format=posix").arg(&library).output()?;
    let wrong = names.lines().find(|line| line.starts_with("fmaf "));
    ensure!(wrong.is_none(), "{} has {}.", library.display(), wrong.unwrap_or_default());
    project.run("x86_64-w64-mingw32-strip").arg(&library).go()?;
    let tool = project.run("x86_64-w64-mingw32-dlltool").args(["-D", "cntk_reader.dll", "-d"]);
    tool.arg(&definition).arg("-l").arg(folder.join("lib/cntk_reader.lib")).go()?;
    std::fs::copy(built.join("cntk-reader.exe"), folder.join("bin/cntk-reader.exe"))?;
    let (version, abi) = (dist::version(project)?, dist::abi(project)?);
    let layout = Layout { lib: "lib", prefix: None };
    dist::package(project, &Dist { folder: folder.clone(), version, abi }, &layout, &folder.join("lib"))?;
    Ok(folder)
}

/// Compiles a C++ program against the library for Windows, which is copied beside it.
fn compile(project: &Project, library: &Path, source: &Path, folder: &Path) -> Result<PathBuf> {
    empty_folder(folder)?;
    std::fs::copy(library.join("bin/cntk_reader.dll"), folder.join("cntk_reader.dll"))?;
    let name = source.file_stem().context("a source has a name")?;
    let program = folder.join(name);
    let run = project.run(CXX).args(["-std=c++17", "-O1", "-static", "-I"]);
    let run = run.arg(library.join("include")).arg(source).arg("-o").arg(program.with_extension("exe"));
    run.arg(library.join("lib/libcntk_reader.dll.a")).go()?;
    std::fs::rename(program.with_extension("exe"), &program)?;
    Ok(program)
}

/// Builds the README's program with CMake, and compares what it prints.
fn readme(project: &Project, builder: &Builder<'_>, library: &Path) -> Result<()> {
    let (readme, folder) = (Readme::read(project)?, builder.folder().join("readme"));
    empty_folder(&folder)?;
    let source = folder.join("readme.cpp");
    std::fs::write(&source, &readme.cpp)?;
    let cmake = project.run("cmake").arg("-S").arg(project.path(CMAKE_PROJECT)).arg("-B").arg(&folder);
    let cmake = cmake.args(["-DCMAKE_SYSTEM_NAME=Windows", "-DCMAKE_EXE_LINKER_FLAGS=-static"]);
    let cmake = cmake.arg(format!("-DCMAKE_CXX_COMPILER={CXX}"));
    // Otherwise CMake looks for packages in the compiler's own folders alone.
    let cmake = cmake.arg(format!("-Dcntk_reader_DIR={}", library.join("lib/cmake/cntk_reader").display()));
    cmake.arg(format!("-DREADME_PROGRAM={}", source.display())).go()?;
    project.run("cmake").arg("--build").arg(&folder).go()?;
    std::fs::copy(library.join("bin/cntk_reader.dll"), folder.join("cntk_reader.dll"))?;
    let printed = builder.run(&folder.join("readme.exe")).output()?.replace("\r\n", "\n");
    readme.expect("The program", &printed)
}
