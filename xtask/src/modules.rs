//! `cargo xtask dropin`: the modules that unmodified CNTK loads in place of its own.

use crate::packages::{self, ORACLE};
use anyhow::{Result, bail};
use dropin::{Host, script};
use lexopt::Parser;
use lexopt::prelude::*;
use std::path::Path;
use tooling::project::Project;

/// Builds, checks, or runs the script that installs and restores, as the arguments say.
pub fn command(project: &Project, mut parser: Parser) -> Result<()> {
    if parser.try_raw_args().is_some_and(|rest| rest.peek().is_some_and(|word| word == "check")) {
        parser.next()?;
        return packages::instead(project, ORACLE, "dropin-check", parser);
    }
    let (mut word, mut host, mut libraries, mut untried) = (None, None, None, false);
    while let Some(argument) = parser.next()? {
        match argument {
            Value(value) if word.is_none() => word = Some(value.string()?),
            Long("host") => host = Some(parser.value()?.string()?),
            Long("libs") => libraries = Some(parser.value()?.string()?),
            Long("untried") => untried = true,
            other => return Err(other.unexpected().into()),
        }
    }
    match (word.as_deref(), host, libraries, untried) {
        (None, None, None, false) => dropin::everything(project),
        (None, Some(version), None, false) => dropin::build_for(project, Host::by_version(&version)?),
        (Some("install"), None, Some(folder), _) => install(project, Path::new(&folder), untried),
        (Some("restore"), None, Some(folder), false) => {
            script::gather(project)?;
            script::installer(project, &["restore"], Path::new(&folder))
        }
        _ => bail!(
            "dropin takes --host VERSION, check --libs DIRS, install --libs DIR, or restore --libs DIR. See cargo xtask help."
        ),
    }
}

/// Builds the modules for the CNTK in a folder, and runs the script that installs them.
fn install(project: &Project, folder: &Path, untried: bool) -> Result<()> {
    dropin::build_for(project, script::host_of(project, folder)?)?;
    let arguments: &[&str] = if untried { &["install", "--untried"] } else { &["install"] };
    script::installer(project, arguments, folder)
}
