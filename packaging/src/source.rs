//! The archive of sources that recipes download, and a stand-in for cargo that tries recipes
//! without compiling the library again.

use crate::{Packages, REPOSITORY, commit};
use anyhow::{Context, Result, ensure};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use tooling::dist::{self, Dist};
use tooling::project::Project;

/// The sources of the checkout's commit.
pub struct Archive {
    /// The file.
    pub file: PathBuf,
    /// The version in its name.
    pub version: String,
}

/// Writes the archive into a folder of packages.
pub fn archive(project: &Project, packages: &Packages) -> Result<Archive> {
    let version = dist::version(project)?;
    let file = packages.folder.join(format!("cntk-reader-{version}.tar.gz"));
    let pack = project.run("git").args(["-c", "tar.tar.gz.command=gzip -9 -n", "archive", "--format=tar.gz"]);
    let pack = pack.arg(format!("--prefix=cntk-reader-{version}/")).arg("--output").arg(&file);
    pack.arg(commit(project)?.id).go()?;
    Ok(Archive { file, version })
}

impl Archive {
    /// Returns the checksum that `program` prints for it, such as `sha256sum`.
    pub fn checksum(&self, project: &Project, program: &str) -> Result<String> {
        let printed = project.run(program).arg(&self.file).output()?;
        Ok(printed.split_whitespace().next().context("there is no checksum")?.to_owned())
    }

    /// Writes a recipe from its template `NAME.in` in a folder below the root.
    pub fn fill(&self, project: &Project, folder: &str, name: &str, sum: &str, to: &Path) -> Result<PathBuf> {
        let template = project.path(folder).join(format!("{name}.in"));
        let text = std::fs::read_to_string(&template)
            .with_context(|| format!("reading {}", template.display()))?
            .replace("@VERSION@", &self.version)
            .replace("@REPOSITORY@", REPOSITORY)
            .replace("@SHA256@", sum)
            .replace("@SHA512@", sum);
        ensure!(!text.contains('@'), "{} has a placeholder that is not known", template.display());
        std::fs::create_dir_all(to)?;
        let file = to.join(name);
        std::fs::write(&file, text)?;
        Ok(file)
    }
}

/// Writes a program that takes the place of cargo in a folder: it copies the library of `dist` to
/// where `cargo rustc` builds it, and a script with the tool's name to where `cargo install`
/// installs it.
pub fn stand_in(dist: &Dist, folder: &Path) -> Result<PathBuf> {
    let script = format!(
        r#"#!/bin/sh
set -e
command=$1
while [ $# -gt 0 ]; do
  case $1 in
    --target-dir) target=$2 ;;
    --root) root=$2 ;;
    --manifest-path) test -f "$2" ;;
    --path) test -f "$2/Cargo.toml" ;;
  esac
  shift
done
case $command in
  rustc)
    mkdir -p "$target/release"
    cp '{archive}' "$target/release/libcntk_reader_clib.a"
    cp '{shared}' "$target/release/libcntk_reader_clib.so" ;;
  install)
    mkdir -p "$root/bin"
    echo 'echo cntk-reader {version}' > "$root/bin/cntk-reader" ;;
  *) exit 1 ;;
esac
"#,
        archive = dist.folder.join("lib/libcntk_reader.a").display(),
        shared = dist.library().display(),
        version = dist.version,
    );
    program(folder, "cargo", &script)
}

/// Writes a script that can be run.
pub fn program(folder: &Path, name: &str, script: &str) -> Result<PathBuf> {
    std::fs::create_dir_all(folder)?;
    let file = folder.join(name);
    std::fs::write(&file, script)?;
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755))?;
    Ok(file)
}
