//! Steps of an epoch: their flags, loops that do not borrow their reader, and waits that time out
//! before the data arrive.

use crate::common;
use cntk_reader_core::testing;

use cntk_reader::user::{
    FetchedChunk, Sequences, StreamData, StreamInfo, UserChunk, UserDeserializer, UserSequence,
};
use cntk_reader::{
    Canceller, CtfDeserializer, Epoch, EpochCursor, ErrorKind, Minibatch, Reader, ReaderOptions, Result,
};
use cntk_reader_engine::reader::{Extensions, Reader as Engine};
use common::rng::Rng;
use common::scenario::{LIMIT, Scenario};
use common::seen::{self, Seen};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::task::Poll;
use std::time::{Duration, Instant};

/// How long a test waits for something that does not happen.
const SHORT: Duration = Duration::from_millis(20);

/// How long a test waits for something that happens.
const LONG: Duration = Duration::from_secs(60);

/// A gate that blocks user code while it is closed.
#[derive(Default)]
struct Gate {
    is_closed: Mutex<bool>,
    changed: Condvar,
    fetched: AtomicU64,
}

impl Gate {
    fn set(&self, is_closed: bool) {
        *self.is_closed.lock().expect("no panic") = is_closed;
        self.changed.notify_all();
    }

    fn pass(&self) {
        let mut is_closed = self.is_closed.lock().expect("no panic");
        while *is_closed {
            is_closed = self.changed.wait(is_closed).expect("no panic");
        }
    }
}

/// Opens a gate on drop, so that a failed assertion does not wait for user code.
struct OpenedAtLast(Arc<Gate>);

impl Drop for OpenedAtLast {
    fn drop(&mut self) {
        self.0.set(false);
    }
}

/// A user-defined deserializer of 60 numbers in six chunks: loading, or fetching each sequence,
/// passes a gate.
struct Slow {
    gate: Arc<Gate>,
    streams: [StreamInfo; 1],
    is_fetched: bool,
}

struct SlowSequences(u32, Arc<Gate>);

impl UserDeserializer for Slow {
    fn streams(&self) -> &[StreamInfo] {
        &self.streams
    }

    fn chunk_count(&self) -> u32 {
        6
    }

    fn sequences(&self, _chunk: u32) -> Result<Option<Sequences>> {
        Ok(Some(Sequences::of_one_sample(10)))
    }

    fn fetches_sequences(&self) -> bool {
        self.is_fetched
    }

    fn load(&self, chunk: u32) -> Result<UserChunk> {
        if self.is_fetched {
            return Ok(UserChunk::fetched(SlowSequences(chunk, Arc::clone(&self.gate))));
        }
        self.gate.pass();
        let values: Vec<f32> = (0..10).map(|index| (chunk * 10 + index) as f32).collect();
        Ok(UserChunk::arrays(vec![StreamData::dense(values)]))
    }
}

impl FetchedChunk for SlowSequences {
    fn fetch(&self, index: u32, sequence: &mut UserSequence) -> Result<()> {
        self.1.pass();
        self.1.fetched.fetch_add(1, Ordering::SeqCst);
        sequence.dense::<f32>(0)?.push((self.0 * 10 + index) as f32);
        Ok(())
    }
}

/// Returns a reader of such data in order, in an epoch of one sweep. Its gate is closed.
fn slow(is_fetched: bool, canceller: Option<&Canceller>) -> (Reader, Arc<Gate>) {
    common::quiet();
    let gate = Arc::new(Gate::default());
    gate.set(true);
    let user = Slow { gate: Arc::clone(&gate), streams: [StreamInfo::dense("x", &[1])], is_fetched };
    let builder = Reader::builder().deserializer("slow", user).options(ReaderOptions::new().randomize(false));
    let builder = canceller.into_iter().fold(builder, |builder, canceller| builder.canceller(canceller));
    let mut reader = builder.open().expect("a reader");
    drop(reader.epoch(Epoch::sweeps(1).minibatch_size(7)).expect("an epoch"));
    (reader, gate)
}

fn values(minibatch: &Minibatch) -> Vec<u32> {
    let x = minibatch.stream("x").and_then(|x| x.dense::<f32>()).expect("values");
    x.iter().map(|&value| value as u32).collect()
}

/// Returns the remaining values.
fn rest(reader: &mut Reader) -> Vec<u32> {
    reader.rest_of_epoch().flat_map(|minibatch| values(&minibatch.expect("a minibatch"))).collect()
}

