//! User-defined deserializers through readers: orders, states, checkpoints, failures, threads and
//! releases.

use cntk_reader::language::{self, UserType};
use cntk_reader::{Error, ErrorKind, Result};
use cntk_reader_core::format::user::{
    FetchedChunk, Keys, Registered, SequenceMatcher, Sequences, StreamData, UserChunk, UserDeserializer,
    UserSequence,
};
use cntk_reader_core::sequence::{SequenceId, SequenceInfo};
use cntk_reader_core::stream::StreamInfo;
use cntk_reader_engine::reader::{Epoch, Extensions, ReadConfig, Reader};
use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::ThreadId;

/// Records of how the deserializer is used.
#[derive(Default)]
struct Seen {
    loads: Mutex<Vec<u32>>,
    threads: Mutex<HashSet<ThreadId>>,
    inside: AtomicUsize,
    overlaps: AtomicUsize,
    broken: AtomicBool,
}

/// Chunks of numbered one-sample sequences.
struct Numbers {
    streams: Vec<StreamInfo>,
    chunks: Vec<usize>,
    lists: bool,
    thread_safe: bool,
    seen: Arc<Seen>,
}

impl UserDeserializer for Numbers {
    fn streams(&self) -> &[StreamInfo] {
        &self.streams
    }

    fn chunk_count(&self) -> u32 {
        self.chunks.len() as u32
    }

    fn load(&self, chunk: u32) -> Result<UserChunk> {
        if self.seen.inside.fetch_add(1, Ordering::SeqCst) > 0 {
            self.seen.overlaps.fetch_add(1, Ordering::SeqCst);
        }
        self.seen.threads.lock().expect("a lock").insert(std::thread::current().id());
        self.seen.loads.lock().expect("a lock").push(chunk);
        std::thread::yield_now();
        self.seen.inside.fetch_sub(1, Ordering::SeqCst);
        if self.seen.broken.load(Ordering::SeqCst) && chunk == 1 {
            return Err(Error::data("the disk has melted"));
        }
        let first: usize = self.chunks[..chunk as usize].iter().sum();
        let values: Vec<f32> = (first..first + self.chunks[chunk as usize]).map(|n| n as f32).collect();
        Ok(UserChunk::arrays(vec![StreamData::dense(values)]))
    }

    fn sequences(&self, chunk: u32) -> Result<Option<Sequences>> {
        Ok(self.lists.then(|| Sequences::of_one_sample(self.chunks[chunk as usize] as u32)))
    }

    fn loads_in_parallel(&self) -> bool {
        self.thread_safe
    }
}

fn open(text: &str, composable: bool, chunks: &[usize], seen: &Arc<Seen>) -> Result<Reader> {
    open_with(text, composable, chunks, seen, false)
}

fn open_with(
    text: &str,
    composable: bool,
    chunks: &[usize],
    seen: &Arc<Seen>,
    thread_safe: bool,
) -> Result<Reader> {
    let numbers = Numbers {
        streams: vec![StreamInfo::dense("x", &[1])],
        chunks: chunks.to_vec(),
        lists: composable,
        thread_safe,
        seen: Arc::clone(seen),
    };
    let registered = [Registered::new("Numbers", Arc::new(numbers))?];
    assert_eq!(registered[0].is_composable(), composable);
    let options = language::from_text_with(text, &[UserType { name: "Numbers", composable }])?;
    Reader::open_with(&options, &Extensions { registered: &registered, ..Extensions::default() })
}

fn epoch(minibatch: u64, sweeps: u64, workers: u64, rank: u64) -> Epoch {
    let read = ReadConfig::new(minibatch).worker(rank, workers);
    Epoch::from_numbers(read, u64::MAX / 2, sweeps, 0)
}

/// Returns the numbers of the next minibatch, with `*` at the end of a sweep; None at the end.
fn read(reader: &mut Reader) -> Result<Option<String>> {
    let minibatch = reader.read()?;
    let Some(stream) = minibatch.streams.first() else {
        assert!(minibatch.end_of_epoch);
        return Ok(None);
    };
    let text: Vec<String> =
        stream.dense::<f32>().expect("dense data").iter().map(|value| value.to_string()).collect();
    Ok(Some(text.join(" ") + if minibatch.end_of_sweep { "*" } else { "" }))
}

