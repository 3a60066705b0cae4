//! `cargo xtask attack`: random cases against models in Python, for a given time. See
//! `attack/README.md`.

use anyhow::{Result, bail};
use lexopt::Parser;
use tooling::project::Project;
use tooling::run::Run;
use tooling::{Tally, python};

/// The kind `images` compares with OpenCV, which CNTK uses for decoding.
const PACKAGES: [&str; 3] = ["numpy", "scipy", "opencv-python-headless"];

/// Number of cases of each kind in the step `attack`, which are always the same.
const CASES: &str = "60";

/// Runs the program with the remaining arguments.
pub fn command(project: &Project, mut parser: Parser) -> Result<()> {
    match program(project)? {
        Ok(run) => run.args(parser.raw_args()?).replace(),
        Err(reason) => bail!(reason),
    }
}

/// Runs a few cases of each kind; in the long form, 20 minutes of fresh ones, and a check that the
/// models notice faults.
pub fn step(project: &Project) -> Result<Tally> {
    let program = || program(project);
    let run = match program()? {
        Ok(run) => run,
        Err(reason) => return Tally::skipped(reason),
    };
    if project.long {
        run.args(["--minutes", "20"]).go()?;
        if let Ok(run) = program()? {
            run.arg("--self-check").go()?;
        }
        return Tally::passed(2);
    }
    let output = run.args(["--minutes", "20", "--seed", "1", "--cases", CASES]).go()?;
    // A line for each kind: its name, cases, differences and seconds.
    let table = output.lines().skip_while(|line| !line.starts_with("kind ")).skip(1);
    let cases = table.filter_map(|line| line.split_whitespace().nth(1)?.parse::<usize>().ok());
    Tally::passed(cases.sum())
}

/// Returns the program, or the reason why it cannot run.
fn program(project: &Project) -> Result<std::result::Result<Run, String>> {
    let python = match python::environment_with(project, "attack", &PACKAGES)? {
        Ok(python) => python,
        Err(reason) => return Ok(Err(reason)),
    };
    let run = project.run(&python.to_string_lossy()).named("attack").arg("attack");
    let run = run.args(["--keep", &project.target.join("attack").to_string_lossy()]);
    let variables = python::variables(project)?;
    Ok(Ok(variables.into_iter().fold(run, |run, (name, value)| run.env(name, value))))
}
