//! Writes the licences of the crates in the extension module to a file beside
//! `python/pyproject.toml`, which maturin adds to wheels and source distributions.

use anyhow::{Context, Result};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use tooling::project::Project;

/// The file. It is not under version control, because `Cargo.lock` determines its content.
const FILE: &str = "python/THIRD-PARTY.txt";

/// The crate of the extension module.
const EXTENSION: &str = "cntk-reader-python";

/// Prefixes of the names of files with licences.
const NAMES: [&str; 6] = ["copying", "copyright", "licence", "license", "notice", "unlicense"];

/// Writes the file for a Rust target.
pub fn write(project: &Project, target: &str) -> Result<()> {
    let metadata = project.cargo("metadata").args(["--format-version=1", "--filter-platform", target]);
    let metadata: Value = serde_json::from_str(&metadata.output()?)?;
    let mut users = Vec::<(String, Vec<String>)>::new();
    for package in compiled_in(&metadata)? {
        let text = |member: &str| package[member].as_str().unwrap_or_default();
        let folder = Path::new(text("manifest_path")).parent().context("a manifest has a folder")?;
        let user = format!("{} {} ({})", text("name"), text("version"), text("license"));
        for licence in licences(folder)? {
            match users.iter_mut().find(|(known, _)| *known == licence) {
                Some((_, names)) => names.push(user.clone()),
                None => users.push((licence, vec![user.clone()])),
            }
        }
    }
    let mut file = "The extension module contains these Rust crates, and Rust's standard library (MIT OR \
                    Apache-2.0).\n"
        .to_owned();
    for (licence, names) in users {
        file += &format!("\n{}\n{}\n\n{licence}\n", "-".repeat(80), names.join(", "));
    }
    std::fs::write(project.path(FILE), file).with_context(|| format!("writing {FILE}"))
}

/// Returns the third-party crates in the extension module, sorted by name, without those that only
/// build scripts and tests use.
fn compiled_in(metadata: &Value) -> Result<Vec<&Value>> {
    let id = |value: &Value| value["id"].as_str().unwrap_or_default().to_owned();
    let packages = metadata["packages"].as_array().context("cargo knows no packages")?;
    let nodes = metadata["resolve"]["nodes"].as_array().context("cargo knows no dependencies")?;
    let nodes: BTreeMap<String, &Value> = nodes.iter().map(|node| (id(node), node)).collect();
    let extension = packages.iter().find(|package| package["name"] == EXTENSION);
    let mut waiting = vec![id(extension.with_context(|| format!("cargo does not know {EXTENSION}"))?)];
    let mut seen = BTreeSet::new();
    while let Some(one) = waiting.pop() {
        let edges = nodes.get(&one).and_then(|node| node["deps"].as_array()).into_iter().flatten();
        let is_compiled_in = |edge: &&Value| {
            edge["dep_kinds"].as_array().is_some_and(|kinds| kinds.iter().any(|kind| kind["kind"].is_null()))
        };
        waiting.extend(
            edges
                .filter(is_compiled_in)
                .filter_map(|edge| edge["pkg"].as_str())
                .map(str::to_owned)
                .filter(|package| !seen.contains(package)),
        );
        seen.insert(one);
    }
    let is_foreign = |package: &&Value| seen.contains(&id(package)) && !package["source"].is_null();
    let mut found: Vec<&Value> = packages.iter().filter(is_foreign).collect();
    found.sort_by_key(|package| (package["name"].as_str(), package["version"].as_str()));
    Ok(found)
}

/// Returns the licence texts in a crate's folder, and in the folders of C code in it.
fn licences(folder: &Path) -> Result<Vec<String>> {
    let list = |folder: &Path| -> Result<Vec<PathBuf>> {
        let mut paths =
            std::fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
        paths.sort();
        Ok(paths)
    };
    let mut files = list(folder)?;
    for inner in files.clone() {
        if inner.is_dir() {
            files.extend(list(&inner)?);
        }
    }
    let mut texts = Vec::new();
    for file in files {
        let name = file.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
        let is_source = file.extension().is_some_and(|extension| extension == "rs");
        if NAMES.iter().any(|start| name.starts_with(start)) && !is_source && file.is_file() {
            let text = String::from_utf8_lossy(&std::fs::read(&file)?).trim().to_owned();
            if !texts.contains(&text) {
                texts.push(text);
            }
        }
    }
    Ok(texts)
}
