//! The records of measurements, in `benches/record/`: the newest of each mode and processor. The
//! newest of each mode is also in `docs/performance.md`.

use crate::data::SHAPES;
use crate::family;
use crate::options::{Mode, Options};
use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};
use tooling::machine::{self, Tree};
use tooling::project::Project;

/// The document that shows the newest records.
const DOCUMENT: &str = "docs/performance.md";

/// What a mode measures: a title, and the end of the file's name.
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

/// Writes the record of a run; returns its path. `tree` and `load` are the checkout and the
/// machine's load before the run. Only the record of a clean tree goes into the document and
/// replaces older records, and none of a seed that was used for tuning.
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
        let name = path.file_name().context("a record has a name")?.to_string_lossy().into_owned();
        let head = format!(
            "[{name}](../benches/record/{name}): commit {tree}, {processor}, {cores} CPUs, `{command}`"
        );
        publish(&project.path(DOCUMENT), options.mode, &format!("{head}\n\n{text}"))?;
        delete_older(&path, suffix, &processor)?;
    }
    Ok(path)
}

/// Puts a record of all shapes into the document, in place of the last one.
fn publish(document: &Path, mode: Mode, text: &str) -> Result<()> {
    let old = std::fs::read_to_string(document).with_context(|| document.display().to_string())?;
    let new = replace(&old, &mode.command(), text)?;
    std::fs::write(document, new).with_context(|| document.display().to_string())
}

/// Replaces what is between a command's two marks.
fn replace(document: &str, command: &str, text: &str) -> Result<String> {
    let (begin, end) = (format!("<!-- {command} -->\n"), format!("<!-- end of {command} -->"));
    let places = document.find(&begin).map(|at| at + begin.len()).zip(document.find(&end));
    let (from, to) = places.with_context(|| format!("{DOCUMENT} has no place for `{command}`"))?;
    ensure!(from <= to, "{DOCUMENT}: the marks of `{command}` are in the wrong order");
    Ok(format!("{}\n{}\n\n{}", &document[..from], text.trim_end(), &document[to..]))
}

/// Deletes the other records of a mode and a processor; git history keeps them.
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

/// Whether a record's file name is a date and a mode's suffix, and at most a number of the day.
fn is_of_mode(name: &str, suffix: &str) -> bool {
    let stem = name.strip_suffix(".md").and_then(|stem| stem.get("2024-05-31".len()..));
    let Some(number) = stem.and_then(|stem| stem.strip_prefix(suffix)) else { return false };
    number.is_empty() || number.strip_prefix('-').is_some_and(|number| number.parse::<u32>().is_ok())
}

fn is_of_processor(record: &str, processor: &str) -> bool {
    record.contains(&format!("\n- machine: {processor}, "))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_of_a_mode_and_a_processor() {
        let names =
            ["2024-05-30.md", "2024-05-30-2.md", "2024-05-30-cntk.md", "2024-05-30-cntk-12.md", "README.md"];
        assert_eq!(names.map(|name| is_of_mode(name, "")), [true, true, false, false, false]);
        assert_eq!(names.map(|name| is_of_mode(name, "-cntk")), [false, false, true, true, false]);
        let record = "# A title\n\n- commit: 0\n- machine: A processor with AVX2, 2 CPUs, 24 GiB memory\n";
        assert!(is_of_processor(record, "A processor with AVX2"));
        assert!(!is_of_processor(record, "A processor"));
    }

    #[test]
    fn the_document_has_a_place_for_each_mode() {
        let document = include_str!("../../docs/performance.md");
        for mode in Mode::ALL {
            let command = mode.command();
            let new = replace(document, &command, "a table").expect("marks");
            assert!(new.contains("-->\n\na table\n\n<!-- end"), "{command}");
            assert_eq!(replace(&new, &command, "a table").expect("marks"), new);
        }
    }
}
