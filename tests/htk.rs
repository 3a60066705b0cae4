//! Compares HTK features, MLF labels and lattices delivered by this library with recorded runs of
//! CNTK 2.7.
//!
//! The records and their data are in `tests/htk/`, whose README explains them.

#[path = "golden/check.rs"]
mod check;
mod common;
#[path = "golden/driver.rs"]
mod driver;

use check::{join, list_of, run_steps, text_of};
use serde_json::Value;
use std::fmt::Write;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// Runs of CNTK's Python programs.
#[test]
fn python() {
    group("python", 22);
}

/// Runs of CNTK's native interface, including legacy sections.
#[test]
fn native() {
    group("native", 4);
}

/// Paths of some cases are relative to the data, and the current directory belongs to the whole
/// process.
static DIRECTORY: Mutex<()> = Mutex::new(());

/// Runs all cases of a file, and reports every difference. `deliberate` is the number of cases in
/// which this library differs on purpose; each case states the reason.
fn group(name: &str, deliberate: usize) {
    common::quiet();
    let _directory = DIRECTORY.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let place = folder.path().to_str().expect("a UTF-8 path");
    unpack(folder.path());
    let records = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/htk");
    let text = std::fs::read_to_string(records.join(format!("{name}.json"))).expect("a file of records");
    let text = text.replace("@DIR@", place).replace("@BACKSLASHES@", &place.replace('/', r"\\"));
    let cases: Vec<Value> = serde_json::from_str(&text).expect("records in JSON");
    let mut failures = String::new();
    let (mut failed, mut different) = (0, 0);
    for case in &cases {
        let elsewhere = case["elsewhere"] == true;
        std::env::set_current_dir(if elsewhere { Path::new("/") } else { folder.path() })
            .expect("a directory");
        different += usize::from(!case["differs"].is_null());
        if let Err(difference) = run_steps(&expected(case), &join(&case["config"])) {
            failed += 1;
            writeln!(failures, "{}: {difference}", text_of(&case["name"])).expect("writing to a string");
        }
    }
    std::env::set_current_dir("/").expect("a directory");
    assert!(failed == 0, "{failed} of {} cases differ:\n{failures}", cases.len());
    assert_eq!(different, deliberate, "cases in which this library differs on purpose");
}

/// Returns the expected results: CNTK's, up to the step in which the library differs on purpose.
fn expected(case: &Value) -> Value {
    let mut case = case.clone();
    let differs = case["differs"].take();
    if differs.is_null() {
        return case;
    }
    assert!(differs["why"].is_string(), "{}: no reason", case["name"]);
    let result = differs["result"].clone();
    match differs["step"].as_u64() {
        None => {
            case["create"] = result;
            case["steps"] = differs["steps"].clone();
        }
        Some(step) => {
            let steps = case["steps"].as_array_mut().expect("an array");
            steps.truncate(step as usize + 1);
            steps[step as usize]["result"] = result;
            steps.extend(differs["steps"].as_array().into_iter().flatten().cloned());
        }
    }
    if case["steps"].is_null() {
        case["steps"] = Value::Array(Vec::new());
    }
    list_of(&case["steps"]);
    case
}

/// Copies the data to a folder, and generates the large archives.
fn unpack(folder: &Path) {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/htk/data");
    for entry in std::fs::read_dir(data).expect("the folder of data") {
        let path = entry.expect("an entry of the folder").path();
        std::fs::copy(&path, folder.join(path.file_name().expect("a file name"))).expect("copying data");
    }
    for (name, lengths) in [("A", [90_000, 5, 5]), ("B", [90_001, 5, 5]), ("C", [60_000, 60_000, 5])] {
        let total = lengths.iter().sum();
        archive(folder, &format!("big{name}.mfc"), total, 100_000, 1);
        let (mut script, mut first) = (String::new(), 0);
        for (number, length) in (1..).zip(lengths) {
            let last = first + length - 1;
            writeln!(script, "b{number}.mfc=.../big{name}.mfc[{first},{last}]").expect("writing to a string");
            first = last + 1;
        }
        std::fs::write(folder.join(format!("big{name}.scp")), script).expect("writing a script");
    }
    // The second chunk has another period, or another dimension.
    archive(folder, "big1.mfc", 90_001, 100_000, 1);
    archive(folder, "small_k.mfc", 5, 200_000, 1);
    archive(folder, "small_d.mfc", 5, 100_000, 2);
    for kind in ["k", "d"] {
        let script = format!("b1.mfc=.../big1.mfc[0,90000]\nb2.mfc=.../small_{kind}.mfc[0,4]\n");
        std::fs::write(folder.join(format!("big{kind}.scp")), script).expect("writing a script");
    }
}

/// Writes an archive of `frames` frames.
fn archive(folder: &Path, name: &str, frames: u32, period: u32, dim: u16) {
    let mut content = Vec::new();
    content.extend(frames.to_be_bytes());
    content.extend(period.to_be_bytes());
    content.extend((4 * dim).to_be_bytes());
    content.extend(9u16.to_be_bytes());
    for value in 0..frames * u32::from(dim) {
        content.extend(((value % 977) as f32).to_be_bytes());
    }
    std::fs::write(folder.join(name), content).expect("writing an archive");
}