fn read_all(reader: &mut Reader) -> String {
    let mut all = Vec::new();
    while let Some(minibatch) = read(reader).expect("a minibatch") {
        all.push(minibatch);
        assert!(all.len() < 1000, "no end");
    }
    all.join("; ")
}

fn order(text: &str, composable: bool, chunks: &[usize], epoch: &Epoch) -> String {
    let mut reader = open(text, composable, chunks, &Arc::default()).expect("a reader");
    reader.start_epoch(epoch).expect("an epoch");
    read_all(&mut reader)
}

const WINDOW: &str = "randomizationWindow = 2";

#[test]
fn chunks_with_late_lists_have_the_orders_of_cntk() {
    let chunks = [4, 4, 4];
    let two = epoch(5, 2, 1, 0);
    assert_eq!(
        order(WINDOW, false, &chunks, &two),
        "6 4 3 0 1; 7 5 2 8 9; 11 10 0 1 2*; 3 4 7 11 6; 8 9 5 10*"
    );
    let seven = "randomizationWindow = 5 ; sampleBasedRandomizationWindow = true ; randomizationSeed = 7";
    assert_eq!(
        order(seven, false, &chunks, &two),
        "3 1 10 0 9; 11 8 2 7 5; 4 6 5 7 6*; 4 3 11 1 8; 10 2 9 0*"
    );
    assert_eq!(
        order("randomize = false", false, &chunks, &two),
        "0 1 2 3 4; 5 6 7 8 9; 10 11 0 1 2*; 3 4 5 6 7; 8 9 10 11*"
    );
    // The default window is the one of CNTK's API.
    assert!(order("", false, &[5], &epoch(3, 3, 1, 0)).starts_with("4 0 3; 2 1 3*; 0 2 1"));
}

#[test]
fn sequences_listed_in_advance_use_the_full_randomizer() {
    let two = epoch(5, 2, 1, 0);
    let chunks = [4, 4, 4];
    let text = "randomizationWindow = 2 ; sampleBasedRandomizationWindow = false";
    assert_eq!(order(text, true, &chunks, &two), "5 2 3 0 4; 1 7 6 10 11; 9 8 8 11 2*; 1 3 10 0 9; 4 5 7 6*");
    // The configuration may disable the lists of sequences.
    let element = "randomizationWindow = 2 ; deserializers = ( [ type = \"Numbers\" ; composable = false ] )";
    assert!(order(element, true, &chunks, &two).starts_with("6 4 3 0 1; 7 5 2 8 9"));
    let error =
        open("deserializers = ( [ type = \"Others\" ; module = \"m\" ] )", true, &chunks, &Arc::default());
    assert_eq!(error.map(drop).expect_err("unknown").kind(), ErrorKind::Config);
}

#[test]
fn chunks_that_fit_into_the_window_are_loaded_once() {
    for text in ["", "randomize = false"] {
        let seen = Arc::<Seen>::default();
        let mut reader = open(text, false, &[4, 4, 4], &seen).expect("a reader");
        reader.start_epoch(&epoch(5, 7, 1, 0)).expect("an epoch");
        read_all(&mut reader);
        let mut loads = seen.loads.lock().expect("a lock").clone();
        loads.sort_unstable();
        assert_eq!(loads, [0, 1, 2], "{text}");
    }
}

