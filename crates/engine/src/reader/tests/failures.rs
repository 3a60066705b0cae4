//! Errors while reading: which sequences are lost, which are read again, and the state after a
//! cancelled call.

use super::*;
use cntk_reader_core::runtime::cancel::ended;
use cntk_reader_core::sequence::ChunkId;
use source::passing;
use std::time::Duration;

fn message(reader: &mut Reader) -> String {
    reader.next().expect_err("an error").message().to_owned()
}

/// Settings in which minibatches are prefetched, and those in which they are not.
fn both() -> [ReaderSettings; 2] {
    [false, true].map(|prefetch| ReaderSettings { prefetch, ..settings() })
}

#[test]
fn sequences_of_a_broken_chunk_are_lost() {
    for settings in both() {
        let source = Arc::new(Source::twelve());
        source.breaks(1, Some(Error::data("broken")));
        let mut reader = started(&source, &settings, Epoch::sweeps(1).minibatch_size(3));
        assert_eq!(some(&mut reader, 1), "0 1 2");
        // 3 to 5, and 6 to 8.
        assert_eq!([message(&mut reader), message(&mut reader)], ["broken", "broken"]);
        assert_eq!(rest(&mut reader), "9 10 11*!");
        assert_eq!(reader.progress().expect("an epoch").delivered, 12);
    }
}

#[test]
fn passing_failure_loses_nothing() {
    for settings in both() {
        let source = Arc::new(Source::twelve());
        let mut reader = started(&source, &settings, Epoch::sweeps(1).minibatch_size(3));
        assert_eq!(some(&mut reader, 1), "0 1 2");
        source.breaks(1, Some(passing()));
        // With prefetching, the chunk may have been loaded before it broke.
        let failed = reader.next();
        if let Err(error) = &failed {
            assert_eq!((error.kind(), error.message()), (ErrorKind::Io, "busy"));
            assert!(!reader.is_read_ready() && !reader.is_next_ready());
            assert_eq!(reader.progress().expect("an epoch").delivered, 3);
            assert_eq!(message(&mut reader), "busy");
        }
        source.breaks(1, None);
        let read = failed.ok().flatten().map(|minibatch| text(&minibatch) + " | ").unwrap_or_default();
        assert_eq!(read + &rest(&mut reader), "3 4 5 | 6 7 8 | 9 10 11*!");
    }
    let source = Arc::new(Source::twelve());
    let mut reader = started(&source, &settings(), Epoch::sweeps(1).minibatch_size(3));
    source.breaks(0, Some(passing()));
    assert_eq!(message(&mut reader), "busy");
    source.breaks(0, None);
    assert_eq!(rest(&mut reader), "0 1 2 | 3 4 5 | 6 7 8 | 9 10 11*!");
}

#[test]
fn invalid_sequences_are_left_out_up_to_a_number() {
    let source = || Source { invalid: vec![1, 2], skipped: vec![4], ..Source::twelve() };
    for (tolerated, expected) in [(2, "0 3 | 5 6 7 | 8 9 10 11*!"), (5, "0 3 | 5 6 7 | 8 9 10 11*!")] {
        let settings = ReaderSettings { max_errors: tolerated, ..settings() };
        let mut reader = started(&Arc::new(source()), &settings, Epoch::sweeps(1).minibatch_size(4));
        assert_eq!(rest(&mut reader), expected);
    }
    let settings = ReaderSettings { max_errors: 1, ..settings() };
    let mut reader = started(&Arc::new(source()), &settings, Epoch::sweeps(1).minibatch_size(4));
    let error = reader.next().expect_err("too many");
    let expected = "Number of invalid sequences '2' in the input exceeded the specified maximum number '1'";
    assert_eq!((error.kind(), error.message()), (ErrorKind::Data, expected));
    assert!(error.detail().contains("'max_errors'"), "{}", error.detail());
    // The count goes on in every mode.
    for packing in [Packing::Frame, truncated(1)] {
        let settings = ReaderSettings { packing, ..settings.clone() };
        let mut reader = started(&Arc::new(source()), &settings, Epoch::sweeps(1).minibatch_size(4));
        assert_eq!(message(&mut reader), expected);
    }
}

