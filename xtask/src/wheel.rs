//! `cargo xtask wheel`: the Python package with the library and the command-line tool inside, as one file for every Python 3; and
//! the checks that make its name true: what the programs in it ask of a system is what the platform in the name promises.

use crate::project::{Project, empty_folder};
use crate::run::Run;
use crate::{dist, portable, python};
use anyhow::{Context, Result, bail, ensure};
use lexopt::Parser;
use lexopt::prelude::*;
use std::path::{Path, PathBuf};

mod aarch64;

/// The systems that the wheel is for, as in its name: glibc 2.17 or newer.
const PLATFORM: &str = "manylinux_2_17_x86_64";

/// Packs wheels and source distributions.
const BACKEND: &str = "python/_build/backend.py";

/// Libraries that every such system has, of those that the standard of these names (PEP 600) permits.
const PERMITTED: [&str; 6] =
    ["libc.so.6", "libdl.so.2", "libgcc_s.so.1", "libm.so.6", "libpthread.so.0", "librt.so.1"];

/// Makes the wheel, or the source distribution.
pub fn command(project: &Project, mut parser: Parser) -> Result<()> {
    let (mut is_source, mut processor) = (false, "x86_64".to_owned());
    while let Some(argument) = parser.next()? {
        match argument {
            Long("sdist") => is_source = true,
            Long("target") => processor = parser.value()?.string()?,
            option => return Err(option.unexpected().into()),
        }
    }
    let file = match (is_source, processor.as_str()) {
        (true, _) => source(project)?,
        (false, "x86_64") => {
            let wheel = build(project)?;
            println!("\n{} checks of the programs in it passed", check(project, &wheel)?);
            wheel
        }
        (false, "aarch64") => aarch64::build(project)?,
        (false, other) => bail!("There are wheels for x86_64 and aarch64, not for '{other}'"),
    };
    println!("{} ({:.1} MB)", file.display(), std::fs::metadata(&file)?.len() as f64 / 1e6);
    Ok(())
}

/// Builds the wheel into target/wheel.
pub fn build(project: &Project) -> Result<PathBuf> {
    let dist = project.part("library and tool, release mode, into target/dist", || {
        let dist = dist::build(project)?;
        dist::tool(project, &dist)?;
        Ok(dist)
    })?;
    let backend = backend(project)?.arg("--library").arg(dist.library());
    let backend = backend.arg("--tool").arg(dist.folder.join("bin/cntk-reader"));
    packed(project, backend.args(["--platform", PLATFORM]))
}

/// Packs the source distribution into target/wheel.
pub fn source(project: &Project) -> Result<PathBuf> {
    packed(project, backend(project)?)
}

/// The program that packs into target/wheel.
fn backend(project: &Project) -> Result<Run> {
    let python = python::environment(project)?.map_err(anyhow::Error::msg)?;
    let run = project.run(&python.to_string_lossy()).env("PYTHONDONTWRITEBYTECODE", "1");
    Ok(run.arg(BACKEND).arg(folder(project)))
}

fn packed(project: &Project, backend: Run) -> Result<PathBuf> {
    let name = backend.output()?;
    Ok(folder(project).join(name.trim()))
}

fn folder(project: &Project) -> PathBuf {
    project.target.join("wheel")
}

/// Checks a wheel: its name, and the programs in it. Returns the number of checks.
pub fn check(project: &Project, wheel: &Path) -> Result<usize> {
    let name = wheel.file_name().context("a wheel has a name")?.to_string_lossy();
    ensure!(name.ends_with(&format!("-py3-none-{PLATFORM}.whl")), "{name} is not for {PLATFORM}");
    let scratch = project.target.join("xtask/wheel");
    empty_folder(&scratch)?;
    let python = python::environment(project)?.map_err(anyhow::Error::msg)?;
    let run = project.run(&python.to_string_lossy()).args(["-m", "zipfile", "-e"]);
    run.arg(wheel).arg(&scratch).go()?;
    let mut programs = Vec::new();
    find_programs(&scratch, &mut programs)?;
    ensure!(programs.len() == 2, "{name} has {} programs, not a library and a tool", programs.len());
    for program in &programs {
        check_program(project, program)?;
    }
    Ok(1 + 4 * programs.len())
}

/// Finds the files below a folder that begin as programs and libraries of Linux do.
fn find_programs(folder: &Path, found: &mut Vec<PathBuf>) -> Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            find_programs(&path, found)?;
        } else if std::fs::read(&path)?.starts_with(b"\x7fELF") {
            found.push(path);
        }
    }
    Ok(())
}

/// Checks that a program or library needs no newer or other libraries than the platform has, that nothing in it leads to folders of
/// this machine, and that it has no symbols for debuggers.
fn check_program(project: &Project, file: &Path) -> Result<()> {
    portable::check(project, file, None)?;
    let name = file.display();
    let dynamic = project.run("readelf").args(["--dynamic", "--wide"]).arg(file).output()?;
    for line in dynamic.lines() {
        ensure!(!line.contains("(RPATH)") && !line.contains("(RUNPATH)"), "{name} searches in {line}");
        if line.contains("(NEEDED)") {
            let library = line.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
            let library = library.context("readelf's output is not understood")?.0;
            ensure!(PERMITTED.contains(&library), "{name} needs {library}");
        }
    }
    let sections = project.run("readelf").args(["--section-headers", "--wide"]).arg(file).output()?;
    ensure!(sections.contains(".dynsym"), "readelf's output is not understood");
    for section in [".symtab", ".debug_line"] {
        ensure!(!sections.contains(section), "{name} has the section {section}, which only debuggers need");
    }
    let content = std::fs::read(file)?;
    let home = std::env::var("HOME").ok().map(PathBuf::from);
    for folder in home.iter().chain([&project.root]) {
        let text = portable::text(folder)?;
        // `/` is everywhere.
        let found = text.len() > 1 && content.windows(text.len()).any(|window| window == text.as_bytes());
        ensure!(!found, "{name} names the folder {text} of this machine");
    }
    Ok(())
}
