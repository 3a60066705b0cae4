//! The command-line tool `cntk-reader`: inspects, checks and converts CNTK's training data. The
//! program of this name and the Python package call [`run`].
//!
//! Each command is a module of [`commands`]. Shared modules: [`args`] describes the command line,
//! [`input`] turns a path into data, [`open`] does so with options of the command line, [`output`]
//! writes results, [`import`] handles files of other formats, [`columns`] Arrow and Parquet files,
//! [`part`] is the option for a share of the work, [`numbers`] parses numbers, [`progress`] shows
//! the progress of long commands, [`exit`] defines the exit codes.

mod args;
mod columns;
mod commands;
mod exit;
mod import;
mod input;
mod npy;
mod numbers;
mod open;
mod output;
mod part;
mod progress;

use args::{Args, Command};
use clap::Parser;
use cntk_reader::LogLevel;
use std::ffi::OsString;
use std::io::{self, Write};
use std::sync::Arc;

/// Runs the tool with these arguments, the program's name first, and returns the exit code. Sets
/// the number of threads and the log sink of the whole process.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> u8 {
    let code = match Args::try_parse_from(arguments) {
        Ok(args) => execute(&args),
        Err(error) => {
            // Help and the version end up here too, with exit code 0. If standard error is closed,
            // there is nowhere else to report the error.
            let _ = error.print();
            u8::try_from(error.exit_code()).unwrap_or(exit::Exit::Usage as u8)
        }
    };
    // Rust's own runtime flushes standard output at exit; a Python process does not.
    let _ = io::stdout().flush();
    code
}

fn execute(args: &Args) -> u8 {
    cntk_reader::set_threads(args.global.threads.map_or(0, |threads| threads as usize));
    let global = &args.global;
    let least = if global.quiet { LogLevel::Error } else { LogLevel::Warning };
    cntk_reader::set_log_sink(Some(Arc::new(move |level, line| match level {
        LogLevel::Error => eprintln!("error: {line}"),
        LogLevel::Warning if level <= least => eprintln!("warning: {line}"),
        _ => {}
    })));
    let outcome = match &args.command {
        Command::Info(options) => commands::info::run(options, global),
        Command::Validate(options) => commands::validate::run(options, global),
        Command::Head(options) => commands::head::head(options, global),
        Command::Sample(options) => commands::head::sample(options, global),
        Command::Index(options) => commands::index::run(options, global),
        Command::Convert(options) => commands::convert::run(options, global),
        Command::Merge(options) => commands::merge::run(options, global),
        Command::Bench(options) => commands::bench::run(options, global),
        Command::Order(options) => commands::order::run(options, global),
        Command::Report(options) => commands::report::run(options, global),
        Command::Completions(options) => commands::generate::completions(options),
        Command::Man(options) => commands::generate::man(options),
    };
    exit::end(outcome) as u8
}
