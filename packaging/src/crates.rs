//! Crates for crates.io: packed and compiled as `cargo publish` would, then used by a program and
//! by `cargo install` outside the workspace. Nothing is published.

use crate::{Made, Packages, scratch};
use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use std::path::{Path, PathBuf};
use tooling::joint::LIBRARY;
use tooling::project::{Project, empty_folder};
use tooling::run::Run;

/// The package of the command-line tool.
const TOOL: &str = "cntk-reader-cli";

/// Files and folders that a crate may contain. Records of CNTK, and other tests' data, are none.
const CONTENTS: [&str; 12] = [
    ".cargo_vcs_info.json",
    "CHANGELOG.md",
    "Cargo.lock",
    "Cargo.toml",
    "Cargo.toml.orig",
    "LICENSE",
    "README.md",
    "doc/",
    "docs/",
    "examples/rust/",
    "include/",
    "src/",
];

/// Output of the example in Rust, without the paths and the number formats of other lines.
const EXAMPLE_OUTPUT: [&str; 4] = [
    "features: Dense, samples of shape [3]",
    "labels: SparseCsc, samples of shape [10]",
    "256 samples of 3 values, 256 labels",
    "232 samples of 3 values, 232 labels",
];

/// Packs all crates, compiles each from its packed files, and uses them.
pub fn make(project: &Project, packages: &Packages) -> Result<Made> {
    let version = check_manifests(project)?;
    let packed = project.part("packing", || pack(project))?;
    let again = project.part("packing again", || pack(project))?;
    ensure!(packed == again, "Packing twice gives different bytes.");
    let mut files = Vec::new();
    for (name, bytes) in packed {
        let file = packages.folder.join(name);
        std::fs::write(&file, bytes)?;
        files.push(file);
    }
    let unpacked = scratch(project, "crates")?;
    for file in &files {
        project.run("tar").arg("-xzf").arg(file).arg("-C").arg(&unpacked).go()?;
    }
    let entries = check_contents(project, &unpacked)?;
    project.part("cargo publish --dry-run", || {
        let publish = cargo(project, "publish").args(["--dry-run", "--allow-dirty", "--quiet"]);
        publish.args(selected()).go()
    })?;
    project.part("a program that depends on the crates", || example(project, &unpacked, &version))?;
    project.part("cargo install of the tool", || tool(project, &unpacked, &version))?;
    let count = files.len();
    Ok(Made {
        files,
        trials: vec![
            format!(
                "{count} crates pack to the same bytes twice; their {entries} files are source, docs and licence"
            ),
            format!("cargo publish --dry-run of the {count} together compiles each from its packed files"),
            "a program with the README's example in Rust reads through the unpacked crates".to_owned(),
            "cargo install from the unpacked crate of the tool: it reads the digits".to_owned(),
        ],
    })
}

/// The crates that are published, from the bottom up.
fn names() -> impl Iterator<Item = &'static str> {
    LIBRARY.into_iter().chain([TOOL])
}

fn selected() -> impl Iterator<Item = &'static str> {
    names().flat_map(|name| ["--package", name])
}

/// Cargo with a target folder of its own: what `cargo publish` compiles would replace what the
/// checkout has compiled.
fn cargo(project: &Project, command: &str) -> Run {
    project.cargo(command).env("CARGO_TARGET_DIR", project.target.join("packaging/crates"))
}

/// Checks that exactly these packages are published, and that each describes itself. Returns the
/// version, which all of them share.
fn check_manifests(project: &Project) -> Result<String> {
    let metadata = project.cargo("metadata").args(["--no-deps", "--format-version=1"]).output()?;
    let metadata: Value = serde_json::from_str(&metadata)?;
    let members = metadata["packages"].as_array().context("cargo knows no packages")?;
    let version = members.iter().find(|package| package["name"] == "cntk-reader");
    let version = version.and_then(|package| package["version"].as_str());
    let version = version.context("there is no package cntk-reader")?;
    let mut published = 0;
    for package in members {
        let name = package["name"].as_str().unwrap_or_default();
        if !names().any(|known| known == name) {
            let closed = package["publish"].as_array().is_some_and(Vec::is_empty);
            ensure!(closed, "{name} is not for users, but has no `publish = false`.");
            continue;
        }
        published += 1;
        for field in ["description", "license", "repository", "readme", "rust_version"] {
            ensure!(package[field].is_string(), "{name} has no {field}.");
        }
        ensure!(package["publish"].is_null(), "{name} is not published.");
        ensure!(package["version"] == version, "{name} has another version than cntk-reader.");
    }
    ensure!(published == names().count(), "{published} packages are published.");
    Ok(version.to_owned())
}

