//! Calls that are cancelled from another thread: they end even while the data they wait for do not
//! arrive, and nothing is lost.

mod common;

use cntk_reader::files::{FileSystem, RemoteFile, mount};
use cntk_reader::language::from_text;
use cntk_reader::user::{
    FetchedChunk, Sequences, StreamData, StreamInfo, UserChunk, UserDeserializer, UserSequence,
};
use cntk_reader::{Canceller, CtfDeserializer, Epoch, Error, ErrorKind, Reader, ReaderOptions, Result};
use cntk_reader_core::testing;
use cntk_reader_engine::reader::{Extensions, Reader as Engine};
use common::rng::Rng;
use common::scenario::Scenario;
use common::seen;
use std::collections::HashMap;
use std::fmt::Write as _;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock};

/// Maximum number of minibatches that a scenario reads.
const LIMIT: usize = 400;

/// A callback that runs at some reads of a file.
type Trigger = dyn Fn() + Send + Sync;

/// The file system `slow://`: files of the disk whose reads run a callback first, which may block.
#[derive(Default)]
struct Slow(Mutex<HashMap<String, Arc<Trigger>>>);

struct SlowFile {
    file: std::fs::File,
    trigger: Arc<Trigger>,
}

impl FileSystem for Slow {
    fn open(&self, path: &str) -> io::Result<Box<dyn RemoteFile>> {
        let path = path.trim_start_matches("slow://");
        let folder = Path::new(path).parent().expect("a folder").display().to_string();
        let trigger = self.0.lock().expect("no panic").get(&folder).cloned();
        Ok(Box::new(SlowFile {
            file: std::fs::File::open(path)?,
            trigger: trigger.unwrap_or_else(|| Arc::new(|| {})),
        }))
    }
}

impl RemoteFile for SlowFile {
    fn size(&self) -> io::Result<u64> {
        self.file.metadata().map(|metadata| metadata.len())
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        (self.trigger)();
        std::os::unix::fs::FileExt::read_at(&self.file, buffer, offset)
    }

    fn identity(&self) -> io::Result<Vec<u8>> {
        Ok(Vec::new())
    }
}

/// Runs a callback before every read of the files in a folder.
fn at_each_read(folder: &Path, trigger: Arc<Trigger>) {
    static SYSTEM: OnceLock<Arc<Slow>> = OnceLock::new();
    let system = SYSTEM.get_or_init(|| {
        let system = Arc::new(Slow::default());
        mount("slow", Arc::clone(&system) as Arc<dyn FileSystem>).expect("a scheme");
        system
    });
    system.0.lock().expect("no panic").insert(folder.display().to_string(), trigger);
}

/// A gate that blocks file reads or user code while it is closed.
#[derive(Default)]
struct Gate {
    is_closed: Mutex<bool>,
    changed: Condvar,
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

/// Runs `call` and cancels it. A closed gate keeps it in progress until then.
fn cancelled<R>(canceller: &Canceller, call: impl FnOnce() -> Result<R>) -> Error {
    let error = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !canceller.cancel() {
                std::thread::yield_now();
            }
        });
        call().err()
    });
    let error = error.expect("the call was cancelled");
    assert_eq!(error.kind(), ErrorKind::Cancelled, "{error}");
    error
}

fn text(lines: u32) -> String {
    let mut text = String::new();
    (0..lines).for_each(|line| writeln!(text, "|x {line}").expect("memory"));
    text
}

fn values(reader: &mut Reader) -> Result<Vec<f32>> {
    let minibatch = reader.read()?;
    if minibatch.is_empty() { Ok(Vec::new()) } else { Ok(minibatch.stream("x")?.dense::<f32>()?.to_vec()) }
}

fn rest(reader: &mut Reader) -> Vec<Vec<f32>> {
    let next = || values(reader).map(|values| (!values.is_empty()).then_some(values)).expect("a minibatch");
    std::iter::from_fn(next).collect()
}

