//! User code that reads with other readers of this library, or waits for them, with one and two
//! loading threads. Each case runs under a watchdog: a reader that makes no progress fails its test
//! instead of hanging it.

use cntk_reader::user::{FetchedChunk, Sequences, StreamData, UserChunk, UserDeserializer, UserSequence};
use cntk_reader::{Builder, CtfDeserializer, Epoch, Reader, Result, StreamInfo};
use cntk_reader_tools::Look;
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tempfile::TempDir;

/// Longer than any case takes, even on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

const CHUNKS: u32 = 6;
const IN_CHUNK: u32 = 20;
const ALL: u32 = CHUNKS * IN_CHUNK;

/// The number of loading threads is global, so cases run one after the other.
static ONE_CASE: Mutex<()> = Mutex::new(());

/// Runs a case with one loading thread and with two.
fn with_few_threads(case: impl Fn() + Send + Clone + 'static) {
    let _one = ONE_CASE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    for threads in [1, 2] {
        cntk_reader::set_threads(threads);
        let (done, outcome) = mpsc::channel();
        let case = case.clone();
        std::thread::spawn(move || {
            case();
            _ = done.send(());
        });
        match outcome.recv_timeout(PATIENCE) {
            Ok(()) => {}
            Err(mpsc::RecvTimeoutError::Disconnected) => panic!("the case failed with {threads} threads"),
            Err(mpsc::RecvTimeoutError::Timeout) => panic!("no progress with {threads} loading threads"),
        }
    }
}

/// Writes lines `0 |name 0`, `1 |name 1` and so on, with chunks smaller than the file.
fn text(folder: &Path, name: &str) -> CtfDeserializer {
    let path: PathBuf = folder.join(format!("{name}.ctf"));
    let lines: String = (0..ALL).map(|key| format!("{key} |{name} {key}\n")).collect();
    std::fs::write(&path, lines).expect("writing data");
    CtfDeserializer::new(path).dense(name, 1).chunk_size(300)
}

/// Reads the values of streams of one sample each, sequence by sequence.
fn read_all(builder: Builder, streams: &[&str], minibatch: u64) -> Vec<Vec<f32>> {
    let mut reader = builder.open().expect("a reader");
    let mut rows = Vec::new();
    for minibatch in reader.epoch(Epoch::sweeps(1).minibatch_size(minibatch)).expect("an epoch") {
        let minibatch = minibatch.expect("a minibatch");
        let columns: Vec<Vec<f32>> = streams
            .iter()
            .map(|name| minibatch.stream(name).and_then(|one| one.dense::<f32>()).expect("values").to_vec())
            .collect();
        rows.extend((0..columns[0].len()).map(|row| columns.iter().map(|column| column[row]).collect()));
    }
    rows
}

/// Reads all of a text file with another reader.
fn read_nested(folder: &Path) -> Result<Vec<f32>> {
    let mut reader =
        Reader::builder().ctf(CtfDeserializer::new(folder.join("inner.ctf")).dense("inner", 1)).open()?;
    let mut values = Vec::new();
    for minibatch in reader.epoch(Epoch::sweeps(1).minibatch_size(7))? {
        values.extend_from_slice(minibatch?.stream("inner")?.dense::<f32>()?);
    }
    Ok(values)
}

/// Where user code waits for other readers.
#[derive(Clone, Copy, PartialEq)]
enum Waits {
    Loading,
    Fetching,
    Preparing,
}

/// Yields the sequences 0, 1 and so on, and runs an action before some of them.
#[derive(Clone)]
struct User {
    streams: Vec<StreamInfo>,
    waits: Waits,
    action: Arc<dyn Fn() -> Result<()> + Send + Sync>,
    threads: Arc<Mutex<HashSet<String>>>,
}

impl User {
    fn new(name: &str, waits: Waits, action: impl Fn() -> Result<()> + Send + Sync + 'static) -> User {
        let streams = vec![StreamInfo::dense(name, &[1])];
        User { streams, waits, action: Arc::new(action), threads: Arc::default() }
    }

    /// Returns a deserializer whose code reads all of another reader.
    fn reads(folder: &Path, name: &str, waits: Waits) -> User {
        let folder = folder.to_owned();
        User::new(name, waits, move || {
            assert_eq!(read_nested(&folder)?.len(), ALL as usize);
            Ok(())
        })
    }

    fn act(&self, here: Waits) -> Result<()> {
        let name = std::thread::current().name().unwrap_or_default().to_owned();
        self.threads.lock().expect("a lock").insert(name);
        if self.waits == here { (self.action)() } else { Ok(()) }
    }

    fn fetches(&self) -> bool {
        self.waits != Waits::Loading
    }

    /// Checks that no user code ran on a pool thread; those are named by number.
    fn check_threads(&self) {
        let threads = self.threads.lock().expect("a lock");
        let of_pool =
            |name: &String| name.strip_prefix("cntk-reader-").is_some_and(|rest| rest.parse::<u32>().is_ok());
        assert!(!threads.is_empty() && !threads.iter().any(of_pool), "{threads:?}");
    }
}

impl UserDeserializer for User {
    fn streams(&self) -> &[StreamInfo] {
        &self.streams
    }

    fn chunk_count(&self) -> u32 {
        CHUNKS
    }

    fn load(&self, chunk: u32) -> Result<UserChunk> {
        self.act(Waits::Loading)?;
        if self.fetches() {
            return Ok(UserChunk::fetched(Fetching { user: self.clone(), chunk }));
        }
        let values: Vec<f32> = (0..IN_CHUNK).map(|index| (chunk * IN_CHUNK + index) as f32).collect();
        Ok(UserChunk::arrays(vec![StreamData::dense(values)]))
    }

