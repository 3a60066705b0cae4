//! The step `operator`: the scripts for operators in made-up CNTKs, under each shell of this
//! machine.

mod cases;
mod loading;
mod place;

use anyhow::{Context, Result, bail};
use place::Bench;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use tooling::Tally;
use tooling::project::{Project, empty_folder};
use tooling::tools;

/// The shells that are `sh` on some system. The first of them here runs all cases.
const SHELLS: [&[&str]; 3] = [&["dash"], &["bash", "--posix"], &["busybox", "sh"]];

/// A case, in a folder of its own.
type Case = fn(&Bench) -> Result<()>;

/// Runs all cases.
pub fn step(project: &Project) -> Result<Tally> {
    tools::need(project, &crate::TOOLS)?;
    let scratch = std::env::temp_dir().join(format!("cntk-reader operator {}", std::process::id()));
    empty_folder(&scratch)?;
    let tally = all(project, &scratch);
    std::fs::remove_dir_all(&scratch)?;
    tally
}

fn all(project: &Project, scratch: &Path) -> Result<Tally> {
    let mut runs = Vec::new();
    for shell in SHELLS {
        if !is_there(shell[0]) {
            say!("      without {}, which is missing", shell[0]);
            continue;
        }
        let rest = if runs.is_empty() { [cases::ONE, loading::ALL].concat() } else { Vec::new() };
        runs.extend(cases::EACH.iter().copied().chain(rest).map(|(name, case)| (shell, name, case)));
    }
    let next = AtomicUsize::new(0);
    let work = || {
        while let Some((shell, name, case)) = runs.get(next.fetch_add(1, Ordering::Relaxed)) {
            let folder = scratch.join(format!("{name} ({})", shell[0]));
            std::fs::create_dir(&folder)?;
            let bench = Bench::new(project, folder, shell);
            bench.and_then(|bench| case(&bench)).with_context(|| format!("{name}, under {}", shell[0]))?;
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..tooling::machine::cores()).map(|_| scope.spawn(work)).collect();
        threads.into_iter().try_for_each(|thread| {
            thread.join().unwrap_or_else(|_| bail!("a thread that ran the scripts has panicked"))
        })
    })?;
    Tally::passed(runs.len())
}

/// Whether a program is in the search path.
fn is_there(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}
