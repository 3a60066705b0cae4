//! CNTK text format (CTF): lines of named samples, dense or sparse, grouped into sequences.
//!
//! The [`index`] records where every sequence is. A chunk is loaded in [`segment`]s of `2^n`
//! sequences each. One thread reads a segment and parses it into flat arrays ([`parse::fast`],
//! falling back to [`parse::exact`] for unusual input), which are then copied into memory of
//! exactly their size ([`cntk_reader_core::memory::compact::arena`]). The [`chunk`] hands out views
//! of that memory.
//!
//! Up to `maxErrors` errors in the data are tolerated, counted in the order in which chunks are
//! used. As chunks are loaded in any order, loading only counts the errors of each chunk;
//! [`ChunkErrors::commit`](cntk_reader_core::format::ChunkErrors::commit) adds them up.

mod advice;
mod check;
mod chunk;
#[cfg(test)]
mod fault_tests;
pub mod index;
mod list;
mod long;
mod options;
pub mod parse;
mod segment;
#[cfg(test)]
mod tests;
mod unusual;
mod warnings;

use chunk::TextChunk;
use cntk_reader_core::corpus::Corpus;
use cntk_reader_core::error::Location;
use cntk_reader_core::file::DataFile;
use cntk_reader_core::format::check::{ChunkCheck, Finding};
use cntk_reader_core::format::content::Sampler;
use cntk_reader_core::format::diagnostics::Diagnostics;
use cntk_reader_core::format::handle::FileHandle;
use cntk_reader_core::format::loading::{Load, Starter};
use cntk_reader_core::format::{
    Chunk, ChunkInfo, ChunkSource, ChunkTable, Deserializer, IncrementalTable, JoinedByKey, Lengths,
    SequenceFacts, SourceFacts, SourceMemory,
};
use cntk_reader_core::memory::compact::arena::Recycler;
use cntk_reader_core::memory::room;
use cntk_reader_core::runtime::cancel::carried;
use cntk_reader_core::runtime::lock::Mutex;
use cntk_reader_core::runtime::log::Level;
use cntk_reader_core::runtime::pool::Pool;
use cntk_reader_core::sequence::{ChunkId, SequenceId, SequenceKey};
use cntk_reader_core::stream::{ElementType, StreamInfo};
use cntk_reader_core::{Error, Result};
use index::{Index, IndexOptions, SequenceSpan};
pub use list::open_files;
pub use options::{MAX_ERRORS, TextOptions, TextStream};
use parse::cause::Cause;
use parse::exact;
use parse::fast::{FRONT, Fast};
use parse::report::{Failure, Report, limit_text};
use parse::rules::Rules;
use rayon::prelude::*;
use segment::{Scratch, Scratched, Segment};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};
use warnings::{Counts, Warnings};

/// Approximate size of a segment's text in bytes: large enough that starting a task costs little,
/// small enough that the text and its data stay in a core's cache.
const SEGMENT_BYTES: u64 = 512 << 10;

/// Deserializer of one text file.
pub struct TextDeserializer {
    streams: Vec<StreamInfo>,
    shared: Arc<TextFile>,
    /// Loaded chunks, if they are kept in memory.
    kept: Option<Vec<Mutex<Option<Arc<TextChunk>>>>>,
}

/// An open file, shared by the deserializer and its chunks.
struct TextFile {
    rules: Rules,
    fast: Fast,
    handle: FileHandle,
    index: Index,
    element: ElementType,
    /// Whether small numbers are stored narrow.
    narrow: bool,
    /// Number of line breaks before some offsets of the file, for checks: see [`check`].
    known_lines: Mutex<BTreeMap<u64, u64>>,
    warnings: Warnings,
    common: Arc<ListState>,
}

/// State shared by the files of a deserializer.
struct ListState {
    recycler: Recycler,
    /// Number of further errors that are tolerated.
    errors_left: Mutex<u64>,
    /// Number of sequences left out because a stream has no sample in them
    /// (`strictSequences = false`).
    skipped: AtomicU64,
    /// Value of `skipped` when it was last logged.
    skipped_reported: AtomicU64,
}

