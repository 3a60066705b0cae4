//! Minibatches: their order, values and flags, in every mode of reading.

use super::*;
use cntk_reader_core::format::SourceMemory;
use std::task::Poll;
use std::time::Duration;

const IN_ORDER: &str = "0 1 2 3 4 | 5 6 7 8 9 | 10 11 0 1 2* | 3 4 5 6 7 | 8 9 10 11*!";

#[test]
fn orders_and_flags() {
    let randomized = "3 11 2 9 0 | 1 8 10 4 6 | 5 7 4 6 11* | 10 7 5 9 8 | 0 2 3 1*!";
    let tumbling = "3 1 10 0 9 | 11 8 2 7 5 | 4 6 5 7 6* | 4 3 11 1 8 | 10 2 9 0*!";
    for prefetch in [false, true] {
        for (order, of_known, of_listing) in
            [(Order::InOrder, IN_ORDER, IN_ORDER), (block(2), randomized, tumbling)]
        {
            let source = Arc::new(Source::twelve());
            let settings = ReaderSettings { order, prefetch, ..settings() };
            for (deserializer, expected) in [(source.known(), of_known), (source.listing(), of_listing)] {
                let mut reader = over(deserializer, &settings);
                reader.start_epoch(&Epoch::sweeps(2).minibatch_size(5)).expect("an epoch");
                let read = rest(&mut reader);
                // The end of the last sweep is not reported by chunks that list their sequences.
                assert_eq!(read.replace("*!", "!"), expected.replace("*!", "!"), "{order:?}");
                assert_eq!(rest(&mut reader), "", "nothing comes after the end");
            }
        }
    }
}

#[test]
fn values_are_packed_on_every_number_of_threads() {
    for threads in [1, 2, 3] {
        let source = Arc::new(Source::twelve());
        let threads = PackingThreads { all: threads, beside_caller: 1 };
        let pool = Pool::shared().expect("threads");
        let made = (source.known(), Vec::new());
        let settings = ReaderSettings { prefetch: true, ..settings() };
        let (corpus, process) = (Arc::new(Corpus::Numeric), Process::current());
        let mut reader = Reader::over(made, &settings, corpus, pool, threads, process).expect("a reader");
        reader.start_epoch(&Epoch::sweeps(30).minibatch_size(7)).expect("an epoch");
        let mut values = Vec::new();
        while let Some(minibatch) = reader.next().expect("a minibatch") {
            let of_minibatch = minibatch.streams[0].dense::<f32>().expect("dense values");
            assert!(minibatch.keys.iter().map(|&key| key as f32).eq(of_minibatch.iter().copied()));
            values.extend_from_slice(of_minibatch);
        }
        let expected: Vec<f32> = (0..30).flat_map(|_| 0..12_u8).map(f32::from).collect();
        assert_eq!(values, expected);
    }
}

#[test]
fn truncated_minibatches_continue_sequences() {
    let source = Arc::new(Source::new(&[&[3, 1], &[2]]));
    let settings = ReaderSettings { packing: truncated(2), ..settings() };
    let mut reader = started(&source, &settings, Epoch::sweeps(1).minibatch_size(2));
    // Sequence 0 has three steps, so it is in two minibatches.
    assert_eq!(rest(&mut reader), "1000 | 1000 1001 | 1002*!");
    assert_eq!(reader.progress().expect("an epoch").delivered, 6);
    let mut reader = started(&source, &settings, Epoch::sweeps(1).minibatch_size(2));
    let read = reader.read().expect("a minibatch");
    assert_eq!(read.streams[0].dense::<f32>(), Some(&[0.0, 0.0][..]));
    let progress = reader.progress().expect("an epoch");
    // Held steps do not count.
    assert_eq!((progress.delivered, progress.expected), (2, Some(6)));
}

#[test]
fn frames_are_packed_side_by_side() {
    let source = Arc::new(Source::twelve());
    let settings = ReaderSettings { packing: Packing::Frame, ..settings() };
    let mut reader = started(&source, &settings, Epoch::sweeps(1).minibatch_size(8));
    let layouts: Vec<_> = std::iter::from_fn(|| reader.next().expect("a minibatch"))
        .map(|minibatch| (minibatch.streams[0].layout.steps, minibatch.streams[0].layout.lanes))
        .collect();
    assert_eq!(layouts, [(1, 8), (1, 4)]);
}

