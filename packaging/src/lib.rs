//! `cargo xtask package KIND`: builds packages with the standard tool of each kind, installs them
//! in an empty place, and uses them there as their users would.
//!
//! Each kind has a module with a function that builds its packages into target/packages/KIND and
//! tries them. [`tools`] installs the tools.

#[macro_use]
extern crate tooling;

mod archives;
mod bundle;
mod checksums;
mod conan;
mod conda;
mod crates;
mod linux;
mod nuget;
mod release;
mod source;
mod tools;
mod vcpkg;
mod windows;

use anyhow::{Context, Result, bail, ensure};
use lexopt::Parser;
use lexopt::prelude::*;
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tooling::project::{Project, empty_folder};
use tooling::python;

/// A kind of package.
struct Kind {
    /// Its name, and the name of its folder below target/packages.
    name: &'static str,
    /// Description of the packages, in lower case.
    what: &'static str,
    /// Builds the packages into an empty folder, installs them elsewhere, and tries them.
    make: fn(&Project, &Packages) -> Result<Made>,
}

/// The folder of the packages of one kind.
pub struct Packages {
    folder: PathBuf,
}

/// The packages of one kind.
pub struct Made {
    /// The files to publish.
    pub files: Vec<PathBuf>,
    /// One sentence for each trial.
    pub trials: Vec<String>,
}

/// All kinds, in the order in which `all` builds them.
const KINDS: &[Kind] = &[
    Kind {
        name: "tarball",
        what: "library, headers and tool for Linux in one folder, with bills of materials",
        make: linux::tarball::make,
    },
    Kind {
        name: "tarball-aarch64",
        what: "the same for 64-bit ARM, tried under an emulator",
        make: linux::tarball::make_aarch64,
    },
    Kind {
        name: "static-tool",
        what: "the tool without any needs, for x86-64 and 64-bit ARM",
        make: linux::static_tool::make,
    },
    Kind {
        name: "windows",
        what: "library, headers and tool for Windows, tried under Wine",
        make: windows::make,
    },
    Kind {
        name: "deb",
        what: "packages of Debian and Ubuntu: library, development files, tool, modules for CNTK",
        make: linux::deb::make,
    },
    Kind { name: "rpm", what: "the same for Fedora and its relatives", make: linux::rpm::make },
    Kind {
        name: "cinstall",
        what: "what `cargo cinstall` installs, compared with the library above",
        make: linux::cinstall::make,
    },
    Kind {
        name: "bare-python",
        what: "the Python wheel, in a Debian without compilers and Rust",
        make: linux::bare_python::make,
    },
    Kind { name: "crates", what: "crates for crates.io, ready to publish", make: crates::make },
    Kind { name: "nuget", what: "a NuGet package for .NET and Mono", make: nuget::make },
    Kind { name: "conan", what: "the recipe for Conan, with both kinds of libraries", make: conan::make },
    Kind { name: "conda", what: "the recipe for conda-forge", make: conda::make },
    Kind { name: "vcpkg", what: "the port for vcpkg", make: vcpkg::make },
];

/// The folder of the trials of packages, below the target folder.
const TRIALS: &str = "packaging/trials";

/// Where the project's sources are published.
const REPOSITORY: &str = env!("CARGO_PKG_REPOSITORY");

/// Runs the command named by the first argument, which `cargo xtask` passes on.
pub fn run(project: &Project, mut parser: Parser) -> Result<()> {
    let command = parser.value()?.string()?;
    match command.as_str() {
        "package" => package(project, parser),
        "release" => release::command(project, parser),
        unknown => bail!("There is no command '{unknown}'."),
    }
}

/// `package [KIND ...]`: builds and tries packages of these kinds, or lists the kinds.
fn package(project: &Project, mut parser: Parser) -> Result<()> {
    let mut chosen = Vec::new();
    while let Some(argument) = parser.next()? {
        match argument {
            Value(name) if name == "all" => chosen.extend(KINDS.iter().map(|kind| kind.name)),
            Value(name) => chosen.push(kind(&name.string()?)?.name),
            option => return Err(option.unexpected().into()),
        }
    }
    if chosen.is_empty() {
        bail!("Name the kinds of packages to build, or all:\n{}", list());
    }
    let project = Project { installs: true, ..project.clone() };
    each(chosen.into_iter(), |name| make(&project, kind(name)?).map(drop))
}

