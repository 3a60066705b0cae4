//! Checkpoints: exact continuation in every mode, and what is rejected.

use super::*;
use cntk_reader_core::option::release::Release;

/// Takes a checkpoint after each minibatch, restores it in a new reader and in the one that took
/// the first checkpoint, and compares the rest of the epoch.
fn check_continuation(make: &dyn Fn() -> Reader, epoch: &Epoch) {
    let read_all = |reader: &mut Reader| {
        let mut texts = Vec::new();
        while let Some(minibatch) = reader.next().expect("a minibatch") {
            texts.push(text(&minibatch));
        }
        texts
    };
    let mut reader = make();
    reader.start_epoch(epoch).expect("an epoch");
    let expected = read_all(&mut reader);
    assert!(expected.len() > 2, "{expected:?}");
    let mut used = make();
    used.start_epoch(epoch).expect("an epoch");
    for done in 0..=expected.len() {
        let mut taker = make();
        taker.start_epoch(epoch).expect("an epoch");
        for expected in &expected[..done] {
            assert_eq!(text(&taker.next().expect("no error").expect("a step")), *expected);
        }
        let checkpoint = taker.checkpoint().expect("a checkpoint");
        let mut fresh = make();
        for reader in [&mut fresh, &mut used] {
            reader.restore(&checkpoint).expect("a checkpoint of the same data");
            // Only readers that know the length of a sweep know the progress.
            if reader.sizes() == taker.sizes() {
                let (progress, of_taker) = (reader.progress(), taker.progress());
                assert_eq!(progress.expect("an epoch"), of_taker.expect("an epoch"));
            }
            assert_eq!(reader.state(), taker.state());
            assert_eq!(reader.checkpoint().expect("a checkpoint"), checkpoint);
            assert_eq!(read_all(reader), expected[done..], "after {done}");
        }
    }
}

#[test]
fn every_mode_continues_exactly() {
    let epoch = Epoch::sweeps(2).minibatch_size(5);
    let source = Arc::new(Source::new(&[&[3, 1, 1], &[2, 2], &[1, 4, 1]]));
    let ones = Arc::new(Source::twelve());
    for prefetch in [false, true] {
        let own = ReaderSettings { prefetch, ..settings() };
        for settings in [
            own.clone(),
            ReaderSettings { order: block(2), ..own.clone() },
            ReaderSettings { packing: truncated(2), ..own.clone() },
            ReaderSettings { packing: truncated(2), order: block(2), ..own.clone() },
            ReaderSettings { lockstep: true, order: block(1), ..own.clone() },
        ] {
            check_continuation(&|| open(&source, &settings), &epoch);
            check_continuation(&|| open(&source, &settings), &epoch.worker(1, 2));
        }
        for order in [Order::InOrder, block(2)] {
            let settings = ReaderSettings { order, ..own.clone() };
            check_continuation(&|| over(ones.listing(), &settings), &epoch);
            let growing = || Arc::new(Source { grows_from: Some(1), ..Source::twelve() });
            if order == Order::InOrder {
                check_continuation(&|| open(&growing(), &settings), &epoch);
            }
        }
    }
}

#[test]
fn state_of_cntk_moves_the_reader() {
    let source = Arc::new(Source::twelve());
    let mut reader = started(&source, &settings(), Epoch::sweeps(2).minibatch_size(5));
    some(&mut reader, 1);
    assert_eq!(reader.state(), [(POSITION_KEY, 5)]);
    rest(&mut reader);
    reader.set_state(&[("other", 7), (POSITION_KEY, 16)]).expect("a position");
    assert!(!reader.is_next_ready());
    assert_eq!(rest(&mut reader), "4 5 6 7 8 | 9 10 11*!");
    let error = reader.set_state(&[("other", 7)]).expect_err("no position");
    assert_eq!(error.message(), "Checkpoint misses required field minibatchSourcePosition");
    assert_eq!((error.kind(), error.class()), (ErrorKind::Checkpoint, ExceptionClass::InvalidArgument));

    let mut reader = over(source.listing(), &ReaderSettings { order: block(2), ..settings() });
    reader.start_epoch(&Epoch::sweeps(2).minibatch_size(5)).expect("an epoch");
    some(&mut reader, 2);
    let state = reader.state();
    let expected = [
        ("chunkPosition", 2),
        ("sweepIndex", 0),
        ("baseSweepCount", 0),
        ("baseSampleCount", 10),
        ("baseCurrentSequencePositionInWindow", 2),
    ];
    assert_eq!(state, expected);
    let after = rest(&mut reader);
    reader.set_state(&state).expect("its own state");
    assert_eq!(rest(&mut reader), after);
}