#[test]
fn workers_share_minibatches() {
    let source = Arc::new(Source::twelve());
    let epoch = |rank| Epoch::sweeps(1).minibatch_size(5).worker(rank, 2);
    let read = |settings: &ReaderSettings, rank| rest(&mut started(&source, settings, epoch(rank)));
    let local = ReaderSettings { local_timeline: true, ..settings() };
    assert_eq!(read(&local, 0), "0 2 4 | 6 8 10");
    assert_eq!(read(&local, 1), "1 3 | 5 7 | 9 11*!");
    assert_eq!(read(&settings(), 0), "0 2 4 | 6 8 | 10*!");
    // In lockstep, all workers have the same number of steps, and some have no data.
    let lockstep = ReaderSettings { lockstep: true, order: block(1), ..settings() };
    let mut reader = started(&source, &lockstep, Epoch::sweeps(1).minibatch_size(4).worker(1, 2));
    assert!(reader.is_in_lockstep());
    let steps: Vec<_> =
        std::iter::from_fn(|| reader.next().expect("a minibatch")).map(|step| text(&step)).collect();
    assert_eq!(steps.iter().map(|step| step.split(' ').count()).collect::<Vec<_>>(), [1, 4, 1]);
    assert_eq!((steps[0].as_str(), steps[2].as_str()), ("", "*!"));
    assert!(!open(&source, &settings()).is_in_lockstep());
}

#[test]
fn reads_continue_past_the_end_of_the_epoch() {
    let source = Arc::new(Source::twelve());
    let mut reader = started(&source, &settings(), Epoch::samples(6).minibatch_size(4));
    let state = |reader: &Reader| reader.current_epoch().expect("an epoch").1;
    let mut read = || {
        let minibatch = reader.read().expect("a minibatch");
        (text(&minibatch), minibatch.is_step, state(&reader), reader.is_next_ready())
    };
    assert_eq!(read(), ("0 1 2 3".to_owned(), true, EpochState::Started, false));
    assert_eq!(read(), ("4 5!".to_owned(), true, EpochState::Started, true));
    assert_eq!(read(), ("!".to_owned(), false, EpochState::Over, true));
    assert!(reader.next().expect("no error").is_none());
    assert_eq!(state(&reader), EpochState::Over);

    let mut reader = started(&source, &settings(), Epoch::samples(6).minibatch_size(6));
    reader.next().expect("no error").expect("a step");
    assert_eq!(state(&reader), EpochState::Started);
    assert!(reader.next().expect("no error").is_none());
    assert_eq!(state(&reader), EpochState::Over);
}

#[test]
fn readiness_does_not_consume() {
    let source = Arc::new(Source::twelve());
    let mut reader = started(&source, &settings(), Epoch::sweeps(1).minibatch_size(8));
    assert!(!reader.is_read_ready() && !reader.is_next_ready());
    reader.make_ready().expect("a minibatch");
    assert!(reader.is_read_ready() && reader.is_next_ready());
    assert_eq!(reader.minibatches_ready(), 1);
    assert!(reader.wait(Duration::ZERO).expect("it is ready"));
    assert_eq!(some(&mut reader, 1), "0 1 2 3 4 5 6 7");
    assert!(!reader.is_read_ready());
    assert_eq!(reader.minibatches_ready(), 0);
    assert!(reader.wait(Duration::MAX).expect("a minibatch"));
    let step = reader.next_within(Duration::ZERO).expect("it is ready");
    let Poll::Ready(Some(step)) = step else { panic!("{step:?}") };
    assert_eq!(text(&step), "8 9 10 11*!");
    assert!(matches!(reader.next_within(Duration::MAX), Ok(Poll::Ready(None))));
}

#[test]
fn waiting_ends_at_the_deadline() {
    let source = Arc::new(Source::twelve());
    source.closes_gate(true);
    let mut reader = started(&source, &settings(), Epoch::sweeps(1).minibatch_size(8));
    assert!(!reader.wait(Duration::from_millis(5)).expect("no error"));
    assert!(matches!(reader.next_within(Duration::from_millis(5)), Ok(Poll::Pending)));
    assert!(!reader.is_read_ready());
    source.closes_gate(false);
    assert_eq!(rest(&mut reader), "0 1 2 3 4 5 6 7 | 8 9 10 11*!");
}

#[test]
fn configuration_changes_between_minibatches() {
    let source = Arc::new(Source::twelve());
    for prefetch in [false, true] {
        let settings = ReaderSettings { prefetch, ..settings() };
        let mut reader = started(&source, &settings, Epoch::sweeps(2).minibatch_size(5));
        assert_eq!(reader.config().expect("an epoch"), ReadConfig::new(5));
        assert_eq!(some(&mut reader, 2), "0 1 2 3 4 | 5 6 7 8 9");
        reader.configure(&ReadConfig::new(3).cross_sweeps(false)).expect("a good configuration");
        assert_eq!(reader.config().expect("an epoch"), ReadConfig::new(3).cross_sweeps(false));
        assert_eq!(some(&mut reader, 2), "10 11* | 0 1 2");
        reader.configure(&ReadConfig::new(4).worker(1, 2)).expect("a good configuration");
        assert_eq!(some(&mut reader, 2), "3 5 | 7 9");
        let refused = [ReadConfig::new(0), ReadConfig::new(3).worker(2, 2), ReadConfig::new(3).worker(0, 0)];
        for config in refused {
            assert!(reader.configure(&config).is_err());
        }
        assert_eq!(rest(&mut reader), "11*!", "a rejected configuration changes nothing");
    }
}

