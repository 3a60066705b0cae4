//! A deserializer in memory, whose chunks can be slow, broken, invalid or growing.

use crate::reader::Member;
use cntk_reader_core::corpus::Corpus;
use cntk_reader_core::error::{ErrorKind, ExceptionClass, Location};
use cntk_reader_core::file::Confinement;
use cntk_reader_core::format::check::{ChunkCheck, Finding};
use cntk_reader_core::format::content::Sampler;
use cntk_reader_core::format::diagnostics::Diagnostics;
use cntk_reader_core::format::fetch::{Failure, FetchedData, Parts};
use cntk_reader_core::format::loading::{Load, Starter};
use cntk_reader_core::format::options::{Context, Facts, Format, Opened, Signature};
use cntk_reader_core::format::{
    AnyDeserializer, Chunk, ChunkErrors, ChunkInfo, ChunkSource, ChunkTable, Deserializer, IncrementalTable,
    IndexProgress, JoinedByKey, LeafChunk, Lengths, Listing, ListingDeserializer, Loaded, SequenceFacts,
    SourceFacts, SourceMemory,
};
use cntk_reader_core::option::FrontEnd;
use cntk_reader_core::option::release::Release;
use cntk_reader_core::runtime::lock::Mutex;
use cntk_reader_core::sequence::{ChunkId, SequenceId, SequenceKey, SequenceView, ValueForm, ViewKind};
use cntk_reader_core::stream::StreamInfo;
use cntk_reader_core::{Error, Result};
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// Returns the shape of a sequence by its number.
type ShapeOf = fn(u64) -> Option<&'static [usize]>;

/// Chunks of sequences in a dense stream, whose values and keys are the numbers of the sequences.
pub struct Source {
    pub lengths: Vec<Vec<u32>>,
    pub infos: Vec<ChunkInfo>,
    pub streams: Vec<StreamInfo>,
    /// Facts about the source, and about its sequences.
    pub facts: SourceFacts,
    pub sequence_facts: SequenceFacts,
    /// Numbers of the invalid sequences, and of the skipped ones.
    pub invalid: Vec<u64>,
    pub skipped: Vec<u64>,
    /// Fetched sequences that are invalid end reading in CNTK.
    pub ends_alone: bool,
    /// The shape of each fetched sequence by its number, if the stream leaves it open.
    pub shape_of: Option<ShapeOf>,
    /// The number of errors in each chunk, and the total that is tolerated.
    pub errors: Vec<u64>,
    pub tolerated: u64,
    /// The time that loading a chunk takes.
    pub pause: Duration,
    /// Content for checkpoints.
    pub content: Option<u8>,
    pub file_bytes: Option<u64>,
    pub memory: SourceMemory,
    /// If set, the table knows only this number of chunks, and others once they are requested.
    pub grows_from: Option<usize>,
    pub state: SourceState,
}

/// An event of a recording source.
#[derive(Default)]
pub struct SourceState {
    loads: Mutex<Vec<ChunkId>>,
    broken: Mutex<HashMap<ChunkId, Error>>,
    gate: AtomicBool,
    known: AtomicU64,
    is_cancelled: AtomicBool,
    draws: Arc<Mutex<Vec<(u64, u32, u64)>>>,
    released: Arc<AtomicU64>,
    counts: Arc<Counts>,
}

/// Counted errors and sweeps.
#[derive(Default)]
struct Counts {
    errors: AtomicU64,
    warned: AtomicU64,
    sweeps: AtomicU64,
}

impl Source {
    /// Creates chunks of sequences with these lengths.
    pub fn new(lengths: &[&[u32]]) -> Source {
        let lengths: Vec<Vec<u32>> = lengths.iter().map(|chunk| chunk.to_vec()).collect();
        let info = |chunk: &Vec<u32>| ChunkInfo {
            samples: chunk.iter().map(|&length| u64::from(length)).sum(),
            sequences: chunk.len() as u32,
        };
        Source {
            infos: lengths.iter().map(info).collect(),
            errors: vec![0; lengths.len()],
            lengths,
            streams: vec![StreamInfo::dense("x", &[1])],
            facts: SourceFacts::ON_POOL,
            sequence_facts: SequenceFacts::PLAIN,
            invalid: Vec::new(),
            skipped: Vec::new(),
            ends_alone: false,
            shape_of: None,
            tolerated: 0,
            pause: Duration::ZERO,
            content: None,
            file_bytes: None,
            memory: SourceMemory::default(),
            grows_from: None,
            state: SourceState::default(),
        }
    }