#[test]
fn truncated_reader_loses_queued_sequences_only_by_state() {
    let source = Arc::new(Source::new(&[&[4], &[4]]));
    let settings = ReaderSettings { packing: truncated(2), ..settings() };
    let mut reader = started(&source, &settings, Epoch::sweeps(1).minibatch_size(2));
    assert_eq!(some(&mut reader, 1), "1000");
    let (state, checkpoint) = (reader.state(), reader.checkpoint().expect("a checkpoint"));
    assert_eq!(rest(&mut reader), "1000 | 1001 | 1001*!");
    reader.restore(&checkpoint).expect("its own checkpoint");
    assert_eq!(rest(&mut reader), "1000 | 1001 | 1001*!");
    reader.set_state(&state).expect("its own state");
    assert_eq!(rest(&mut reader), "1001 | 1001*!");
}

#[test]
fn checkpoint_binds_its_worker() {
    let source = Arc::new(Source::twelve());
    let epoch = |rank| Epoch::sweeps(2).minibatch_size(4).worker(rank, 2);
    let settings = ReaderSettings { local_timeline: true, ..settings() };
    let taken = |steps, settings: &ReaderSettings, epoch: &Epoch| {
        let mut reader = started(&source, settings, *epoch);
        some(&mut reader, steps);
        reader.checkpoint().expect("a checkpoint")
    };
    let middle = taken(1, &settings, &epoch(0));
    let mut other = started(&source, &settings, epoch(1));
    some(&mut other, 2);
    let before = (other.state(), other.progress().expect("an epoch"), other.current_epoch());
    let error = other.restore(&middle).expect_err("another worker's");
    let message = "The checkpoint was taken by worker 0 of 2 in the middle of an epoch, and worker 1 of 2 cannot continue from there.";
    assert_eq!((error.kind(), error.message()), (ErrorKind::Checkpoint, message));
    let after = (other.state(), other.progress().expect("an epoch"), other.current_epoch());
    assert_eq!(after, before, "a rejected checkpoint changes nothing");
    assert_eq!(some(&mut other, 1), "9 11*");

    // A reader without a worker continues as the checkpoint's, until the next read.
    let mut fresh = open(&source, &settings);
    fresh.restore(&middle).expect("no worker was set");
    let error = fresh.configure(&ReadConfig::new(4).worker(1, 2)).expect_err("bound");
    assert_eq!(error.message(), message);
    fresh.configure(&ReadConfig::new(6).worker(0, 2)).expect("the checkpoint's worker");
    some(&mut fresh, 1);
    fresh.configure(&ReadConfig::new(4).worker(1, 2)).expect("not bound any more");
    fresh.restore(&middle).expect_err("the worker of the last call cannot continue");

    // Positions that all workers share do not bind: the start, the end, a single worker's, and any
    // in lockstep.
    let lockstep = ReaderSettings { lockstep: true, local_timeline: false, ..settings.clone() };
    let alone = Epoch::sweeps(2).minibatch_size(4);
    for (checkpoint, settings) in [
        (taken(0, &settings, &epoch(0)), &settings),
        (taken(7, &settings, &epoch(0)), &settings),
        (taken(1, &settings, &alone), &settings),
        (taken(1, &lockstep, &epoch(0)), &lockstep),
    ] {
        let mut reader = started(&source, settings, epoch(1));
        reader.restore(&checkpoint).expect("any worker can continue");
        assert_eq!(reader.config().expect("an epoch").rank, 1);
    }
    // At the start of a later epoch, shares depend on the sequences before it.
    let mut reader = started(&source, &settings, epoch(1));
    assert!(reader.restore(&taken(0, &settings, &epoch(0).index(1))).is_err());
    // Queued sequences belong to the worker that queued them.
    let packing = truncated(2);
    let truncated = ReaderSettings { packing, ..settings.clone() };
    let mut reader = started(&source, &truncated, epoch(1));
    assert!(reader.restore(&taken(1, &truncated, &alone)).is_err());
    // The samples before a position of listing chunks are known to their worker alone.
    let mut taker = over(source.listing(), &settings);
    taker.start_epoch(&alone).expect("an epoch");
    some(&mut taker, 1);
    let mut reader = over(source.listing(), &settings);
    reader.start_epoch(&epoch(1)).expect("an epoch");
    assert!(reader.restore(&taker.checkpoint().expect("a checkpoint")).is_err());
    // The end of whole sweeps is the same for all of them.
    for (epoch, is_common) in [(Epoch::sweeps(1), true), (Epoch::samples(12), false)] {
        let mut taker = over(source.listing(), &settings);
        taker.start_epoch(&epoch.minibatch_size(5)).expect("an epoch");
        rest(&mut taker);
        let restored = reader.restore(&taker.checkpoint().expect("a checkpoint"));
        assert_eq!(restored.is_ok(), is_common, "{epoch:?}");
    }
}

