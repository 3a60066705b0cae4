//! Eight readers in one process, for any length of time: random data, options and operations,
//! checkpoints restored into other readers, and occasional faults. The result is compared with the
//! model if that knows the format, otherwise with a first, undisturbed run.

#![allow(unsafe_code, reason = "sysconf")]

use crate::calls;
use crate::common::child;
use crate::common::rng::Rng;
use crate::common::seen::{self, Seen};
use crate::data;
use crate::every_call::Place;
use crate::naive::case::{Scale, cases, check};
use crate::watchdog::Watchdog;
use cntk_reader::language::{UserType, from_text, from_text_with};
use cntk_reader::{ErrorKind, Result};
use cntk_reader_core::format::user::{Registered, Sequences, StreamData, UserChunk, UserDeserializer};
use cntk_reader_core::runtime::pool;
use cntk_reader_core::stream::StreamInfo;
use cntk_reader_engine::reader::{Epoch, Extensions, ReadConfig, Reader};
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use std::fs;
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Number of concurrent readers, each with its own thread and place.
const READERS: usize = 8;

/// One in this many reading calls has a transient fault. Five failures in a row, which would be an
/// error, do not happen.
const ONE_FAULT_IN: u64 = 100;

/// Maximum number of errors after a storm: each chunk that was being loaded ahead may have its own.
const MAX_ERRORS: usize = 20;

/// Environment variables: how long the readers read, and the seed.
const SECONDS: &str = "CNTK_READER_SOAK_SECONDS";
const SEED: &str = "CNTK_READER_SOAK_SEED";

/// Seconds of the short form.
const SHORT: u64 = 20;

/// Limits for memory growth after the warm-up, the first quarter of the time: a fraction of the
/// memory in use, plus some bytes. Readers of random sizes come and go, and the allocator keeps
/// their memory.
const GROWTH: (f64, u64) = (0.25, 32 << 20);

/// How long finished threads may still be listed.
const PATIENCE: Duration = Duration::from_secs(10);

/// Runs the readers in a separate process, so that its memory and descriptors are theirs alone.
pub fn soak() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut command = child::this_program();
    command.args(["--exact", "child_soaks", "--nocapture", "--test-threads=1"]);
    command.env(child::DIRECTORY, folder.path());
    if std::env::var_os(SECONDS).is_some() {
        let status = command.status().expect("a child");
        assert!(status.success(), "{status}");
        return;
    }
    let output = command.env(SECONDS, SHORT.to_string()).output().expect("a child");
    let [text, errors] =
        [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    text.lines().filter(|line| line.starts_with("soak: ")).for_each(|line| println!("{line}"));
    assert!(output.status.success(), "{}\n{text}\n{errors}", output.status);
}

/// The work of all readers so far.
#[derive(Default)]
struct Done {
    cases: AtomicU64,
    runs: AtomicU64,
    minibatches: AtomicU64,
    restored: AtomicU64,
    errors: AtomicU64,
    is_over: AtomicBool,
}

/// The resources in use by the process.
#[derive(Debug, Clone, Copy, Default)]
struct Usage {
    /// Bytes in memory.
    resident: u64,
    descriptors: usize,
    threads: usize,
}

impl Usage {
    fn now() -> Usage {
        let text = fs::read_to_string("/proc/self/statm").expect("Linux");
        let pages: u64 = text.split(' ').nth(1).and_then(|pages| pages.parse().ok()).expect("a number");
        // SAFETY: the function takes and returns a number.
        let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as u64;
        let count = |path: &str| fs::read_dir(path).expect("Linux").count();
        // Without the descriptor through which the folder is read.
        let descriptors = count("/proc/self/fd") - 1;
        Usage { resident: pages * page, descriptors, threads: count("/proc/self/task") }
    }
}

impl std::fmt::Display for Usage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Usage { resident, descriptors, threads } = self;
        write!(f, "{} MB resident, {descriptors} descriptors, {threads} threads", resident >> 20)
    }
}

