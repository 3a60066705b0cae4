//! The order that is computed without reading is the order that a reader delivers.

use super::Shuffle;
use crate::Look;
use cntk_reader::{Builder, CbfDeserializer, CtfDeserializer, Reader, ReaderOptions};
use cntk_reader_engine::reader::Epoch;
use std::path::Path;

fn data(folder: &Path, lengths: impl Iterator<Item = usize>) -> String {
    let path = folder.join("data.ctf");
    let lines = |(id, length): (usize, usize)| format!("{id} |x {id}\n").repeat(length);
    std::fs::write(&path, lengths.enumerate().map(lines).collect::<String>()).expect("writing the data");
    path.to_str().expect("UTF-8").to_owned()
}

fn builder(path: &str, options: ReaderOptions) -> Builder {
    Reader::builder().options(options).ctf(CtfDeserializer::new(path).dense("x", 1).chunk_size(1000))
}

#[test]
fn minibatches_have_the_sequences_that_a_reader_delivers() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = data(folder.path(), (0..2000).map(|i| 1 + i * 7 % 4));
    let options = [
        ReaderOptions::new().randomize(false),
        ReaderOptions::new().randomization_seed(3),
        ReaderOptions::new().randomization_window_in_chunks(2),
        ReaderOptions::new().local_timeline(false).randomization_window_in_samples(300),
    ];
    for options in options {
        for (rank, workers) in [(0, 1), (1, 3)] {
            let epoch = Epoch::sweeps(2).index(1).minibatch_size(64).worker(rank, workers);
            let mut reader = builder(&path, options.clone()).open().expect("a reader");
            let delivered: Vec<Vec<u64>> = (reader.epoch(epoch).expect("an epoch"))
                .map(|minibatch| minibatch.expect("a minibatch").keys().to_vec())
                .collect();
            let mut order = builder(&path, options.clone()).order(&epoch).expect("an order");
            let mut listed = Vec::new();
            while let Some(minibatch) = order.next_minibatch().expect("a minibatch") {
                let keys: Vec<u64> = minibatch.sequences.iter().map(|sequence| sequence.key).collect();
                let numbers: Vec<u64> = minibatch.sequences.iter().map(|sequence| sequence.number).collect();
                assert_eq!(keys, numbers, "ids are numbers of sequences in this file");
                if !keys.is_empty() {
                    listed.push(keys);
                }
            }
            assert_eq!(listed, delivered, "{options:?} {rank} of {workers}");
        }
    }
}

#[test]
fn seek_continues_the_order() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = data(folder.path(), (0..500).map(|i| 1 + i % 3));
    let epoch = Epoch::sweeps(1).minibatch_size(50);
    let mut whole = builder(&path, ReaderOptions::new()).order(&epoch).expect("an order");
    for _ in 0..7 {
        whole.next_minibatch().expect("a minibatch");
    }
    let mut resumed = builder(&path, ReaderOptions::new()).order(&epoch).expect("an order");
    resumed.seek(whole.position()).expect("a position");
    let described = format!("SequenceOrder {{ sequences: 500, position: {}, .. }}", whole.position());
    assert_eq!(format!("{resumed:?}"), described);
    let mut count = 0;
    while let Some(minibatch) = resumed.next_minibatch().expect("a minibatch") {
        assert_eq!(whole.next_minibatch().expect("a minibatch"), Some(minibatch));
        count += 1;
    }
    assert_eq!(whole.next_minibatch().expect("the end"), None);
    assert!(count > 10);
}

fn shuffle(builder: Builder, epoch: Epoch) -> (Shuffle, u64) {
    let mut order = builder.order(&epoch).expect("an order");
    let mut shuffle = Shuffle::default();
    while let Some(minibatch) = order.next_minibatch().expect("a minibatch") {
        shuffle.add(minibatch);
    }
    (shuffle, order.samples())
}

#[test]
fn unrandomized_data_are_not_mixed() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = data(folder.path(), (0..1000).map(|i| 1 + i % 2));
    let epoch = Epoch::sweeps(1).minibatch_size(100);
    let (shuffle, samples) = shuffle(builder(&path, ReaderOptions::new().randomize(false)), epoch);
    assert_eq!((shuffle.sequences(), samples), (1000, 1500));
    assert_eq!((shuffle.displacement().max(), shuffle.neighbours().max()), (0, 2));
    assert_eq!(shuffle.successions(), 999);
}

#[test]
fn only_a_full_window_is_a_perfect_shuffle() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = data(folder.path(), std::iter::repeat_n(1, 20_000));
    let epoch = Epoch::sweeps(1).minibatch_size(100);
    let (all, samples) = shuffle(builder(&path, ReaderOptions::new()), epoch);
    let third = samples as f64 / 3.0;
    for found in [all.displacement().mean(), all.neighbours().mean()] {
        assert!((found / third - 1.0).abs() < 0.05, "{found} for {third}");
    }
    assert!(all.successions() < 20);
    let small = ReaderOptions::new().randomization_window_in_chunks(1);
    let (small, _) = shuffle(builder(&path, small), epoch);
    // Chunks still change places, but neighbours come from the same chunk.
    assert!(small.neighbours().mean() < 0.1 * third);
    assert!(small.chunks().mean() < 3.0 && all.chunks().mean() > 50.0);
    assert_ne!(small.digest(), all.digest());
    let (again, _) = shuffle(builder(&path, ReaderOptions::new()), epoch.minibatch_size(7));
    assert_eq!(again.digest(), all.digest(), "the digest does not depend on minibatches");
    let (next, _) = shuffle(builder(&path, ReaderOptions::new()), epoch.index(1));
    assert_ne!(next.digest(), all.digest());
}

#[test]
fn unknown_files_are_errors() {
    let error = Reader::builder()
        .cbf(CbfDeserializer::new("/nowhere.cbf"))
        .order(&Epoch::sweeps(1))
        .expect_err("no file");
    assert!(error.to_string().contains("/nowhere.cbf"), "{error}");
}
