//! `cargo xtask bench`: times reading, checks the data that were read, and writes a record.
//!
//! Each measurement runs in a separate process, so that peaks of memory are independent. Each mode
//! has a module: [`sweeps`] (this library alone), [`counts`] (its instructions), [`cntk`] (beside
//! CNTK), [`family`] (the same for random shapes), [`parser`] (one thread that parses), [`peers`]
//! (other readers), [`csv`] (user-defined deserializers), [`speech`], [`images`] and [`python`]
//! (token ids beside other loaders). All of them run [`subject`]s on [`data`] and fill a [`table`],
//! which [`record`] writes.

#[macro_use]
extern crate tooling;

mod cntk;
mod comparison;
mod counts;
mod csv;
mod data;
mod family;
mod host;
mod images;
mod options;
mod parser;
mod peers;
mod python;
mod record;
mod speech;
mod subject;
mod sweeps;
mod table;

use anyhow::{Result, bail};
use lexopt::Parser;
use lexopt::prelude::*;
use options::{Mode, Options};
use oracle::install;
use std::process::ExitCode;
use tooling::Tally;
use tooling::machine::{self, Tree};
use tooling::project::Project;

/// The result of a mode.
enum Outcome {
    /// The results as Markdown, and the number of measurements.
    Measured(String, usize),
    /// The reason why nothing was measured.
    Nothing(String),
}

fn main() -> ExitCode {
    tooling::cli::main(|project, mut parser| match parser.next()? {
        Some(Value(command)) if command == "bench" => bench(project, parser),
        Some(Value(command)) if command == "step" => step(project, parser),
        Some(argument) => Err(argument.unexpected().into()),
        None => bail!("The commands are bench and step."),
    })
}

/// Runs the command `bench`.
fn bench(project: &Project, parser: Parser) -> Result<()> {
    let options = Options::parse(parser)?;
    let (tree, load) = (Tree::of(project)?, machine::load());
    if options.record && !options.dirty && !tree.is_clean() {
        bail!(
            "A record belongs to a commit, and these files differ from {}:\n{}\nCommit them, print the result without \
             recording it (--no-record), or record it as uncommitted (--dirty).",
            tree.commit,
            tree.changes.join("\n")
        );
    }
    let text = match measure(project, &options)? {
        Outcome::Measured(text, _) => text,
        Outcome::Nothing(reason) => {
            say!("\nNothing was compared: {reason}.");
            std::process::exit(oracle::NOT_INSTALLED);
        }
    };
    say!("\n{text}");
    if options.record {
        let path = record::write(project, &options, &tree, load, &text)?;
        say!("recorded in {}", path.display());
    }
    Ok(())
}

fn measure(project: &Project, options: &Options) -> Result<Outcome> {
    match options.mode {
        Mode::Sweeps => sweeps::measure(project, options),
        Mode::Counts => counts::measure(project, options),
        Mode::Cntk => cntk::measure(project, options),
        Mode::Family => family::measure(project, options),
        Mode::Parser => parser::measure(project, options),
        Mode::Peers => peers::measure(project, options),
        Mode::Csv => csv::measure(project, options),
        Mode::Speech => speech::measure(project, options),
        Mode::Images => images::measure(project, options),
        Mode::Python => python::measure(project, options),
    }
}

/// Runs every mode on very small data, as a step of `cargo xtask test`. Installs nothing.
fn short_form(project: &Project) -> Result<Tally> {
    let mut tally = Tally::default();
    for mode in Mode::ALL {
        let there = match mode {
            Mode::Sweeps | Mode::Parser | Mode::Counts => true,
            Mode::Cntk | Mode::Family => install::is_installed(project, install::VERSIONS[0]),
            Mode::Peers => peers::are_installed(project),
            Mode::Csv => csv::are_installed(project),
            Mode::Speech => speech::are_installed(project),
            Mode::Images => images::are_installed(project),
            Mode::Python => python::are_installed(project),
        };
        let command = mode.command();
        if !there {
            let reason = "the software to compare with is not installed; that command installs it";
            tally = tally.and(Tally::skipped(format!("`{command}`: {reason}"))?);
            continue;
        }
        match measure(project, &Options::small(mode))? {
            Outcome::Measured(_, measurements) => tally.passed += measurements,
            Outcome::Nothing(reason) => tally = tally.and(Tally::skipped(format!("`{command}`: {reason}"))?),
        }
    }
    Ok(tally)
}

/// Runs the command `step [--quick]`: the short form. Its last line of output is the result.
fn step(project: &Project, mut parser: Parser) -> Result<()> {
    let mut project = project.clone();
    while let Some(argument) = parser.next()? {
        match argument {
            Long("quick") => project.quick = true,
            option => return Err(option.unexpected().into()),
        }
    }
    say!("{}", short_form(&project)?);
    Ok(())
}