#[test]
fn sweep_that_delivers_nothing_is_an_error() {
    let invalid = || Arc::new(Source { invalid: (0..12).collect(), ..Source::twelve() });
    let tolerant = ReaderSettings { max_errors: 100, ..settings() };
    let epoch = Epoch::sweeps(2).minibatch_size(5);
    let mut reader = started(&invalid(), &tolerant, epoch);
    assert_eq!(
        message(&mut reader),
        "A whole sweep has delivered nothing: all 15 sequences that were read were left out."
    );
    // The sweep counts from where the epoch begins.
    reader.start_epoch(&epoch.index(1)).expect("an epoch");
    assert!(message(&mut reader).contains("all 15 sequences"));
    let mut source = Source { invalid: (0..12).collect(), ..Source::twelve() };
    source.facts.is_fetched = true;
    let mut reader = started(&Arc::new(source), &tolerant, epoch);
    assert!(message(&mut reader).contains("all 15 sequences"));
    // In CNTK's place, such sweeps are legal.
    let in_place_of = Some(cntk_reader_core::option::release::Release::Current);
    let mut reader = started(&invalid(), &ReaderSettings { in_place_of, ..tolerant.clone() }, epoch);
    assert_eq!(rest(&mut reader), "");
    // Fewer are tolerated: the number is compared at the end of a sweep.
    let mut reader = started(&invalid(), &settings(), epoch);
    assert!(message(&mut reader).starts_with("Number of invalid sequences '15'"));

    for (chunks, expected) in [
        (&[&[][..], &[], &[]][..], "None of the 3 chunks of the deserializer has a sequence."),
        (&[&[][..]], "The only chunk of the deserializer has no sequences."),
    ] {
        let mut reader = over(Arc::new(Source::new(chunks)).listing(), &settings());
        reader.start_epoch(&epoch).expect("an epoch");
        assert_eq!(message(&mut reader), expected);
    }
}

#[test]
fn errors_of_chunks_count_once_for_each_delivery() {
    for settings in both() {
        let source = Arc::new(Source { errors: vec![1, 1, 1], tolerated: 6, ..Source::twelve() });
        let mut reader = started(&source, &settings, Epoch::sweeps(3).minibatch_size(4));
        some(&mut reader, 4);
        reader.configure(&ReadConfig::new(4)).expect("a good configuration");
        assert_eq!(source.counted(), 4, "of delivered chunks alone");
        some(&mut reader, 2);
        assert_eq!(message(&mut reader), "7 errors");
        // A restored reader counts like a new one.
        let checkpoint = reader.checkpoint().expect("a checkpoint");
        reader.restore(&checkpoint).expect("its own checkpoint");
        assert_eq!(source.counted(), 0);
        assert_eq!(rest(&mut reader), "4 5 6 7 | 8 9 10 11*!");
        assert_eq!(source.counted(), 2);
    }
}

#[test]
fn errors_of_prefetched_chunks_are_not_counted() {
    // Slow loads make prefetching worth it.
    let pause = Duration::from_millis(2);
    let source = Arc::new(Source { errors: vec![1, 1, 1], tolerated: 6, pause, ..Source::twelve() });
    let settings = ReaderSettings { prefetch: true, ..settings() };
    let mut reader = started(&source, &settings, Epoch::sweeps(3).minibatch_size(4));
    some(&mut reader, 1);
    reader.configure(&ReadConfig::new(1)).expect("a good configuration");
    assert_eq!(source.counted(), 1);
    // The second batch has three minibatches, of which one is read.
    assert_eq!(some(&mut reader, 2), "4 | 5");
    assert_eq!(reader.minibatches_ready(), 2);
    reader.configure(&ReadConfig::new(2)).expect("a good configuration");
    assert_eq!(source.counted(), 2);
    assert_eq!(some(&mut reader, 2), "6 7 | 8 9");
    reader.configure(&ReadConfig::new(2)).expect("a good configuration");
    assert_eq!(source.counted(), 3);
}

