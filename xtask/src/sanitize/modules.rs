//! The modules that CNTK loads, compiled so that undefined behaviour ends the program.

use crate::dropin::{self, Flavor};
use crate::host_golden::{self, Libraries};
use crate::oracle::install::{self, Installed};
use crate::project::Project;
use crate::steps::Tally;
use anyhow::Result;

/// Runs the golden cases through them, with the installed CNTK around them: all modules, and CNTK's composite module over the modules
/// of deserializers.
pub fn check(project: &Project) -> Result<Tally> {
    let cntk = match install::install(project, install::VERSIONS[0])? {
        Installed::Yes(cntk) => cntk,
        Installed::No(reason) => return Tally::without_cntk(reason),
    };
    let libraries = Libraries::find(&cntk.library_path())?;
    let engine = dropin::engine(project)?;
    let host = cntk.host;
    project.part("instrumented modules", || dropin::build_as(project, host, &engine, Flavor::Undefined))?;
    dropin::driver(project, "host_replay", host)?;
    host_golden::check_both(project, &libraries, Flavor::Undefined)
}