    /// Creates chunks of this many sequences, each of one sample.
    pub fn ones(chunks: usize, sequences: usize) -> Source {
        Source::new(&vec![&vec![1; sequences][..]; chunks])
    }

    /// Creates three chunks of four sequences, each of one sample.
    pub fn twelve() -> Source {
        Source::ones(3, 4)
    }

    /// Names the stream.
    pub fn of_stream(mut self, stream: StreamInfo) -> Source {
        self.streams = vec![stream];
        self
    }

    /// Sequences are fetched.
    pub fn fetched(mut self) -> Source {
        self.facts.is_fetched = true;
        self
    }

    /// The chunks loaded so far, in order of starting.
    pub fn loads(&self) -> Vec<ChunkId> {
        self.state.loads.lock().clone()
    }

    /// Makes loading a chunk fail, or succeed again.
    pub fn breaks(&self, chunk: ChunkId, error: Option<Error>) {
        let mut broken = self.state.broken.lock();
        match error {
            Some(error) => broken.insert(chunk, error),
            None => broken.remove(&chunk),
        };
    }

    /// Makes loads wait until the gate is opened.
    pub fn closes_gate(&self, is_closed: bool) {
        self.state.gate.store(is_closed, Ordering::SeqCst);
    }

    pub fn is_gate_closed(&self) -> bool {
        self.state.gate.load(Ordering::SeqCst)
    }

    /// The fetched sequences that made their draws: number, position and sweep.
    pub fn draws(&self) -> Vec<(u64, u32, u64)> {
        self.state.draws.lock().clone()
    }

    /// The number of fetched sequences that were released.
    pub fn released(&self) -> u64 {
        self.state.released.load(Ordering::SeqCst)
    }

    /// The number of chunks in the table that are known.
    pub fn known_chunks(&self) -> usize {
        self.progress().chunks
    }

    /// The errors that count now.
    pub fn counted(&self) -> u64 {
        self.state.counts.errors.load(Ordering::SeqCst)
    }

    /// The number of chunks that were asked for warnings.
    pub fn warned(&self) -> u64 {
        self.state.counts.warned.load(Ordering::SeqCst)
    }

    /// The number of sweeps that have ended.
    pub fn sweeps(&self) -> u64 {
        self.state.counts.sweeps.load(Ordering::SeqCst)
    }

    /// Whether building the table was stopped.
    pub fn is_cancelled(&self) -> bool {
        self.state.is_cancelled.load(Ordering::SeqCst)
    }

    /// The source as a deserializer whose sequences are known.
    pub fn known(self: &Arc<Source>) -> AnyDeserializer {
        AnyDeserializer::Known(Arc::clone(self) as Arc<dyn Deserializer>)
    }

    /// The source as a deserializer whose chunks list their sequences.
    pub fn listing(self: &Arc<Source>) -> AnyDeserializer {
        AnyDeserializer::Listing(Arc::clone(self) as Arc<dyn ListingDeserializer>)
    }

    /// The number of a sequence in the data.
    fn number(&self, id: SequenceId) -> u64 {
        let before: usize = self.lengths[..id.chunk as usize].iter().map(Vec::len).sum();
        before as u64 + u64::from(id.index)
    }

    fn load(&self, chunk: ChunkId) -> Result<Arc<dyn Chunk>> {
        self.state.loads.lock().push(chunk);
        std::thread::sleep(self.pause);
        while self.state.gate.load(Ordering::SeqCst) {
            std::thread::sleep(Duration::from_millis(1));
        }
        if let Some(error) = self.state.broken.lock().get(&chunk) {
            return Err(error.clone());
        }
        let lengths = self.lengths[chunk as usize].clone();
        let first = self.number(SequenceId { chunk, index: 0 });
        let sequence = |(number, &length): (u64, &u32)| SourceSequence {
            number,
            samples: length,
            values: (number as f32).to_ne_bytes().repeat(length as usize),
            is_invalid: self.invalid.contains(&number),
            is_skipped: self.skipped.contains(&number),
        };
        Ok(Arc::new(SourceChunk {
            sequences: (first..).zip(&lengths).map(sequence).collect(),
            lengths,
            is_fetched: self.facts.is_fetched,
            ends_alone: self.ends_alone,
            shape_of: self.shape_of,
            draws: Arc::clone(&self.state.draws),
            released: Arc::clone(&self.state.released),
            errors: SourceErrors {
                count: self.errors[chunk as usize],
                tolerated: self.tolerated,
                is_counted: AtomicBool::new(false),
                counts: Arc::clone(&self.state.counts),
            },
        }))
    }
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Source")
    }
}