/// The program of the child.
pub fn child_soaks() {
    let Some(folder) = child::directory() else { return };
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let time = Duration::from_secs(number(SECONDS).expect("a number of seconds"));
    let seed = number(SEED).unwrap_or_else(|| std::process::id().into());
    end_at_panics();
    pool::threads();
    let place = Place::at(&folder);
    let watchdog = Arc::new(Watchdog::new(READERS));
    let before = Usage::now();
    say(&format!("{READERS} readers for {} s, seed {seed}; before: {before}", time.as_secs()));
    calls::begin(place.root(), None);
    calls::weather(ONE_FAULT_IN);
    let done = Arc::new(Done::default());
    let begun = Instant::now();
    let threads: Vec<_> = (0..READERS)
        .map(|number| {
            let (done, watchdog, folder) = (Arc::clone(&done), Arc::clone(&watchdog), folder.clone());
            std::thread::spawn(move || {
                let seed = seed.wrapping_mul(READERS as u64).wrapping_add(number as u64);
                let place = number + 1;
                let folder = folder.join(place.to_string());
                Soaking { number, place, folder, rng: Rng::new(seed), done, watchdog }.run(seed);
            })
        })
        .collect();
    let (mut warm, mut hot) = (Usage::default(), Usage::default());
    let (mut second, report_every) = (0, if time.as_secs() < 60 { 5 } else { 60 });
    while begun.elapsed() < time {
        calls::exempt(|| std::thread::sleep(Duration::from_secs(1)));
        second += 1;
        let now = Usage::now();
        let peak = if begun.elapsed() < time / 4 { &mut warm } else { &mut hot };
        peak.resident = peak.resident.max(now.resident);
        peak.descriptors = peak.descriptors.max(now.descriptors);
        peak.threads = peak.threads.max(now.threads);
        if second % report_every == 0 {
            say(&format!("{second} s: {now}; {}", done.figures()));
        }
    }
    done.is_over.store(true, Ordering::SeqCst);
    threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
    calls::weather(0);
    let open = calls::open_files();
    calls::end();
    // On a busy machine, a joined thread stays listed for a moment.
    let most_threads = before.threads + pool::threads() + 1;
    let patience = Instant::now() + PATIENCE;
    while Usage::now().threads > most_threads && Instant::now() < patience {
        std::thread::sleep(Duration::from_millis(10));
    }
    let after = Usage::now();
    say(&format!("after: {after}; {}", done.figures()));
    say(&format!("at most, in the first quarter: {warm}; later: {hot}"));
    assert_eq!((open, after.descriptors), (0, before.descriptors), "files are left open");
    assert!(after.threads <= most_threads, "threads are left");
    let most = (warm.resident as f64 * (1.0 + GROWTH.0)) as u64 + GROWTH.1;
    assert!(
        hot.resident <= most || child::is_emulated(),
        "memory has grown to {} MB, and {} MB were expected at most",
        hot.resident >> 20,
        most >> 20
    );
    say(&format!(
        "figures: {READERS} readers for {:.0} minutes: {}; at most {} MB in the first quarter, {} MB later, all descriptors closed",
        time.as_secs_f64() / 60.0,
        done.figures(),
        warm.resident >> 20,
        hot.resident >> 20
    ));
}

impl Done {
    fn figures(&self) -> String {
        let [cases, runs, minibatches, restored, errors] =
            [&self.cases, &self.runs, &self.minibatches, &self.restored, &self.errors]
                .map(|count| count.load(Ordering::Relaxed));
        format!(
            "{cases} cases against the model, {runs} runs of {minibatches} minibatches against a first run, {restored} restored, \
             {} faults, {errors} errors that passed",
            calls::faults()
        )
    }
}

/// Prints a line and flushes.
fn say(line: &str) {
    println!("soak: {line}");
    let _ = std::io::stdout().flush();
}

