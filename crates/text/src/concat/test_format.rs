//! An artificial format for tests, whose files are opened and indexed as a test says.

use super::{Format, opening};
use cntk_reader_core::corpus::Corpus;
use cntk_reader_core::error::Location;
use cntk_reader_core::fingerprint::{SEED, mix};
use cntk_reader_core::format::check::{ChunkCheck, Finding, Severity};
use cntk_reader_core::format::content::Sampler;
use cntk_reader_core::format::diagnostics::Diagnostics;
use cntk_reader_core::format::loading::{Load, Starter};
use cntk_reader_core::format::{
    Chunk, ChunkInfo, ChunkSource, ChunkTable, Deserializer, IncrementalTable, IndexProgress, JoinedByKey,
    LeafChunk, Lengths, Loaded, SequenceFacts, SourceFacts, SourceMemory,
};
use cntk_reader_core::runtime::lock::Mutex;
use cntk_reader_core::runtime::pool::Pool;
use cntk_reader_core::sequence::{ChunkId, SequenceId, SequenceKey};
use cntk_reader_core::stream::StreamInfo;
use cntk_reader_core::{Error, Result};
use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// The content of a test file: lengths of the sequences of its chunks.
#[derive(Debug, Clone, Default)]
pub(super) struct Content {
    pub chunks: Vec<Vec<u32>>,
    /// Chunks that are known at first; each further one becomes known when it is requested.
    pub known: usize,
    /// The keys of its sequences; if empty, sequences are counted.
    pub keys: Vec<SequenceKey>,
    /// The name of its stream, if not `x`.
    pub stream: Option<&'static str>,
    pub fails: bool,
    pub panics: bool,
}

/// Returns a file of `chunks` chunks with one sequence of one sample each, all known at first.
pub(super) fn simple(chunks: usize) -> Content {
    Content { chunks: vec![vec![1]; chunks], known: chunks, ..Content::default() }
}

pub(super) struct TestFile {
    number: usize,
    content: Content,
    infos: Vec<ChunkInfo>,
    streams: Vec<StreamInfo>,
    known: AtomicUsize,
    bytes: u64,
    events: Events,
}

/// Calls that files got, with the numbers of the files.
type Events = Arc<Mutex<Vec<(&'static str, usize)>>>;

struct TestChunk(String);

impl LeafChunk for TestChunk {
    fn sequence(&self, _: usize, _: u32) -> Loaded<'_> {
        Loaded::Skipped
    }

    /// Names the chunk.
    fn failure(&self, _: usize, _: u32) -> Option<Error> {
        Some(Error::data(&*self.0))
    }
}

impl ChunkTable for TestFile {
    fn chunks(&self) -> &[ChunkInfo] {
        self.known.store(self.infos.len(), Ordering::Relaxed);
        &self.infos
    }

    fn lengths(&self, chunk: ChunkId) -> Lengths<'_> {
        Lengths::Each(&self.content.chunks[chunk as usize])
    }

    fn incremental(&self) -> Option<&dyn IncrementalTable> {
        (self.content.known < self.infos.len()).then_some(self)
    }
}

impl IncrementalTable for TestFile {
    fn wait_for(&self, chunk: ChunkId) -> Result<Option<ChunkInfo>> {
        self.known.fetch_max(self.infos.len().min(chunk as usize + 1), Ordering::Relaxed);
        Ok(self.infos.get(chunk as usize).copied())
    }

    fn progress(&self) -> IndexProgress {
        let known = self.known.load(Ordering::Relaxed);
        IndexProgress { chunks: known, all: known == self.infos.len() }
    }

    fn cancel(&self) {
        self.record("cancel");
    }
}

impl TestFile {
    /// Loads a chunk.
    fn load(&self, chunk: ChunkId) -> Result<Arc<dyn Chunk>> {
        Ok(Arc::new(TestChunk(format!("Chunk {chunk} of file {}.", self.number))))
    }

    fn record(&self, call: &'static str) {
        self.events.lock().push((call, self.number));
    }

    /// Returns all sequences, in order.
    fn sequences(&self) -> impl Iterator<Item = SequenceId> {
        (0..)
            .zip(&self.infos)
            .flat_map(|(chunk, info)| (0..info.sequences).map(move |index| SequenceId { chunk, index }))
    }
}

