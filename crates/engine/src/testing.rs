//! Test helpers: a deserializer that records the calls it receives, and the log lines of a thread.

use cntk_reader_core::corpus::Corpus;
use cntk_reader_core::error::Location;
use cntk_reader_core::format::check::{ChunkCheck, Finding, Severity};
use cntk_reader_core::format::content::Sampler;
use cntk_reader_core::format::diagnostics::Diagnostics;
use cntk_reader_core::format::fetch::Parts;
use cntk_reader_core::format::loading::{Load, Starter};
use cntk_reader_core::format::{
    Ahead, Chunk, ChunkErrors, ChunkInfo, ChunkSource, ChunkTable, Deserializer, IncrementalTable,
    JoinedByKey, Lengths, Listing, ListingDeserializer, Loaded, SequenceFacts, SourceFacts, SourceMemory,
};
use cntk_reader_core::runtime::lock::Mutex;
use cntk_reader_core::runtime::log::{self, Level};
use cntk_reader_core::sequence::{ChunkId, SequenceId, SequenceKey, SequenceView, ValueForm, ViewKind};
use cntk_reader_core::stream::StreamInfo;
use cntk_reader_core::{Error, Result};
use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Once};

thread_local! {
    /// The lines of this thread while [`logged`] runs.
    static LINES: RefCell<Option<Vec<(Level, String)>>> = const { RefCell::new(None) };
}

/// Returns the result of `call`, and the lines that it logs on this thread.
pub fn logged<T>(call: impl FnOnce() -> T) -> (T, Vec<(Level, String)>) {
    static SET: Once = Once::new();
    let sink = |level, line: &str| {
        LINES.with_borrow_mut(|lines| match lines {
            Some(lines) => lines.push((level, line.to_owned())),
            None => eprintln!("{line}"),
        });
    };
    SET.call_once(|| log::set_sink(Some(Arc::new(sink))));
    LINES.set(Some(Vec::new()));
    let result = call();
    (result, LINES.take().unwrap_or_default())
}

/// The calls to several deserializers and their chunks, in order.
#[derive(Clone, Default)]
pub struct Calls(Arc<Mutex<Vec<String>>>);

impl Calls {
    fn add(&self, call: String) {
        self.0.lock().push(call);
    }

    /// Returns the calls since the last time.
    pub fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock())
    }
}

/// A deserializer that records calls. Each answer tells which deserializer it comes from.
pub struct Recorder {
    pub name: &'static str,
    /// The number in its answers.
    pub number: u64,
    pub calls: Calls,
    pub streams: Vec<StreamInfo>,
    pub facts: SourceFacts,
    pub sequence_facts: SequenceFacts,
    /// Its chunks have errors to be counted.
    pub has_errors: bool,
    /// The stream and index of the invalid sequence of each chunk.
    pub invalid: Option<(usize, u32)>,
    /// Every key is 999 from now on.
    pub hides_keys: AtomicBool,
    /// The key and length of each sequence.
    chunks: Vec<Vec<(SequenceKey, u32)>>,
    infos: Vec<ChunkInfo>,
    lengths: Vec<Vec<u32>>,
}

impl Recorder {
    /// Creates a deserializer with one stream of its name.
    pub fn new(name: &'static str, chunks: &[&[(SequenceKey, u32)]]) -> Recorder {
        let lengths: Vec<Vec<u32>> =
            chunks.iter().map(|chunk| chunk.iter().map(|&(_, length)| length).collect()).collect();
        let info = |lengths: &Vec<u32>| ChunkInfo {
            samples: lengths.iter().map(|&length| u64::from(length)).sum(),
            sequences: lengths.len() as u32,
        };
        Recorder {
            name,
            number: 1,
            calls: Calls::default(),
            streams: vec![StreamInfo::dense(name, &[1])],
            facts: SourceFacts::ON_POOL,
            sequence_facts: SequenceFacts::PLAIN,
            has_errors: false,
            invalid: None,
            hides_keys: AtomicBool::new(false),
            chunks: chunks.iter().map(|chunk| chunk.to_vec()).collect(),
            infos: lengths.iter().map(info).collect(),
            lengths,
        }
    }

