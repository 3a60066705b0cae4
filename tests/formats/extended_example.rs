//! The extended example of CNTK's page about its text format: sequences of several samples and
//! streams, ids that may be left out on continuation lines, streams with short names in the file.
//!
//! The page says that the file has five sequences. CNTK 2.7 refuses it, whatever its `maxErrors`:
//! sequence 333 has no sample of the stream `a`. This reader does the same, unless
//! `strictSequences` is false.

use cntk_reader::{CtfDeserializer, Epoch, ErrorKind, Minibatch, Reader, ReaderOptions, Result};

const EXAMPLE: &str = "100 |a 1 2 3 |b 100 200
100 |a 4 5 6 |b 101 201
100 |b 102983 14532 |a 7 8 9
100 |a 7 8 9
200 |b 300 400 |a 10 20 30
333 |b 500 100
333 |b 600 -900
400 |a 1 2 3 |b 100 200
|a 4 5 6 |b 101 201
|a 4 5 6 |b 101 201
500 |a 1 2 3 |b 100 200
";

/// A sequence: its key and its samples of both streams.
type Sequence = (u64, Vec<[f32; 3]>, Vec<[f32; 2]>);

/// Returns the sequences of the file, without sequence 333.
fn expected() -> Vec<Sequence> {
    let short = (vec![[1.0, 2.0, 3.0]], vec![[100.0, 200.0]]);
    vec![
        (
            100,
            vec![[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0], [7.0, 8.0, 9.0]],
            vec![[100.0, 200.0], [101.0, 201.0], [102_983.0, 14_532.0]],
        ),
        (200, vec![[10.0, 20.0, 30.0]], vec![[300.0, 400.0]]),
        (
            400,
            vec![[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [4.0, 5.0, 6.0]],
            vec![[100.0, 200.0], [101.0, 201.0], [101.0, 201.0]],
        ),
        (500, short.0, short.1),
    ]
}

/// Returns the samples of each sequence in a stream of `N` values per sample.
fn samples<const N: usize>(minibatch: &Minibatch, stream: &str) -> Vec<Vec<[f32; N]>> {
    let stream = minibatch.stream(stream).expect("a stream");
    let values = stream.dense::<f32>().expect("values").as_chunks::<N>().0;
    let mut sequences = vec![Vec::new(); minibatch.sequences()];
    for (sequence, columns) in stream.sequences() {
        sequences[sequence] = columns.map(|column| values[column]).collect();
    }
    sequences
}

/// Reads the file in minibatches of any size. `strict`: by CNTK's rules.
fn read(text: &str, minibatch_size: u64, strict: bool) -> Result<Vec<Sequence>> {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("example.ctf");
    std::fs::write(&file, text).expect("writing the example");
    let ctf = CtfDeserializer::new(&file)
        .dense("Some_very_long_input_name", 3)
        .alias("a")
        .dense("Some_other_also_very_long_input_name", 2)
        .alias("b")
        .max_errors(100)
        .strict_sequences(strict);
    let options = ReaderOptions::new().randomize(false).trace_level(0);
    let mut reader = Reader::builder().options(options).ctf(ctf).open()?;
    let mut sequences = Vec::new();
    for minibatch in reader.epoch(Epoch::sweeps(1).minibatch_size(minibatch_size))? {
        let minibatch = minibatch?;
        let a = samples(&minibatch, "Some_very_long_input_name");
        let b = samples(&minibatch, "Some_other_also_very_long_input_name");
        let keys = minibatch.keys().iter().copied();
        sequences.extend(keys.zip(a).zip(b).map(|((key, a), b)| (key, a, b)));
    }
    Ok(sequences)
}

#[test]
fn published_example_is_refused_by_the_rules_of_cntk() {
    let error = read(EXAMPLE, 100, true).expect_err("sequence 333 has no sample of a");
    assert_eq!(error.kind(), ErrorKind::Data);
    assert!(error.message().starts_with("Malformed input file"), "{error}");
    assert_eq!(error.location().key.as_deref(), Some("333"), "{error}");
}

#[test]
fn published_example_is_read_by_the_rules_of_the_page() {
    for minibatch_size in [1, 4, 100] {
        assert_eq!(read(EXAMPLE, minibatch_size, false).expect("four sequences"), expected());
    }
}

#[test]
fn corrected_example_is_read_by_both_rules() {
    let text: String =
        EXAMPLE.lines().filter(|line| !line.starts_with("333")).map(|line| format!("{line}\n")).collect();
    for strict in [true, false] {
        assert_eq!(read(&text, 100, strict).expect("four sequences"), expected());
    }
}