#[test]
fn user_code_runs_on_one_thread_unless_it_allows_more() {
    for (composable, text) in [(false, "randomize = false"), (false, WINDOW), (true, WINDOW)] {
        let seen = Arc::<Seen>::default();
        let mut reader = open(text, composable, &[3; 40], &seen).expect("a reader");
        reader.start_epoch(&epoch(5, 2, 1, 0)).expect("an epoch");
        read_all(&mut reader);
        let threads = seen.threads.lock().expect("a lock").clone();
        assert_eq!(threads.len(), 1);
        assert!(!threads.contains(&std::thread::current().id()));
        assert_eq!(seen.overlaps.load(Ordering::SeqCst), 0);
    }
    for composable in [false, true] {
        let seen = Arc::<Seen>::default();
        let mut reader = open_with(WINDOW, composable, &[3; 40], &seen, true).expect("a reader");
        reader.start_epoch(&epoch(5, 2, 1, 0)).expect("an epoch");
        let numbers: usize = read_all(&mut reader).split("; ").map(|text| text.split(' ').count()).sum();
        assert_eq!(numbers, 240);
    }
}

#[test]
fn chunks_without_sequences_are_an_explained_error() {
    for text in ["", "randomize = false"] {
        for (chunks, message) in [
            (&[0][..], "The only chunk of the deserializer has no sequences."),
            (&[0, 0, 0], "None of the 3 chunks of the deserializer has a sequence."),
        ] {
            let mut reader = open(text, false, chunks, &Arc::default()).expect("a reader");
            reader.start_epoch(&epoch(10, 2, 1, 0)).expect("an epoch");
            let error = read(&mut reader).expect_err("nothing to read");
            assert_eq!((error.message(), error.kind()), (message, ErrorKind::Data), "'{text}'");
            assert!(error.detail().starts_with("There is nothing to read: return sequences"), "{error}");
        }
        // One sequence is enough.
        assert_eq!(order(text, false, &[0, 1, 0], &epoch(10, 1, 1, 0)), "0*");
    }
}

#[test]
fn epochs_end_with_more_workers_than_chunks() {
    for composable in [false, true] {
        for text in ["", "randomize = false"] {
            let mut all = Vec::new();
            for rank in 0..5 {
                let mut reader = open(text, composable, &[2, 1], &Arc::default()).expect("a reader");
                reader.start_epoch(&epoch(10, 1, 5, rank)).expect("an epoch");
                let share = read_all(&mut reader);
                all.extend(share.split(['*', ';', ' ']).filter_map(|n| n.parse::<u32>().ok()));
            }
            all.sort_unstable();
            assert_eq!(all, [0, 1, 2], "composable {composable}, '{text}'");
        }
    }
}

#[test]
fn states_and_checkpoints_continue_exactly() {
    for (composable, text, workers) in [
        (false, WINDOW, 1),
        (false, WINDOW, 2),
        (false, "", 1),
        (false, "randomize = false", 1),
        (false, "randomize = false", 2),
        (true, WINDOW, 1),
        (true, "randomize = false", 1),
    ] {
        let what = format!("composable {composable}, '{text}', {workers} workers");
        let open = || open(text, composable, &[4, 3, 5], &Arc::default()).expect("a reader");
        let start = epoch(5, 3, workers, 0);
        let mut reader = open();
        reader.start_epoch(&start).expect("an epoch");
        let keys: Vec<&str> = reader.state().iter().map(|(key, _)| *key).collect();
        assert!(reader.state().iter().all(|(_, value)| *value == 0));
        match (composable, text) {
            (true, _) => assert_eq!(keys, ["minibatchSourcePosition"]),
            (_, "randomize = false") => {
                assert_eq!(keys[..2], ["currentChunkPosition", "currentSequencePosition"])
            }
            _ => assert_eq!(keys[..2], ["chunkPosition", "sweepIndex"]),
        }
        loop {
            let (state, checkpoint) = (reader.state(), reader.checkpoint().expect("a checkpoint"));
            let next = read(&mut reader).expect("a minibatch");
            // In new readers that have not read anything yet.
            let mut other = open();
            other.restore(&checkpoint).expect("restores");
            assert_eq!(other.state(), state, "{what}");
            assert_eq!(read(&mut other).expect("a minibatch"), next, "{what}");
            let mut other = open();
            other.start_epoch(&start).expect("an epoch");
            other.set_state(&state).expect("a state");
            assert_eq!(read(&mut other).expect("a minibatch"), next, "{what}");
            assert_eq!(other.state(), reader.state(), "{what}");
            if next.is_none() {
                break;
            }
        }
    }
}

