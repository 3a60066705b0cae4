//! The tool's completions: the step `shells`, which presses Tab in real shells, and `cargo xtask
//! share`, which writes completions and manual pages for the Python package.

use anyhow::Result;
use tooling::project::Project;
use tooling::tools::SHELLS;
use tooling::{Tally, dist, joint, python};

/// Modules that run a program on a pseudo-terminal and draw its screen.
const PACKAGES: [&str; 2] = ["pexpect==4.9.0", "pyte==0.8.2"];

/// The program that presses Tab.
const PROGRAM: &str = "cli/tests/shells/shells.py";

/// Files that the wheel installs below the environment's folder.
const SHARE: &str = "python/cntk_reader.data/data/share";

/// Presses Tab in each shell.
pub fn step(project: &Project) -> Result<Tally> {
    let python = match python::environment_with(project, "shells", &PACKAGES)? {
        Ok(python) => python,
        Err(reason) => return Tally::skipped(reason),
    };
    joint::build(project)?;
    let tool = project.release_folder().join("cntk-reader");
    SHELLS.iter().try_fold(Tally::default(), |sum, shell| {
        let run = project.run(&python.to_string_lossy()).named(shell);
        let said = run.arg(project.path(PROGRAM)).arg(&tool).arg(shell).output()?;
        let count = said.trim().parse::<usize>()?;
        Ok(sum.and(Tally { passed: count, ..Tally::default() }))
    })
}

/// Writes the files of the wheel. A test of the tool compares them.
pub fn share(project: &Project) -> Result<()> {
    let run = || {
        let run = project.cargo("run").args(["--quiet", "--package", "cntk-reader-cli"]);
        run.args(["--bin", "cntk-reader", "--"])
    };
    dist::share(&project.path(SHARE), run)?;
    say!("{SHARE} written");
    Ok(())
}