#[test]
fn waits_time_out_without_losing_data() {
    for is_fetched in [false, true] {
        let (mut reader, gate) = slow(is_fetched, None);
        let _open = OpenedAtLast(Arc::clone(&gate));
        let (mut all, mut waits) = (Vec::new(), 0);
        loop {
            gate.set(true);
            let before = reader.checkpoint().expect("a checkpoint");
            let mut step = reader.next_within(Duration::ZERO).expect("no failure");
            // Data that were loaded before the gate was closed may still be on their way.
            if step.is_pending() && reader.wait(SHORT).expect("no failure") {
                step = reader.next_within(Duration::ZERO).expect("no failure");
            } else if step.is_pending() {
                // Every wait times out before the data arrive, and changes nothing.
                waits += 1;
                let start = Instant::now();
                assert!(!reader.wait(SHORT).expect("no failure"));
                assert!(reader.next_within(SHORT).expect("no failure").is_pending());
                assert!(start.elapsed() >= 2 * SHORT);
                assert_eq!(reader.checkpoint().expect("a checkpoint"), before);
                gate.set(false);
                assert!(reader.wait(LONG).expect("no failure"), "the data have come");
                assert_eq!(reader.checkpoint().expect("a checkpoint"), before, "nothing was delivered yet");
                step = reader.next_within(Duration::ZERO).expect("no failure");
                assert!(step.is_ready());
            }
            gate.set(false);
            match step {
                Poll::Ready(Some(minibatch)) => all.extend(values(&minibatch)),
                _ => break,
            }
        }
        assert!(all.iter().copied().eq(0..60), "{all:?}");
        assert!(waits > 0, "the gate held nothing up");
        if is_fetched {
            assert_eq!(gate.fetched.load(Ordering::SeqCst), 60, "each sequence is fetched once");
        }
        assert!(reader.next().expect("no failure").is_none(), "again and again");
        assert_eq!(
            reader.next_within(Duration::ZERO).expect("no failure").map(|step| step.is_none()),
            Poll::Ready(true)
        );
    }
}

#[test]
fn cancelled_waits_can_continue() {
    for is_fetched in [false, true] {
        let canceller = Canceller::new();
        let (mut reader, gate) = slow(is_fetched, Some(&canceller));
        let _open = OpenedAtLast(Arc::clone(&gate));
        for _ in 0..3 {
            assert!(reader.next_within(Duration::ZERO).expect("no failure").is_pending());
            let waited = std::thread::scope(|scope| {
                scope.spawn(|| {
                    while !canceller.cancel() {
                        std::thread::yield_now();
                    }
                });
                reader.next_within(LONG)
            });
            assert_eq!(waited.expect_err("it was cancelled").kind(), ErrorKind::Cancelled);
        }
        gate.set(false);
        assert!(rest(&mut reader).into_iter().eq(0..60));
    }
}

#[test]
fn reader_can_be_used_and_dropped_after_a_wait() {
    for is_fetched in [false, true] {
        let (mut reader, gate) = slow(is_fetched, None);
        let _open = OpenedAtLast(Arc::clone(&gate));
        let state = reader.checkpoint().expect("a checkpoint");
        assert!(reader.next_within(SHORT).expect("no failure").is_pending());
        gate.set(false);
        // Subsequent calls continue at the reader's position as its caller sees it.
        assert_eq!(reader.progress().expect("progress").delivered, 0);
        reader.restore(&state).expect("its own checkpoint");
        assert!(rest(&mut reader).into_iter().eq(0..60));
        let second = reader.epoch(Epoch::sweeps(1).index(1).minibatch_size(9)).expect("an epoch");
        assert_eq!(second.map(|minibatch| values(&minibatch.expect("a minibatch")).len()).sum::<usize>(), 60);

        let (mut reader, gate) = slow(is_fetched, None);
        let _open = OpenedAtLast(Arc::clone(&gate));
        assert!(reader.next_within(SHORT).expect("no failure").is_pending());
        let thread = std::thread::spawn(move || drop(reader));
        gate.set(false);
        thread.join().expect("no panic");
    }
}

/// The iterator of a foreign language: it has a reader, which it shares with others, and the loop.
struct Foreign {
    reader: Arc<Mutex<Reader>>,
    cursor: EpochCursor,
}

impl Foreign {
    fn next(&mut self) -> Option<Result<Minibatch>> {
        self.cursor.next(&mut self.reader.lock().expect("no panic"))
    }
}

#[test]
fn loops_need_not_borrow_their_reader() {
    let (reader, gate) = slow(false, None);
    gate.set(false);
    let reader = Arc::new(Mutex::new(reader));
    let locked = || reader.lock().expect("no panic");
    let epoch = |index| Epoch::sweeps(1).index(index).minibatch_size(25);
    let cursor = locked().epoch_cursor(epoch(0)).expect("an epoch");
    let mut own = Foreign { reader: Arc::clone(&reader), cursor };
    let minibatch = own.next().expect("one").expect("a minibatch");
    assert_eq!(locked().progress().expect("progress").delivered, 25);
    // It may continue on another thread, and minibatches outlive all of it.
    let thread = std::thread::spawn(move || (own.next().map(|next| next.map(|next| values(&next))), own));
    let (next, mut own) = thread.join().expect("no panic");
    assert!(next.expect("one").expect("a minibatch").into_iter().eq(25..50));
    // After another loop has started, it reports this once.
    let mut other = locked().epoch_cursor(epoch(1)).expect("an epoch");
    assert_eq!(own.next().expect("an error").expect_err("its place is taken").kind(), ErrorKind::State);
    assert!(own.next().is_none());
    drop(own);
    let mut count = 0;
    while let Poll::Ready(Some(minibatch)) = other.next_within(&mut locked(), LONG) {
        count += minibatch.expect("a minibatch").sequences();
    }
    assert_eq!(count, 60);
    // Once ended, it stays ended, even if a later epoch has data.
    _ = locked().epoch_cursor(epoch(2)).expect("an epoch");
    assert!(other.next(&mut locked()).is_none());
    drop(reader);
    assert!(values(&minibatch).into_iter().eq(0..25));
}