#[test]
fn states_are_in_the_format_of_cntk() {
    let mut reader = open(WINDOW, false, &[4, 4, 4], &Arc::default()).expect("a reader");
    reader.start_epoch(&epoch(5, 2, 1, 0)).expect("an epoch");
    for expected in [[0, 0, 0, 5, 5], [2, 0, 0, 10, 2], [2, 0, 1, 15, 8], [1, 1, 1, 20, 4], [0, 2, 2, 24, 0]]
    {
        read(&mut reader).expect("a minibatch");
        assert_eq!(reader.state().iter().map(|(_, value)| *value).collect::<Vec<_>>(), expected);
    }
    let error = reader.set_state(&[("minibatchSourcePosition", 5)]).expect_err("other keys");
    assert_eq!(error.message(), "The required key 'baseSweepCount' was not found in the checkpoint");
}

#[test]
fn failures_repeat_until_the_cause_is_gone() {
    for composable in [false, true] {
        let seen = Arc::<Seen>::default();
        seen.broken.store(true, Ordering::SeqCst);
        let mut reader = open("randomize = false", composable, &[4, 4, 4], &seen).expect("a reader");
        reader.start_epoch(&epoch(2, 1, 1, 0)).expect("an epoch");
        assert_eq!(read(&mut reader).expect("good").as_deref(), Some("0 1"));
        assert_eq!(read(&mut reader).expect("good").as_deref(), Some("2 3"));
        let error = reader.read().map(drop).expect_err("broken");
        assert_eq!(error.message(), "the disk has melted");
        if composable {
            // As with files: the reader continues past the data that it could not deliver.
            continue;
        }
        assert!(reader.read().is_err());
        seen.broken.store(false, Ordering::SeqCst);
        assert_eq!(read_all(&mut reader), "4 5; 6 7; 8 9; 10 11");
    }
}

#[test]
fn user_code_can_read_with_another_reader() {
    struct Nested(Vec<StreamInfo>, Mutex<Reader>);
    impl UserDeserializer for Nested {
        fn streams(&self) -> &[StreamInfo] {
            &self.0
        }
        fn chunk_count(&self) -> u32 {
            20
        }
        fn load(&self, _chunk: u32) -> Result<UserChunk> {
            let minibatch = self.1.lock().expect("a lock").read()?;
            let values = minibatch.streams[0].dense::<f32>().expect("dense data").to_vec();
            Ok(UserChunk::arrays(vec![StreamData::dense(values)]))
        }
    }
    let mut inner = open("randomize = false", true, &[5; 20], &Arc::default()).expect("a reader");
    inner.start_epoch(&epoch(5, 1, 1, 0)).expect("an epoch");
    let options = language::from_text_with("randomize = false", &[UserType { name: "n", composable: false }]);
    let nested = Nested(inner.streams().to_vec(), Mutex::new(inner));
    let registered = [Registered::new("n", Arc::new(nested)).expect("a deserializer")];
    let mut outer = Reader::open_with(
        &options.expect("options"),
        &Extensions { registered: &registered, ..Extensions::default() },
    )
    .expect("a reader");
    outer.start_epoch(&epoch(7, 1, 1, 0)).expect("an epoch");
    let all = read_all(&mut outer);
    let numbers: Vec<u32> = all.split(['*', ';', ' ']).filter_map(|n| n.parse().ok()).collect();
    assert!(numbers.iter().copied().eq(0..100), "{all}");
}

#[test]
fn truncated_and_frame_modes_accept_user_data() {
    for composable in [false, true] {
        for text in ["frameMode = true", "truncated = true ; truncationLength = 2"] {
            let mut reader = open(text, composable, &[4, 4], &Arc::default()).expect("a reader");
            reader.start_epoch(&epoch(4, 1, 1, 0)).expect("an epoch");
            let mut keys = 0;
            loop {
                let minibatch = reader.read().expect("a minibatch");
                keys += minibatch.keys.len();
                if minibatch.end_of_epoch {
                    break;
                }
                let checkpoint = reader.checkpoint().expect("a checkpoint");
                reader.restore(&checkpoint).expect("restores");
            }
            assert_eq!(keys, 8, "{text}");
        }
    }
}

