//! `cargo xtask release --dry-run`: from a clean checkout to all files of a release.
//!
//! Checks the version, the changelog and the ABI, builds and tries all packages, and gathers their
//! files under target/release-VERSION with their checksums. Nothing is published from here:
//! the workflow `release` publishes, after a maintainer has pushed a tag and approved it.

mod abi;
mod versions;

use crate::{KINDS, checksums, commit, each, kind, make};
use anyhow::{Context, Result, bail, ensure};
use lexopt::Parser;
use lexopt::prelude::*;
use std::path::{Path, PathBuf};
use tooling::dist;
use tooling::project::{Project, empty_folder};

/// Files of the Python package: the name for `--only`, the arguments of `cargo xtask`, and the
/// folder below the target folder and the ending of the file.
const PYTHON: [(&str, &[&str], &str, &str); 7] = [
    ("sdist", &["wheel", "--sdist"], "wheel", ".tar.gz"),
    ("wheel", &["wheel"], "wheel", ".whl"),
    ("wheel-free-threaded", &["wheel", "--free-threaded", "3.14"], "free-threaded", ".whl"),
    ("wheel-aarch64", &["wheel", "--target", "aarch64"], "aarch64/wheel", ".whl"),
    ("wheel-musl", &["wheel", "--target", "musl"], "musl/wheel", ".whl"),
    ("wheel-musl-aarch64", &["wheel", "--target", "musl-aarch64"], "musl-aarch64/wheel", ".whl"),
    ("wheel-windows", &["wheel", "--target", "windows"], "windows/wheel", ".whl"),
];

/// Endings of files whose names have the version.
const VERSIONED: [&str; 9] = [".crate", ".deb", ".gz", ".nupkg", ".rpm", ".whl", ".xz", ".zip", ".zst"];

/// Ending of bills of materials, which come with the tarball.
const BILL: &str = ".cdx.json";

/// Runs the checks and builds, or prints what would be built.
pub fn command(project: &Project, mut parser: Parser) -> Result<()> {
    let (mut is_dry, mut lists, mut reviewed_abi, mut only) = (false, false, false, Vec::new());
    while let Some(argument) = parser.next()? {
        match argument {
            Long("dry-run") => is_dry = true,
            Long("list") => lists = true,
            Long("reviewed-abi") => reviewed_abi = true,
            Long("only") => only.push(parser.value()?.string()?),
            option => return Err(option.unexpected().into()),
        }
    }
    let version = dist::version(project)?;
    let all: Vec<&str> =
        PYTHON.iter().map(|&(name, ..)| name).chain(KINDS.iter().map(|kind| kind.name)).collect();
    if lists {
        all.iter().for_each(|name| say!("{name}"));
        return Ok(());
    }
    if let Some(unknown) = only.iter().find(|name| !all.contains(&name.as_str())) {
        bail!("There is nothing called '{unknown}' in a release. It has {}.", all.join(", "));
    }
    if !is_dry {
        bail!(
            "Nothing is published from here. `cargo xtask release --dry-run` builds all files of \
             version {version}, and publishes none. The rest is up to a maintainer:\n{}",
            by_hand(&version, &dist::abi(project)?)
        );
    }
    let project = Project { installs: true, ..project.clone() };
    let state = State::of(&project)?;
    let notes = check(&project, &version, &state, reviewed_abi)?;
    let folder = project.target.join(format!("release-{version}"));
    empty_folder(&folder)?;
    let chosen = all.iter().filter(|name| only.is_empty() || only.iter().any(|chosen| chosen == *name));
    each(chosen.copied(), |name| {
        let made = match PYTHON.iter().find(|(python, ..)| *python == name) {
            Some((_, arguments, below, ending)) => {
                vec![python(&project, &version, &state, arguments, below, ending)?]
            }
            None => make(&project, kind(name)?)?.files,
        };
        made.iter().try_for_each(|file| gather(file, &folder, &version))
    })?;
    let has_bill = files(&folder)?.iter().any(|file| file.to_string_lossy().ends_with(BILL));
    ensure!(has_bill || !only.is_empty(), "No package has brought a bill of materials (*{BILL}).");
    // Beside the folder, because it is the text of the release and no file of it.
    std::fs::write(project.target.join(format!("release-{version}.md")), notes)?;
    let gathered = files(&folder)?;
    checksums::write(&folder, &gathered)?;
    say!("\n{} files with their checksums are in {}.", gathered.len(), folder.display());
    if !only.is_empty() {
        say!("Left out: {}.", without(&all, &only).join(", "));
    }
    if state.tags.is_empty() {
        say!("\nA maintainer does the rest:\n{}", by_hand(&version, &dist::abi(&project)?));
    }
    Ok(())
}

fn without<'a>(all: &[&'a str], only: &[String]) -> Vec<&'a str> {
    all.iter().copied().filter(|name| !only.iter().any(|chosen| chosen == name)).collect()
}

/// The commit that a release is made of.
struct State {
    /// Tags of releases at it.
    tags: Vec<String>,
    /// Its time in seconds, which tools write into their files in place of the current time.
    time: String,
}

impl State {
    /// Fails if a file differs from the commit.
    fn of(project: &Project) -> Result<State> {
        let git = |arguments: &[&str]| project.run("git").args(arguments).silent().output();
        let changed = git(&["status", "--porcelain", "--untracked-files=all"])?;
        ensure!(
            changed.is_empty(),
            "A release is made of a commit, and these files differ from it:\n{changed}"
        );
        let tags = git(&["tag", "--points-at", "HEAD", "v[0-9]*"])?;
        Ok(State { tags: tags.lines().map(str::to_owned).collect(), time: commit(project)?.seconds })
    }
}