/// Returns a reader of these files, a gate for all of their reads, and the canceller of the
/// reader's calls.
fn gated(
    folder: &Path,
    files: &str,
    randomize: bool,
    prefetch: bool,
) -> (Result<Reader>, Arc<Gate>, Canceller) {
    let (gate, canceller) = (Arc::new(Gate::default()), Canceller::new());
    let at = Arc::clone(&gate);
    at_each_read(folder, Arc::new(move || at.pass()));
    let paths: Vec<_> = files.split(' ').map(|file| format!("slow://{}/{file}", folder.display())).collect();
    let ctf = CtfDeserializer::new(&paths[0]);
    let ctf = paths[1..].iter().fold(ctf, |ctf, path| ctf.add_file(path));
    let options =
        ReaderOptions::new().randomize(randomize).randomization_window_in_chunks(2).prefetch(prefetch);
    let reader = Reader::builder().ctf(ctf.dense("x", 1).chunk_size(2000)).options(options);
    (reader.canceller(&canceller).open(), gate, canceller)
}

/// Reads are cancelled while the chunks or the index that they need do not arrive, wherever the
/// thread waits.
#[test]
fn reads_are_cancelled_while_waiting_for_data() {
    common::quiet();
    for (files, randomize, prefetch) in
        [("a.ctf", true, true), ("a.ctf", true, false), ("a.ctf", false, true), ("a.ctf b.ctf", false, false)]
    {
        let folder = tempfile::tempdir().expect("a folder");
        for name in ["a.ctf", "b.ctf"] {
            std::fs::write(folder.path().join(name), text(5000)).expect("writing the data");
        }
        let epoch = Epoch::sweeps(2).minibatch_size(700);
        let (reader, ..) = gated(folder.path(), files, randomize, prefetch);
        let mut reader = reader.expect("good data");
        _ = reader.epoch(epoch).expect("an epoch");
        let expected = rest(&mut reader);
        assert!(expected.len() >= 10);

        let (reader, gate, canceller) = gated(folder.path(), files, randomize, prefetch);
        let mut reader = reader.expect("good data");
        _ = reader.epoch(epoch).expect("an epoch");
        let mut cancellations = 0;
        for (number, expected) in expected.iter().enumerate() {
            gate.set(true);
            // A read whose data are in memory needs no file.
            let is_over = AtomicBool::new(false);
            let read = std::thread::scope(|scope| {
                scope.spawn(|| {
                    while !is_over.load(Ordering::SeqCst) && !canceller.cancel() {
                        std::thread::yield_now();
                    }
                });
                let read = values(&mut reader);
                is_over.store(true, Ordering::SeqCst);
                read
            });
            gate.set(false);
            let read = match read {
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::Cancelled, "{error}");
                    cancellations += 1;
                    values(&mut reader).expect("the minibatch of the read that was cancelled")
                }
                Ok(read) => read,
            };
            assert_eq!(&read, expected, "{files}, {randomize}, {prefetch}: minibatch {number}");
        }
        assert!(values(&mut reader).expect("the end").is_empty());
        assert!(cancellations > 0, "{files}, {randomize}, {prefetch}");
    }
}

#[test]
fn opening_is_cancelled_at_the_next_file_read() {
    common::quiet();
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("a.ctf"), text(200_000)).expect("writing the data");
    for at in [1, 2, 3] {
        let canceller = Canceller::new();
        let (reads, ends) = (Arc::new(AtomicU64::new(0)), canceller.clone());
        let counted = Arc::clone(&reads);
        at_each_read(
            folder.path(),
            Arc::new(move || {
                if counted.fetch_add(1, Ordering::SeqCst) + 1 == at {
                    assert!(ends.cancel());
                }
            }),
        );
        let open = || {
            let ctf = CtfDeserializer::new(format!("slow://{}/a.ctf", folder.path().display())).dense("x", 1);
            Reader::builder().ctf(ctf).canceller(&canceller).open()
        };
        assert_eq!(open().expect_err("it was cancelled").kind(), ErrorKind::Cancelled);
        assert!(reads.load(Ordering::SeqCst) <= at + 2, "{} reads", reads.load(Ordering::SeqCst));
        // Again, with the same canceller.
        assert_eq!(open().expect("good data").sizes().samples, Some(200_000));
    }
}

