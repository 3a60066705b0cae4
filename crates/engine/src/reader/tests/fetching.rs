//! Sequences that are fetched one by one.

use super::*;
use cntk_reader_core::stream::{StreamInfo, UNKNOWN_DIMENSION};

#[test]
fn fetched_sequences_draw_in_their_order() {
    for (multithreaded, prefetch) in [(false, false), (true, false), (false, true), (true, true)] {
        let mut source = Source { invalid: vec![2], ..Source::twelve().fetched() };
        source.facts.is_fetched_ahead = true;
        let source = Arc::new(source);
        let settings = ReaderSettings { multithreaded, prefetch, max_errors: 9, ..settings() };
        let mut reader = started(&source, &settings, Epoch::sweeps(2).minibatch_size(5));
        assert_eq!(rest(&mut reader), "0 1 3 4 | 5 6 7 8 9 | 10 11 0 1* | 3 4 5 6 7 | 8 9 10 11*!");
        // Number, position in the minibatch, and sweep; invalid sequences draw nothing.
        let draws = source.draws();
        assert_eq!(draws[..5], [(0, 0, 0), (1, 1, 0), (3, 2, 0), (4, 3, 0), (5, 0, 0)]);
        assert_eq!(draws[9..14], [(10, 0, 0), (11, 1, 0), (0, 2, 1), (1, 3, 1), (3, 0, 1)]);
        assert_eq!(draws.len(), 22);
    }
}

/// Only sequences that the caller gets are fetched, unless one minibatch is prefetched.
#[test]
fn fetched_minibatches_are_prefetched_one_by_one() {
    for (is_fetched_ahead, prefetch, fetched) in [(false, true, 5), (true, false, 5), (true, true, 10)] {
        let mut source = Source::twelve().fetched();
        source.facts.is_fetched_ahead = is_fetched_ahead;
        let source = Arc::new(source);
        let settings = ReaderSettings { prefetch, ..settings() };
        let mut reader = started(&source, &settings, Epoch::sweeps(2).minibatch_size(5));
        some(&mut reader, 1);
        reader.engine.recall().expect("no error");
        assert_eq!((source.draws().len(), source.released()), (fetched, fetched as u64));
    }
}

#[test]
fn truncated_packer_keeps_fetched_sequences() {
    let source = Arc::new(Source::new(&[&[3, 1], &[2]]).fetched());
    let settings = ReaderSettings { packing: truncated(2), ..settings() };
    let make = || open(&source, &settings);
    let epoch = Epoch::sweeps(1).minibatch_size(2);
    let mut reader = make();
    reader.start_epoch(&epoch).expect("an epoch");
    // Odd sequences have the key that their deserializer reports for truncated minibatches.
    let first = some(&mut reader, 1);
    assert_eq!(first, "0");
    let checkpoint = reader.checkpoint().expect("a checkpoint");
    assert_eq!(rest(&mut reader), "0 1001 | 2*!");
    let mut other = make();
    other.restore(&checkpoint).expect("its own checkpoint");
    assert_eq!(rest(&mut other), "0 1001 | 2*!");
}

#[test]
fn unknown_shape_is_that_of_the_first_sequence() {
    let late = StreamInfo::dense("x", &[UNKNOWN_DIMENSION]);
    let open = |shape_of| {
        let source = Source::twelve().of_stream(late.clone()).fetched();
        started(
            &Arc::new(Source { shape_of: Some(shape_of), ..source }),
            &settings(),
            Epoch::sweeps(1).minibatch_size(5),
        )
    };
    let mut reader = open(|_| Some(&[1]));
    assert_eq!(reader.shapes().get(0), None);
    assert_eq!(rest(&mut reader), "0 1 2 3 4 | 5 6 7 8 9 | 10 11*!");
    assert_eq!(reader.shapes().get(0), Some(&[1][..]));

    let error = open(|_| None).next().expect_err("no shape");
    assert_eq!(error.message(), "Unknown shape of the sequence in stream 'x'.");
    assert_eq!((error.kind(), error.location().key.as_deref()), (ErrorKind::User, Some("0")));
    let error =
        open(|number| Some(if number == 3 { &[1, 1] } else { &[1] })).next().expect_err("another shape");
    assert!(error.message().starts_with("Packer currently does not support samples with varying shapes."));
    assert_eq!((error.kind(), error.location().key.as_deref()), (ErrorKind::Data, Some("3")));
    assert!(
        error.detail().starts_with("Samples differ in shape: [1, 1] differs from earlier ones."),
        "{}",
        error.detail()
    );
}

#[test]
fn reason_of_an_invalid_sequence_is_reported() {
    let open = |ends_alone, invalid: Vec<u64>| {
        let source = Source { ends_alone, invalid, ..Source::twelve().fetched() };
        started(&Arc::new(source), &settings(), Epoch::sweeps(1).minibatch_size(3))
    };
    let counted = "Number of invalid sequences '2' in the input exceeded the specified maximum number '0'";
    let error = open(false, vec![1, 2]).next().expect_err("too many");
    assert_eq!(error.message(), counted);
    assert!(
        error.detail().ends_with("The first of this minibatch: Sequence 1 is damaged."),
        "{}",
        error.detail()
    );
    // An error that ends reading in CNTK replaces the count, and its sequences count no more.
    let mut reader = open(true, vec![1, 2, 3]);
    let error = reader.next().expect_err("too many");
    assert_eq!(error.message(), "Sequence 1 is damaged.");
    assert!(error.detail().starts_with(&format!("{counted}. Set 'max_errors'")), "{}", error.detail());
    let error = reader.next().expect_err("one more");
    assert_eq!(error.message(), "Sequence 3 is damaged.");
    assert!(error.detail().starts_with(&counted.replace('2', "1")), "{}", error.detail());
    assert_eq!(rest(&mut reader), "6 7 8 | 9 10 11*!");
    // Even if the minibatch has no other sequence.
    assert_eq!(open(true, vec![0, 1, 2]).next().expect_err("all").message(), "Sequence 0 is damaged.");
}