/// Ends the process at a panic in any thread, which the other threads would hide.
fn end_at_panics() {
    let print = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        print(panic);
        std::process::abort();
    }));
}

/// A thread with its readers.
struct Soaking {
    number: usize,
    /// Its place in the watched folder. All threads share the first one, with the cache folder.
    place: usize,
    folder: PathBuf,
    rng: Rng,
    done: Arc<Done>,
    watchdog: Arc<Watchdog>,
}

/// The data and the way in which a run opens and reads them.
struct Run {
    name: &'static str,
    open: Box<dyn Fn() -> Result<Reader>>,
    /// Minibatch sizes, and how many minibatches of each are read.
    sizes: Vec<(u64, usize)>,
    epoch: Epoch,
}

impl Soaking {
    fn run(mut self, seed: u64) {
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&seed.to_le_bytes());
        let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
        let mut runner =
            TestRunner::new_with_rng(Config { failure_persistence: None, ..Config::default() }, rng);
        let cases = cases(Scale { sequences: 40, steps: 12 });
        while !self.done.is_over.load(Ordering::Relaxed) {
            self.empty();
            if self.rng.once_in(2) {
                let case = cases.new_tree(&mut runner).expect("a case").current();
                self.watchdog.at(self.number, format!("{case:?}"));
                check(&case, &self.folder, &|| self.watchdog.alive(self.number));
                self.done.cases.fetch_add(1, Ordering::Relaxed);
            } else {
                self.compare();
                self.done.runs.fetch_add(1, Ordering::Relaxed);
            }
        }
        self.empty();
    }

    fn empty(&self) {
        calls::exempt(|| {
            let _ = fs::remove_dir_all(&self.folder);
            fs::create_dir_all(&self.folder).expect("a folder");
        });
    }

    /// Does a first run, and one with checkpoints, other readers and storms.
    fn compare(&mut self) {
        let run = self.any_run();
        let what = format!("{}, {:?}, {:?}", run.name, run.epoch, run.sizes);
        self.watchdog.at(self.number, format!("{what}, undisturbed"));
        let expected = self.read(&run, false);
        self.watchdog.at(self.number, &what);
        let seen = self.read(&run, true);
        assert_eq!(seen.len(), expected.len(), "{what}");
        for (number, (seen, expected)) in seen.iter().zip(&expected).enumerate() {
            assert_eq!(seen, expected, "{what}: minibatch {number}");
        }
        self.done.minibatches.fetch_add(seen.len() as u64, Ordering::Relaxed);
    }

    fn any_run(&mut self) -> Run {
        let rng = &mut self.rng;
        let kind = rng.below(data::ALL.len() + 2);
        let workers = rng.range(1, 3);
        let rank = rng.range(0, workers - 1);
        let cross_sweeps = rng.once_in(2);
        // Each lane of truncated minibatches has two samples.
        let least = if data::ALL.get(kind).is_some_and(|kind| kind.is_truncated()) { 2 * workers } else { 1 };
        let read = ReadConfig::new(rng.range(least, 25)).worker(rank, workers).cross_sweeps(cross_sweeps);
        let epoch = Epoch::sweeps(rng.range(1, 3)).read_config(read);
        let sizes = (0..rng.range(1, 4)).map(|_| (rng.range(least, 25), rng.range(1, 12) as usize)).collect();
        let (name, open): (_, Box<dyn Fn() -> Result<Reader>>) = match data::ALL.get(kind) {
            Some(kind) => {
                let text = data::prepare(kind, &self.folder, rng.range(0, 9));
                (kind.name, Box::new(move || Reader::open(&from_text(&text)?)))
            }
            None => {
                let (seed, chunks, lists) = (rng.range(0, 9), rng.range(1, 9) as u32, rng.once_in(2));
                ("a user's format", Box::new(move || open_numbers(seed, chunks, lists)))
            }
        };
        Run { name, open, sizes, epoch }
    }

    /// Returns the digests of all minibatches of a run.
    fn read(&mut self, run: &Run, is_disturbed: bool) -> Vec<String> {
        let (number, place) = (self.number, self.place);
        let (done, watchdog, rng) = (&self.done, &self.watchdog, &mut self.rng);
        // Retries until it succeeds: there may be a storm.
        let again = |what: &mut dyn FnMut() -> Result<()>| {
            let mut errors = 0;
            while let Err(error) = what() {
                errors += 1;
                assert_eq!(error.kind(), ErrorKind::Io, "{error}");
                assert!(errors < MAX_ERRORS, "errors go on after the storm: {error}");
                calls::storm(place, false);
                done.errors.fetch_add(1, Ordering::Relaxed);
            }
        };
        let open = || {
            let mut reader = None;
            again(&mut || (run.open)().map(|opened| reader = Some(opened)));
            reader.expect("a reader")
        };
        let mut reader = open();
        again(&mut || reader.start_epoch(&run.epoch));
        let mut seen = Vec::new();
        let mut sizes = run.sizes.iter();
        let mut left = 0;
        let mut read = reader.config().expect("an epoch");
        loop {
            watchdog.alive(number);
            if left == 0 {
                if let Some(&(minibatch, count)) = sizes.next() {
                    (read.minibatch_size, left) = (minibatch, count);
                    again(&mut || reader.configure(&read));
                } else {
                    left = usize::MAX;
                }
            }
            left -= 1;
            if is_disturbed {
                calls::storm(place, rng.once_in(20));
                if rng.once_in(10) {
                    let mut checkpoint = Vec::new();
                    again(&mut || reader.checkpoint().map(|saved| checkpoint = saved));
                    if rng.once_in(2) {
                        reader = open();
                    }
                    again(&mut || reader.restore(&checkpoint));
                    done.restored.fetch_add(1, Ordering::Relaxed);
                }
            }
            let mut minibatch: Option<Seen> = None;
            again(&mut || seen::read(&mut reader).map(|read| minibatch = Some(read)));
            calls::storm(place, false);
            let minibatch = minibatch.expect("a minibatch");
            seen.push(minibatch.digest());
            if minibatch.is_end() || seen.len() > 5_000 {
                return seen;
            }
        }
    }
}

