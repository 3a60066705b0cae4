//! The records of measurements, in `benches/record/`.

use super::options::{Mode, Options};
use crate::machine;
use crate::project::Project;
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};

/// What a mode measures: a title, and the end of the file's name.
fn subject(mode: Mode) -> (&'static str, &'static str) {
    match mode {
        Mode::Sweeps => ("Reading of generated text data", ""),
        Mode::Cntk => ("This library in CNTK's place, beside CNTK's own modules", "-cntk"),
        Mode::Parser => ("One thread that parses text", "-parser"),
        Mode::Peers => ("Reading beside other libraries", "-peers"),
    }
}

/// Writes the record of a run; gives its path.
pub fn write(project: &Project, options: &Options, text: &str) -> Result<PathBuf> {
    let (date, commit) = (machine::date(project)?, machine::commit(project)?);
    let (title, suffix) = subject(options.mode);
    let folder = project.path("benches/record");
    std::fs::create_dir_all(&folder)?;
    let path = unused(&folder, &format!("{date}{suffix}"));
    let (processor, cores, memory) = (machine::processor(), machine::cores(), machine::memory());
    let command = options.command();
    let record = format!(
        "# {title}, {date}\n\n- commit: {commit}\n- machine: {processor}, {cores} CPUs, {memory} GiB memory\n\
         - command: `{command}`\n\n{text}"
    );
    std::fs::write(&path, record).with_context(|| format!("writing {}", path.display()))?;
    Ok(path)
}

/// A name for the day's next record.
fn unused(folder: &Path, stem: &str) -> PathBuf {
    let name = |number: u32| {
        folder.join(if number == 1 { format!("{stem}.md") } else { format!("{stem}-{number}.md") })
    };
    let mut number = 1;
    while name(number).exists() {
        number += 1;
    }
    name(number)
}