impl ListState {
    fn new(options: &TextOptions) -> ListState {
        ListState {
            recycler: Recycler::default(),
            errors_left: Mutex::new(options.max_errors.into()),
            skipped: AtomicU64::new(0),
            skipped_reported: AtomicU64::new(0),
        }
    }
}

/// Settings that a file gets from the list it belongs to.
struct ListContext {
    common: Arc<ListState>,
    /// Exclusive upper bound of the file's keys.
    key_limit: Option<SequenceKey>,
    /// Whether to warn about keys that several sequences share.
    warns_of_repeats: bool,
    /// Whether the file stays open between reads.
    stays_open: bool,
}

impl ListContext {
    /// Settings of a file that is opened alone.
    fn alone(options: &TextOptions) -> ListContext {
        let common = Arc::new(ListState::new(options));
        ListContext { common, key_limit: None, warns_of_repeats: true, stays_open: true }
    }
}

impl TextDeserializer {
    /// Opens and indexes the file. Call it on a thread of the library's pool.
    pub fn open(options: &TextOptions, corpus: &Arc<Corpus>) -> Result<Self> {
        Self::open_in(&ListContext::alone(options), options, corpus)
    }

    /// [`TextDeserializer::open`] for one of several files.
    fn open_in(list: &ListContext, options: &TextOptions, corpus: &Arc<Corpus>) -> Result<Self> {
        Self::open_by(list, options, corpus, |file, options| Index::open(file, options, corpus))
    }

    /// Opens the file and indexes it as it is read from front to back. Call it on a thread of the
    /// pool.
    pub(crate) fn open_incremental(options: &TextOptions, corpus: &Arc<Corpus>, pool: &Pool) -> Result<Self> {
        Self::open_incremental_in(&ListContext::alone(options), options, corpus, pool)
    }

    /// [`TextDeserializer::open_incremental`] for one of several files.
    fn open_incremental_in(
        list: &ListContext,
        options: &TextOptions,
        corpus: &Arc<Corpus>,
        pool: &Pool,
    ) -> Result<Self> {
        // The table of kept chunks has an entry for every chunk, so all of them must be known.
        if options.keep_data_in_memory {
            return Self::open_in(list, options, corpus);
        }
        Self::open_by(list, options, corpus, |file, options| {
            Index::open_incremental(file, options, corpus, pool)
        })
    }

    /// [`TextDeserializer::open_incremental`] with the given step size.
    #[cfg(any(test, feature = "test-support"))]
    pub fn open_in_steps(
        options: &TextOptions,
        corpus: &Arc<Corpus>,
        pool: &Pool,
        step: u64,
    ) -> Result<Self> {
        Self::open_by(&ListContext::alone(options), options, corpus, |file, options| {
            Index::open_in_steps(file, options, corpus, pool, step)
        })
    }

    /// Allows small numbers to be stored in fewer bytes
    /// ([`cntk_reader_core::memory::compact::narrow`]), for packers that can read them. Call it
    /// before anything is loaded.
    #[must_use]
    pub(crate) fn narrow(mut self) -> Self {
        if let Some(shared) = Arc::get_mut(&mut self.shared) {
            shared.narrow = true;
        }
        self
    }

    fn open_by(
        list: &ListContext,
        options: &TextOptions,
        corpus: &Arc<Corpus>,
        index: impl FnOnce(&DataFile, &IndexOptions) -> Result<Index>,
    ) -> Result<Self> {
        let index_options = IndexOptions {
            key_limit: list.key_limit,
            warns_of_repeats: list.warns_of_repeats,
            ..IndexOptions::of(options)
        };
        let rules = Rules::new(options, corpus)?;
        let file = open_file(options.files.name())?;
        let index = index(&file, &index_options)?;
        let handle = FileHandle::new(file, list.stays_open)?;
        Self::with_index(options, rules, handle, index, Arc::clone(&list.common))
    }

