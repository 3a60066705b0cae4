//! The Python module under python: its environment, and its tests.

use crate::dist::Dist;
use crate::project::{Project, empty_folder};
use crate::steps::Tally;
use crate::{dist, tools};
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};

/// Packages that tests and examples need. setuptools builds wheels without other packages from 70.1 on.
const PACKAGES: [&str; 4] = ["numpy", "scipy", "pandas", "setuptools>=70.1"];

/// The oldest Python that the module runs on.
const OLDEST: &str = "3.9";

/// A Python with [`PACKAGES`], in target/python/venv; or the reason why there is none.
pub fn environment(project: &Project) -> Result<std::result::Result<PathBuf, String>> {
    let folder = project.target.join("python");
    let (python, ready) = (folder.join("venv/bin/python"), folder.join("ready"));
    let packages = PACKAGES.join(" ");
    if std::fs::read_to_string(&ready).is_ok_and(|installed| installed == packages) {
        return Ok(Ok(python));
    }
    let test = format!("import sys; sys.exit(sys.version_info < ({}))", OLDEST.replace('.', ", "));
    if tools::on_path("python3").is_none()
        || project.run("python3").args(["-c", &test]).silent().go().is_err()
    {
        return Ok(Err(format!("there is no python3, or it is older than {OLDEST}")));
    }
    std::fs::create_dir_all(&folder)?;
    let made = project.part(&format!("Python with {}", PACKAGES.join(", ")), || {
        project.run("python3").args(["-m", "venv", "--clear"]).arg(folder.join("venv")).go()?;
        let pip = project.run(&python.to_string_lossy()).args(["-m", "pip", "install", "-q"]);
        pip.arg("--disable-pip-version-check").args(PACKAGES).go()
    });
    match made {
        Ok(_) => {
            std::fs::write(ready, packages)?;
            Ok(Ok(python))
        }
        Err(error) => {
            // The cause is in the last lines of pip's output.
            let text = format!("{error:#}");
            let line = text.lines().rfind(|line| line.starts_with("ERROR")).unwrap_or(&text);
            Ok(Err(format!("Python's packages cannot be installed: {line}")))
        }
    }
}

/// Whether the environment is there.
pub fn is_installed(project: &Project) -> bool {
    project.target.join("python/ready").exists()
}

/// Environment variables of a Python program that uses the module of the checkout and this library.
pub fn variables(project: &Project, library: &Path) -> [(&'static str, PathBuf); 3] {
    [
        ("PYTHONPATH", project.path("python")),
        ("PYTHONDONTWRITEBYTECODE", "1".into()),
        ("CNTK_READER_LIBRARY", library.to_owned()),
    ]
}

/// The tests, and the module as pip installs it.
pub fn step(project: &Project) -> Result<Tally> {
    let python = match environment(project)? {
        Ok(python) => python.to_string_lossy().into_owned(),
        Err(reason) => return Tally::skipped(reason),
    };
    let dist = dist::build(project)?;
    let run = project.run(&python).args(["-m", "unittest", "discover"]);
    let run =
        variables(project, &dist.library()).into_iter().fold(run, |run, (name, value)| run.env(name, value));
    let output = run.args(["-s", "python/tests", "-t", "python"]).go()?;
    let line = output.lines().find_map(|line| line.strip_prefix("Ran ")?.split(' ').next());
    let count: usize =
        line.and_then(|count| count.parse().ok()).context("unittest printed no number of tests")?;
    installed(project, &dist, &python)?;
    Tally::passed(count + 1)
}

/// Installs the module with the library in it, and imports it from there.
fn installed(project: &Project, dist: &Dist, python: &str) -> Result<()> {
    let scratch = project.target.join("python/installed");
    empty_folder(&scratch)?;
    // pip leaves files in the folder that it builds.
    let source = scratch.join("source");
    project.run("cp").args(["-r", "python"]).arg(&source).go()?;
    std::fs::copy(dist.library(), source.join("cntk_reader/libcntk_reader.so"))?;
    let site = scratch.join("site");
    let pip = project.run(python).args(["-m", "pip", "install", "-q", "--disable-pip-version-check"]);
    pip.args(["--no-build-isolation", "--no-deps", "--target"]).arg(&site).arg(&source).go()?;
    let test = "import cntk_reader, os, sys; sys.exit(not os.path.samefile(os.path.dirname(cntk_reader.library_path), \
                os.path.dirname(cntk_reader.__file__)))";
    project.run(python).folder(&scratch).env("PYTHONPATH", &site).args(["-c", test]).go()?;
    Ok(())
}
