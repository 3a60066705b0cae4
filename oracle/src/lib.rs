//! Comparisons with real CNTK 2.x: the available versions ([`install`]), and the output of this
//! library, its modules and CNTK itself, compared line by line ([`run`]).
//!
//! [`cases`] compares golden and random cases, [`cntk_python`] Python programs, [`host_golden`] the
//! golden cases inside CNTK. [`mod@replay`] compares only with the records of CNTK.

#[macro_use]
extern crate tooling;

mod cases;
mod cntk_python;
mod compare;
mod drive;
mod exits;
mod expressed;
mod generate;
mod golden;
mod host_golden;
pub mod install;
mod replay;
mod third_party;
mod train;

use anyhow::{Context, Result, bail};
use lexopt::Parser;
use lexopt::prelude::*;
use std::path::PathBuf;
use tooling::Tally;
use tooling::project::Project;

/// The exit status of a command that compared nothing, because CNTK is not available.
pub const NOT_INSTALLED: i32 = 3;

/// Runs the command named by the first argument. `cargo xtask` passes on its users' commands, and
/// calls `replay` and `step`.
pub fn run(project: &Project, mut parser: Parser) -> Result<()> {
    let command = match parser.next()? {
        Some(Value(command)) => command.string()?,
        Some(option) => return Err(option.unexpected().into()),
        None => bail!("The commands are oracle, cntk-python, dropin-check, replay and step."),
    };
    match command.as_str() {
        "oracle" => cases::command(project, parser),
        "cntk-python" => cntk_python::command(project, parser),
        "dropin-check" => host_golden::command(project, parser),
        "replay" => replay(project, parser),
        "step" => step(project, parser),
        unknown => bail!("There is no command '{unknown}'."),
    }
}

/// `replay [--every N] [--drivers FOLDER] [PROGRAM ...]`: replays golden records through the C++
/// header, with the driver run under a program.
fn replay(project: &Project, mut parser: Parser) -> Result<()> {
    let (mut every, mut drivers) = (1, project.target.join("drivers"));
    let mut under = Vec::new();
    while let Some(argument) = parser.next()? {
        match argument {
            Long("every") => every = parser.value()?.parse()?,
            Long("drivers") => drivers = PathBuf::from(parser.value()?),
            Value(program) => {
                under.push(program.string()?);
                for argument in parser.raw_args()? {
                    under.push(argument.string()?);
                }
            }
            option => return Err(option.unexpected().into()),
        }
    }
    report(replay::check(project, every, &drivers.join("replay"), &under)?)
}

/// `step NAME [--quick] [--cases N]`: a step of another command, which expects that the library,
/// the drivers and the modules are built.
fn step(project: &Project, mut parser: Parser) -> Result<()> {
    let (mut name, mut cases, mut project) = (None, None, project.clone());
    while let Some(argument) = parser.next()? {
        match argument {
            Long("quick") => project.quick = true,
            Long("cases") => cases = Some(parser.value()?.parse()?),
            Value(value) if name.is_none() => name = Some(value.string()?),
            option => return Err(option.unexpected().into()),
        }
    }
    let project = &project;
    report(match name.context("step takes a name")?.as_str() {
        "oracle" => cases::step(project, cases)?,
        "dropin" => cases::module_step(project, cases)?,
        "old-cntk" => cases::old_step(project)?,
        "cntk-python" => cntk_python::step(project)?,
        "undefined" => host_golden::undefined(project)?,
        unknown => bail!("There is no step '{unknown}'."),
    })
}

/// Prints the last line, from which the calling command takes the result.
fn report(tally: Tally) -> Result<()> {
    say!("{tally}");
    Ok(())
}