/// Makes everything that is named, also after a failure: it takes long. The error names what failed.
fn each<'a>(names: impl Iterator<Item = &'a str>, make: impl Fn(&'a str) -> Result<()>) -> Result<()> {
    let mut failed = Vec::new();
    for name in names {
        if let Err(error) = make(name) {
            say!("\n{name} failed: {error:#}\n");
            failed.push(name);
        }
    }
    ensure!(failed.is_empty(), "Failed, for the reasons above: {}.", failed.join(", "));
    Ok(())
}

/// Returns the kind with this name.
fn kind(name: &str) -> Result<&'static Kind> {
    let kind = KINDS.iter().find(|kind| name == kind.name);
    kind.with_context(|| format!("There is no kind '{name}'.\n{}", list()))
}

/// Builds and tries the packages of a kind, and prints what was done.
fn make(project: &Project, kind: &Kind) -> Result<Made> {
    say!("{}: {}", kind.name, kind.what);
    let folder = project.target.join("packages").join(kind.name);
    empty_folder(&folder)?;
    let packages = Packages { folder };
    let mut made = (kind.make)(project, &packages)?;
    if !made.files.is_empty() {
        checksums::write(&packages.folder, &made.files)?;
        let check = project.run("sha256sum").args(["--check", "--strict", "--quiet", checksums::NAME]);
        check.folder(&packages.folder).go()?;
        made.trials.push(format!("sha256sum --check {} passes.", checksums::NAME));
    }
    for file in &made.files {
        say!("      {} ({:.1} MB)", file.display(), std::fs::metadata(file)?.len() as f64 / 1e6);
    }
    for trial in &made.trials {
        say!("      {trial}");
    }
    // Each has copies of the library, which take gigabytes. After a failure they stay.
    empty_folder(&project.target.join(TRIALS))?;
    Ok(made)
}

/// Creates an empty folder for the trials of packages, outside the folder of the packages.
fn scratch(project: &Project, name: &str) -> Result<PathBuf> {
    let folder = project.target.join(TRIALS).join(name);
    empty_folder(&folder)?;
    Ok(folder)
}

/// Returns a Python with one package of PyPI, in a folder of this name.
fn python_with(project: &Project, name: &str, package: &str) -> Result<PathBuf> {
    python::environment_with(project, name, &[package])?.map_err(anyhow::Error::msg)
}

/// The commit of the checkout.
struct Commit {
    /// Its hash.
    id: String,
    /// Its time in seconds since 1970. Tools write it into their files in place of the current time
    /// (`SOURCE_DATE_EPOCH`): packages of one commit are the same bytes whenever they are built.
    seconds: String,
}

impl Commit {
    /// Returns the time of files in packages.
    fn time(&self) -> Result<SystemTime> {
        Ok(UNIX_EPOCH + Duration::from_secs(self.seconds.parse()?))
    }
}

fn commit(project: &Project) -> Result<Commit> {
    let text = project.run("git").args(["log", "-1", "--format=%H %ct"]).silent().output()?;
    let (id, seconds) = text.trim().split_once(' ').context("git knows no commit")?;
    Ok(Commit { id: id.to_owned(), seconds: seconds.to_owned() })
}

fn list() -> String {
    KINDS.iter().map(|kind| format!("  {:<16} {}\n", kind.name, kind.what)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    #[test]
    fn after_a_failure_the_others_are_made() {
        let made = RefCell::new(Vec::new());
        let make = |name| {
            made.borrow_mut().push(name);
            ensure!(name != "b" && name != "c", "no reason");
            Ok(())
        };
        let error = each(["a", "b", "c", "d"].into_iter(), make).expect_err("two failures");
        assert_eq!(error.to_string(), "Failed, for the reasons above: b, c.");
        assert_eq!(made.take(), ["a", "b", "c", "d"]);
        each(["a"].into_iter(), make).expect("no failure");
    }
}
