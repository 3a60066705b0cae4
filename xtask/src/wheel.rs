//! `cargo xtask wheel`: builds the Python package with the command-line tool inside as one file for
//! CPython 3.9 and newer, with maturin, and checks that the file is what its name says.
//!
//! Zig compiles and links wheels for users of Linux against the C library of the oldest supported
//! system, MinGW those for Windows. They share no object files with the compilers of other
//! commands, so tests build wheels for this machine only, except in their long form.

use anyhow::{Context, Result, bail, ensure};
use lexopt::Parser;
use lexopt::prelude::*;
use serde_json::Value;
use std::path::{Path, PathBuf};
use tooling::cross::{self, Cross};
use tooling::platform::{Builder, MUSL, MUSL_AARCH64, WINDOWS};
use tooling::project::{Project, empty_folder};
use tooling::run::Run;
use tooling::{dist, portable, python};

mod aarch64;
mod free_threaded;
mod licences;
mod musl;
mod windows;

/// Tools that build and check packages.
const TOOLS: [&str; 4] = ["abi3audit==0.0.26", "auditwheel==6.8.2", "maturin==1.16.0", "twine==7.0.0"];

/// The C compiler and linker of wheels for other systems than this one.
const ZIG: &str = "ziglang==0.17.1";

/// The oldest systems that such a wheel supports: glibc 2.17.
const OLDEST: &str = "manylinux_2_17";

/// The oldest systems with musl.
const OLDEST_MUSL: &str = "musllinux_1_2";

/// This machine's target.
const OWN: &str = "x86_64-unknown-linux-gnu";

/// A wheel to build.
pub struct Wheel<'a> {
    project: &'a Project,
    system: System<'a>,
    /// Whether it is for users, not only for this machine.
    is_portable: bool,
}

