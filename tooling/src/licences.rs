//! The licences of the third-party crates in what users get.

use crate::project::Project;
use anyhow::{Context, Result};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Prefixes of the names of files with licences.
const NAMES: [&str; 6] = ["copying", "copyright", "licence", "license", "notice", "unlicense"];

/// Returns a text with the licences of all crates that are compiled into these packages for a Rust
/// target. `product` begins its first sentence.
pub fn text(project: &Project, target: &str, packages: &[&str], product: &str) -> Result<String> {
    let metadata = project.cargo("metadata").args(["--format-version=1", "--filter-platform", target]);
    let metadata: Value = serde_json::from_str(&metadata.output()?)?;
    let mut users = Vec::<(String, Vec<String>)>::new();
    for package in compiled_in(&metadata, packages)? {
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
    let mut file = format!("{product} these Rust crates, and Rust's standard library (MIT OR Apache-2.0).\n");
    for (licence, names) in users {
        file += &format!("\n{}\n{}\n\n{licence}\n", "-".repeat(80), names.join(", "));
    }
    Ok(file)
}

/// Returns the third-party crates in these packages, sorted by name, without those that only build
/// scripts and tests use.
fn compiled_in<'a>(metadata: &'a Value, packages_of: &[&str]) -> Result<Vec<&'a Value>> {
    let id = |value: &Value| value["id"].as_str().unwrap_or_default().to_owned();
    let packages = metadata["packages"].as_array().context("cargo knows no packages")?;
    let nodes = metadata["resolve"]["nodes"].as_array().context("cargo knows no dependencies")?;
    let nodes: BTreeMap<String, &Value> = nodes.iter().map(|node| (id(node), node)).collect();
    let mut waiting = Vec::new();
    for name in packages_of {
        let package = packages.iter().find(|package| package["name"] == *name);
        waiting.push(id(package.with_context(|| format!("cargo does not know {name}"))?));
    }
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
