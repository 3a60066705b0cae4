//! Realistic configurations: whole files for CNTK's command line, and common mistakes.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod options;
mod paths;
mod syntax;
mod whole;

use cntk_reader::{Config, Epoch, Error, Reader};
use std::fs;
use std::path::Path;
use tempfile::TempDir;

/// Text data of three sequences.
const DATA: &str = "|features 1 2 |labels 0:1\n|features 3 4 |labels 2:1\n|features 5 6 |labels 1:1\n";

/// Returns a folder with `data/train.ctf` of three sequences and `data/test.ctf` of one.
fn folder() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("data")).unwrap();
    fs::write(folder.path().join("data/train.ctf"), DATA).unwrap();
    fs::write(folder.path().join("data/test.ctf"), "|features 7 8 |labels 2:1\n").unwrap();
    folder
}

/// Returns the values of the stream `features` of one sweep, sorted.
fn read(mut reader: Reader) -> Vec<f32> {
    let mut values = Vec::new();
    for minibatch in reader.epoch(Epoch::sweeps(1).minibatch_size(100)).unwrap() {
        values.extend_from_slice(minibatch.unwrap().stream("features").unwrap().dense::<f32>().unwrap());
    }
    values.sort_by(f32::total_cmp);
    values
}

const TRAIN: [f32; 6] = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
const TEST: [f32; 2] = [7.0, 8.0];

fn open(config: Config) -> Result<Reader, Error> {
    Reader::builder().config(config).open()
}

/// Returns the error of a text.
#[track_caller]
fn refused(text: &str) -> Error {
    match Config::from_text(text).and_then(open) {
        Ok(_) => panic!("accepted: {text}"),
        Err(error) => error,
    }
}

/// Returns the line and column of an error.
fn place(error: &Error) -> (u64, u64) {
    (error.location().line.unwrap_or(0), error.location().column.unwrap_or(0))
}

fn text_of(path: &Path) -> String {
    path.to_str().unwrap().to_owned()
}