    fn with_index(
        options: &TextOptions,
        rules: Rules,
        handle: FileHandle,
        index: Index,
        common: Arc<ListState>,
    ) -> Result<Self> {
        let kept = options
            .keep_data_in_memory
            .then(|| room::collect(index.chunks().iter().map(|_| Mutex::new(None)), room::CHUNK))
            .transpose()?;
        let shared = TextFile {
            fast: Fast::new(&rules),
            warnings: Warnings::default(),
            known_lines: Mutex::default(),
            rules,
            handle,
            index,
            element: options.element,
            narrow: false,
            common,
        };
        Ok(TextDeserializer { streams: options.stream_infos(), shared: Arc::new(shared), kept })
    }
}

impl ChunkTable for TextDeserializer {
    fn chunks(&self) -> &[ChunkInfo] {
        self.shared.index.chunks()
    }

    fn lengths(&self, chunk: ChunkId) -> Lengths<'_> {
        self.shared.index.lengths(chunk)
    }

    fn incremental(&self) -> Option<&dyn IncrementalTable> {
        self.shared.index.incremental()
    }
}

impl TextDeserializer {
    /// Loads a chunk, or returns it if it is kept in memory.
    pub fn load(&self, chunk: ChunkId) -> Result<Arc<dyn Chunk>> {
        let Some(kept) = &self.kept else {
            return Ok(Arc::new(self.shared.load(chunk)?));
        };
        // The lock is not held during loading: a thread that waits runs other jobs of the pool, and
        // one of them may load the same chunk. If two threads load it, the first to finish is kept.
        if let Some(loaded) = &*kept[chunk as usize].lock() {
            return Ok(loaded.clone());
        }
        let loaded = Arc::new(self.shared.load(chunk)?);
        Ok(kept[chunk as usize].lock().get_or_insert(loaded).clone())
    }
}

impl ChunkSource for TextDeserializer {
    fn streams(&self) -> &[StreamInfo] {
        &self.streams
    }

    fn facts(&self) -> SourceFacts {
        SourceFacts::ON_POOL
    }

    fn start(self: Arc<Self>, chunk: ChunkId, on: &Starter) -> Load {
        on.on_pool(&self, chunk, Self::load)
    }

    fn memory(&self) -> SourceMemory {
        let TextFile { common, index, handle, .. } = &*self.shared;
        SourceMemory { chunks: common.recycler.bytes(), index: index.memory() as u64 + handle.memory() }
    }

    fn file_bytes(&self) -> Option<u64> {
        self.shared.handle.size().ok()
    }

    fn sample_content(&self, chunks: Option<usize>, sampler: &mut Sampler) -> Result<()> {
        let chunks = chunks.unwrap_or_else(|| self.chunks().len());
        let file = self.shared.handle.get()?;
        sampler.file(&file, 0..self.shared.index.end_of(chunks))
    }

    fn fingerprint(&self, chunks: Option<usize>) -> u64 {
        match chunks {
            Some(chunks) => self.shared.index.fingerprint_of(chunks),
            None => self.shared.index.fingerprint(),
        }
    }

    fn reported_keys(&self, sequences: &[SequenceId], _truncated: bool, keys: &mut Vec<SequenceKey>) {
        self.keys(sequences, keys);
    }

    fn diagnostics(&self) -> &dyn Diagnostics {
        self
    }
}

impl Diagnostics for TextDeserializer {
    fn check(&self, chunk: ChunkId, most: usize) -> Option<ChunkCheck> {
        Some(self.shared.check(chunk, most))
    }

    fn location(&self, sequence: SequenceId, _stream: usize) -> Location {
        let mut place = Location::in_file(self.shared.handle.path(), None, None);
        let index = sequence.index..sequence.index + 1;
        if let Some(span) = self.shared.index.spans(sequence.chunk, index).next() {
            place.offset = Some(span.offset);
            place.line = self.shared.handle.get().ok().and_then(|file| file.line_at(span.offset));
        }
        place
    }

