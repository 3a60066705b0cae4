//! Manual pages.

use clap::Command;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};
use cntk_reader::{Error, Result};
use std::io;
use std::path::Path;

/// Environment variables that the tool and the library heed.
const ENVIRONMENT: [(&str, &str); 5] = [
    (
        "CNTK_READER_CACHE",
        "Folder of the unpacked copies of gzip files. By default $XDG_CACHE_HOME/cntk-reader or \
         ~/.cache/cntk-reader.",
    ),
    ("CNTK_READER_THREADS", "Number of threads that load and parse, if --threads is not given."),
    (
        "COLUMNS",
        "Width of tables and of samples, if standard output is a terminal; otherwise the terminal says it.",
    ),
    ("NO_COLOR", "If it is not empty, results have no colors (https://no-color.org)."),
    ("TERM", "If it is 'dumb', results have no colors."),
];

/// Writes a page for the program, which was built (`Command::build`), and for each command.
pub fn write(program: &Command, folder: &Path) -> Result<()> {
    let failed =
        |path: &Path, cause: &io::Error| Error::io("Cannot write", &path.display().to_string(), cause);
    std::fs::create_dir_all(folder).map_err(|cause| failed(folder, &cause))?;
    let pages: Vec<(String, &Command)> = std::iter::once(program)
        .chain(program.get_subcommands())
        // After `build`, names are qualified: `cntk-reader-info`.
        .map(|command| (command.get_display_name().unwrap_or(command.get_name()).to_owned(), command))
        .filter(|(name, _)| !name.ends_with("-help"))
        .collect();
    for (name, command) in &pages {
        let path = folder.join(format!("{name}.1"));
        let others = pages.iter().map(|(other, _)| other).filter(|other| *other != name);
        page(command, name, others)
            .and_then(|text| std::fs::write(&path, text))
            .map_err(|cause| failed(&path, &cause))?;
    }
    Ok(())
}

fn page<'a>(command: &Command, name: &str, others: impl Iterator<Item = &'a String>) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    let man =
        Man::new(command.clone()).title(name).source(concat!("cntk-reader ", env!("CARGO_PKG_VERSION")));
    man.render_title(&mut text)?;
    man.render_name_section(&mut text)?;
    man.render_synopsis_section(&mut text)?;
    man.render_description_section(&mut text)?;
    man.render_options_section(&mut text)?;
    if command.has_subcommands() {
        man.render_subcommands_section(&mut text)?;
    }
    let mut end = Roff::new();
    // Examples and exit codes, whose lines must not be filled.
    let sections = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    for (heading, content) in sections.split("\n\n").filter_map(|section| section.split_once(':')) {
        // The customary name of the section.
        let heading = if heading == "Exit codes" { "EXIT STATUS" } else { heading };
        end.control("SH", [heading.to_uppercase().as_str()]);
        end.control("nf", []);
        end.text([roman(
            content.trim_start_matches([' ', '\n']).lines().map(str::trim).collect::<Vec<_>>().join("\n"),
        )]);
        end.control("fi", []);
    }
    end.control("SH", ["ENVIRONMENT"]);
    for (variable, effect) in ENVIRONMENT {
        end.control("TP", []);
        end.text([bold(variable)]);
        end.text([roman(effect)]);
    }
    end.control("SH", ["SEE ALSO"]);
    let mut pages = Vec::new();
    for other in others {
        if !pages.is_empty() {
            pages.push(roman(", "));
        }
        pages.extend([bold(other.as_str()), roman("(1)")]);
    }
    end.text(pages);
    end.to_writer(&mut text)?;
    Ok(text)
}
