//! Records of this library's own behaviour that no refactoring may change: the bytes of
//! checkpoints, and the errors of configurations, including the order in which they are found.
//!
//! `CNTK_READER_RECORD=1` rewrites the records. Changing a record is a decision: give the reason in
//! the commit.

#![cfg(all(feature = "compression", feature = "images"))]

#[path = "../common/mod.rs"]
mod common;
#[path = "../golden/unpack.rs"]
mod unpack;

mod checkpoints;
mod errors;
mod mutation;

use serde_json::Value;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tempfile::TempDir;

/// Makes an empty folder the current directory, so that neither paths nor their lengths change from
/// run to run. The current directory belongs to the whole process.
struct Directory {
    _folder: TempDir,
    _only: MutexGuard<'static, ()>,
}

impl Directory {
    fn new() -> Directory {
        static ONLY: Mutex<()> = Mutex::new(());
        let only = ONLY.lock().unwrap_or_else(PoisonError::into_inner);
        let folder = tempfile::tempdir().expect("a temporary folder");
        std::env::set_current_dir(folder.path()).expect("a directory");
        Directory { _folder: folder, _only: only }
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        std::env::set_current_dir("/").expect("a directory");
    }
}

/// Returns the recorded cases in a folder of `tests`, by name.
fn cases(folder: &str) -> Vec<(String, Value)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(folder);
    let mut cases = Vec::new();
    for entry in std::fs::read_dir(folder).expect("the folder of records") {
        let path = entry.expect("an entry of the folder").path();
        if path.extension().is_some_and(|extension| extension == "json") {
            let text = std::fs::read_to_string(&path).expect("a file of records");
            let group: Vec<Value> = serde_json::from_str(&text).expect("records in JSON");
            cases.extend(
                group.into_iter().map(|case| (case["name"].as_str().expect("a name").to_owned(), case)),
            );
        }
    }
    cases.sort_by(|(one, _), (other, _)| one.cmp(other));
    cases
}

/// Compares lines with a record, or writes it.
fn compare(name: &str, lines: &[String]) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/frozen").join(name);
    if std::env::var_os("CNTK_READER_RECORD").is_some() {
        return std::fs::write(path, lines.join("\n") + "\n").expect("writing the record");
    }
    let record = std::fs::read_to_string(&path).expect("the record");
    let recorded: Vec<&str> = record.lines().collect();
    let moved = |(line, recorded): &(&String, &&str)| line != *recorded;
    let pairs = || lines.iter().zip(&recorded).filter(moved);
    let first: String =
        pairs().take(5).map(|(line, recorded)| format!("recorded: {recorded}\nnow:      {line}\n")).collect();
    assert!(first.is_empty(), "{} of {} lines of {name} moved:\n{first}", pairs().count(), recorded.len());
    assert_eq!(lines.len(), recorded.len(), "lines of {name}");
}