#[test]
fn other_data_and_settings_are_rejected() {
    let source = Arc::new(Source { content: Some(1), ..Source::twelve() });
    let randomized = ReaderSettings { order: block(2), ..settings() };
    let mut reader = started(&source, &randomized, Epoch::sweeps(2).minibatch_size(5));
    some(&mut reader, 1);
    let checkpoint = reader.checkpoint().expect("a checkpoint");
    let other_values = Arc::new(Source { content: Some(2), ..Source::twelve() });
    let unknown_values = Arc::new(Source::twelve());
    let other_lengths = Arc::new(Source::new(&[&[1; 4], &[1; 4], &[1, 1, 2]]));
    let other_chunks = Arc::new(Source::new(&[&[1; 6], &[1; 6]]));
    let message = |source: &Arc<Source>, settings: &ReaderSettings| {
        let error = open(source, settings).restore(&checkpoint).expect_err("other data");
        assert_eq!(error.kind(), ErrorKind::Checkpoint);
        error.message().to_owned()
    };
    assert!(
        message(&other_values, &randomized)
            .ends_with("the data have the same sequences, but different values.")
    );
    assert!(message(&other_lengths, &randomized).contains("data: checkpoint '12 sequences, 12 samples, 3 chunks', reader '11 sequences, 12 samples, 3 chunks'. fingerprint"));
    assert!(message(&other_chunks, &randomized).contains("12 samples, 2 chunks'"));
    assert!(
        message(&source, &settings())
            .contains("order: checkpoint 'window of 2 chunks, seed 7', reader 'not randomized'.")
    );
    // Other values can be allowed, and a reader that does not know them does not compare.
    open(&other_values, &randomized).restore_over_changed_values(&checkpoint).expect("allowed");
    open(&unknown_values, &randomized).restore(&checkpoint).expect("nothing to compare");
    assert!(open(&other_lengths, &randomized).restore_over_changed_values(&checkpoint).is_err());
    // A checkpoint without values is accepted by readers that know them.
    let mut reader = started(&unknown_values, &randomized, Epoch::sweeps(2).minibatch_size(5));
    some(&mut reader, 1);
    let unknown = reader.checkpoint().expect("a checkpoint");
    open(&source, &randomized).restore(&unknown).expect("nothing to compare");

    let mut reader = started(&source, &randomized, Epoch::sweeps(2).minibatch_size(5));
    some(&mut reader, 2);
    assert!(reader.restore(&checkpoint[..90]).is_err());
    assert_eq!(some(&mut reader, 1), "5 7 4 6 11*", "a rejected checkpoint changes nothing");
}