#[test]
fn sizes_of_truncation_need_a_truncating_reader() {
    let source = Arc::new(Source::twelve());
    let read = ReadConfig::new(5);
    let mut reader = open(&source, &settings());
    for (read, numbers) in [
        (read.truncation_length(3), "3 and the right splice 0"),
        (read.right_splice(4), "0 and the right splice 4"),
    ] {
        let error = reader.start_epoch(&Epoch::sweeps(1).read_config(read)).expect_err("not truncated");
        let expected =
            format!("The truncation length is {numbers}, but the reader does not truncate sequences.");
        assert_eq!((error.kind(), error.message()), (ErrorKind::InvalidArgument, &*expected));
    }
    reader.start_epoch(&Epoch::sweeps(1).read_config(read)).expect("no truncation");
    assert!(reader.configure(&read.right_splice(1)).is_err());
    // CNTK ignores them.
    let in_place_of = Some(cntk_reader_core::option::release::Release::Current);
    let mut reader = open(&source, &ReaderSettings { in_place_of, ..settings() });
    reader.start_epoch(&Epoch::sweeps(1).read_config(read.right_splice(1))).expect("ignored");
    let mut reader = open(&source, &ReaderSettings { packing: truncated(2), ..settings() });
    reader.start_epoch(&Epoch::sweeps(1).read_config(read.truncation_length(9))).expect("replaced");
    assert_eq!(reader.config().expect("an epoch").truncation_length, 2);
}

#[test]
fn information_about_a_reader() {
    let mut source = Source::new(&[&[1; 4], &[2; 3]]);
    source.memory = SourceMemory { chunks: 100, index: 20 };
    source.file_bytes = Some(1 << 26);
    let source = Arc::new(source);
    let member = source::InMemory::new("a.bin", &source).member();
    let pool = Pool::shared().expect("threads");
    let threads = PackingThreads { all: 1, beside_caller: 1 };
    let (corpus, process) = (Arc::new(Corpus::Numeric), Process::current());
    let order = Order::Block { window: WindowSize::Samples(5), seed: 0 };
    let settings = ReaderSettings { order, ..settings() };
    let made = (source.known(), vec![member]);
    let mut reader =
        Reader::over(made, &settings, Arc::clone(&corpus), pool, threads, process).expect("a reader");
    assert_eq!(reader.streams()[0].name, "x");
    assert!(Arc::ptr_eq(reader.corpus(), &corpus));
    assert_eq!(reader.shapes().get(0), None);
    let sizes = Sizes { samples: Some(10), sequences: Some(7), chunks: Some(2) };
    assert_eq!((reader.sizes(), reader.members().len()), (sizes, 1));
    // Half of the samples are in a window, for one worker with eight chunks.
    assert_eq!(reader.suggest_chunk_size(1), (1 << 26) / 2 / 8);
    assert_eq!((reader.memory().window, reader.memory().index, reader.memory().buffers), (100, 20, 0));
    reader.start_epoch(&Epoch::sweeps(2).minibatch_size(100)).expect("an epoch");
    let minibatch = reader.read().expect("a minibatch");
    assert!(reader.memory().buffers >= 7 * 8, "the keys alone");
    drop(minibatch);
}

#[test]
fn large_blocks_are_page_locked_on_request() {
    struct Count(std::sync::atomic::AtomicUsize);
    impl PageLock for Count {
        fn lock(&self, _memory: &[u8]) -> bool {
            self.0.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            true
        }
        fn unlock(&self, _address: usize) {}
    }
    let source = Arc::new(Source::new(&[&[1 << 20]]));
    let mut reader = started(&source, &settings(), Epoch::sweeps(1).minibatch_size(1));
    let count = Arc::new(Count(Default::default()));
    reader.lock_pages(Arc::clone(&count) as Arc<dyn PageLock>);
    reader.read().expect("a minibatch");
    assert_eq!(count.0.load(std::sync::atomic::Ordering::SeqCst), 1);
}

#[test]
fn dropped_reader_releases_its_source() {
    for grows_from in [None, Some(1)] {
        let source = Arc::new(Source { grows_from, ..Source::twelve() });
        let settings = ReaderSettings { prefetch: true, ..settings() };
        let mut reader = started(&source, &settings, Epoch::sweeps(9).minibatch_size(5));
        reader.read().expect("a minibatch");
        drop(reader);
        assert_eq!(Arc::strong_count(&source), 1);
        assert_eq!(source.is_cancelled(), grows_from.is_some());
    }
}

#[test]
fn ends_of_sweeps_are_passed_on() {
    let source = Arc::new(Source::twelve());
    let mut reader = started(&source, &settings(), Epoch::sweeps(3).minibatch_size(5));
    assert_eq!((some(&mut reader, 2).len(), source.sweeps()), (21, 0));
    rest(&mut reader);
    assert_eq!(source.sweeps(), 3);
}
