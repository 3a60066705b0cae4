//! Starting epochs, one after another, and their progress.

use super::*;
use crate::randomize::{SIZE_OF_SWEEP, SIZE_UNLIMITED, SWEEPS_UNLIMITED};
use cntk_reader_core::runtime::log::set_sink;

#[test]
fn calls_before_the_first_epoch_are_rejected() {
    let source = Arc::new(Source::twelve());
    let mut reader = open(&source, &settings());
    let errors = [
        reader.read().map(drop),
        reader.next().map(drop),
        reader.make_ready(),
        reader.config().map(drop),
        reader.progress().map(drop),
        reader.checkpoint().map(drop),
        reader.configure(&ReadConfig::new(5)),
    ];
    for error in errors {
        let error = error.expect_err("no epoch");
        assert_eq!((error.kind(), error.message()), (ErrorKind::State, "No epoch was started yet."));
    }
    assert_eq!(reader.current_epoch(), None);
    assert_eq!(reader.state(), [(POSITION_KEY, 0)]);
}

#[test]
fn epochs_begin_where_their_number_says() {
    let source = Arc::new(Source::twelve());
    let mut reader = open(&source, &settings());
    let epoch = Epoch::samples(5).minibatch_size(4);
    for (index, expected) in [(0, "0 1 2 3 | 4!"), (2, "10 11 0 1* | 2!"), (1, "5 6 7 8 | 9!")] {
        reader.start_epoch(&epoch.index(index)).expect("an epoch");
        assert_eq!(rest(&mut reader), expected);
        assert_eq!(reader.state(), [(POSITION_KEY, 5 * index + 5)]);
    }
    let error = reader.start_epoch(&Epoch::samples(0).minibatch_size(4)).expect_err("no size");
    assert_eq!(error.message(), "Epoch size cannot be 0.");
    let error = reader.start_epoch(&epoch.minibatch_size(0)).expect_err("no size");
    assert_eq!(error.message(), "Minibatch size cannot be zero.");
}

#[test]
fn next_epoch_follows_the_current_one() {
    let source = Arc::new(Source::twelve());
    let mut reader = open(&source, &settings());
    let (five, one) = (Epoch::samples(5).minibatch_size(4), Epoch::sweeps(1).minibatch_size(8));
    assert_eq!(reader.start_next_epoch(&five).expect("the first one"), 0);
    assert_eq!(reader.start_next_epoch(&five.index(7)).expect("the second one"), 1);
    assert_eq!(rest(&mut reader), "5 6 7 8 | 9!");
    assert_eq!(reader.start_next_epoch(&five).expect("the third one"), 2);
    let error = reader.start_next_epoch(&one).expect_err("another size");
    let message = "The epochs of this reader had 5 samples, but one of one sweep was requested, whose number is unknown.";
    assert_eq!((error.kind(), error.message()), (ErrorKind::State, message));
    // One sweep can be given in two ways.
    reader.start_epoch(&one).expect("an epoch");
    let read = ReadConfig::new(8);
    let as_samples = Epoch::from_numbers(read, SIZE_OF_SWEEP, SWEEPS_UNLIMITED, 0);
    assert_eq!(reader.start_next_epoch(&as_samples).expect("the same size"), 1);
    // An epoch without an end has no next one.
    reader.start_epoch(&Epoch::unlimited().minibatch_size(8)).expect("an epoch");
    assert_eq!(reader.start_next_epoch(&five).expect("a new count"), 0);
    reader.start_epoch(&Epoch::unlimited().minibatch_size(8)).expect("an epoch");
    assert_eq!(reader.start_next_epoch(&Epoch::unlimited().minibatch_size(8)).expect("one more"), 1);
    for (last, next, had, requested) in [
        (Epoch::sweeps(3), Epoch::samples(5), "3 sweeps", "5 samples"),
        (Epoch::samples(7), Epoch::unlimited(), "7 samples", "no end"),
        (Epoch::samples(SIZE_UNLIMITED - 1), Epoch::sweeps(1), "9223372036854775806 samples", "one sweep"),
    ] {
        reader.start_epoch(&last.minibatch_size(8)).expect("an epoch");
        let error = reader.start_next_epoch(&next.minibatch_size(8)).expect_err("another size");
        let message = format!(
            "The epochs of this reader had {had}, but one of {requested} was requested, whose number is unknown."
        );
        assert_eq!(error.message(), message);
    }
}