/// The first minibatch of a window with a broken chunk fails, and so does each that needs the chunk.
#[test]
fn progress_counts_failed_minibatches() {
    let mut order = Vec::new();
    crate::randomize::block::chunk_order(7, 0, 8, &mut order);
    let mut results = Vec::new();
    for settings in both() {
        let source = Arc::new(Source::ones(8, 2));
        source.breaks(order[1], Some(Error::data("broken")));
        let settings = ReaderSettings { order: block(3), ..settings };
        let mut reader = started(&source, &settings, Epoch::sweeps(1).minibatch_size(1));
        let read = |number| {
            let result = reader.read().map(|minibatch| minibatch.keys[0]).ok();
            assert_eq!(reader.progress().expect("an epoch").delivered, number, "{result:?}");
            result
        };
        results.push((1..=16).map(read).collect::<Vec<_>>());
    }
    assert_eq!(results[0], results[1]);
    assert!(results[0][0].is_none());
    assert!((2..=5).contains(&results[0].iter().filter(|result| result.is_none()).count()));
}

#[test]
fn count_of_invalid_sequences_is_restored() {
    for packing in [Packing::Sequence, Packing::Frame, truncated(1)] {
        let source = Arc::new(Source { invalid: vec![1, 2], ..Source::twelve() });
        let settings = ReaderSettings { packing, max_errors: 3, ..settings() };
        let mut reader = started(&source, &settings, Epoch::sweeps(2).minibatch_size(4));
        some(&mut reader, 1);
        let mut other = open(&source, &settings);
        other.restore(&reader.checkpoint().expect("a checkpoint")).expect("the same data");
        assert_eq!(other.delivered.invalid, 2);
        let mut error = other.next();
        while error.is_ok() {
            error = other.next();
        }
        let message =
            "Number of invalid sequences '4' in the input exceeded the specified maximum number '3'";
        assert_eq!(error.expect_err("too many").message(), message);
    }
}

#[test]
fn only_cancelled_changes_leave_work_to_the_next_call() {
    let source = Arc::new(Source::twelve());
    let settings = ReaderSettings { packing: truncated(2), ..settings() };
    let mut reader = started(&source, &settings, Epoch::sweeps(1).minibatch_size(4));
    some(&mut reader, 1);
    reader.configure(&ReadConfig::new(4).truncation_length(2)).expect("a good configuration");
    assert_eq!(reader.unsettled, Unsettled::Nothing);
    let error = reader.configure(&ReadConfig::new(4)).expect_err("no length");
    assert_eq!((error.kind(), reader.unsettled), (ErrorKind::InvalidArgument, Unsettled::Nothing));
    let huge = ReadConfig::new(1 << 62).truncation_length(1 << 61);
    let error = reader.configure(&huge).expect_err("no memory");
    assert_eq!((error.kind(), reader.unsettled), (ErrorKind::Memory, Unsettled::Epoch));
    reader.make_ready().expect("a minibatch");
    assert_eq!(reader.unsettled, Unsettled::Nothing);
    let canceller = Canceller::new();
    reader.set_canceller(&canceller);
    let result = reader.change(|_| {
        canceller.cancel();
        Ok(())
    });
    assert!(ended(&result));
    assert_eq!(reader.unsettled, Unsettled::Epoch);
}

#[test]
fn huge_minibatch_is_rejected_at_once() {
    let wide = cntk_reader_core::stream::StreamInfo::dense("x", &[1 << 40]);
    let source = Arc::new(Source::twelve().of_stream(wide));
    let mut reader = open(&source, &settings());
    let epoch = Epoch::unlimited().minibatch_size(1 << 30);
    assert_eq!(reader.start_epoch(&epoch).expect_err("no memory").kind(), ErrorKind::Memory);
    reader.start_epoch(&epoch.minibatch_size(1)).expect("one sample");
    let error = reader.configure(&ReadConfig::new(1 << 30)).expect_err("no memory");
    assert_eq!(error.kind(), ErrorKind::Memory);
}