    /// Adds a stream.
    pub fn with_stream(mut self, name: &str) -> Recorder {
        self.streams.push(StreamInfo::dense(name, &[1]));
        self
    }

    /// Returns the value of a sample: `1000 * key + sample`, plus 100000 for each further stream.
    pub fn value(key: SequenceKey, sample: u32, stream: usize) -> f32 {
        100_000.0 * stream as f32 + 1000.0 * key as f32 + sample as f32
    }

    fn record(&self, call: &str) {
        self.calls.add(format!("{}.{call}", self.name));
    }

    fn key(&self, id: &SequenceId) -> SequenceKey {
        let (key, _) = self.chunks[id.chunk as usize][id.index as usize];
        if self.hides_keys.load(Relaxed) { 999 } else { key }
    }

    fn load(&self, chunk: ChunkId) -> Result<Arc<dyn Chunk>> {
        let sequences = &self.chunks[chunk as usize];
        let values = |&(key, length): &(SequenceKey, u32)| {
            let of_stream = |stream| {
                (0..length).flat_map(|sample| Self::value(key, sample, stream).to_ne_bytes()).collect()
            };
            (0..self.streams.len()).map(of_stream).collect()
        };
        Ok(Arc::new(RecordingChunk {
            name: format!("{}{chunk}", self.name),
            calls: self.calls.clone(),
            is_expanded: self.sequence_facts.is_expanded,
            invalid: self.invalid,
            values: sequences.iter().map(values).collect(),
            has_uncounted: AtomicBool::new(self.has_errors),
            has_counted: AtomicBool::new(false),
        }))
    }
}

impl ChunkTable for Recorder {
    fn chunks(&self) -> &[ChunkInfo] {
        &self.infos
    }

    fn lengths(&self, chunk: ChunkId) -> Lengths<'_> {
        Lengths::Each(&self.lengths[chunk as usize])
    }

    fn incremental(&self) -> Option<&dyn IncrementalTable> {
        None
    }
}

impl ChunkSource for Recorder {
    fn streams(&self) -> &[StreamInfo] {
        &self.streams
    }

    fn facts(&self) -> SourceFacts {
        self.facts
    }

    fn start(self: Arc<Self>, chunk: ChunkId, on: &Starter) -> Load {
        on.on_pool(&self, chunk, Self::load)
    }

    /// Differs from the keys by 1000, or by 2000 if truncated.
    fn reported_keys(&self, sequences: &[SequenceId], truncated: bool, keys: &mut Vec<SequenceKey>) {
        let difference = if truncated { 2000 } else { 1000 };
        keys.extend(sequences.iter().map(|id| difference + self.key(id)));
    }

    fn fingerprint(&self, _chunks: Option<usize>) -> u64 {
        self.number
    }

    fn sample_content(&self, _chunks: Option<usize>, sampler: &mut Sampler) -> Result<()> {
        self.record("sample_content");
        sampler.skip();
        Ok(())
    }

    fn memory(&self) -> SourceMemory {
        SourceMemory { chunks: self.number, index: 10 * self.number }
    }

    fn file_bytes(&self) -> Option<u64> {
        Some(self.number)
    }

    fn diagnostics(&self) -> &dyn Diagnostics {
        self
    }
}

impl Diagnostics for Recorder {
    fn check(&self, _chunk: ChunkId, _most: usize) -> Option<ChunkCheck> {
        Some(ChunkCheck::default())
    }

    /// The offset is `100 * chunk + index`, the line the stream.
    fn location(&self, sequence: SequenceId, stream: usize) -> Location {
        let offset = 100 * u64::from(sequence.chunk) + u64::from(sequence.index);
        Location::in_file(self.name, Some(offset), Some(stream as u64))
    }

    fn key_text(&self, key: SequenceKey, _corpus: &Corpus) -> String {
        format!("{}-{key}", self.name)
    }

