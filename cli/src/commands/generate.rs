//! `cntk-reader completions` and `cntk-reader man`: completions for shells, and manual pages.

use crate::args::Args;
use crate::exit::{Exit, Failure, Outcome};
use clap::CommandFactory;
use clap_complete::Shell;
use cntk_reader::Error;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Print the completions of a shell
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  cntk-reader completions bash > ~/.local/share/bash-completion/completions/cntk-reader
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

pub fn completions(options: &Completions) -> Outcome {
    let mut text = Vec::new();
    clap_complete::generate(options.shell, &mut Args::command(), "cntk-reader", &mut text);
    let mut out = io::stdout().lock();
    out.write_all(&text)?;
    out.flush()?;
    Ok(Exit::Good)
}

pub fn man(options: &Man) -> Outcome {
    let failed = |path: &Path, cause: &io::Error| {
        Failure::Library(Error::io("Cannot write", &path.display().to_string(), cause))
    };
    std::fs::create_dir_all(&options.folder).map_err(|cause| failed(&options.folder, &cause))?;
    let mut program = Args::command();
    program.build();
    for command in std::iter::once(&program).chain(program.get_subcommands()) {
        // After `build`, names are qualified: `cntk-reader-info`.
        let name = command.get_display_name().unwrap_or(command.get_name()).to_owned();
        if name.ends_with("-help") {
            continue;
        }
        let path = options.folder.join(format!("{name}.1"));
        let mut text = Vec::new();
        let page = clap_mangen::Man::new(command.clone()).title(name);
        page.render(&mut text)
            .and_then(|()| std::fs::write(&path, text))
            .map_err(|cause| failed(&path, &cause))?;
    }
    Ok(Exit::Good)
}
