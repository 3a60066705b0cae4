//! Checks that the outputs of converted parts are the files that their reports describe.

use super::Part;
use crate::exit::Failure;
use crate::output::{bytes, number};
use cntk_reader_core::file::address;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// Fails unless the output of each part with sequences exists with the size in the report, and no
/// two parts have one output.
pub fn check(parts: &[Part]) -> Result<(), Failure> {
    let mut taken: HashMap<PathBuf, &Part> = HashMap::new();
    for part in parts.iter().filter(|part| !part.is_empty()) {
        let path = find(part)?;
        let path = std::fs::canonicalize(&path).unwrap_or(path);
        if let Some(other) = taken.insert(path, part) {
            return Err(Failure::Data(format!(
                "Parts {} and {} have one output, '{}' ('{}' and '{}'): the later one has replaced the earlier one. \
                 Convert each part to a file of its own.",
                other.number,
                part.number,
                output(part),
                other.path,
                part.path
            )));
        }
    }
    Ok(())
}

/// The output as written in the report.
fn output(part: &Part) -> &str {
    part.report["output"].as_str().unwrap_or_default()
}

/// Returns the path of a part's output. A relative one is looked for from the current directory,
/// where parts are converted as a rule, and from the folder of the report, which may have been
/// moved with its output.
fn find(part: &Part) -> Result<PathBuf, Failure> {
    let exact = address::exact(output(part));
    let written = Path::new(&exact);
    let folder = Path::new(&part.path).parent().unwrap_or(Path::new(""));
    let beside = written.file_name().map(|name| folder.join(name));
    let candidates = [Some(written.to_owned()), Some(folder.join(written)), beside];
    let expected = part.number("bytes");
    let again = format!("Convert the part again: --part {}/{}", part.number, part.parts);
    let mut found = None;
    for path in candidates.into_iter().flatten() {
        match std::fs::metadata(&path) {
            Ok(file) if file.is_file() && file.len() == expected => return Ok(path),
            Ok(file) if file.is_file() => found = found.or(Some((path, file.len()))),
            _ => {}
        }
    }
    Err(Failure::Data(match found {
        Some((path, size)) => format!(
            "'{}', the output of part {}, has {}, but {} in its report '{}': it has been cut off or replaced. {again}",
            path.display(),
            part.number,
            sized(size),
            sized(expected),
            part.path
        ),
        None => format!(
            "'{}', the output of part {}, is missing: it is neither there, seen from the current directory, nor beside its report \
             '{}'. {again}",
            output(part),
            part.number,
            part.path
        ),
    }))
}

/// A size with its unit, and exactly.
fn sized(size: u64) -> String {
    match size {
        0..1000 => bytes(size),
        _ => format!("{} ({} bytes)", bytes(size), number(size)),
    }
}
