//! Command lines of the project's programs.

use crate::project::Project;
use anyhow::Result;
use lexopt::{Arg, Parser};
use std::ffi::OsString;
use std::process::ExitCode;

/// The `main` of a program. Accepts `-v` anywhere among the arguments, and passes the others to
/// `run`.
pub fn main(run: impl FnOnce(&Project, Parser) -> Result<()>) -> ExitCode {
    let mut arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    let before = arguments.len();
    arguments.retain(|argument| argument != "-v" && argument != "--verbose");
    let is_verbose = arguments.len() < before;
    match Project::find(is_verbose).and_then(|project| run(&project, Parser::from_args(arguments))) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let hint = if error.is::<lexopt::Error>() { ". See cargo xtask help." } else { "" };
            eprintln!("\n{error:#}{hint}");
            ExitCode::FAILURE
        }
    }
}

/// Fails if there are more arguments.
pub fn no_more(parser: &mut Parser) -> Result<()> {
    parser.next()?.map_or(Ok(()), |argument: Arg<'_>| Err(argument.unexpected().into()))
}
