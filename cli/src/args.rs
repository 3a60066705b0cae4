//! The command line.

use crate::commands::bench::Bench;
use crate::commands::convert::Convert;
use crate::commands::generate::{Completions, Man};
use crate::commands::head::{Head, Sample};
use crate::commands::index::Index;
use crate::commands::info::Info;
use crate::commands::merge::Merge;
use crate::commands::order::Order;
use crate::commands::report::Report;
use crate::commands::validate::Validate;
use clap::{Parser, Subcommand, ValueEnum};

/// Inspects, checks and converts training data of CNTK.
///
/// Every command takes a configuration file in CNTK's language, or a data file without one. The
/// format of a data file is recognized by its content; the streams of a text file (CTF) and their
/// dimensions are found by reading it.
///
/// Results go to standard output, progress and messages to standard error.
#[derive(Debug, Parser)]
#[command(name = "cntk-reader", version, max_term_width = 110, after_help = EXIT_CODES)]
pub struct Args {
    #[command(flatten)]
    pub global: Global,
    #[command(subcommand)]
    pub command: Command,
}

const EXIT_CODES: &str = "\
Exit codes:
  0  all is well
  1  the data are wrong
  2  the command line or the configuration is wrong
  3  a file cannot be read or written";

/// The largest number of threads that can be requested.
const MAX_THREADS: u64 = cntk_reader_core::runtime::pool::MAX_THREADS as u64;

fn threads(text: &str) -> Result<u64, String> {
    match text.parse() {
        Ok(0) => Err("data cannot be read without a thread: leave out --threads to use all CPUs".to_owned()),
        Ok(count @ 1..=MAX_THREADS) => Ok(count),
        _ => Err(format!("write a number from 1 to {MAX_THREADS}, not '{text}'")),
    }
}

/// Options of every command.
#[derive(Debug, clap::Args)]
pub struct Global {
    /// Show no progress and no messages except errors
    #[arg(short, long, global = true)]
    pub quiet: bool,

    /// Threads that load and parse [default: the CPUs that the process may use]
    #[arg(long, global = true, value_name = "N", allow_negative_numbers = true, value_parser = threads)]
    pub threads: Option<u64>,

    /// The reader to use if a configuration has several, by the keys that lead to it: train.reader
    #[arg(long, global = true, value_name = "NAME")]
    pub reader: Option<String>,

    /// Format of the results [default: table on a terminal; elsewhere as each command says]
    #[arg(long, global = true, value_enum, value_name = "FORM")]
    pub format: Option<Form>,
}

/// Formats of results.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Form {
    /// For people
    Table,
    /// One JSON value
    Json,
    /// One JSON value per line
    Ndjson,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    Info(Info),
    Validate(Validate),
    Head(Head),
    Sample(Sample),
    Index(Index),
    Convert(Convert),
    Merge(Merge),
    Bench(Bench),
    Order(Order),
    Report(Report),
    Completions(Completions),
    Man(Man),
}