    fn key_text(&self, key: SequenceKey, corpus: &Corpus) -> String {
        corpus.text_of(key)
    }

    fn forget_errors(&self) {
        *self.shared.common.errors_left.lock() = self.shared.rules.max_errors;
    }

    fn remarks(&self) -> Vec<Finding> {
        Vec::new()
    }

    fn end_sweep(&self) {
        self.shared.warnings.summarize(&self.shared.rules);
    }
}

impl JoinedByKey for TextDeserializer {}

impl Deserializer for TextDeserializer {
    fn sequence_facts(&self) -> SequenceFacts {
        SequenceFacts { counts_keys: self.shared.index.is_by_line(), ..SequenceFacts::PLAIN }
    }

    fn keys(&self, sequences: &[SequenceId], keys: &mut Vec<SequenceKey>) {
        self.shared.index.keys(sequences, keys);
    }

    fn prepare_to_find(&self) -> Result<()> {
        self.shared.index.prepare_to_find()
    }

    fn find(&self, key: SequenceKey) -> Option<SequenceId> {
        self.shared.index.find(key)
    }
}

impl TextFile {
    /// Loads a chunk. Too many errors are reported by
    /// [`ChunkErrors::commit`](cntk_reader_core::format::ChunkErrors::commit), not here: which
    /// error exceeds the limit depends on the chunks used before this one. After that, every chunk
    /// with an error fails.
    fn load(self: &Arc<Self>, id: ChunkId) -> Result<TextChunk> {
        let file = self.handle.get()?;
        file.if_unchanged(match self.element {
            ElementType::Double => self.load_as::<f64>(&file, id),
            _ => self.load_as::<f32>(&file, id),
        })
    }

    fn load_as<T: Scratched>(self: &Arc<Self>, file: &DataFile, id: ChunkId) -> Result<TextChunk> {
        let sequences = self.index.info(id).sequences;
        let shift = self.shift(id, sequences);
        let size = 1u64 << shift;
        let count = u64::from(sequences).div_ceil(size) as u32;
        let mut outcomes = room::with_capacity(count as usize, room::CHUNK)?;
        // One task per segment, so that no thread is left with several segments while others are
        // idle (first sweeps by two threads are 2 to 6 % faster).
        (0..count)
            .into_par_iter()
            .with_max_len(1)
            .map(carried(|segment| self.load_segment::<T>(file, id, self.range(sequences, shift, segment))))
            .collect_into_vec(&mut outcomes);
        let mut segments = room::try_collect(outcomes, room::CHUNK)?;

        // From here on, everything is as if the segments had been read one after the other.
        let tolerated = self.rules.max_errors;
        let mut errors = 0;
        let mut fatal = None;
        let mut exceeds = false;
        let mut used = 0;
        let mut in_chunk = Counts::new();
        for segment in &mut segments {
            used += 1;
            let (lines, counts) = (std::mem::take(&mut segment.lines), std::mem::take(&mut segment.counts));
            self.warnings.write(&self.rules, file, lines, counts, &mut in_chunk);
            errors += segment.errors;
            let stop = segment.stop.as_deref().cloned();
            if errors > tolerated || stop.as_ref().is_some_and(|stop| !stop.fatal) {
                exceeds = true;
            } else if stop.is_some() {
                fatal = stop;
            }
            if exceeds || fatal.is_some() {
                break;
            }
        }
        segments.truncate(used);
        self.warnings.end_chunk(&self.rules, id, &in_chunk);
        match fatal {
            Some(fatal) if errors == 0 => Err(self.error_of(fatal)),
            fatal => Ok(TextChunk {
                shared: Arc::clone(self),
                id,
                shift,
                segments,
                exceeds,
                fatal,
                committed: AtomicBool::new(false),
                counted: AtomicU64::new(0),
            }),
        }
    }

    /// Binary logarithm of the number of sequences in a segment.
    fn shift(&self, id: ChunkId, sequences: u32) -> u32 {
        let bytes = byte_range(self.index.spans(id, 0..1), self.index.spans(id, sequences - 1..sequences));
        let average = ((bytes.end - bytes.start) / u64::from(sequences)).max(1);
        (SEGMENT_BYTES / average).max(1).ilog2().min(31)
    }