#[test]
fn restored_epoch_is_continued_first() {
    let source = Arc::new(Source::twelve());
    let epoch = Epoch::samples(9).minibatch_size(4);
    let mut reader = started(&source, &settings(), epoch.index(1));
    assert_eq!(some(&mut reader, 1), "9 10 11 0*");
    let checkpoint = reader.checkpoint().expect("a checkpoint");

    let mut other = open(&source, &settings());
    other.restore(&checkpoint).expect("a good checkpoint");
    assert_eq!(other.current_epoch(), Some((epoch.index(1), EpochState::Resumed)));
    assert!(!other.is_next_ready());
    // The call's minibatch size replaces the checkpoint's.
    let next = epoch.minibatch_size(3);
    assert_eq!(other.start_next_epoch(&next).expect("the checkpoint's epoch"), 1);
    assert_eq!(other.current_epoch(), Some((epoch.index(1), EpochState::Started)));
    assert_eq!(other.config().expect("an epoch"), ReadConfig::new(3));
    assert_eq!(rest(&mut other), "1 2 3 | 4 5!");
    assert_eq!(other.start_next_epoch(&next).expect("the next one"), 2);

    // The end of the epoch was read, but not reported.
    some(&mut reader, 2);
    other.restore(&reader.checkpoint().expect("a checkpoint")).expect("a good checkpoint");
    assert_eq!(other.current_epoch(), Some((epoch.index(1), EpochState::Resumed)));
    assert!(other.is_next_ready());

    // After its end was reported, the next call starts another one.
    rest(&mut reader);
    let checkpoint = reader.checkpoint().expect("a checkpoint");
    other.restore(&checkpoint).expect("a good checkpoint");
    assert_eq!(other.current_epoch(), Some((epoch.index(1), EpochState::Over)));
    assert!(other.is_next_ready());
    assert_eq!(other.start_next_epoch(&epoch).expect("the next one"), 2);
}

#[test]
fn progress_counts_samples_of_the_epoch() {
    let source = Arc::new(Source::twelve());
    let progress = |reader: &Reader| {
        let EpochProgress { delivered, expected, sweep } = reader.progress().expect("an epoch");
        (delivered, expected, sweep)
    };
    let mut reader = started(&source, &settings(), Epoch::samples(8).index(1).minibatch_size(5));
    assert_eq!(progress(&reader), (0, Some(8), 0));
    some(&mut reader, 1);
    assert_eq!(progress(&reader), (5, Some(8), 1));
    reader.start_epoch(&Epoch::unlimited().minibatch_size(5)).expect("an epoch");
    assert_eq!(progress(&reader), (0, None, 0));
    // A worker without chunks is at the end of the epoch at once.
    let randomized = ReaderSettings { order: block(1), ..settings() };
    let mut reader = started(&source, &randomized, Epoch::sweeps(2).minibatch_size(5).worker(3, 4));
    assert_eq!(progress(&reader), (24, Some(24), 2));
    assert!(reader.next().expect("no error").is_none());

    let mut reader = over(source.listing(), &settings());
    reader.start_epoch(&Epoch::samples(9).minibatch_size(5).worker(0, 2)).expect("an epoch");
    some(&mut reader, 1);
    assert_eq!(progress(&reader), (5, Some(5), 0));
    reader.start_epoch(&Epoch::sweeps(2).minibatch_size(5)).expect("an epoch");
    some(&mut reader, 3);
    assert_eq!(progress(&reader), (15, None, 1));
    reader.start_epoch(&Epoch::unlimited().minibatch_size(5)).expect("an epoch");
    assert_eq!(progress(&reader), (0, None, 0));
    // The number of samples is unknown while the table grows.
    let growing = Arc::new(Source { grows_from: Some(1), ..Source::twelve() });
    let mut reader = started(&growing, &settings(), Epoch::sweeps(2).minibatch_size(5));
    some(&mut reader, 1);
    assert_eq!(progress(&reader), (5, None, 0));
    some(&mut reader, 2);
    assert_eq!(progress(&reader), (15, Some(24), 1));
}

#[test]
fn epochs_of_listing_chunks_follow_one_another() {
    let source = Arc::new(Source::twelve());
    let mut reader = over(source.listing(), &settings());
    let epoch = Epoch::samples(5).minibatch_size(5);
    let error = reader.start_epoch(&epoch.index(1)).expect_err("the first sample is unknown");
    assert_eq!(error.message(), "Epoch 1 of 5 samples cannot start here.");
    for (index, expected) in [(0, "0 1 2 3 4!"), (1, "5 6 7 8 9!")] {
        assert_eq!(reader.start_next_epoch(&epoch).expect("an epoch"), index);
        assert_eq!(rest(&mut reader), expected);
    }
    let state = reader.state();
    assert_eq!(state[0], ("currentChunkPosition", 2));
    assert_eq!(state[3], ("baseSampleCount", 5));
}

