//! Programs in Python that return from their last line while chunks are loaded ahead: none may crash.

use super::side::Side;
use crate::project::{Project, empty_folder};
use crate::steps::Tally;
use anyhow::{Result, ensure};

/// How often the program is run: a crash at exit shows in some runs only.
const RUNS: usize = 20;

/// Runs the program with this project's modules, after once with CNTK's own.
pub fn check(project: &Project, ours: &Side, cntk: &Side) -> Result<Tally> {
    let run = |side: &Side| -> Result<_> {
        let folder = side.folder.join("exit");
        empty_folder(&folder)?;
        Ok(side.script("read_and_exit.py").arg(&folder).output()?)
    };
    let theirs = run(cntk)?;
    ensure!(theirs.status.success(), "CNTK itself: {}", String::from_utf8_lossy(&theirs.stderr));
    let mut crashes = 0;
    project.part(&format!("{RUNS} programs that end while chunks are loaded"), || {
        for _ in 0..RUNS {
            let output = run(ours)?;
            ensure!(
                output.stdout == theirs.stdout,
                "The program reads something else than with CNTK's modules."
            );
            crashes += usize::from(!output.status.success());
        }
        Ok(())
    })?;
    say!("      {crashes} of them crashed");
    Ok(Tally { passed: RUNS - crashes, failed: crashes, ..Tally::default() })
}