/// The system that a wheel is for, with what builds it there.
enum System<'a> {
    /// This machine's.
    Own,
    /// The compiler and the emulator for another processor.
    Aarch64(Cross),
    Windows(Builder<'a>),
    Musl(Builder<'a>),
}

/// Builds the wheel, or the source distribution.
pub fn command(project: &Project, mut parser: Parser) -> Result<()> {
    let (mut is_source, mut target, mut free) = (false, "x86_64".to_owned(), None);
    while let Some(argument) = parser.next()? {
        match argument {
            Long("sdist") => is_source = true,
            Long("target") => target = parser.value()?.string()?,
            Long("free-threaded") => free = Some(PathBuf::from(parser.value()?)),
            option => return Err(option.unexpected().into()),
        }
    }
    let portable = |system| Wheel { project, system, is_portable: true };
    let file = match (is_source, target.as_str()) {
        (true, _) => source(project)?,
        (false, "x86_64") if free.is_some() => free_threaded::build(project, OWN, &free.unwrap_or_default())?,
        (false, "x86_64") => portable(System::Own).build_and_check()?,
        (false, cross::PROCESSOR) => {
            let cross = cross::without_compiler(project)?;
            let file = portable(System::Aarch64(cross.clone())).build_and_check()?;
            aarch64::run(project, &cross, &file, &project.target.join(cross::PROCESSOR))?;
            file
        }
        (false, "windows") => portable(System::Windows(Builder::new(project, WINDOWS)?)).build_and_check()?,
        (false, "musl") => portable(System::Musl(Builder::new(project, MUSL)?)).build_and_check()?,
        (false, "musl-aarch64") => {
            portable(System::Musl(Builder::new(project, MUSL_AARCH64)?)).build_and_check()?
        }
        (false, other) => {
            bail!("There are wheels for x86_64, aarch64, musl, musl-aarch64 and windows, not for '{other}'")
        }
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
    /// The wheel that tests use.
    fn of(project: &'a Project) -> Wheel<'a> {
        Wheel { project, system: System::Own, is_portable: !project.quick || project.long }
    }

    fn build_and_check(&self) -> Result<PathBuf> {
        let wheel = self.build()?;
        say!("\n{} checks of it passed", self.check(&wheel)?);
        Ok(wheel)
    }

    fn target(&self) -> &'static str {
        match &self.system {
            System::Own => OWN,
            System::Aarch64(_) => cross::TARGET,
            System::Windows(builder) | System::Musl(builder) => builder.platform().target,
        }
    }

    /// Returns the platform in its name.
    fn platform(&self) -> String {
        let linux = if self.is_portable { OLDEST } else { "linux" };
        match &self.system {
            System::Own => format!("{linux}_x86_64"),
            System::Aarch64(_) => format!("{linux}_{}", cross::PROCESSOR),
            System::Windows(_) => "win_amd64".to_owned(),
            System::Musl(builder) => {
                let processor = builder.platform().target.split('-').next().unwrap_or_default();
                format!("{OLDEST_MUSL}_{processor}")
            }
        }
    }

    /// Each platform has its own folder, because `pip` rejects wheels for others.
    fn folder(&self) -> PathBuf {
        let target = &self.project.target;
        match &self.system {
            System::Own => target.join("wheel"),
            System::Aarch64(_) => target.join(cross::PROCESSOR).join("wheel"),
            System::Windows(builder) | System::Musl(builder) => {
                target.join(builder.platform().name).join("wheel")
            }
        }
    }

    fn build(&self) -> Result<PathBuf> {
        let (project, folder) = (self.project, self.folder());
        // The guide installs whatever wheel is in the folder.
        for old in wheels(&folder)? {
            std::fs::remove_file(old)?;
        }
        licences::write(project, self.target())?;
        let with_zig = self.is_portable && !matches!(self.system, System::Windows(_));
        let maturin = maturin(project, with_zig)?.arg("build").arg("--release").arg("--out").arg(&folder);
        let maturin = match &self.system {
            System::Own => maturin,
            System::Aarch64(cross) => cross.compile_by(maturin).args(["--target", self.target()]),
            System::Windows(builder) | System::Musl(builder) => {
                builder.configure(maturin).args(["--target", self.target()])
            }
        };
        let maturin = match &self.system {
            System::Windows(_) => maturin.env("PYO3_CONFIG_FILE", windows::configuration(project)?),
            System::Musl(_) => {
                maturin.args(["--zig", "--auditwheel", "check", "--compatibility", OLDEST_MUSL])
            }
            _ if self.is_portable => {
                maturin.args(["--zig", "--auditwheel", "check", "--compatibility", OLDEST])
            }
            // If it keeps its symbols, the crate is the one that cargo has compiled for the
            // checkout.
            _ => maturin.args(["--compatibility", "linux", "--strip", "false"]),
        };
        project.part(&format!("wheel for {}, release mode", self.platform()), || maturin.go())?;
        wheels(&folder)?.pop().context("maturin has made no wheel")
    }

    /// Checks a wheel: its name, its description, and its extension module's use of Python's ABI.
    /// For a user's wheel, also checks its use of the system's libraries, and that nothing in it
    /// contains folders of this machine, as debug symbols do. Returns the number of checks.
    fn check(&self, wheel: &Path) -> Result<usize> {
        let (project, platform) = (self.project, self.platform());
        let name = wheel.file_name().context("a wheel has a name")?.to_string_lossy();
        let (_, tag) =
            name.split_once("-cp39-abi3-").with_context(|| format!("{name} is not for all Pythons"))?;
        ensure!(tag.split('.').any(|known| known == platform), "{name} is not for {platform}");
        twine(project, wheel)?;
        let files = tool(project, "python")?.args(["-m", "zipfile", "-l"]);
        let files = files.arg(wheel).output()?;
        for shared in ["man/man1/cntk-reader.1", "bash-completion/completions/cntk-reader"] {
            ensure!(files.contains(&format!(".data/data/share/{shared}")), "{name} has no {shared}");
        }
        tool(project, "abi3audit")?.args(["--strict", "--verbose"]).arg(wheel).go()?;
        if !self.is_portable {
            return Ok(4);
        }
        let scratch = project.target.join("xtask/wheel");
        unpack(project, wheel, &scratch)?;
        let home = std::env::var_os("HOME").map(PathBuf::from);
        let mut folders = vec![portable::text(&project.root)?, portable::text(&project.target)?];
        folders.extend(home.iter().map(|home| portable::text(home)).collect::<Result<Vec<_>>>()?);
        // `/` is everywhere.
        folders.retain(|folder| folder.len() > 1);
        let texts = folders.iter().flat_map(|folder| ["-e", folder]);
        let search = project.run("find").arg(&scratch).args(["-type", "f", "-exec", "grep", "-lF"]);
        let found = search.args(texts).args(["{}", ";"]).output()?;
        ensure!(
            found.is_empty(),
            "Files in {name} name folders of this machine ({}):\n{found}",
            folders.join(", ")
        );
        match &self.system {
            System::Own | System::Aarch64(_) => auditwheel(project, wheel, &platform)?,
            System::Windows(_) => windows::check(project, &scratch)?,
            System::Musl(builder) => {
                musl::auditwheel(project, wheel, &platform)?;
                // This machine has musl for its own processor only.
                if builder.platform() == MUSL {
                    musl::check(project, &scratch)?;
                }
            }
        }
        Ok(6)
    }
}

/// Prepares to run one of [`TOOLS`], or their Python.
fn tool(project: &Project, name: &str) -> Result<Run> {
    Ok(project.run(&tools(project)?.join(name).to_string_lossy()).named(name))
}

/// Checks a wheel's description.
fn twine(project: &Project, wheel: &Path) -> Result<()> {
    tool(project, "twine")?.args(["check", "--strict"]).arg(wheel).go().map(drop)
}

/// Checks that a wheel asks the system for no more than its platform has.
fn auditwheel(project: &Project, wheel: &Path, platform: &str) -> Result<()> {
    let audit = audit(project, wheel, &[])?;
    let name = wheel.display();
    ensure!(audit["overall_tag"] == *platform, "{name} is not for {platform}. auditwheel says:\n{audit:#}");
    Ok(())
}

/// Returns auditwheel's description of a wheel.
fn audit(project: &Project, wheel: &Path, options: &[&str]) -> Result<Value> {
    let audit = tool(project, "auditwheel")?.args(["show", "--json"]).args(options).arg(wheel).output()?;
    serde_json::from_str(&audit).context("auditwheel has not printed JSON")
}

/// Unpacks a wheel into an empty folder.
fn unpack(project: &Project, wheel: &Path, folder: &Path) -> Result<()> {
    empty_folder(folder)?;
    let run = tool(project, "python")?.args(["-m", "zipfile", "-e"]);
    run.arg(wheel).arg(folder).go().map(drop)
}

/// Builds the source distribution into target/wheel.
pub fn source(project: &Project) -> Result<PathBuf> {
    licences::write(project, OWN)?;
    let folder = project.target.join("wheel");
    maturin(project, false)?.arg("sdist").arg("--out").arg(&folder).go()?;
    let mut found = with_extension(&folder, "gz")?;
    found.pop().context("maturin has made no source distribution")
}

/// Prepares to run maturin in the folder of the package, with cargo as in other commands, to share
/// compiled code.
fn maturin(project: &Project, with_zig: bool) -> Result<Run> {
    let run =
        tool(project, "maturin")?.folder(&project.path("python")).env("CARGO_TARGET_DIR", &project.target);
    let run = run.envs(&dist::release_variables(project));
    if !with_zig {
        return Ok(run);
    }
    // maturin calls it as a module of the first Python on the path.
    let zig = python::environment_with(project, "zig", &[ZIG])?.map_err(anyhow::Error::msg)?;
    Ok(run.env("PATH", tooling::tools::path_with(&zig.with_file_name(""))))
}

/// Returns the folder of maturin and the tools for checks.
pub fn tools(project: &Project) -> Result<PathBuf> {
    let python = python::environment_with(project, "wheel", &TOOLS)?.map_err(anyhow::Error::msg)?;
    Ok(python.with_file_name(""))
}

fn wheels(folder: &Path) -> Result<Vec<PathBuf>> {
    with_extension(folder, "whl")
}

/// Returns the files in a folder with this extension.
fn with_extension(folder: &Path, extension: &str) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten() {
        let path = entry?.path();
        if path.extension().is_some_and(|own| own == extension) {
            found.push(path);
        }
    }
    Ok(found)
}
