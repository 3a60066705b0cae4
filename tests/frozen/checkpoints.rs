//! The bytes of the checkpoints of every golden case, after every step.

use crate::{Directory, cases, common, compare, unpack};
use cntk_reader::language::from_text;
use cntk_reader_engine::reader::{Epoch, ReadConfig, Reader};
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::path::Path;

#[test]
fn checkpoints_match_the_record() {
    common::quiet();
    let mut lines = Vec::new();
    for (name, case) in cases("golden") {
        let _directory = Directory::new();
        let config = unpack::unpack(&case, Path::new("."));
        lines.extend(digest(&config, &case["steps"]).map(|digest| format!("{name}: {digest}")));
    }
    let directory = Directory::new();
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/htk/data");
    for entry in std::fs::read_dir(data).expect("the folder of data") {
        let path = entry.expect("an entry of the folder").path();
        std::fs::copy(&path, path.file_name().expect("a name")).expect("copying data");
    }
    for (name, case) in cases("htk") {
        let config = unpack::config(&case, Path::new("."));
        lines.extend(digest(&config, &case["steps"]).map(|digest| format!("{name}: {digest}")));
    }
    drop(directory);
    assert!(lines.len() > 400, "{} cases have checkpoints", lines.len());
    compare("checkpoints.txt", &lines);
}

/// Returns a digest of the checkpoints after each step, if the reader opens.
fn digest(config: &str, steps: &Value) -> Option<String> {
    let mut reader = from_text(config).and_then(|options| Reader::open(&options)).ok()?;
    let (mut count, mut digest) = (0, Sha256::new());
    for step in steps.as_array()? {
        take(&mut reader, step["op"].as_str().expect("a step"));
        if let Ok(checkpoint) = reader.checkpoint() {
            digest.update(&checkpoint);
            count += 1;
        }
    }
    let digest: String = digest.finalize().iter().take(12).map(|byte| format!("{byte:02x}")).collect();
    Some(format!("{count} checkpoints, {digest}"))
}

/// Takes a step of a case. Errors are part of some cases; their messages are compared elsewhere.
fn take(reader: &mut Reader, op: &str) {
    let words: Vec<&str> = op.split(' ').collect();
    let number = |place: usize, words_for: [u64; 2]| match words.get(place).copied() {
        None | Some("inf") => words_for[0],
        Some("sweep") => words_for[1],
        Some(word) => word.parse().expect("a number"),
    };
    let read = || {
        let mut read = ReadConfig::new(number(3, [1, 1])).worker(number(2, [0, 0]), number(1, [1, 1]));
        read.truncation_length = number(4, [0, 0]);
        read.right_splice = number(5, [0, 0]);
        read.cross_sweeps = words[6] == "1";
        read
    };
    match words[0] {
        "start" => {
            let samples = number(7, [u64::MAX >> 1, u64::MAX >> 2]);
            let (sweeps, index) = (number(8, [u64::MAX, u64::MAX]), number(9, [0, 0]));
            let _ = reader.start_epoch(&Epoch::from_numbers(read(), samples, sweeps, index));
        }
        "config" => _ = reader.configure(&read()),
        "restore" => {
            let state: Vec<(&str, u64)> =
                words[1..].chunks(2).map(|pair| (pair[0], pair[1].parse().expect("a number"))).collect();
            let _ = reader.set_state(&state);
        }
        "read" => _ = reader.read(),
        _ => {}
    }
}