/// Numbers from a user-defined deserializer.
struct Numbers {
    streams: [StreamInfo; 1],
    seed: u64,
    chunks: u32,
    lists: bool,
}

const SEQUENCES: u32 = 7;

impl UserDeserializer for Numbers {
    fn streams(&self) -> &[StreamInfo] {
        &self.streams
    }

    fn chunk_count(&self) -> u32 {
        self.chunks
    }

    fn sequences(&self, _chunk: u32) -> Result<Option<Sequences>> {
        Ok(self.lists.then(|| Sequences::of_one_sample(SEQUENCES)))
    }

    fn load(&self, chunk: u32) -> Result<UserChunk> {
        let rng = &mut Rng::new(self.seed + u64::from(chunk));
        let values: Vec<f32> = (0..SEQUENCES).map(|_| rng.range(0, 999) as f32).collect();
        Ok(UserChunk::arrays(vec![StreamData::dense(values)]))
    }
}

fn open_numbers(seed: u64, chunks: u32, lists: bool) -> Result<Reader> {
    let numbers = Numbers { streams: [StreamInfo::dense("x", &[1])], seed, chunks, lists };
    let registered = [Registered::new("Numbers", Arc::new(numbers))?];
    let users = [UserType { name: "Numbers", composable: lists }];
    let text =
        "traceLevel = 0\nrandomizationWindow = 2\ndeserializers = ([ type = \"Numbers\" ; module = \"m\" ])";
    let options = from_text_with(text, &users)?;
    Reader::open_with(&options, &Extensions { registered: &registered, ..Extensions::default() })
}