impl ChunkSource for TestFile {
    fn streams(&self) -> &[StreamInfo] {
        &self.streams
    }

    fn facts(&self) -> SourceFacts {
        SourceFacts::ON_POOL
    }

    fn start(self: Arc<Self>, chunk: ChunkId, on: &Starter) -> Load {
        on.on_pool(&self, chunk, Self::load)
    }

    fn reported_keys(&self, sequences: &[SequenceId], _: bool, keys: &mut Vec<SequenceKey>) {
        self.keys(sequences, keys);
    }

    fn fingerprint(&self, chunks: Option<usize>) -> u64 {
        let infos = &self.infos[..chunks.unwrap_or(self.infos.len())];
        infos.iter().fold(SEED, |hash, info| mix(hash, info.samples, info.sequences.into()))
    }

    fn memory(&self) -> SourceMemory {
        SourceMemory { chunks: 7, index: 10 + self.number as u64 }
    }

    fn file_bytes(&self) -> Option<u64> {
        Some(self.bytes)
    }

    /// Samples its number and the number of chunks.
    fn sample_content(&self, chunks: Option<usize>, sampler: &mut Sampler) -> Result<()> {
        sampler.bytes(format!("{} {chunks:?}", self.number).as_bytes());
        Ok(())
    }

    fn diagnostics(&self) -> &dyn Diagnostics {
        self
    }
}

/// Returns its arguments and the number of the file where it can.
impl Diagnostics for TestFile {
    fn check(&self, chunk: ChunkId, most: usize) -> Option<ChunkCheck> {
        let (errors, warnings, bytes) = (self.number as u64, chunk.into(), most as u64);
        Some(ChunkCheck { errors, warnings, bytes, ..ChunkCheck::default() })
    }

    fn location(&self, sequence: SequenceId, stream: usize) -> Location {
        let place = format!("{} {} {}", self.number, sequence.chunk, sequence.index);
        Location::in_file(place, Some(stream as u64), None)
    }

    fn key_text(&self, _: SequenceKey, _: &Corpus) -> String {
        "unused".to_owned()
    }

    fn forget_errors(&self) {
        self.record("forget errors");
    }

    fn remarks(&self) -> Vec<Finding> {
        vec![Finding::new(Severity::Note, self.number.to_string())]
    }

    fn end_sweep(&self) {
        self.record("end sweep");
    }
}

impl JoinedByKey for TestFile {}

impl Deserializer for TestFile {
    fn sequence_facts(&self) -> SequenceFacts {
        SequenceFacts::PLAIN
    }

    fn keys(&self, sequences: &[SequenceId], keys: &mut Vec<SequenceKey>) {
        keys.extend(sequences.iter().map(|id| {
            let before: usize = self.content.chunks[..id.chunk as usize].iter().map(Vec::len).sum();
            let ordinal = before + id.index as usize;
            self.content.keys.get(ordinal).copied().unwrap_or(ordinal as u64)
        }));
    }

    fn find(&self, key: SequenceKey) -> Option<SequenceId> {
        let (ids, mut keys) = (self.sequences().collect::<Vec<_>>(), Vec::new());
        self.keys(&ids, &mut keys);
        keys.iter().position(|&other| other == key).map(|place| ids[place])
    }

    fn prepare_to_find(&self) -> Result<()> {
        self.record("prepare to find");
        Ok(())
    }
}

/// Opens files named by their numbers.
#[derive(Default)]
pub(super) struct TestFormat {
    pub contents: Vec<Content>,
    pub in_turn: bool,
    pub is_slow: bool,
    /// Files that cannot be opened the next time.
    pub unavailable: Mutex<Vec<usize>>,
    pub events: Events,
    /// The number of files at each warning of repeated keys.
    pub warnings: Arc<Mutex<Vec<usize>>>,
    pub gate: Arc<AtomicBool>,
}

/// Keeps files other than the first from being opened until it is dropped.
pub(super) struct Gate(Arc<AtomicBool>);

impl Drop for Gate {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

impl TestFormat {
    pub fn new(contents: &[Content]) -> TestFormat {
        TestFormat { contents: contents.to_vec(), ..TestFormat::default() }
    }

    pub fn close_gate(&self) -> Gate {
        self.gate.store(true, Ordering::Relaxed);
        Gate(Arc::clone(&self.gate))
    }

