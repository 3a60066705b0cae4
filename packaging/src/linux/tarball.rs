//! `package tarball`: what target/dist has, in one folder that works wherever it is unpacked.

use super::{CRATES, TARGET, dist, third_party};
use crate::{Made, Packages, checksums, tools};
use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};
use tooling::consumers;
use tooling::dist::Dist;
use tooling::project::{Project, empty_folder};

/// The platform in the names of files.
const PLATFORM: &str = "x86_64-linux-gnu";

/// Builds the tarball, one bill of materials for each crate in it, and the checksums.
pub fn make(project: &Project, packages: &Packages) -> Result<Made> {
    let dist = dist(project)?;
    let time = crate::commit(project)?.seconds;
    let name = format!("cntk-reader-{}-{PLATFORM}", dist.version);
    let stage = project.target.join("packaging/tarball");
    empty_folder(&stage)?;
    let folder = stage.join(&name);
    std::fs::create_dir(&folder)?;
    for part in ["include", "lib", "bin", "share"] {
        project.run("cp").arg("-a").arg(dist.folder.join(part)).arg(&folder).go()?;
    }
    for file in ["LICENSE", "CHANGELOG.md", "README.md"] {
        std::fs::copy(project.path(file), folder.join(file))?;
    }
    std::fs::write(folder.join("THIRD-PARTY.txt"), third_party(project)?)?;

    let tarball = packages.folder.join(format!("{name}.tar.gz"));
    project.part("tarball", || pack(project, &folder, &time, &tarball))?;
    let mut files = vec![tarball.clone()];
    for bill in project.part("bills of materials", || bills(project, &time))? {
        let file = packages.folder.join(format!("{name}.{}", text_name(&bill)?));
        std::fs::copy(&bill, &file)?;
        files.push(file);
    }
    files.push(checksums::write(&packages.folder, &files)?);

    let again = stage.join("again.tar.gz");
    pack(project, &folder, &time, &again)?;
    ensure!(std::fs::read(&tarball)? == std::fs::read(&again)?, "Packing twice gives different bytes.");
    let mut trials = vec!["Packing twice gives the same bytes.".to_owned()];
    trials.extend(project.part("trial", || try_it(project, packages, &tarball, &name, &dist))?);
    Ok(Made { files, trials })
}

/// Packs a folder with sorted names, and the same time and owner for all files.
fn pack(project: &Project, folder: &Path, time: &str, to: &Path) -> Result<()> {
    let tar = project.run("tar").args(["--sort=name", "--owner=0", "--group=0", "--numeric-owner"]);
    let tar = tar.args(["--format=gnu", "--mode=a+rX,u+w,go-w", &format!("--mtime=@{time}")]);
    let tar = tar.args(["--use-compress-program=gzip -n -9", "--directory"]);
    let tar = tar.arg(folder.parent().context("a folder has a parent")?).arg("--create").arg("--file");
    tar.arg(to).arg(text_name(folder)?).go().map(drop)
}

/// Writes the bills of materials of [`CRATES`], in CycloneDX's format. cargo-cyclonedx writes one
/// beside each manifest of the workspace, so it runs in a copy of the sources.
fn bills(project: &Project, time: &str) -> Result<Vec<PathBuf>> {
    let program = tools::from_crates(project, "cargo-cyclonedx", "0.5.9")?;
    let copy = project.target.join("packaging/sources");
    empty_folder(&copy)?;
    let sources = project
        .files()?
        .into_iter()
        .filter(|file| file.starts_with("Cargo.") || file.ends_with("/Cargo.toml") || file.ends_with(".rs"));
    project.run("cp").args(["--parents", "--target-directory"]).arg(&copy).args(sources).go()?;
    let run = project.run(&program.to_string_lossy()).args(["cyclonedx", "--quiet", "--format", "json"]);
    let run = run.args(["--spec-version", "1.5", "--target", TARGET, "--no-build-deps"]);
    run.folder(&copy).env("SOURCE_DATE_EPOCH", time).go()?;
    let mut bills = Vec::new();
    for name in CRATES {
        let folder = copy.join(name.trim_start_matches("cntk-reader-"));
        let made = folder.join(format!("{name}.cdx.json"));
        let text = std::fs::read_to_string(&made).with_context(|| format!("reading {}", made.display()))?;
        // The project's own crates are named by their folders.
        let text = text.replace(&copy.to_string_lossy().into_owned(), "/cntk-reader");
        ensure!(!text.contains(&*project.root.to_string_lossy()), "{} names the checkout", made.display());
        let bill: serde_json::Value = serde_json::from_str(&text)?;
        let parts = bill["components"].as_array().context("a bill has components")?;
        ensure!(parts.iter().any(|part| part["name"] == "memchr"), "{} lacks memchr", made.display());
        std::fs::write(&made, text)?;
        bills.push(made);
    }
    Ok(bills)
}

/// Unpacks it in a folder elsewhere, and builds and runs programs with it.
fn try_it(
    project: &Project,
    packages: &Packages,
    tarball: &Path,
    name: &str,
    dist: &Dist,
) -> Result<Vec<String>> {
    let checked = project.run("sha256sum").args(["--check", "--strict", checksums::NAME]);
    checked.folder(&packages.folder).go()?;
    let elsewhere = std::env::temp_dir().join(format!("cntk-reader-tarball-{}", std::process::id()));
    empty_folder(&elsewhere)?;
    let result = (|| {
        project.run("tar").arg("--extract").arg("--file").arg(tarball).folder(&elsewhere).go()?;
        let unpacked = Dist { folder: elsewhere.join(name), ..dist.clone() };
        let scratch = elsewhere.join("programs");
        std::fs::create_dir(&scratch)?;
        consumers::check(project, &unpacked, &scratch)?;
        let tool = project.run(&unpacked.folder.join("bin/cntk-reader").to_string_lossy());
        let shown = tool.args(["info", "examples/data/digits.train.ctf"]).output()?;
        ensure!(shown.contains("1,437 sequences"), "The tool printed:\n{shown}");
        for file in ["share/man/man1/cntk-reader.1", "LICENSE", "THIRD-PARTY.txt"] {
            ensure!(unpacked.folder.join(file).is_file(), "{name} has no {file}");
        }
        Ok(())
    })();
    std::fs::remove_dir_all(&elsewhere)?;
    result?;
    Ok(vec![
        "sha256sum --check passes.".to_owned(),
        "Unpacked in a temporary folder, it builds the README's C++ program with CMake, with pkg-config and \
         statically; each prints the README's output. The tool's `info` runs."
            .to_owned(),
    ])
}

fn text_name(path: &Path) -> Result<String> {
    Ok(path.file_name().context("a path has a name")?.to_string_lossy().into_owned())
}