/// The checkpoint of a growing table covers its chunks up to the position.
#[test]
fn checkpoint_of_a_growing_table_waits_for_nothing() {
    let growing = || Arc::new(Source { grows_from: Some(1), content: Some(1), ..Source::twelve() });
    let mut reader = started(&growing(), &settings(), Epoch::sweeps(2).minibatch_size(5));
    some(&mut reader, 1);
    let source = growing();
    let mut same = open(&source, &settings());
    same.restore(&reader.checkpoint().expect("a checkpoint")).expect("the same data");
    assert_eq!(source.known_chunks(), 2);
    // Later chunks do not count, but earlier ones do.
    let other = |reader: &Reader, lengths: &[&[u32]]| {
        let other = Source { grows_from: Some(1), content: Some(1), ..Source::new(lengths) };
        open(&Arc::new(other), &settings()).restore(&reader.checkpoint().expect("a checkpoint"))
    };
    other(&reader, &[&[1; 4], &[1; 4], &[1, 2]]).expect("the same first chunks");
    let error = other(&reader, &[&[1; 4], &[1; 3], &[1; 4]]).expect_err("another second chunk");
    let message = "data: checkpoint '8 sequences, 8 samples in the first chunks', reader '7 sequences, 7 samples in the first chunks'";
    assert!(error.message().contains(message), "{error}");
    let error = other(&reader, &[&[1; 8]]).expect_err("one chunk");
    assert!(
        error.message().contains("chunks compared: checkpoint '2', reader '1, there are no others'"),
        "{error}"
    );
    // A position between two chunks needs only the first one.
    let mut exact = started(&growing(), &settings(), Epoch::sweeps(2).minibatch_size(4));
    some(&mut exact, 1);
    other(&exact, &[&[1; 4], &[1; 3], &[1; 4]]).expect("the same first chunk");
    // In the second sweep, the table is complete.
    some(&mut reader, 2);
    let error = other(&reader, &[&[1; 4], &[1; 4], &[1, 2]]).expect_err("another third chunk");
    assert!(error.message().contains("12 sequences, 12 samples, 3 chunks"), "{error}");
}

#[test]
fn damaged_queues_are_rejected() {
    let settings = ReaderSettings { packing: truncated(2), ..settings() };
    let source = Arc::new(Source::new(&[&[4], &[4]]));
    let id = |chunk, index| cntk_reader_core::sequence::SequenceId { chunk, index };
    for (deserializer, queued, is_valid) in [
        (source.known(), id(0, 0), true),
        (source.known(), id(1, 1), false),
        (source.known(), id(2, 0), false),
        (source.listing(), id(0, 0), true),
        (source.listing(), id(1, 1), false),
        (source.listing(), id(2, 0), false),
    ] {
        let mut taker = over(deserializer.clone(), &settings);
        taker.start_epoch(&Epoch::sweeps(1).minibatch_size(2)).expect("an epoch");
        some(&mut taker, 1);
        assert_eq!(taker.delivered.queues[0].sequences[0].0, id(0, 0));
        taker.delivered.queues[0].sequences[0].0 = queued;
        let checkpoint = taker.checkpoint().expect("a checkpoint");
        let restored = over(deserializer, &settings).restore(&checkpoint);
        assert_eq!(restored.is_ok(), is_valid, "{queued:?}");
        if let Err(error) = restored {
            let message = "The checkpoint is damaged: it has sequences that the data do not have.";
            assert_eq!(error.message(), message);
        }
    }
}

#[test]
fn checkpoint_of_another_kind_of_timeline_is_rejected() {
    let source = Arc::new(Source::twelve());
    let mut listing = over(source.listing(), &settings());
    listing.start_epoch(&Epoch::sweeps(2).minibatch_size(5)).expect("an epoch");
    let checkpoint = listing.checkpoint().expect("a checkpoint");
    assert!(open(&source, &settings()).restore(&checkpoint).is_err());
    let position = listing.delivered.position;
    let mut reader = started(&source, &settings(), Epoch::sweeps(2).minibatch_size(5));
    let error = reader.change(|pipeline| pipeline.resume(&Progress { position, ..Progress::default() }));
    let error = error.expect_err("another kind");
    let message = "The checkpoint is of a reader whose chunks list their sequences only when they are loaded, but this \
                   reader knows its sequences in advance.";
    assert_eq!(error.message(), message);
}

#[test]
fn lanes_by_epoch_set_the_sizes_of_truncation() {
    let source = Arc::new(Source::new(&[&[4, 4], &[4, 4]]));
    let settings = ReaderSettings {
        packing: truncated(0),
        lanes_by_epoch: Some(vec![1, 2]),
        in_place_of: Some(Release::Current),
        ..settings()
    };
    let mut reader = open(&source, &settings);
    for (index, lanes) in [(0, 1), (1, 2)] {
        reader.start_epoch(&Epoch::sweeps(1).index(index).minibatch_size(3)).expect("an epoch");
        let layout = &reader.read().expect("a minibatch").streams[0].layout;
        assert_eq!((layout.steps, layout.lanes), (3, lanes));
    }
}