    fn forget_errors(&self) {
        self.record("forget_errors");
    }

    fn remarks(&self) -> Vec<Finding> {
        vec![Finding::new(Severity::Note, self.name)]
    }

    fn end_sweep(&self) {
        self.record("end_sweep");
    }
}

impl JoinedByKey for Recorder {}

impl Deserializer for Recorder {
    fn sequence_facts(&self) -> SequenceFacts {
        self.sequence_facts
    }

    fn keys(&self, sequences: &[SequenceId], keys: &mut Vec<SequenceKey>) {
        keys.extend(sequences.iter().map(|id| self.key(id)));
    }

    fn find(&self, key: SequenceKey) -> Option<SequenceId> {
        (0..).zip(&self.chunks).find_map(|(chunk, sequences)| {
            let index = sequences.iter().position(|&(other, _)| other == key)? as u32;
            Some(SequenceId { chunk, index })
        })
    }

    fn prepare_to_find(&self) -> Result<()> {
        self.record("prepare_to_find");
        Ok(())
    }
}

impl ListingDeserializer for Recorder {
    fn chunk_count(&self) -> u32 {
        self.chunks.len() as u32
    }
}

/// A chunk that records calls.
struct RecordingChunk {
    name: String,
    calls: Calls,
    is_expanded: bool,
    invalid: Option<(usize, u32)>,
    /// By sequence and stream.
    values: Vec<Vec<Vec<u8>>>,
    has_uncounted: AtomicBool,
    has_counted: AtomicBool,
}

impl RecordingChunk {
    fn record(&self, call: &str) {
        self.calls.add(format!("{}.{call}", self.name));
    }
}

impl Chunk for RecordingChunk {
    fn sequence(&self, stream: usize, index: u32) -> Loaded<'_> {
        if self.invalid == Some((stream, index)) {
            return Loaded::Invalid;
        }
        let values = &self.values[index as usize][stream];
        let (samples, form, kind) = (values.len() as u32 / 4, ValueForm::Whole, ViewKind::Dense);
        Loaded::Data(SequenceView { samples, values, form, kind })
    }

    fn sequences<'a>(&'a self, index: u32, loaded: &mut [Loaded<'a>]) {
        for (stream, loaded) in loaded.iter_mut().enumerate() {
            *loaded = self.sequence(stream, index);
        }
    }

    fn failure(&self, stream: usize, index: u32) -> Option<Error> {
        Some(Error::data(format!("{}.failure {stream} {index}", self.name)))
    }

    fn is_expanded(&self, _stream: usize) -> bool {
        self.is_expanded
    }

    fn prefetch(&self, index: u32, ahead: Ahead) {
        self.record(&format!("prefetch {index} {ahead:?}"));
    }

    fn warn(&self) {
        self.record("warn");
    }

    fn errors(&self) -> &dyn ChunkErrors {
        self
    }

    fn fetch(&self, index: u32, first: usize, _parts: &mut Parts) -> Result<()> {
        self.record(&format!("fetch {index} {first}"));
        Ok(())
    }

    fn listing(&self) -> Option<Listing<'_>> {
        Some(Listing { sequences: self.values.len() as u32, lengths: Lengths::Ones })
    }
}

impl ChunkErrors for RecordingChunk {
    fn commit(&self) -> Result<()> {
        self.record("commit");
        if self.has_uncounted.swap(false, Relaxed) {
            self.has_counted.store(true, Relaxed);
        }
        Ok(())
    }

    fn has_uncounted(&self) -> bool {
        self.has_uncounted.load(Relaxed)
    }

    fn has_counted(&self) -> bool {
        self.has_counted.load(Relaxed)
    }

    fn retract(&self) {
        self.record("retract");
        if self.has_counted.swap(false, Relaxed) {
            self.has_uncounted.store(true, Relaxed);
        }
    }

    fn waive(&self) {
        self.record("waive");
        self.has_counted.store(true, Relaxed);
        self.has_uncounted.store(false, Relaxed);
    }
}