impl ChunkTable for Source {
    fn chunks(&self) -> &[ChunkInfo] {
        self.state.known.store(self.infos.len() as u64 + 1, Ordering::SeqCst);
        &self.infos
    }

    fn lengths(&self, chunk: ChunkId) -> Lengths<'_> {
        match self.lengths[chunk as usize].iter().all(|&length| length == 1) {
            true => Lengths::Ones,
            false => Lengths::Each(&self.lengths[chunk as usize]),
        }
    }

    fn incremental(&self) -> Option<&dyn IncrementalTable> {
        self.grows_from.map(|_| self as &dyn IncrementalTable)
    }
}

impl IncrementalTable for Source {
    fn wait_for(&self, chunk: ChunkId) -> Result<Option<ChunkInfo>> {
        self.state.known.fetch_max(u64::from(chunk) + 1, Ordering::SeqCst);
        Ok(self.infos.get(chunk as usize).copied())
    }

    fn progress(&self) -> IndexProgress {
        let known = (self.state.known.load(Ordering::SeqCst) as usize).max(self.grows_from.unwrap_or(0));
        IndexProgress { chunks: known.min(self.infos.len()), all: known > self.infos.len() }
    }

    fn cancel(&self) {
        self.state.is_cancelled.store(true, Ordering::SeqCst);
    }
}

impl ChunkSource for Source {
    fn streams(&self) -> &[StreamInfo] {
        &self.streams
    }

    fn facts(&self) -> SourceFacts {
        self.facts
    }

    fn start(self: Arc<Self>, chunk: ChunkId, on: &Starter) -> Load {
        on.on_pool(&self, chunk, Self::load)
    }

    fn reported_keys(&self, sequences: &[SequenceId], truncated: bool, keys: &mut Vec<SequenceKey>) {
        // Truncated minibatches report other keys, to tell them apart.
        let base = if truncated { 1000 } else { 0 };
        keys.extend(sequences.iter().map(|&id| base + self.number(id)));
    }

    fn fingerprint(&self, chunks: Option<usize>) -> u64 {
        let chunks = &self.lengths[..chunks.unwrap_or(self.lengths.len())];
        chunks.iter().flatten().fold(7, |hash, &length| hash * 31 + u64::from(length))
    }

    fn sample_content(&self, chunks: Option<usize>, sampler: &mut Sampler) -> Result<()> {
        match self.content {
            Some(content) => sampler.bytes(&[content, chunks.map_or(99, |chunks| chunks as u8)]),
            None => sampler.skip(),
        }
        Ok(())
    }

    fn memory(&self) -> SourceMemory {
        self.memory
    }

    fn file_bytes(&self) -> Option<u64> {
        self.file_bytes
    }

    fn diagnostics(&self) -> &dyn Diagnostics {
        &*self.state.counts
    }
}

impl JoinedByKey for Source {}

impl Deserializer for Source {
    fn sequence_facts(&self) -> SequenceFacts {
        self.sequence_facts
    }

    fn keys(&self, sequences: &[SequenceId], keys: &mut Vec<SequenceKey>) {
        keys.extend(sequences.iter().map(|&id| self.number(id)));
    }

    fn find(&self, key: SequenceKey) -> Option<SequenceId> {
        let mut ids = (0..).zip(&self.lengths).flat_map(|(chunk, lengths)| {
            (0..lengths.len() as u32).map(move |index| SequenceId { chunk, index })
        });
        ids.nth(key as usize)
    }

    fn prepare_to_find(&self) -> Result<()> {
        Ok(())
    }
}