    fn range(&self, sequences: u32, shift: u32, segment: u32) -> Range<u32> {
        let start = segment << shift;
        start..(u64::from(start) + (1 << shift)).min(u64::from(sequences)) as u32
    }

    fn load_segment<T: Scratched>(
        &self,
        file: &DataFile,
        id: ChunkId,
        sequences: Range<u32>,
    ) -> Result<Segment> {
        T::with_scratch(|scratch| {
            let mut report = Report::new(&self.rules, self.rules.max_errors);
            let stop = self.parse_segment(file, id, sequences.clone(), scratch, &mut report)?.err();
            let recycler = &self.common.recycler;
            let (arena, layouts, not_finite) =
                segment::pack(&self.rules, &mut scratch.output, self.narrow, recycler)?;
            if not_finite.iter().any(|&count| count > 0) && report.shows(Level::Warning) {
                self.note_not_finite(file, id, &sequences, scratch, &not_finite, &mut report)?;
            }
            Ok(Segment {
                arena,
                layouts,
                skipped: room::copy(&scratch.output.skipped, room::CHUNK)?,
                errors: report.errors(),
                stop,
                lines: report.take_lines(),
                counts: report.take_counts(),
            })
        })
    }

    /// Reads and parses a segment. The outer error is about reading the file, the inner one about
    /// its content.
    fn parse_segment<T: Scratched>(
        &self,
        file: &DataFile,
        id: ChunkId,
        sequences: Range<u32>,
        scratch: &mut Scratch<T>,
        report: &mut Report<'_>,
    ) -> Result<std::result::Result<(), parse::report::Stop>> {
        let spans = || self.index.spans(id, sequences.clone());
        if let (1, Some(span), false) = (sequences.len(), spans().next(), self.index.is_doubtful())
            && u64::from(span.size) > long::LONG
            && self.parse_long(file, &span, scratch, report)?
        {
            return Ok(Ok(()));
        }
        let (start, length) = self.read_segment(file, id, &sequences, scratch)?;
        let bytes = &scratch.text[FRONT..FRONT + length];
        self.index.check_ids(spans(), bytes, start).map_err(|error| error.in_file(file.path()))?;
        let text = (&*scratch.text, length, start);
        segment::parse(&self.rules, &self.fast, spans(), text, &mut scratch.output, report)
    }

    /// Reports the values of a segment that are infinite or NaN; `counts` has their number by
    /// stream. The first one is reported with its place, or each of them if the report lists all.
    #[cold]
    fn note_not_finite<T: Scratched>(
        &self,
        file: &DataFile,
        id: ChunkId,
        sequences: &Range<u32>,
        scratch: &mut Scratch<T>,
        counts: &[u64],
        report: &mut Report<'_>,
    ) -> Result<()> {
        for (stream, &count) in counts.iter().enumerate().filter(|(_, count)| **count > 0) {
            let rule = &self.rules.streams[stream];
            let with = scratch.output.not_finite(stream, rule);
            let most = if report.lists_all() { usize::MAX } else { 1 };
            let with: Vec<u32> = with.take(most).map(|index| sequences.start + index).collect();
            for index in with {
                let Some(span) = self.index.spans(id, index..index + 1).next() else { continue };
                let mut text = room::zeroed(span.size as usize, room::CHUNK)?;
                let length = file.read_at(span.offset, &mut text)?;
                let found = exact::unusual_numbers::<T>(&self.rules, &span, &text[..length]);
                let of_stream = found.into_iter().filter(|(cause, _, context)| {
                    context.stream == Some(stream) && matches!(cause, Cause::NotFinite { .. })
                });
                for (cause, offset, context) in of_stream.take(most) {
                    report.note(cause, offset, context);
                }
            }
            if most == 1 {
                report.count_more(Cause::NotFinite { is_nan: false }, stream, count - 1);
            }
        }
        Ok(())
    }

