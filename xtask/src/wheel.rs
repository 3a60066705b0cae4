//! `cargo xtask wheel`: the Python package with its extension module and the command-line tool, as
//! one file for CPython 3.9 and newer; and the checks that make its name true: what the programs in
//! it ask of a system is what the platform in the name promises.

use anyhow::{Context, Result, bail, ensure};
use lexopt::Parser;
use lexopt::prelude::*;
use std::path::{Path, PathBuf};
use tooling::project::{Project, empty_folder};
use tooling::run::Run;
use tooling::{cross, dist, portable, python};

mod aarch64;

/// The systems that a wheel is for, as in its name, but for the processor: glibc 2.17 or newer.
const PLATFORM: &str = "manylinux_2_17";

/// Packs wheels and source distributions.
const BACKEND: &str = "python/_build/backend.py";

/// Libraries that every such system has, of those that the standard of these names (PEP 600)
/// permits.
const PERMITTED: [&str; 6] =
    ["libc.so.6", "libdl.so.2", "libgcc_s.so.1", "libm.so.6", "libpthread.so.0", "librt.so.1"];

/// A wheel to make.
pub struct Wheel<'a> {
    /// The checkout.
    project: &'a Project,
    /// The checkout as it is built for the wheel's processor.
    built: &'a Project,
    /// The name of the wheel's platform.
    platform: String,
}

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
        (false, "x86_64") => Wheel::of(project).build_and_check()?,
        (false, "aarch64") => {
            let built = cross::aarch64(project)?;
            let wheel = Wheel::for_aarch64(project, &built).build_and_check()?;
            aarch64::run(project, &built, &wheel)?;
            wheel
        }
        (false, other) => bail!("There are wheels for x86_64 and aarch64, not for '{other}'"),
    };
    say!("{} ({:.1} MB)", file.display(), std::fs::metadata(&file)?.len() as f64 / 1e6);
    Ok(())
}

/// Builds the wheel for this machine's processor into target/wheel.
pub fn build(project: &Project) -> Result<PathBuf> {
    Wheel::of(project).build()
}

/// Checks the wheel for this machine's processor. Returns the number of checks.
pub fn check(project: &Project, wheel: &Path) -> Result<usize> {
    Wheel::of(project).check(wheel)
}

impl<'a> Wheel<'a> {
    fn of(project: &'a Project) -> Wheel<'a> {
        Wheel { project, built: project, platform: format!("{PLATFORM}_x86_64") }
    }

    fn for_aarch64(project: &'a Project, built: &'a Project) -> Wheel<'a> {
        Wheel { project, built, platform: format!("{PLATFORM}_{}", cross::PROCESSOR) }
    }

    fn build_and_check(&self) -> Result<PathBuf> {
        let wheel = self.build()?;
        say!("\n{} checks of the programs in it passed", self.check(&wheel)?);
        Ok(wheel)
    }

    fn build(&self) -> Result<PathBuf> {
        let built = self.built;
        let what = format!("extension and tool, release mode, into {}", built.shown("xtask"));
        let (extension, tool) =
            self.project.part(&what, || Ok((dist::extension(built)?, dist::tool_program(built)?)))?;
        // The guide installs the wheel that is there.
        for entry in std::fs::read_dir(folder(built)).into_iter().flatten().flatten() {
            if entry.path().extension().is_some_and(|extension| extension == "whl") {
                std::fs::remove_file(entry.path())?;
            }
        }
        let backend = backend(self.project, built)?.arg("--extension").arg(extension);
        let backend = backend.arg("--tool").arg(tool).args(["--platform", &self.platform]);
        packed(built, backend.args(["--strip", &built.binutil("strip")]))
    }

    /// Checks a wheel: its name, and the programs in it. Returns the number of checks.
    fn check(&self, wheel: &Path) -> Result<usize> {
        let (project, platform) = (self.project, &self.platform);
        let name = wheel.file_name().context("a wheel has a name")?.to_string_lossy();
        ensure!(name.ends_with(&format!("-cp39-abi3-{platform}.whl")), "{name} is not for {platform}");
        let scratch = self.built.target.join("xtask/wheel");
        unpack(project, wheel, &scratch)?;
        let mut programs = Vec::new();
        find_programs(&scratch, &mut programs)?;
        ensure!(programs.len() == 2, "{name} has {} programs, not an extension and a tool", programs.len());
        for program in &programs {
            check_program(project, program)?;
        }
        Ok(1 + 4 * programs.len())
    }
}

/// Unpacks a wheel into an empty folder.
fn unpack(project: &Project, wheel: &Path, folder: &Path) -> Result<()> {
    empty_folder(folder)?;
    let python = python::environment(project)?.map_err(anyhow::Error::msg)?;
    let run = project.run(&python.to_string_lossy()).args(["-m", "zipfile", "-e"]);
    run.arg(wheel).arg(folder).go().map(drop)
}

/// Packs the source distribution into target/wheel.
pub fn source(project: &Project) -> Result<PathBuf> {
    packed(project, backend(project, project)?)
}

/// The program that packs, into the folder `wheel` of the target folder that was built in: each
/// processor has one, because `pip` refuses wheels of others.
fn backend(project: &Project, built: &Project) -> Result<Run> {
    let python = python::environment(project)?.map_err(anyhow::Error::msg)?;
    let run = project.run(&python.to_string_lossy()).env("PYTHONDONTWRITEBYTECODE", "1");
    Ok(run.arg(BACKEND).arg(folder(built)))
}

fn packed(built: &Project, backend: Run) -> Result<PathBuf> {
    let name = backend.output()?;
    Ok(folder(built).join(name.trim()))
}

fn folder(built: &Project) -> PathBuf {
    built.target.join("wheel")
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

/// Checks that a program or library needs no newer or other libraries than the platform has, that
/// nothing in it leads to folders of this machine, and that it has no symbols for debuggers.
fn check_program(project: &Project, file: &Path) -> Result<()> {
    portable::check(project, file, None, portable::Age::Gcc5)?;
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