impl ListingDeserializer for Source {
    fn chunk_count(&self) -> u32 {
        self.lengths.len() as u32
    }
}

impl Diagnostics for Counts {
    fn check(&self, _chunk: ChunkId, _most: usize) -> Option<ChunkCheck> {
        None
    }

    fn location(&self, _sequence: SequenceId, _stream: usize) -> Location {
        Location::default()
    }

    fn key_text(&self, key: SequenceKey, _corpus: &Corpus) -> String {
        key.to_string()
    }

    fn forget_errors(&self) {
        self.errors.store(0, Ordering::SeqCst);
    }

    fn remarks(&self) -> Vec<Finding> {
        Vec::new()
    }

    fn end_sweep(&self) {
        self.sweeps.fetch_add(1, Ordering::SeqCst);
    }
}

#[derive(Clone)]
struct SourceSequence {
    number: u64,
    samples: u32,
    values: Vec<u8>,
    is_invalid: bool,
    is_skipped: bool,
}

impl SourceSequence {
    fn loaded(&self) -> Loaded<'_> {
        match (self.is_invalid, self.is_skipped) {
            (true, _) => Loaded::Invalid,
            (false, true) => Loaded::Skipped,
            (false, false) => Loaded::Data(SequenceView {
                samples: self.samples,
                values: &self.values,
                form: ValueForm::Whole,
                kind: ViewKind::Dense,
            }),
        }
    }
}

/// A chunk of a [`Source`].
struct SourceChunk {
    sequences: Vec<SourceSequence>,
    lengths: Vec<u32>,
    is_fetched: bool,
    ends_alone: bool,
    shape_of: Option<ShapeOf>,
    draws: Arc<Mutex<Vec<(u64, u32, u64)>>>,
    released: Arc<AtomicU64>,
    errors: SourceErrors,
}

impl LeafChunk for SourceChunk {
    fn sequence(&self, _stream: usize, index: u32) -> Loaded<'_> {
        self.sequences[index as usize].loaded()
    }

    fn errors(&self) -> &dyn ChunkErrors {
        &self.errors
    }

    fn fetch(&self, index: u32, first: usize, parts: &mut Parts) -> Result<()> {
        if !self.is_fetched {
            return Ok(());
        }
        let sequence = self.sequences[index as usize].clone();
        let error = Error::data(format!("Sequence {} is damaged.", sequence.number));
        let failure = sequence.is_invalid.then_some(Failure { error, ends_alone: self.ends_alone });
        let shape = self.shape_of.and_then(|shape_of| shape_of(sequence.number));
        let fetched = FetchedSequence {
            sequence,
            failure,
            shape,
            position: None,
            draws: Arc::clone(&self.draws),
            released: Arc::clone(&self.released),
        };
        parts.add(first, 1, |_| Ok(Box::new(fetched)))
    }

    fn listing(&self) -> Option<Listing<'_>> {
        let (sequences, lengths) = (self.lengths.len() as u32, Lengths::Each(&self.lengths));
        Some(Listing { sequences, lengths })
    }
}

struct FetchedSequence {
    sequence: SourceSequence,
    failure: Option<Failure>,
    shape: Option<&'static [usize]>,
    position: Option<u32>,
    draws: Arc<Mutex<Vec<(u64, u32, u64)>>>,
    released: Arc<AtomicU64>,
}

impl FetchedData for FetchedSequence {
    fn is_valid(&self) -> bool {
        matches!(self.sequence.loaded(), Loaded::Data(_))
    }

    fn failure(&self) -> Option<&Failure> {
        self.failure.as_ref()
    }

    fn plan(&mut self, position: u32, sweep: u64) -> Result<()> {
        self.position = Some(position);
        self.draws.lock().push((self.sequence.number, position, sweep));
        Ok(())
    }

    fn prepare(&mut self, position: u32) -> Result<()> {
        assert_eq!(self.position, Some(position), "it is prepared for the position of its draws");
        Ok(())
    }

    fn view(&self, _stream: usize) -> Loaded<'_> {
        self.sequence.loaded()
    }

    fn shape(&self, _stream: usize) -> Option<&[usize]> {
        self.shape
    }

    /// Even sequences know their own keys.
    fn key(&self, _stream: usize) -> Option<SequenceKey> {
        self.sequence.number.is_multiple_of(2).then_some(self.sequence.number)
    }

    fn release(&mut self) {
        self.released.fetch_add(1, Ordering::SeqCst);
    }
}