/// Packs all crates, and returns their file names and bytes.
fn pack(project: &Project) -> Result<Vec<(String, Vec<u8>)>> {
    let folder = project.target.join("packaging/crates/package");
    for old in packed_files(&folder)? {
        std::fs::remove_file(old)?;
    }
    let run = cargo(project, "package").args(["--no-verify", "--allow-dirty", "--quiet"]);
    run.args(selected()).go()?;
    let mut files = Vec::new();
    for file in packed_files(&folder)? {
        let name = file.file_name().context("a file has a name")?.to_string_lossy().into_owned();
        files.push((name, std::fs::read(file)?));
    }
    ensure!(files.len() == names().count(), "cargo has packed {} crates.", files.len());
    Ok(files)
}

/// Returns the packed crates in a folder, sorted.
fn packed_files(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten() {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "crate") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// Checks the unpacked files: nothing but [`CONTENTS`], a licence and a README in each crate, and
/// no folder of this machine. Returns their number.
fn check_contents(project: &Project, unpacked: &Path) -> Result<usize> {
    let home = std::env::var("HOME").unwrap_or_default();
    let mut folders = vec![project.root.display().to_string(), project.target.display().to_string(), home];
    // A short one, such as `/`, is everywhere.
    folders.retain(|folder| folder.len() > 1);
    let mut count = 0;
    for crate_folder in std::fs::read_dir(unpacked)? {
        let crate_folder = crate_folder?.path();
        for needed in ["LICENSE", "README.md"] {
            let text = std::fs::read_to_string(crate_folder.join(needed));
            let text = text.with_context(|| format!("{} has no {needed}", crate_folder.display()))?;
            // A symbolic link that was packed as a file has only the path of its target.
            ensure!(text.len() > 200, "{} has an empty {needed}", crate_folder.display());
        }
        let listed = project.run("find").arg(".").args(["-type", "f", "-printf", "%P\\n"]);
        for name in listed.folder(&crate_folder).output()?.lines() {
            count += 1;
            let known = CONTENTS.iter().any(|known| match known.strip_suffix('/') {
                Some(_) => name.starts_with(known),
                None => name == *known,
            });
            ensure!(known, "{} should not contain {name}", crate_folder.display());
            let bytes = std::fs::read(crate_folder.join(name))?;
            let text = String::from_utf8_lossy(&bytes);
            if let Some(folder) = folders.iter().find(|folder| text.contains(&format!("{folder}/"))) {
                bail!("{name} of {} names {folder}", crate_folder.display());
            }
        }
    }
    Ok(count)
}

/// Writes cargo's settings that replace the published crates by the unpacked ones.
fn patch(unpacked: &Path, version: &str) -> Result<PathBuf> {
    let mut text = "[patch.crates-io]\n".to_owned();
    for name in names() {
        text +=
            &format!("{name} = {{ path = '{}' }}\n", unpacked.join(format!("{name}-{version}")).display());
    }
    let file = unpacked.with_extension("toml");
    std::fs::write(&file, text)?;
    Ok(file)
}

/// Builds and runs a program with the example in Rust, which depends on the crate by its version.
fn example(project: &Project, unpacked: &Path, version: &str) -> Result<()> {
    let program = scratch(project, "crates-program")?;
    std::fs::create_dir(program.join("src"))?;
    let example = unpacked.join(format!("cntk-reader-{version}/examples/rust/read.rs"));
    std::fs::copy(example, program.join("src/main.rs"))?;
    let manifest = format!(
        "[package]\nname = \"program\"\nversion = \"1.0.0\"\nedition = \"2024\"\n\n\
         [dependencies]\ncntk-reader = \"{version}\"\n\n[workspace]\n"
    );
    std::fs::write(program.join("Cargo.toml"), manifest)?;
    // The versions of other crates that the project is tested with.
    std::fs::copy(project.path("Cargo.lock"), program.join("Cargo.lock"))?;
    let run = cargo(project, "run").arg("--quiet").arg("--config").arg(patch(unpacked, version)?);
    let printed = run.folder(&program).output()?;
    for line in EXAMPLE_OUTPUT {
        ensure!(printed.contains(line), "`{line}` is not in what the program printed:\n{printed}");
    }
    Ok(())
}

/// Installs the tool by `cargo install`, and reads the digits with it.
fn tool(project: &Project, unpacked: &Path, version: &str) -> Result<()> {
    let root = scratch(project, "crates-tool")?;
    let install = cargo(project, "install").args(["--debug", "--locked", "--quiet", "--path"]);
    let install = install.arg(unpacked.join(format!("{TOOL}-{version}"))).arg("--root").arg(&root);
    install.arg("--config").arg(patch(unpacked, version)?).folder(&root).go()?;
    let tool = root.join("bin/cntk-reader");
    let tool = || project.run(&tool.to_string_lossy());
    let named = tool().arg("--version").output()?;
    ensure!(named.trim() == format!("cntk-reader {version}"), "The tool calls itself {named}");
    let info = tool().arg("info").arg(project.path("examples/data/digits.train.ctf")).output()?;
    ensure!(info.contains("1437") || info.contains("1,437"), "The tool says of 1437 digits:\n{info}");
    empty_folder(&root)
}