    fn sequences(&self, _chunk: u32) -> Result<Option<Sequences>> {
        Ok(Some(Sequences::of_one_sample(IN_CHUNK)))
    }

    fn fetches_sequences(&self) -> bool {
        self.fetches()
    }
}

struct Fetching {
    user: User,
    chunk: u32,
}

impl FetchedChunk for Fetching {
    fn fetch(&self, index: u32, sequence: &mut UserSequence) -> Result<()> {
        if index.is_multiple_of(10) {
            self.user.act(Waits::Fetching)?;
        }
        sequence.dense::<f32>(0)?.push((self.chunk * IN_CHUNK + index) as f32);
        sequence.set_key((self.chunk * IN_CHUNK + index).into());
        Ok(())
    }

    fn prepare(&self, position: u32, _sequence: &mut UserSequence) -> Result<()> {
        if position.is_multiple_of(10) { self.user.act(Waits::Preparing) } else { Ok(()) }
    }
}

fn folder() -> Arc<TempDir> {
    let folder = tempfile::tempdir().expect("a folder");
    text(folder.path(), "inner");
    Arc::new(folder)
}

fn configured(text: &str) -> Builder {
    Reader::builder().config_text(text).expect("a configuration")
}

/// Checks that each sequence has its number in both streams.
fn check_pairs(rows: &[Vec<f32>]) {
    let expected: Vec<Vec<f32>> = (0..ALL).map(|key| vec![key as f32; 2]).collect();
    assert_eq!(rows, expected);
}

#[test]
fn bundle_of_text_and_reading_user_code_makes_progress() {
    for mode in ["", "frameMode = true\n"] {
        with_few_threads(move || {
            let folder = folder();
            let (a, b) = (text(folder.path(), "a"), text(folder.path(), "b"));
            let user = User::reads(folder.path(), "x", Waits::Loading);
            let config = format!("randomize = false\n{mode}");
            check_pairs(&read_all(
                configured(&config).ctf(a).deserializer("user", user.clone()),
                &["a", "x"],
                8,
            ));
            check_pairs(&read_all(
                configured(&config).deserializer("user", user.clone()).ctf(b),
                &["x", "b"],
                50,
            ));
            user.check_threads();
        });
    }
}

#[test]
fn bundle_of_two_reading_user_deserializers_makes_progress() {
    with_few_threads(|| {
        let folder = folder();
        let first = User::reads(folder.path(), "x", Waits::Loading);
        let second = User::reads(folder.path(), "y", Waits::Loading);
        let builder = configured("randomize = false");
        let builder = builder.deserializer("first", first.clone()).deserializer("second", second.clone());
        check_pairs(&read_all(builder, &["x", "y"], 8));
        first.check_threads();
        second.check_threads();
    });
}

#[test]
fn randomized_bundle_keeps_the_order_of_its_text() {
    with_few_threads(|| {
        let folder = folder();
        let a = text(folder.path(), "a");
        let alone = read_all(Reader::builder().ctf(a.clone()), &["a"], 8);
        let user = User::reads(folder.path(), "x", Waits::Loading);
        let joined = read_all(Reader::builder().ctf(a).deserializer("user", user), &["a", "x"], 8);
        assert!(joined.iter().all(|row| row[0] == row[1]));
        assert_eq!(joined.iter().map(|row| vec![row[0]]).collect::<Vec<_>>(), alone);
    });
}

/// User code waits for a reader of the same process that another thread uses.
#[test]
fn user_code_can_wait_for_another_reader() {
    with_few_threads(|| {
        let folder = folder();
        let (wanted, wants) = mpsc::channel::<mpsc::Sender<usize>>();
        let inner = folder.path().to_owned();
        let other = std::thread::spawn(move || {
            wants.iter().for_each(|reply| _ = reply.send(read_nested(&inner).expect("values").len()));
        });
        let wanted = Mutex::new(wanted);
        let user = User::new("x", Waits::Loading, move || {
            let (reply, replied) = mpsc::channel();
            wanted.lock().expect("a lock").send(reply).expect("the other thread waits");
            assert_eq!(replied.recv().expect("it has read"), ALL as usize);
            Ok(())
        });
        let a = text(folder.path(), "a");
        let builder = configured("randomize = false").ctf(a).deserializer("user", user.clone());
        check_pairs(&read_all(builder, &["a", "x"], 8));
        user.check_threads();
        drop(user);
        other.join().expect("no panic");
    });
}

#[test]
fn user_code_that_reads_while_fetching_makes_progress() {
    for waits in [Waits::Fetching, Waits::Preparing] {
        with_few_threads(move || {
            let folder = folder();
            let user = User::reads(folder.path(), "x", waits);
            let a = text(folder.path(), "a");
            let config = "randomize = false\nmultiThreadedDeserialization = true";
            let builder = configured(config).ctf(a).deserializer("user", user.clone());
            check_pairs(&read_all(builder, &["a", "x"], 50));
            user.check_threads();
        });
    }
}

#[test]
fn check_of_user_data_does_not_use_the_pool() {
    for waits in [Waits::Loading, Waits::Fetching] {
        with_few_threads(move || {
            let folder = folder();
            let user = User::reads(folder.path(), "x", waits);
            let a = text(folder.path(), "a");
            let data = configured("randomize = false").ctf(a).deserializer("user", user.clone());
            let data = data.inspect().expect("data");
            let mut findings = Vec::new();
            let mut keep = |finding| {
                findings.push(finding);
                std::ops::ControlFlow::Continue(())
            };
            data.check(&cntk_reader_tools::inspect::CheckOptions::default(), &mut keep, &mut |_| ())
                .expect("a summary");
            assert!(findings.is_empty(), "{findings:?}");
            user.check_threads();
        });
    }
}