/// Errors that count against a limit.
struct SourceErrors {
    count: u64,
    tolerated: u64,
    is_counted: AtomicBool,
    counts: Arc<Counts>,
}

impl ChunkErrors for SourceErrors {
    fn commit(&self) -> Result<()> {
        self.counts.warned.fetch_add(1, Ordering::SeqCst);
        if self.has_uncounted() {
            self.is_counted.store(true, Ordering::SeqCst);
            let total = self.count + self.counts.errors.fetch_add(self.count, Ordering::SeqCst);
            if total > self.tolerated {
                return Err(Error::data(format!("{total} errors")));
            }
        }
        Ok(())
    }

    fn has_uncounted(&self) -> bool {
        self.count > 0 && !self.is_counted.load(Ordering::SeqCst)
    }

    fn has_counted(&self) -> bool {
        self.is_counted.load(Ordering::SeqCst)
    }

    fn retract(&self) {
        assert!(self.is_counted.swap(false, Ordering::SeqCst));
        self.counts.errors.fetch_sub(self.count, Ordering::SeqCst);
    }

    fn waive(&self) {
        self.is_counted.store(true, Ordering::SeqCst);
    }
}

/// A failure that may pass.
pub fn passing() -> Error {
    Error::new(ErrorKind::Io, ExceptionClass::Runtime, "busy")
}

/// The options of a source in memory.
#[derive(Debug, Clone)]
pub struct InMemory {
    pub name: String,
    pub source: Arc<Source>,
    pub is_listing: bool,
    /// Facts of the format.
    pub has_images: bool,
    pub lacks_keys: bool,
    pub suggests_chunk_size: bool,
    pub reproducible: Option<bool>,
    pub signature: Signature,
    pub is_foreign: bool,
    /// The error of opening it.
    pub failure: Option<Error>,
    pub front_end: FrontEnd,
}

impl InMemory {
    pub fn new(name: &str, source: &Arc<Source>) -> InMemory {
        InMemory {
            name: name.to_owned(),
            source: Arc::clone(source),
            is_listing: false,
            has_images: false,
            lacks_keys: false,
            suggests_chunk_size: false,
            reproducible: None,
            signature: Signature::Unknown,
            is_foreign: false,
            failure: None,
            front_end: FrontEnd::Configuration,
        }
    }

    /// The deserializer as a member of a reader.
    pub fn member(&self) -> Member {
        Member::new(self, self.source.known())
    }
}

impl PartialEq for InMemory {
    fn eq(&self, other: &InMemory) -> bool {
        Arc::ptr_eq(&self.source, &other.source)
    }
}

impl Format for InMemory {
    fn type_name(&self) -> &str {
        "InMemoryDeserializer"
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn facts(&self) -> Facts {
        Facts {
            has_images: self.has_images,
            lacks_keys: self.lacks_keys,
            suggests_chunk_size: self.suggests_chunk_size,
            reproducible: self.reproducible,
            signature: self.signature,
            is_foreign: self.is_foreign,
            ..Facts::default()
        }
    }

    fn open(&self, context: Context<'_>) -> Result<Opened> {
        // The next deserializer gets the name of this one.
        let before = context.ahead.and_then(|ahead| ahead.downcast::<String>().ok());
        let before = before.map_or(String::new(), |before| format!("{before}, "));
        if let Some(error) = &self.failure {
            return Err(error.clone().with_detail(format!(
                "{before}primary {}, incremental {}, next {:?}, labels first {}, users {}",
                context.is_primary,
                context.is_incremental,
                context.next.map(Format::name),
                context.labels_may_be_first,
                context.users.names.is_some()
            )));
        }
        let deserializer = if self.is_listing { self.source.listing() } else { self.source.known() };
        Ok(Opened { deserializer, ahead: Some(Box::new(format!("{before}{}", self.name))) })
    }

    fn confine(&mut self, _confinement: &Confinement) {}

    fn follow(&mut self, _release: Release) {}

    fn speak(&mut self, front_end: FrontEnd) {
        self.front_end = front_end;
    }
}
