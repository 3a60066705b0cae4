//! The files that the packages of distributions are made of, in `target/release/linux`: their
//! makers resolve `target/release/` in the lists of files to cargo's real folder, wherever it is.
//! The lists are in `clib/Cargo.toml`, `cli/Cargo.toml` and `dropin/Cargo.toml`.

use super::{dist, third_party};
use anyhow::{Context, Result};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use tooling::dist::{self as installed, Dist, Layout};
use tooling::project::{Project, empty_folder};

/// The number of the packages of one version.
pub const REVISION: &str = "1";

/// The scripts of CNTK's modules that users call.
const SCRIPTS: [&str; 2] = [dropin::script::INSTALLER, dropin::script::WRAPPER];

/// The staged files.
pub struct Staged {
    pub dist: Dist,
    /// The time of the commit.
    pub time: String,
}

/// Builds library, tool and CNTK's modules, and stages them.
pub fn stage(project: &Project) -> Result<Staged> {
    let dist = dist(project)?;
    dropin::everything(project)?;
    let time = crate::commit(project)?.seconds;
    let folder = folder(project);
    empty_folder(&folder)?;
    project.part("stripped files for packages", || fill(project, &dist, &time, &folder))?;
    Ok(Staged { dist, time })
}

/// Returns the folder of the staged files.
pub fn folder(project: &Project) -> PathBuf {
    project.release_folder().join("linux")
}

fn fill(project: &Project, dist: &Dist, time: &str, folder: &Path) -> Result<()> {
    super::copy_stripped(project, dist, folder)?;
    // Debian's shells look there.
    let (zsh, debian) = (folder.join("share/zsh/site-functions"), folder.join("deb/zsh"));
    project.run("cp").args(["--recursive", "-T"]).arg(&zsh).arg(made(&debian)?).go()?;

    for (kind, lib) in [("deb", "lib/x86_64-linux-gnu"), ("rpm", "lib64")] {
        installed::package(project, dist, &Layout { lib, prefix: Some("/usr") }, &folder.join(kind))?;
    }
    symlink(dropin::script::folder(project), folder.join("dropin"))?;
    // The maker of RPMs has no symbolic links. A linker script is in place of the library's, and
    // small scripts in place of the installer's.
    let rpm = folder.join("rpm");
    std::fs::copy(folder.join("lib").join(dist.soname()), rpm.join(dist.soname()))?;
    std::fs::write(rpm.join("libcntk_reader.so"), format!("INPUT({})\n", dist.soname()))?;
    std::fs::create_dir(rpm.join("bin"))?;
    for name in SCRIPTS {
        let file = rpm.join("bin").join(name);
        std::fs::write(&file, format!("#!/bin/sh\nexec /usr/lib/cntk-reader-dropin/{name} \"$@\"\n"))?;
        std::fs::set_permissions(&file, PermissionsExt::from_mode(0o755))?;
    }
    documents(project, dist, time, &folder.join("doc"))?;
    let pages = std::fs::read_dir(folder.join("share/man/man1"))?;
    pages.into_iter().try_for_each(|page| compress(project, &page?.path()))
}

/// Writes licences and changelogs.
fn documents(project: &Project, dist: &Dist, time: &str, folder: &Path) -> Result<()> {
    std::fs::create_dir(folder)?;
    std::fs::copy(project.path("LICENSE"), folder.join("LICENSE"))?;
    let date = project.run("date").args(["--utc", "--rfc-email", &format!("--date=@{time}")]).output()?;
    let debian = format!(
        "cntk-reader ({}-{REVISION}) unstable; urgency=medium\n\n  \
         * The changes of this version are in changelog.gz.\n\n \
         -- {}  {date}",
        dist.version,
        maintainer(project)?
    );
    for (name, text) in [
        ("changelog", std::fs::read_to_string(project.path("CHANGELOG.md"))?),
        ("changelog.Debian", debian),
        ("THIRD-PARTY.txt", third_party(project)?),
    ] {
        std::fs::write(folder.join(name), text)?;
        compress(project, &folder.join(name))?;
    }
    Ok(())
}

/// Returns the maintainer that the packages name.
fn maintainer(project: &Project) -> Result<String> {
    let manifest = std::fs::read_to_string(project.path("clib/Cargo.toml"))?;
    let line = manifest.lines().find_map(|line| line.strip_prefix("maintainer = \""));
    let name = line.and_then(|rest| rest.strip_suffix('"'));
    Ok(name.context("clib/Cargo.toml names no maintainer")?.to_owned())
}

/// Replaces a file with a compressed one.
fn compress(project: &Project, file: &Path) -> Result<()> {
    project.run("gzip").args(["-n", "-9"]).arg(file).go().map(drop)
}

fn made(folder: &Path) -> Result<&Path> {
    std::fs::create_dir_all(folder)?;
    Ok(folder)
}

/// Runs a package maker twice, and fails if the files differ. `make` writes into the folder that it
/// gets, and returns the path of the package. Returns the package of the first run.
pub fn twice(folders: [&Path; 2], make: impl Fn(&Path) -> Result<PathBuf>) -> Result<PathBuf> {
    let built = folders.map(|folder| made(folder).and_then(&make));
    let [first, second] = built;
    let (first, second) = (first?, second?);
    let differ = std::fs::read(&first)? != std::fs::read(&second)?;
    anyhow::ensure!(!differ, "{} and {} differ", first.display(), second.display());
    Ok(first)
}