/// Makes the checks that need no build. Returns the section of the changelog.
fn check(project: &Project, version: &str, state: &State, reviewed_abi: bool) -> Result<String> {
    let places = project.part("the version is the same everywhere", || versions::check(project, version))?;
    say!("      {version} in {places} places");
    for tag in &state.tags {
        ensure!(*tag == format!("v{version}"), "This commit has the tag {tag}, and the version {version}.");
    }
    let (notes, is_dated) = versions::notes(project, version)?;
    if !is_dated {
        ensure!(state.tags.is_empty(), "CHANGELOG.md has no section '## [{version}] - DATE'.");
        say!("      CHANGELOG.md says [Unreleased]: rename it to '[{version}] - DATE' before the tag");
    }
    let abi = project.part("ABI against the last release", || abi::check(project, reviewed_abi))?;
    say!("      {abi}");
    Ok(notes)
}

/// Builds a file of the Python package by its own command.
fn python(
    project: &Project,
    version: &str,
    state: &State,
    arguments: &[&str],
    below: &str,
    ending: &str,
) -> Result<PathBuf> {
    let folder = project.target.join(below);
    // An older file of the folder must not be taken for the new one.
    for old in files(&folder)?.iter().filter(|file| file.to_string_lossy().ends_with(ending)) {
        std::fs::remove_file(old)?;
    }
    let cargo = project.cargo("xtask").args(arguments).env("SOURCE_DATE_EPOCH", &state.time);
    project.part(&format!("cargo xtask {}", arguments.join(" ")), || cargo.go())?;
    let made = files(&folder)?.into_iter().find(|file| file.to_string_lossy().ends_with(ending));
    made.with_context(|| format!("There is no file of version {version} in {}", folder.display()))
}

/// Copies a file into the folder of the release.
fn gather(file: &Path, folder: &Path, version: &str) -> Result<()> {
    let name = file.file_name().context("a file has a name")?.to_string_lossy().into_owned();
    let is_versioned = VERSIONED.iter().any(|ending| name.ends_with(ending));
    ensure!(!is_versioned || name.contains(version), "{name} is not called after version {version}.");
    let to = folder.join(&name);
    let is_same = || Ok::<_, anyhow::Error>(std::fs::read(&to)? == std::fs::read(file)?);
    ensure!(!to.exists() || is_same()?, "Two files of the release are called {name}, and differ.");
    std::fs::copy(file, &to).with_context(|| format!("copying {}", file.display()))?;
    Ok(())
}

/// Returns the files in a folder by name, or none if there is no folder.
fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten() {
        let path = entry?.path();
        if path.is_file() {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// The steps that no command makes. docs/release.md explains them.
fn by_hand(version: &str, abi: &str) -> String {
    format!(
        "
  1. CHANGELOG.md: rename [Unreleased] to '[{version}] - DATE'. For the first release, remove from
     README.md, SECURITY.md and docs/ that nothing is released. Commit.
  2. On a machine with CNTK: cargo xtask test --long, cargo xtask oracle, cargo xtask trust --all.
  3. git tag --sign v{version} && git push origin v{version}
     The workflow `release` builds all files again.
  4. Compare SHA256SUMS of its draft with the one made here. Sign it, and add the signature to the
     draft: gpg --armor --detach-sign SHA256SUMS
  5. Approve the environment `crates-io`, and then `pypi`. The first version of each crate needs a
     token instead, because crates.io trusts workflows with existing crates only. From the bottom
     up, as cargo publish --workspace does it:
     {crates}
  6. Push the NuGet package; send the recipes to conda-forge, Conan's index and vcpkg.
  7. Publish the draft. Announce it.
  8. cp xtask/abi/libcntk_reader.abi '{released}'
     Raise the version in Cargo.toml, and add [Unreleased] to CHANGELOG.md.",
        crates = [&tooling::joint::LIBRARY[..], &["cntk-reader-cli"]].concat().join("\n     "),
        released = abi::file(version, abi),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scratch(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("cntk-reader-release-{}-{name}", std::process::id()));
        empty_folder(&folder).expect("a folder");
        folder
    }

    #[test]
    fn checksums_are_those_of_sha256sum() {
        let folder = scratch("checksums");
        std::fs::write(folder.join("b.txt"), "abc").expect("a file");
        std::fs::write(folder.join("a.txt"), "").expect("a file");
        let both = files(&folder).expect("a list");
        assert_eq!(both.len(), 2);
        let list = checksums::write(&folder, &both).expect("checksums");
        let sums = std::fs::read_to_string(list).expect("a file");
        let expected = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855  a.txt\n\
                        ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad  b.txt\n";
        assert_eq!(sums, expected);
        std::fs::remove_dir_all(folder).expect("removed");
    }

    #[test]
    fn gathered_files_have_the_version_and_distinct_names() {
        let folder = scratch("gathered");
        let (from, to) = (folder.join("from"), folder.join("to"));
        empty_folder(&from).and_then(|()| empty_folder(&to)).expect("folders");
        for name in ["x-0.1.0.whl", "x-0.2.0.whl", "recipe.py"] {
            std::fs::write(from.join(name), name).expect("a file");
        }
        let gathered = |name: &str| gather(&from.join(name), &to, "0.1.0");
        gathered("x-0.1.0.whl").expect("the version");
        gathered("recipe.py").expect("no version in its name");
        assert!(gathered("x-0.2.0.whl").is_err(), "another version");
        gathered("recipe.py").expect("the same file again");
        std::fs::write(from.join("recipe.py"), "changed").expect("a file");
        assert!(gathered("recipe.py").is_err(), "another file of this name");
        std::fs::remove_dir_all(folder).expect("removed");
    }
}