    /// Runs [`long::parse`] on the file.
    fn parse_long<T: Scratched>(
        &self,
        file: &DataFile,
        span: &SequenceSpan,
        scratch: &mut Scratch<T>,
        report: &mut Report<'_>,
    ) -> Result<bool> {
        let read = |offset, piece: &mut [u8]| file.read_at(offset, piece);
        long::parse(&self.rules, &self.fast, span, (read, long::PIECE), scratch, report)
    }

    /// Reads the text of a segment. Returns the offset of its first byte, and the number of its
    /// bytes that the file has.
    fn read_segment<T: Scratched>(
        &self,
        file: &DataFile,
        id: ChunkId,
        sequences: &Range<u32>,
        scratch: &mut Scratch<T>,
    ) -> Result<(u64, usize)> {
        let last = self.index.spans(id, sequences.end - 1..sequences.end);
        let bytes = byte_range(self.index.spans(id, sequences.start..sequences.start + 1), last);
        let size = (bytes.end - bytes.start) as usize;
        let length = file.read_at(bytes.start, scratch.text_mut(size)?)?;
        Ok((bytes.start, length))
    }

    /// Returns the error to report if error number `before` (from 0) of a chunk exceeds the limit.
    /// Its location was not kept, so the segment is parsed again.
    fn limit_error(&self, id: ChunkId, shift: u32, segments: &[Segment], before: u64) -> Error {
        let mut left = before;
        let sequences = self.index.info(id).sequences;
        for (i, segment) in segments.iter().enumerate() {
            if segment.errors <= left && i + 1 < segments.len() && segment.stop.is_none() {
                left -= segment.errors;
                continue;
            }
            let range = self.range(sequences, shift, i as u32);
            let failure = match self.element {
                ElementType::Double => self.find_error::<f64>(id, range, left),
                _ => self.find_error::<f32>(id, range, left),
            };
            if let Some(failure) = failure {
                return self.error_of(failure);
            }
        }
        self.hint();
        Error::data(limit_text(&self.rules)).in_file(&self.rules.file)
    }

    fn find_error<T: Scratched>(&self, id: ChunkId, sequences: Range<u32>, before: u64) -> Option<Failure> {
        let file = self.handle.get().ok()?;
        T::with_scratch(|scratch| {
            let mut report = Report::silent(&self.rules, before);
            let stop = self.parse_segment(&file, id, sequences, scratch, &mut report).ok()?.err();
            stop.map(|stop| *stop).filter(|stop| !stop.fatal)
        })
    }

    fn error_of(&self, failure: Failure) -> Error {
        self.hint();
        let Ok(file) = self.handle.get() else { return failure.into_error(&self.rules, None) };
        let line = file.line_at(failure.offset);
        let advice = advice::of_failure(&file, &self.rules, &failure);
        failure.into_error(&self.rules, line).with_detail(advice)
    }

    /// Logs CNTK's hint about hidden warnings, if warnings are not shown.
    fn hint(&self) {
        if !self.rules.log.shows(Level::Warning) {
            self.rules.log.write(
                Level::Error,
                "A number of warnings were generated while reading input data, to see them please set ‹trace_level› to \
                 a value greater or equal to 1.",
            );
        }
    }
}

/// Opens a file; a failure is reported in CNTK's words.
fn open_file(path: &str) -> Result<DataFile> {
    DataFile::open_or(path, |cause| {
        let error = Error::io("Opening failed for", path, cause);
        error.reworded(format!("Input file '{path}' is not open."))
    })
}

/// Returns the range from the first byte of one sequence to the last byte of another.
fn byte_range(
    mut first: impl Iterator<Item = SequenceSpan>,
    mut last: impl Iterator<Item = SequenceSpan>,
) -> Range<u64> {
    let start = first.next().map_or(0, |span| span.offset);
    let end = last.next().map_or(start, |span| span.offset + u64::from(span.size));
    start..end.max(start)
}