/// Cancels a call as soon as it waits.
fn cancelled<R>(canceller: &Canceller, work: impl FnOnce() -> Result<R>) {
    let result = std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(5));
            while !canceller.cancel() {
                std::thread::yield_now();
            }
        });
        work()
    });
    assert!(ended(&result));
}

#[test]
fn cancelled_read_is_repeated() {
    for settings in both() {
        for is_fetched in [false, true] {
            let mut source = Source::ones(8, 3);
            source.facts.is_fetched = is_fetched;
            let source = Arc::new(source);
            let canceller = Canceller::new();
            let mut reader = started(&source, &settings, Epoch::sweeps(1).minibatch_size(3));
            reader.set_canceller(&canceller);
            // Some chunks are loaded already, but not all.
            let mut read = vec![text(&reader.read().expect("a minibatch"))];
            source.closes_gate(true);
            loop {
                let next = std::thread::scope(|scope| {
                    scope.spawn(|| {
                        std::thread::sleep(Duration::from_millis(20));
                        canceller.cancel();
                    });
                    reader.next()
                });
                match next {
                    Ok(minibatch) => read.push(text(&minibatch.expect("a minibatch"))),
                    Err(error) => {
                        assert!(ended::<()>(&Err(error)));
                        break;
                    }
                }
            }
            source.closes_gate(false);
            while let Some(minibatch) = reader.next().expect("not cancelled") {
                read.push(text(&minibatch));
            }
            let whole = "0 1 2 | 3 4 5 | 6 7 8 | 9 10 11 | 12 13 14 | 15 16 17 | 18 19 20 | 21 22 23*!";
            assert_eq!(read.join(" | "), whole);
        }
    }
}

/// Restoring a truncated minibatch's queue loads its chunks.
#[test]
fn cancelled_restore_changes_nothing() {
    let source = Arc::new(Source::new(&[&[4], &[4], &[4]]));
    let settings = ReaderSettings { packing: truncated(2), ..settings() };
    let epoch = Epoch::sweeps(1).minibatch_size(2);
    let mut reader = started(&source, &settings, epoch);
    some(&mut reader, 1);
    let checkpoint = reader.checkpoint().expect("a checkpoint");
    let canceller = Canceller::new();
    let mut other = open(&source, &settings);
    other.set_canceller(&canceller);
    source.closes_gate(true);
    cancelled(&canceller, || other.restore(&checkpoint));
    assert_eq!(other.current_epoch(), None);
    source.closes_gate(false);
    other.restore(&checkpoint).expect("not cancelled");
    assert_eq!(rest(&mut other), "1000 | 1001 | 1001 | 1002 | 1002*!");
    source.closes_gate(true);
    let mut third = started(&source, &settings, epoch);
    third.set_canceller(&canceller);
    cancelled(&canceller, || third.restore(&checkpoint));
    source.closes_gate(false);
    assert_eq!(rest(&mut third), "1000 | 1000 | 1001 | 1001 | 1002 | 1002*!", "it is at the start");
}

#[test]
fn chunks_are_loaded_within_the_window() {
    let source = Arc::new(Source::ones(8, 2));
    let mut reader = started(&source, &settings(), Epoch::sweeps(1).minibatch_size(2));
    some(&mut reader, 1);
    // Two chunks are loaded ahead.
    let sorted = |mut loads: Vec<ChunkId>| {
        loads.sort_unstable();
        loads
    };
    let wait = |count| {
        while source.loads().len() < count {
            std::thread::yield_now();
        }
    };
    wait(3);
    assert_eq!(sorted(source.loads()), [0, 1, 2]);
    rest(&mut reader);
    assert_eq!(sorted(source.loads()), [0, 1, 2, 3, 4, 5, 6, 7], "each chunk is loaded once");
    assert_eq!(source.warned(), 8);
}