    /// Returns the numbers of the files that got this call, in the order of the calls.
    pub fn called(&self, name: &str) -> Vec<usize> {
        self.events.lock().iter().filter(|(call, _)| *call == name).map(|&(_, number)| number).collect()
    }
}

impl Format for TestFormat {
    type File = TestFile;
    const REPORTS_KEYS: bool = true;

    fn open(&self, path: &str, pool: Option<&Pool>) -> Result<TestFile> {
        let number: usize =
            path.rsplit(std::path::is_separator).next().and_then(|name| name.parse().ok()).expect("a number");
        self.events.lock().push(("open", number));
        while number > 0 && self.gate.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_micros(100));
        }
        if self.is_slow {
            std::thread::sleep(Duration::from_micros(300 * (number as u64 * 7 % 5)));
        }
        let mut unavailable = self.unavailable.lock();
        if let Some(place) = unavailable.iter().position(|&other| other == number) {
            unavailable.swap_remove(place);
            return Err(Error::io("Error opening file", path, &io::Error::from_raw_os_error(libc::EIO)));
        }
        drop(unavailable);
        let content = self.contents[number].clone();
        assert!(!content.panics, "as the test asks for");
        if content.fails {
            return Err(Error::data(format!("File {number} is wrong.")));
        }
        let info = |lengths: &Vec<u32>| ChunkInfo {
            samples: lengths.iter().map(|&length| u64::from(length)).sum(),
            sequences: lengths.len() as u32,
        };
        let infos: Vec<_> = content.chunks.iter().map(info).collect();
        let known = if pool.is_some() { content.known.min(infos.len()) } else { infos.len() };
        let (known, bytes) = (AtomicUsize::new(known), opening::size_of(path)?);
        let streams = vec![StreamInfo::dense(content.stream.unwrap_or("x"), &[1])];
        Ok(TestFile { number, content, infos, streams, known, bytes, events: Arc::clone(&self.events) })
    }

    fn load(file: &Self::File, chunk: ChunkId) -> Result<Arc<dyn Chunk>> {
        file.load(chunk)
    }

    fn opens_in_turn(&self) -> bool {
        self.in_turn
    }

    fn is_counted(&self, file: &TestFile) -> bool {
        file.content.keys.is_empty()
    }

    fn count(&self, file: &TestFile) -> Result<u64> {
        Ok(file.sequences().count() as u64)
    }

    fn warn_of_repeats(&self, files: &[&TestFile]) {
        self.warnings.lock().push(files.len());
    }
}

/// A format with the defaults of the trait, which does not report keys.
pub(super) struct KeylessFormat(pub TestFormat);

impl Format for KeylessFormat {
    type File = TestFile;
    const REPORTS_KEYS: bool = false;

    fn open(&self, path: &str, pool: Option<&Pool>) -> Result<TestFile> {
        self.0.open(path, pool)
    }

    fn load(file: &Self::File, chunk: ChunkId) -> Result<Arc<dyn Chunk>> {
        file.load(chunk)
    }

    fn is_counted(&self, file: &TestFile) -> bool {
        self.0.is_counted(file)
    }

    fn count(&self, file: &TestFile) -> Result<u64> {
        self.0.count(file)
    }
}

/// Creates files of these names and sizes. They are sparse, so large sizes cost nothing.
pub(super) fn named_files<N: AsRef<str>>(folder: &tempfile::TempDir, files: &[(N, u64)]) -> Vec<String> {
    let create = |(name, size): &(N, u64)| {
        let path: PathBuf = folder.path().join(name.as_ref());
        File::create(&path).and_then(|file| file.set_len(*size)).expect("a file");
        path.display().to_string()
    };
    files.iter().map(create).collect()
}

/// Creates files of these sizes, named by their numbers.
pub(super) fn files(folder: &tempfile::TempDir, sizes: &[u64]) -> Vec<String> {
    let files: Vec<_> = sizes.iter().enumerate().map(|(number, &size)| (number.to_string(), size)).collect();
    named_files(folder, &files)
}

/// Waits until another thread has done something, for at most a minute.
pub(super) fn wait_until(mut is_done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_done() {
        assert!(start.elapsed() < Duration::from_secs(60), "it takes too long");
        std::thread::sleep(Duration::from_micros(100));
    }
}