/// Lines go to one place for the whole process, so this is the only test that reads them.
#[test]
fn idle_workers_are_reported_once() {
    let lines: Arc<std::sync::Mutex<Vec<String>>> = Arc::default();
    let seen = Arc::clone(&lines);
    set_sink(Some(Arc::new(move |level, line: &str| {
        if line.contains("'idle.bin'") {
            seen.lock().expect("no panic").push(format!("{level:?} {line}"));
        }
    })));
    let source = Arc::new(Source::twelve());
    let member = || source::InMemory::new("idle.bin", &source).member();
    let randomized = ReaderSettings { order: block(1), ..settings() };
    for (settings, expected) in [(settings(), 0), (randomized, 2)] {
        let pool = Pool::shared().expect("threads");
        let threads = PackingThreads { all: 1, beside_caller: 1 };
        let (corpus, process) = (Arc::new(Corpus::Numeric), Process::current());
        let made = (source.known(), vec![member()]);
        let mut reader = Reader::over(made, &settings, corpus, pool, threads, process).expect("a reader");
        let epoch = |workers| Epoch::sweeps(1).minibatch_size(5).worker(0, workers);
        for workers in [3, 5, 5] {
            reader.start_epoch(&epoch(workers)).expect("an epoch");
        }
        reader.configure(&ReadConfig::new(5).worker(0, 6)).expect("workers");
        let lines = std::mem::take(&mut *lines.lock().expect("no panic"));
        assert_eq!(lines.len(), expected, "{lines:?}");
        for (line, workers) in lines.iter().zip([5, 6]) {
            let start = format!("Warning {workers} workers share 3 chunks of 'idle.bin'");
            assert!(line.starts_with(&start), "{line}");
        }
    }
    set_sink(None);
}

/// In lockstep, any worker can continue.
#[test]
fn restored_epoch_takes_the_callers_worker_and_flags() {
    let source = Arc::new(Source::twelve());
    let lockstep = ReaderSettings { lockstep: true, ..settings() };
    let epoch = Epoch::sweeps(2).minibatch_size(4);
    let mut reader = started(&source, &lockstep, epoch);
    some(&mut reader, 1);
    let checkpoint = reader.checkpoint().expect("a checkpoint");
    for read in [
        ReadConfig::new(4).worker(1, 2),
        ReadConfig::new(4).worker(0, 2),
        ReadConfig::new(4).cross_sweeps(false),
        ReadConfig::new(5),
    ] {
        let mut other = open(&source, &lockstep);
        other.restore(&checkpoint).expect("a good checkpoint");
        assert_eq!(other.start_next_epoch(&epoch.read_config(read)).expect("the checkpoint's epoch"), 0);
        assert_eq!(other.config().expect("an epoch"), read);
    }
}

#[test]
fn end_of_listing_chunks_is_restored() {
    let source = Arc::new(Source::twelve());
    for (epoch, reads, is_at_end) in [
        (Epoch::sweeps(1), 2, false),
        (Epoch::sweeps(1), 3, true),
        (Epoch::samples(10), 1, false),
        (Epoch::samples(10), 2, true),
    ] {
        let mut reader = over(source.listing(), &settings());
        reader.start_epoch(&epoch.minibatch_size(5)).expect("an epoch");
        some(&mut reader, reads);
        let checkpoint = reader.checkpoint().expect("a checkpoint");
        let mut other = over(source.listing(), &settings());
        other.restore(&checkpoint).expect("a good checkpoint");
        assert_eq!(other.is_next_ready(), is_at_end, "{reads} of {epoch:?}");
    }
}

#[test]
fn epoch_goes_on_for_a_worker_that_gets_data() {
    let source = Arc::new(Source::new(&[&[1]]));
    let mut reader = over(source.listing(), &settings());
    reader.start_epoch(&Epoch::sweeps(3).minibatch_size(1).worker(1, 2)).expect("an epoch");
    assert!(reader.next().expect("no error").is_none(), "the only sequence is the other worker's");
    let state = |reader: &Reader| reader.current_epoch().map(|(_, state)| state);
    assert_eq!(state(&reader), Some(EpochState::Over));
    reader.configure(&ReadConfig::new(1)).expect("a good configuration");
    assert_eq!(some(&mut reader, 1), "0");
    assert_eq!(state(&reader), Some(EpochState::Started));
}
