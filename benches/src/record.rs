//! Writes the record of a run to `benches/record/`, which keeps the newest of each mode and
//! processor. `docs/performance.md` links to records, and its figures are copied from them by hand.

use crate::data::SHAPES;
use crate::family;
use crate::options::{Mode, Options};
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};
use tooling::machine::{self, Tree};
use tooling::project::Project;

/// Returns the title of a mode's records, and the suffix of their file names.
fn subject(mode: Mode) -> (&'static str, &'static str) {
    match mode {
        Mode::Sweeps => ("Reading of generated text data", ""),
        Mode::Counts => ("Instructions of reading generated text data", "-counts"),
        Mode::Cntk => ("This library in CNTK's place, beside CNTK's own modules", "-cntk"),
        Mode::Family => ("Random shapes of text, beside CNTK's own modules", "-family"),
        Mode::Parser => ("One thread that parses text", "-parser"),
        Mode::Peers => ("Reading beside other libraries", "-peers"),
        Mode::Csv => ("Reading of a CSV table by users' deserializers", "-csv"),
        Mode::Images => {
            ("Images, beside CNTK's own modules, decoders of JPEG and PyTorch's DataLoader", "-images")
        }
        Mode::Python => ("Padded token ids in Python, beside other loaders", "-python"),
        Mode::Speech => {
            ("Features and labels of speech, beside CNTK's own modules and other libraries", "-speech")
        }
    }
}

/// Writes the record of a run, and returns its path. `tree` and `load` are the checkout and the
/// machine's load before the run. The record replaces older ones of its mode and processor if it
/// covers all shapes, the tree is clean, and the seed was not used for tuning.
pub fn write(project: &Project, options: &Options, tree: &Tree, load: f64, text: &str) -> Result<PathBuf> {
    let date = machine::date(project)?;
    let (title, suffix) = subject(options.mode);
    let folder = project.path("benches/record");
    std::fs::create_dir_all(&folder)?;
    let path = unused(&folder, &format!("{date}{suffix}"));
    let (processor, cores, memory) = (machine::processor(), machine::cores(), machine::memory());
    let command = options.command();
    let record = format!(
        "# {title}, {date}\n\n- commit: {tree}\n- machine: {processor}, {cores} CPUs, {memory} GiB memory, load {load:.1} before the run\n\
         - command: `{command}`\n\n{text}"
    );
    std::fs::write(&path, record).with_context(|| format!("writing {}", path.display()))?;
    let is_for_tuning = options.mode == Mode::Family && options.seed < family::FIRST_SEED_OF_RECORDS;
    if options.shapes == SHAPES && !is_for_tuning && tree.is_clean() {
        delete_older(&path, suffix, &processor)?;
    }
    Ok(path)
}

/// Deletes the other records of a mode and processor. Git history keeps them.
fn delete_older(newest: &Path, suffix: &str, processor: &str) -> Result<()> {
    for entry in std::fs::read_dir(newest.parent().context("a record is in a folder")?)? {
        let path = entry?.path();
        let name = path.file_name().context("a record has a name")?.to_string_lossy();
        if path != newest
            && is_of_mode(&name, suffix)
            && is_of_processor(&std::fs::read_to_string(&path)?, processor)
        {
            std::fs::remove_file(&path).with_context(|| format!("deleting {}", path.display()))?;
        }
    }
    Ok(())
}

/// Whether a file name consists of a date, the mode's suffix, and at most a number within the day.
fn is_of_mode(name: &str, suffix: &str) -> bool {
    let stem = name.strip_suffix(".md").and_then(|stem| stem.get("2024-05-31".len()..));
    let Some(number) = stem.and_then(|stem| stem.strip_prefix(suffix)) else { return false };
    number.is_empty() || number.strip_prefix('-').is_some_and(|number| number.parse::<u32>().is_ok())
}

/// Whether a record was made on this processor.
fn is_of_processor(record: &str, processor: &str) -> bool {
    record.contains(&format!("\n- machine: {processor}, "))
}

/// Returns an unused path for a record of this date and mode.
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

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = include_str!("../../docs/performance.md");

    #[test]
    fn record_names_and_processors() {
        let names =
            ["2024-05-30.md", "2024-05-30-2.md", "2024-05-30-cntk.md", "2024-05-30-cntk-12.md", "README.md"];
        assert_eq!(names.map(|name| is_of_mode(name, "")), [true, true, false, false, false]);
        assert_eq!(names.map(|name| is_of_mode(name, "-cntk")), [false, false, true, true, false]);
        let record = "# A title\n\n- commit: 0\n- machine: A processor with AVX2, 2 CPUs, 24 GiB memory\n";
        assert!(is_of_processor(record, "A processor with AVX2"));
        assert!(!is_of_processor(record, "A processor"));
    }

    #[test]
    fn page_links_to_existing_records() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("record");
        let links = PAGE.split("](../benches/record/").skip(1);
        let names: Vec<&str> = links.filter_map(|link| link.split(')').next()).collect();
        assert!(!names.is_empty());
        for name in names {
            assert!(folder.join(name).is_file(), "docs/performance.md links to {name}; use a newer record");
        }
    }

    #[test]
    fn page_names_each_mode() {
        for mode in Mode::ALL {
            assert!(PAGE.contains(&mode.command()), "{}", mode.command());
        }
    }
}