/// Twelve sequences of one sample in three chunks, with the keys 0 to 11: the value is the key.
struct Keyed {
    streams: [StreamInfo; 1],
    /// Whether it matches sequences itself: the sequence with key 11 - k then belongs to key k, and
    /// key 3 has none.
    reverses: bool,
    /// Whether sequences are fetched one by one.
    fetches: bool,
    /// The threads that asked for sequences.
    askers: Arc<Mutex<HashSet<ThreadId>>>,
}

struct KeyedChunk(u32);

impl FetchedChunk for KeyedChunk {
    fn fetch(&self, index: u32, sequence: &mut UserSequence) -> Result<()> {
        sequence.dense(0)?.push((self.0 * 4 + index) as f32);
        Ok(())
    }
}

impl UserDeserializer for Keyed {
    fn streams(&self) -> &[StreamInfo] {
        &self.streams
    }

    fn chunk_count(&self) -> u32 {
        3
    }

    fn sequences(&self, chunk: u32) -> Result<Option<Sequences>> {
        self.askers.lock().expect("a lock").insert(std::thread::current().id());
        let first = u64::from(chunk) * 4;
        Ok(Some(Sequences::of_one_sample(4).with_keys(Keys::Numbers((first..first + 4).collect()))))
    }

    fn matcher(&self) -> Option<&dyn SequenceMatcher> {
        self.reverses.then_some(self)
    }

    fn fetches_sequences(&self) -> bool {
        self.fetches
    }

    fn load(&self, chunk: u32) -> Result<UserChunk> {
        if self.fetches {
            return Ok(UserChunk::fetched(KeyedChunk(chunk)));
        }
        let values: Vec<f32> = (chunk * 4..chunk * 4 + 4).map(|key| key as f32).collect();
        Ok(UserChunk::arrays(vec![StreamData::dense(values)]))
    }
}

impl SequenceMatcher for Keyed {
    fn find(&self, of: &SequenceInfo) -> Result<Option<(SequenceId, u32)>> {
        self.askers.lock().expect("a lock").insert(std::thread::current().id());
        let key = 11 - of.key as u32;
        Ok((of.key != 3).then_some((SequenceId { chunk: key / 4, index: key % 4 }, 1)))
    }
}

#[test]
fn every_kind_can_be_primary_or_joined() {
    for (fetches, reverses) in [(false, false), (false, true), (true, false), (true, true)] {
        for others_fetch in [false, true] {
            let askers = Arc::<Mutex<HashSet<ThreadId>>>::default();
            let keyed = |name, fetches, reverses| Keyed {
                streams: [StreamInfo::dense(name, &[1])],
                reverses,
                fetches,
                askers: Arc::clone(&askers),
            };
            let mut reader = cntk_reader::Reader::builder()
                .config_text("randomize = false")
                .expect("a configuration")
                .deserializer("first", keyed("x", others_fetch, false))
                .deserializer("second", keyed("y", fetches, reverses))
                .open()
                .expect("a reader");
            let mut pairs = Vec::new();
            for minibatch in reader.epoch(Epoch::sweeps(1).minibatch_size(5)).expect("an epoch") {
                let minibatch = minibatch.expect("a minibatch");
                let values =
                    |name| minibatch.stream(name).and_then(|stream| stream.dense::<f32>()).expect("values");
                pairs.extend(values("x").iter().copied().zip(values("y").iter().copied()));
            }
            let belongs = |key: u32| if reverses { 11 - key } else { key };
            let expected: Vec<(f32, f32)> = (0..12u32)
                .filter(|&key| !reverses || key != 3)
                .map(|key| (key as f32, belongs(key) as f32))
                .collect();
            assert_eq!(pairs, expected, "fetches {fetches}, reverses {reverses}, others {others_fetch}");
            let askers: Vec<ThreadId> = askers.lock().expect("a lock").iter().copied().collect();
            assert_eq!(askers, [std::thread::current().id()], "only the thread that opens the reader asks");
        }
    }
}