/// The file system `interrupted://`: files whose reads are interrupted forever. The third read
/// cancels the call.
struct Interrupted {
    canceller: Canceller,
    reads: Arc<AtomicU64>,
}

impl FileSystem for Interrupted {
    fn open(&self, _: &str) -> io::Result<Box<dyn RemoteFile>> {
        let (canceller, reads) = (self.canceller.clone(), Arc::clone(&self.reads));
        Ok(Box::new(Interrupted { canceller, reads }))
    }
}

impl RemoteFile for Interrupted {
    fn size(&self) -> io::Result<u64> {
        Ok(1000)
    }

    fn read_at(&self, _: u64, _: &mut [u8]) -> io::Result<usize> {
        match self.reads.fetch_add(1, Ordering::SeqCst) + 1 {
            3 => assert!(self.canceller.cancel()),
            // Makes a call that is not cancelled fail instead of hang.
            1000.. => return Err(io::Error::other("read after the call was cancelled")),
            _ => {}
        }
        Err(io::ErrorKind::Interrupted.into())
    }

    fn identity(&self) -> io::Result<Vec<u8>> {
        Ok(Vec::new())
    }
}

/// Interrupted reads are retried at once, but not after a cancellation.
#[test]
fn endlessly_interrupted_reads_can_be_cancelled() {
    common::quiet();
    let (canceller, reads) = (Canceller::new(), Arc::new(AtomicU64::new(0)));
    let system = Interrupted { canceller: canceller.clone(), reads: Arc::clone(&reads) };
    mount("interrupted", Arc::new(system)).expect("a scheme");
    let ctf = CtfDeserializer::new("interrupted://a.ctf").dense("x", 1);
    let opened = Reader::builder().ctf(ctf).canceller(&canceller).open();
    assert_eq!(opened.expect_err("it was cancelled").kind(), ErrorKind::Cancelled);
    assert_eq!(reads.load(Ordering::SeqCst), 3);
}

/// A canceller ends calls in progress, not later ones. `Canceller::run` covers calls that do not
/// belong to a reader.
#[test]
fn only_calls_in_progress_are_cancelled() {
    common::quiet();
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a.ctf");
    std::fs::write(&path, text(100_000)).expect("writing the data");
    let canceller = Canceller::new();
    assert!(!canceller.cancel());
    let open = || Reader::builder().ctf(CtfDeserializer::new(&path).dense("x", 1)).open();
    assert!(canceller.run(open).is_ok());
    assert!(!canceller.clone().cancel());
    // Both of two nested calls end, and the result of a call that does not notice is dropped.
    let (inner, outer) = (Canceller::new(), canceller.clone());
    let result = outer.run(|| {
        inner.run(|| {
            assert!(outer.cancel());
            Ok(())
        })
    });
    assert_eq!(result.expect_err("cancelled").kind(), ErrorKind::Cancelled);
    assert!(inner.run(|| Ok(())).is_ok());
    // If the work fails while it is cancelled, the error is the cancellation.
    let result: Result<()> = canceller.run(|| {
        canceller.cancel();
        Reader::builder().ctf(CtfDeserializer::new("/no/such/file").dense("x", 1)).open().map(drop)
    });
    assert_eq!(result.expect_err("cancelled").kind(), ErrorKind::Cancelled);
    // The work's own errors are unchanged.
    let result =
        canceller.run(|| Reader::builder().ctf(CtfDeserializer::new("/no/such/file").dense("x", 1)).open());
    assert_eq!(result.expect_err("no file").kind(), ErrorKind::Io);
    // A panic leaves no call in progress.
    let work = || canceller.run(|| -> Result<()> { std::panic::resume_unwind(Box::new(1)) });
    let panic = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
    assert!(panic.is_err() && !canceller.cancel());
}

