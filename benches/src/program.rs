//! `cargo xtask bench`: times reading, checks what was read, and keeps a record.
//!
//! Every measurement is a process of its own, so that its peak of memory is its own too. Each mode
//! has a file here: [`sweeps`], this library alone; [`counts`], its instructions; [`cntk`], beside
//! CNTK; [`family`], the same of random shapes; [`parser`], one thread's parsing; [`peers`], beside
//! other readers; [`csv`], users' deserializers; [`speech`], features of speech; [`images`];
//! [`python`], token ids beside other loaders. All of them measure [`subject`]s on [`data`] and
//! make a [`table`]; [`record`] keeps it.

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
    /// Measured, as Markdown; and how many measurements there are.
    Measured(String, usize),
    /// Nothing was measured, for this reason.
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

/// Measures as the arguments say.
fn bench(project: &Project, parser: Parser) -> Result<()> {
    let options = Options::parse(parser)?;
    let (tree, load) = (Tree::of(project)?, machine::load());
    if options.record && !options.dirty && !tree.is_clean() {
        bail!(
            "A record is of a commit, and these files differ from {}:\n{}\nCommit them; or print the result without a \
             record (--no-record), or keep a record that says so and is not published (--dirty).",
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

/// The short form, a step of `cargo xtask test`: every mode on very small data. Installs nothing.
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
            let reason = "what it compares with is not installed; that command installs it";
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

/// `step [--quick]`: the short form. The last line that it prints is its result.
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
