//! Python programs that end while chunks are loaded ahead: none may crash.

use super::side::Side;
use anyhow::{Result, ensure};
use tooling::Tally;
use tooling::project::{Project, empty_folder};

/// Number of runs of each program: a crash at exit may show only in some runs.
const RUNS: usize = 20;
/// Number of runs in the step of `cargo xtask test`.
const SHORT_RUNS: usize = 3;

/// A program, and its arguments after the folder.
struct Program {
    script: &'static str,
    arguments: &'static [&'static str],
    /// Its exit status.
    status: i32,
    /// Whether CNTK itself crashes in some runs, after the program's last line.
    crashes: bool,
}

const PROGRAMS: [Program; 8] = [
    Program { script: "read_and_exit.py", arguments: &[], status: 0, crashes: false },
    python(&["plain"]),
    python(&["sequences"]),
    python(&["slow"]),
    python(&["raise"]),
    python(&["exit"]),
    Program { status: 1, ..python(&["exception"]) },
    python(&["del"]),
];

const fn python(arguments: &'static [&'static str]) -> Program {
    Program { script: "read_python_and_exit.py", arguments, status: 0, crashes: true }
}

/// Runs the programs with this project's modules, after one run with CNTK's own.
pub fn check(project: &Project, ours: &Side, cntk: &Side, short: bool) -> Result<Tally> {
    let mut tally = Tally::default();
    for program in &PROGRAMS {
        let runs = if short { SHORT_RUNS } else { RUNS };
        tally = tally.and(check_program(project, ours, cntk, program, runs)?);
    }
    Ok(tally)
}

fn check_program(
    project: &Project,
    ours: &Side,
    cntk: &Side,
    program: &Program,
    runs: usize,
) -> Result<Tally> {
    let run = |side: &Side| -> Result<_> {
        let folder = side.folder.join("exit");
        empty_folder(&folder)?;
        Ok(side.script(program.script).arg(&folder).args(program.arguments).output()?)
    };
    let theirs = run(cntk)?;
    ensure!(
        theirs.status.code() == Some(program.status) || program.crashes,
        "CNTK itself: {}",
        String::from_utf8_lossy(&theirs.stderr)
    );
    let mut crashes = 0;
    let name = [&[program.script], program.arguments].concat().join(" ");
    project.part(&format!("{runs} programs that end while chunks are loaded ({name})"), || {
        for _ in 0..runs {
            let output = run(ours)?;
            ensure!(
                output.stdout == theirs.stdout,
                "The program reads something else than with CNTK's modules."
            );
            crashes += usize::from(output.status.code() != Some(program.status));
        }
        Ok(())
    })?;
    say!("      {crashes} of them crashed");
    Ok(Tally { passed: runs - crashes, failed: crashes, ..Tally::default() })
}
