//! `cntk-reader completions` and `cntk-reader man`: completions for shells, and manual pages.

mod bash;
mod pages;

use crate::args::Args;
use crate::exit::{Exit, Failure, Outcome};
use clap::{CommandFactory, ValueEnum};
use clap_complete::aot::{Fish, Generator, Zsh, generate};
use std::io::{self, Write};
use std::path::PathBuf;

/// Print the completions of a shell
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  cntk-reader completions bash > ~/.local/share/bash-completion/completions/cntk-reader
  cntk-reader completions zsh  > a folder of $fpath/_cntk-reader
  cntk-reader completions fish > ~/.config/fish/completions/cntk-reader.fish")]
pub struct Completions {
    /// The shell
    #[arg(value_enum, value_name = "SHELL")]
    shell: Shell,
}

/// Write the manual pages of all commands
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  cntk-reader man ~/.local/share/man/man1    and then: man cntk-reader-convert")]
pub struct Man {
    /// The folder to write them to; created if it is missing
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,
}

/// Shells in which the completions are tested.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Shell {
    Bash,
    Zsh,
    Fish,
}

pub fn completions(options: &Completions) -> Outcome {
    let mut program = Args::command();
    let text = match options.shell {
        Shell::Bash => {
            program.build();
            bash::script(&program)
        }
        Shell::Zsh => zsh(&mut program)?,
        Shell::Fish => fish(&mut program)?,
    };
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()?;
    Ok(Exit::Good)
}

fn generated(generator: impl Generator, program: &mut clap::Command) -> io::Result<String> {
    let mut text = Vec::new();
    generate(generator, program, "cntk-reader", &mut text);
    String::from_utf8(text).map_err(io::Error::other)
}

/// Returns the completions for zsh. `clap_complete` gives an argument that may be repeated all
/// further words, so that no option is completed after it.
fn zsh(program: &mut clap::Command) -> io::Result<String> {
    Ok(generated(Zsh, program)?.replace("'*::", "'*:"))
}

/// Returns the completions for fish. `clap_complete` does not complete commands after `help`,
/// because it takes `help` for one of them, and leaves out the values of arguments.
fn fish(program: &mut clap::Command) -> io::Result<String> {
    let text = generated(Fish, program)?;
    let names: Vec<&str> = program.get_subcommands().map(clap::Command::get_name).collect();
    let mut text = text.replace(&format!("; and not __fish_seen_subcommand_from {}", names.join(" ")), "");
    for command in program.get_subcommands() {
        for values in command.get_positionals().filter_map(bash::possible) {
            let name = command.get_name();
            text += &format!(
                "complete -c cntk-reader -n \"__fish_cntk_reader_using_subcommand {name}\" -f -a \"{values}\"\n"
            );
        }
    }
    Ok(text)
}

pub fn man(options: &Man) -> Outcome {
    let mut program = Args::command();
    program.build();
    pages::write(&program, &options.folder).map_err(Failure::Library)?;
    Ok(Exit::Good)
}