/// Both ways to read agree on the end of an epoch. A worker without a share gets minibatches
/// without data, which are not steps.
#[test]
fn empty_share_is_not_the_end_of_the_epoch() {
    common::quiet();
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("x.ctf");
    std::fs::write(&path, (0..12).map(|i| format!("|x {i}\n")).collect::<String>()).expect("writing");
    for lockstep in [false, true] {
        let ctf = CtfDeserializer::new(&path).dense("x", 1).chunk_size(18);
        let open = |rank| {
            let options = ReaderOptions::new().lockstep(lockstep).trace_level(0);
            let mut reader = Reader::builder().ctf(ctf.clone()).options(options).open().expect("a reader");
            drop(reader.epoch(Epoch::sweeps(1).minibatch_size(4).worker(rank, 40)).expect("an epoch"));
            reader
        };
        for rank in 0..40 {
            let mut reader = open(rank);
            let mut steps = Vec::new();
            let minibatch = loop {
                let minibatch = reader.read().expect("a minibatch");
                assert!(
                    minibatch.is_step() || (minibatch.is_empty() && !lockstep) || minibatch.end_of_epoch()
                );
                if minibatch.is_step() {
                    steps.push(minibatch.keys().to_vec());
                } else if minibatch.end_of_epoch() {
                    break minibatch;
                }
            };
            assert!(minibatch.is_empty());
            assert!(!lockstep || steps.len() == 3, "all workers take as many steps");
            let mut reader = open(rank);
            for step in steps {
                let minibatch = reader.next().expect("no failure").expect("a step");
                assert!(minibatch.is_step());
                assert_eq!(minibatch.keys(), step);
            }
            assert!(reader.next().expect("no failure").is_none());
        }
    }
}

/// Returns the next step, using waits with a timeout of zero.
fn polled(reader: &mut Engine, pending: &mut u32, mut meanwhile: impl FnMut(&mut Engine)) -> Option<Seen> {
    loop {
        match reader.next_within(Duration::ZERO).expect("no failure") {
            Poll::Ready(step) => return step.map(|step| Seen::of(&step, reader.streams())),
            Poll::Pending => {
                *pending += 1;
                meanwhile(reader);
            }
        }
    }
}

/// Random data and settings: waits with a timeout of zero, with other calls while they are pending,
/// deliver the same minibatches with data as reading does.
#[test]
fn polled_minibatches_match_an_undisturbed_run() {
    common::quiet();
    let scenarios = u64::from(testing::cases(500));
    let mut pending = 0;
    for seed in 0..scenarios {
        let scenario = Scenario::random(seed);
        let folder = tempfile::tempdir().expect("a folder");
        let config = scenario.write(folder.path());
        let mut expected = seen::read_all(&mut scenario.started(&config), LIMIT).expect("an undisturbed run");
        expected.retain(|seen| !seen.streams.is_empty());

        let settings = cntk_reader::language::from_text(&config).expect("a configuration");
        let canceller = Canceller::new();
        let others = Extensions { canceller: Some(&canceller), ..Extensions::default() };
        let mut reader = Engine::open_with(&settings, &others).expect("a reader");
        reader.start_epoch(&scenario.epoch).expect("an epoch");
        let mut rng = Rng::new(seed);
        for (number, expected) in expected.iter().enumerate() {
            let step = polled(&mut reader, &mut pending, |reader| match rng.below(8) {
                0 => {
                    let checkpoint = reader.checkpoint().expect("a checkpoint");
                    reader.restore(&checkpoint).expect("its own checkpoint");
                }
                1 => assert!(!canceller.cancel(), "no call is in progress"),
                2 => _ = reader.wait(Duration::from_micros(rng.range(1, 300))).expect("no failure"),
                _ => std::thread::yield_now(),
            });
            assert_eq!(step.as_ref(), Some(expected), "seed {seed}, minibatch {number}: {scenario:#?}");
        }
        assert_eq!(polled(&mut reader, &mut pending, |_| {}), None, "seed {seed}: {scenario:#?}");
    }
    assert!(pending > 10, "{pending}");
}