/// A user-defined deserializer whose chunks pass a gate.
struct Gated(Arc<Gate>, Vec<StreamInfo>);

impl UserDeserializer for Gated {
    fn streams(&self) -> &[StreamInfo] {
        &self.1
    }

    fn chunk_count(&self) -> u32 {
        6
    }

    fn load(&self, chunk: u32) -> Result<UserChunk> {
        self.0.pass();
        let values: Vec<f32> = (0..10).map(|index| (chunk * 10 + index) as f32).collect();
        Ok(UserChunk::arrays(vec![StreamData::dense(values)]))
    }
}

#[test]
fn cancellation_does_not_wait_for_user_code() {
    common::quiet();
    let (gate, canceller) = (Arc::new(Gate::default()), Canceller::new());
    let user = Gated(Arc::clone(&gate), vec![StreamInfo::dense("x", &[1])]);
    let options = ReaderOptions::new().randomize(false);
    let reader = Reader::builder().deserializer("gated", user).options(options).canceller(&canceller);
    let mut reader = reader.open().expect("a reader");
    _ = reader.epoch(Epoch::sweeps(1).minibatch_size(7)).expect("an epoch");
    gate.set(true);
    for _ in 0..3 {
        cancelled(&canceller, || values(&mut reader));
    }
    gate.set(false);
    let all: Vec<f32> = rest(&mut reader).concat();
    assert!(all.iter().map(|&value| value as u32).eq(0..60), "{all:?}");
}

/// Data that are fetched sequence by sequence; fetches pass a gate and are counted.
struct Fetched(Arc<Gate>, Arc<AtomicU64>, Vec<StreamInfo>);

struct FetchedSequences(u32, Arc<Gate>, Arc<AtomicU64>);

impl UserDeserializer for Fetched {
    fn streams(&self) -> &[StreamInfo] {
        &self.2
    }

    fn chunk_count(&self) -> u32 {
        6
    }

    fn sequences(&self, _chunk: u32) -> Result<Option<Sequences>> {
        Ok(Some(Sequences::of_one_sample(10)))
    }

    fn fetches_sequences(&self) -> bool {
        true
    }

    fn load(&self, chunk: u32) -> Result<UserChunk> {
        Ok(UserChunk::fetched(FetchedSequences(chunk, Arc::clone(&self.0), Arc::clone(&self.1))))
    }
}

impl FetchedChunk for FetchedSequences {
    fn fetch(&self, index: u32, sequence: &mut UserSequence) -> Result<()> {
        self.1.pass();
        self.2.fetch_add(1, Ordering::SeqCst);
        sequence.dense::<f32>(0)?.push((self.0 * 10 + index) as f32);
        Ok(())
    }
}

/// A cancelled read continues fetching, and the next one delivers the fetched sequences: each is
/// fetched once.
#[test]
fn fetched_sequences_are_fetched_once() {
    common::quiet();
    let (gate, fetched, canceller) = (Arc::new(Gate::default()), Arc::default(), Canceller::new());
    let user = Fetched(Arc::clone(&gate), Arc::clone(&fetched), vec![StreamInfo::dense("x", &[1])]);
    let options = ReaderOptions::new().randomize(false);
    let reader = Reader::builder().deserializer("fetched", user).options(options).canceller(&canceller);
    let mut reader = reader.open().expect("a reader");
    _ = reader.epoch(Epoch::sweeps(1).minibatch_size(7)).expect("an epoch");
    let mut all = Vec::new();
    for number in 0..9 {
        gate.set(true);
        for _ in 0..2 {
            cancelled(&canceller, || values(&mut reader));
        }
        gate.set(false);
        let values = values(&mut reader).expect("the minibatch of the reads that were cancelled");
        assert_eq!(values.len(), if number < 8 { 7 } else { 4 });
        all.extend(values);
        assert_eq!(fetched.load(Ordering::SeqCst), all.len() as u64);
    }
    assert!(all.iter().map(|&value| value as u32).eq(0..60), "{all:?}");
}

