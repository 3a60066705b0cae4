//! Readers with very many streams and deserializers.

use crate::common;

use cntk_reader::{CtfDeserializer, Epoch, Reader, ReaderOptions, Result};
use std::fmt::Write;
use std::path::Path;
use std::time::Instant;

/// Opens a reader of this many streams of one file, and of this many files of one stream each.
fn open(folder: &Path, streams: usize, files: usize) -> Result<Reader> {
    let mut reader = Reader::builder().options(ReaderOptions::new().randomize(false));
    let mut line = String::from("0");
    let wide = folder.join("wide.ctf");
    let mut ctf = CtfDeserializer::new(&wide);
    for number in 0..streams {
        write!(line, " |s{number} {number}").expect("memory");
        ctf = ctf.dense(&format!("s{number}"), 1);
    }
    std::fs::write(&wide, line + "\n").expect("writing the data");
    reader = reader.ctf(ctf);
    for number in 0..files {
        let path = folder.join(format!("{number}.ctf"));
        std::fs::write(&path, format!("0 |f {number}\n")).expect("writing the data");
        reader = reader.ctf(CtfDeserializer::new(&path).dense(&format!("f{number}"), 1).alias("f"));
    }
    reader.open()
}

#[test]
fn all_streams_are_delivered_by_name() {
    common::quiet();
    let folder = tempfile::tempdir().expect("a folder");
    let mut reader = open(folder.path(), 2000, 40).expect("good data");
    let mut minibatches = reader.epoch(Epoch::sweeps(1).minibatch_size(1)).expect("an epoch");
    let minibatch = minibatches.next().expect("a minibatch").expect("good data");
    for (prefix, count) in [("s", 2000), ("f", 40)] {
        for number in 0..count {
            let stream = minibatch.stream(&format!("{prefix}{number}")).expect("a stream");
            assert_eq!(stream.dense::<f32>().expect("floats"), [number as f32]);
        }
    }
    assert!(minibatch.stream("s2000").is_err());
}

/// Prints how long opening takes: `cargo test --release --test many -- --ignored --nocapture`.
#[test]
#[ignore = "prints times, and fails never"]
fn times() {
    common::quiet();
    for (streams, files) in [(1000, 0), (10_000, 0), (100_000, 0), (1, 100), (1, 1000), (1, 10_000)] {
        let folder = tempfile::tempdir().expect("a folder");
        let start = Instant::now();
        let reader = open(folder.path(), streams, files).expect("good data");
        println!("{streams} streams of one file and {files} of files of their own: {:.2?}", start.elapsed());
        drop(reader);
    }
}
