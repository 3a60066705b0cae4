//! The scripts for operators with real CNTK: the modules load according to the installer, and
//! `trial.py` reads the same through the wrapper.

use super::side::Side;
use crate::install::Cntk;
use anyhow::{Context, Result, ensure};
use dropin::script::{self, INSTALLER, TRIAL, WRAPPER};
use std::process::Command;
use tooling::Tally;
use tooling::project::Project;

/// Runs a command. Returns its standard output and standard error.
fn run(command: &mut Command) -> Result<(String, String)> {
    let output = command.output().with_context(|| format!("starting {command:?}"))?;
    let [printed, logged] =
        [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    ensure!(output.status.success(), "{command:?} failed ({}):\n{printed}{logged}", output.status);
    Ok((printed, logged))
}

/// Checks the scripts beside the built modules. The installed CNTK is not changed, because other
/// steps use it at the same time.
pub fn check(project: &Project, cntk: &Cntk, original: &Side) -> Result<Tally> {
    script::gather(project)?;
    let kit = script::folder(project);
    let libraries = cntk.libraries().canonicalize()?;
    let installer = |command: &str| {
        let mut installer = Command::new(kit.join(INSTALLER));
        run(installer.arg(command).arg(&libraries).env("LD_LIBRARY_PATH", cntk.library_path()))
    };
    let (printed, _) = installer("check")?;
    ensure!(printed.contains("The modules load on this system."), "The installer finds:\n{printed}");

    let wrapper = kit.join(WRAPPER);
    let trial = |wrapped: bool| {
        let mut command = Command::new(if wrapped { &wrapper } else { original.python() });
        command.args(wrapped.then_some(original.python()));
        command.arg(kit.join(TRIAL)).env("LD_LIBRARY_PATH", cntk.library_path());
        run(command.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"))
    };
    let (theirs, quiet) = trial(false)?;
    let (ours, logged) = trial(true)?;
    let second = |text: &str| text.lines().nth(1).map(str::to_owned);
    ensure!(second(&ours).is_some() && second(&ours) == second(&theirs), "{ours}instead of\n{theirs}");
    let module = kit.canonicalize()?.join(cntk.host.name()).join(dropin::MODULES[0].file(cntk.host));
    ensure!(ours.contains(&format!("read by {}\n", module.display())), "The wrong module: {ours}");
    let served = format!("(serves CNTK {}): {}\n", cntk.version(), module.display());
    let count = logged.lines().filter(|line| line.starts_with("INFO: cntk-reader ")).count();
    ensure!(count == 1 && logged.contains(&served), "One line with '{served}' is expected:\n{logged}");
    ensure!(!quiet.contains("INFO: cntk-reader "), "CNTK's own module logs:\n{quiet}");
    say!("      the scripts for operators: the modules load, and trial.py reads the same by the wrapper");
    Tally::passed(2)
}