/// Repeats `call` until it is not cancelled, and counts the cancellations.
fn until_done<R>(cancelled: &mut u32, mut call: impl FnMut() -> Result<R>) -> R {
    loop {
        match call() {
            Err(error) if error.kind() == ErrorKind::Cancelled => *cancelled += 1,
            result => return result.expect("nothing fails"),
        }
    }
}

/// Random data, settings and calls, cancelled at random moments, by file reads and by an
/// independent thread. All minibatches equal those of an undisturbed run, whatever calls were
/// cancelled in between.
#[test]
fn cancellation_loses_no_minibatch() {
    common::quiet();
    let scenarios = u64::from(testing::cases(500));
    let (mut reads, mut changes, mut openings) = (0, 0, 0);
    for seed in 0..scenarios {
        let scenario = Scenario::random(seed);
        let folder = tempfile::tempdir().expect("a folder");
        let config = scenario.write(folder.path());
        let expected = seen::read_all(&mut scenario.started(&config), LIMIT).expect("an undisturbed run");

        let canceller = Canceller::new();
        let (ends, chance) = (canceller.clone(), Mutex::new(Rng::new(seed)));
        let trigger = move || {
            if chance.lock().expect("no panic").once_in(3) {
                ends.cancel();
            }
        };
        at_each_read(folder.path(), Arc::new(trigger));
        let path = format!("slow://{}/data.ctf", folder.path().display());
        let settings = from_text(&scenario.config(Path::new(&path))).expect("a configuration");
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                // Cancel less and less often, so that calls complete on slow machines, too.
                let (mut rng, mut most) = (Rng::new(seed ^ 1), 500);
                while !over.load(Ordering::Relaxed) {
                    std::thread::sleep(std::time::Duration::from_micros(rng.range(1, most)));
                    canceller.cancel();
                    most += 100;
                }
            });
            let _over = Over(&over);
            let others = Extensions { canceller: Some(&canceller), ..Extensions::default() };
            let mut reader = until_done(&mut openings, || Engine::open_with(&settings, &others));
            until_done(&mut changes, || reader.start_epoch(&scenario.epoch));
            let mut rng = Rng::new(seed ^ 2);
            for (number, expected) in expected.iter().enumerate() {
                if rng.once_in(2) {
                    let checkpoint = reader.checkpoint().expect("a checkpoint");
                    let (read, samples, sweeps, index) = scenario.epoch.numbers();
                    let changed = match rng.below(3) {
                        0 => reader.start_epoch(&Epoch::from_numbers(read, samples, sweeps, index + 1)),
                        1 => {
                            let mut config = reader.config().expect("an epoch");
                            config.minibatch_size += config.minibatch_size % 5;
                            reader.configure(&config)
                        }
                        _ => reader.restore(&checkpoint),
                    };
                    match changed {
                        Err(error) if error.kind() == ErrorKind::Cancelled => changes += 1,
                        _ => until_done(&mut changes, || reader.restore(&checkpoint)),
                    }
                }
                let read = until_done(&mut reads, || seen::read(&mut reader));
                assert_eq!(&read, expected, "seed {seed}, minibatch {number}: {scenario:#?}");
            }
        });
    }
    println!("cancelled: {openings} openings, {changes} changes, {reads} reads");
    assert!(openings > 10 && changes > 10 && reads > 10, "{openings}, {changes}, {reads}");
}

/// Ends a thread even if a test fails.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
