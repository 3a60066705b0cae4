//! Index of a text file: the place, length and key of each sequence, and how sequences are grouped
//! into chunks.
//!
//! `start` reads the start of the file and decides between two modes, `lines` and `ids`. `scan`
//! runs the scanners of a mode over ranges of the file in parallel, the joiners of that mode
//! combine their results, and `table` forms chunks and stores the sequences. `cache` keeps the
//! index in a file beside the data; `lookup` finds keys; `repeats` and `warnings` find input that
//! is legal but probably a mistake.
//!
//! An index is built at once, or part by part while its file is read (`incremental`); `parts` has
//! the parts built so far.

mod breaks;
pub mod brief;
mod cache;
#[cfg(test)]
mod cache_tests;
pub mod faults;
mod ids;
mod incremental;
#[cfg(test)]
mod incremental_tests;
mod indexer;
mod kept;
mod keys;
mod known_id;
mod lines;
mod lookup;
mod main_stream;
mod number;
mod parts;
#[cfg(test)]
mod reference;
mod repeats;
mod scan;
mod source;
mod start;
mod table;
#[cfg(test)]
mod table_tests;
#[cfg(test)]
mod tests;
mod warnings;

pub use cache::CacheState;
pub use kept::{IndexCache, IndexSize};
pub use start::LACKS_KEYS;
pub(super) use start::is_space;

use crate::ctf::TextOptions;
use cntk_reader_core::corpus::Corpus;
use cntk_reader_core::file::DataFile;
use cntk_reader_core::format::handle::FileHandle;
use cntk_reader_core::format::{ChunkInfo, IncrementalTable, Lengths};
use cntk_reader_core::option::release::Quirks;
use cntk_reader_core::runtime::log::Logger;
use cntk_reader_core::runtime::pool::Pool;
use cntk_reader_core::sequence::{ChunkId, SequenceId, SequenceKey};
use cntk_reader_core::{Error, Result};
use incremental::IncrementalIndex;
use indexer::Scan;
use main_stream::Needle;
use number::Digits;
use parts::{IndexPart, IndexParts};
use scan::Cut;
use source::SourceFile;
use start::Start;
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, OnceLock};
use std::time::Instant;
use table::{ChunkSpan, IndexTable};

/// Options of an index.
#[derive(Debug, Clone)]
pub struct IndexOptions {
    /// Name in the file of the stream that defines the minibatch size.
    pub main_stream: Option<String>,
    /// Whether every line is a sequence, whatever its id.
    pub skip_sequence_ids: bool,
    /// Maximum bytes of a chunk; a longer sequence forms a separate chunk.
    pub chunk_size: u64,
    /// Whether the index cache is read and written.
    pub cache: bool,
    /// Log, with its level.
    pub log: Logger,
    /// Exclusive upper bound of the keys.
    pub key_limit: Option<SequenceKey>,
    /// Whether to warn about keys that several sequences share.
    pub warns_of_repeats: bool,
    /// Quirks of the CNTK release that the reader stands in for.
    pub quirks: Quirks,
}

impl IndexOptions {
    /// Returns the options of the index in those of a deserializer.
    pub fn of(options: &TextOptions) -> IndexOptions {
        let main_stream = options.streams.iter().find(|stream| stream.defines_mb_size);
        IndexOptions {
            main_stream: main_stream.map(|stream| stream.alias.clone()),
            skip_sequence_ids: options.skip_sequence_ids,
            chunk_size: options.chunk_size,
            cache: options.cache_index,
            log: options.log,
            key_limit: None,
            warns_of_repeats: true,
            quirks: options.quirks,
        }
    }
}

/// One sequence of the index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SequenceSpan {
    /// Its key.
    pub key: SequenceKey,
    /// Declared length, in samples.
    pub samples: u32,
    /// Offset of its first byte in the file.
    pub offset: u64,
    /// Size in bytes.
    pub size: u32,
}

/// The index.
pub struct Index {
    parts: Arc<IndexParts>,
    /// Adds further parts; `None` if the index was built at once.
    incremental: Option<IncrementalIndex>,
    /// Whether every line is a sequence; otherwise lines begin with ids.
    by_line: bool,
    /// Path of the cache that the index was loaded from, if the cache may belong to other data,
    /// which ids would reveal.
    doubtful_cache: Option<String>,
    /// The chunks of all parts. Filled when first requested, unless the index was built at once.
    chunks: OnceLock<Vec<ChunkInfo>>,
    /// The chunks that were known when a call that waited for all of them was cancelled or failed
    /// temporarily. The result of such a call is discarded, and must not affect later calls.
    cut_off: OnceLock<Vec<ChunkInfo>>,
    fingerprint: OnceLock<u64>,
}

impl Index {
    /// Loads the index from its cache, or builds it from the file in parallel ranges on the threads
    /// of the current rayon pool, and writes the cache if that is wanted. When this returns, the
    /// cache is complete, or a warning has said why not.
    pub fn open(file: &DataFile, options: &IndexOptions, corpus: &Corpus) -> Result<Index> {
        let index = Self::open_cut(file, options, corpus, Cut::default());
        file.if_unchanged(index).map_err(|error| error.in_file(file.path()))
    }

    /// Builds the start of the index from the file: at least one chunk, if there is one. The rest
    /// is built in the background as `ChunkTableExt::chunk` gets close to it, and errors in the
    /// rest of the file are found only then. Small files, and files with an index cache, are
    /// indexed at once.
    pub(crate) fn open_incremental(
        file: &DataFile,
        options: &IndexOptions,
        corpus: &Arc<Corpus>,
        pool: &Pool,
    ) -> Result<Index> {
        Self::open_in_steps(file, options, corpus, pool, incremental::STEP)
    }

    /// Like [`Index::open_incremental`], with steps of `step` bytes.
    pub(super) fn open_in_steps(
        file: &DataFile,
        options: &IndexOptions,
        corpus: &Arc<Corpus>,
        pool: &Pool,
        step: u64,
    ) -> Result<Index> {
        let size = file.size()?;
        if options.cache || size <= step {
            return Self::open(file, options, corpus);
        }
        let incremental = IncrementalIndex::begin(file, options, corpus, pool, step);
        let incremental = incremental.map_err(|error| error.in_file(file.path()))?;
        let by_line = incremental.is_by_line();
        Ok(Self::of(Arc::clone(incremental.parts()), by_line, Some(incremental)))
    }

    fn open_cut(file: &DataFile, options: &IndexOptions, corpus: &Corpus, cut: Cut) -> Result<Index> {
        let begun = Instant::now();
        let log = options.log;
        let source = SourceFile::new(file)?;
        let start = Start::read(&source, options, corpus)?;
        warnings::of_ignored_ids(&source, options, start, &log)?;
        let needle = options.main_stream.as_deref().map(Needle::new);
        let scan = Scan { source: &source, corpus, main_stream: needle.as_ref(), cut };
        let cache = cache::Cache::beside(file, options, corpus);
        let cached = match &cache {
            Some(cache) => cache.load(&scan, &start, options.chunk_size, &log)?,
            None => None,
        };
        let origin = if cached.is_some() { ", from its cache" } else { "" };
        let mut doubtful_cache = None;
        let mut table = match cached {
            Some((table, knows_data)) => {
                let shows_ids = !start.by_line && corpus.is_numeric();
                doubtful_cache =
                    cache.filter(|_| shows_ids && !knows_data).map(|cache| cache.path().to_owned());
                table
            }
            None => {
                let table = scan.table(start, source.size(), options.chunk_size)?;
                if let Some(cache) = cache.filter(|_| cntk_reader_core::format::index_cache::is_writer()) {
                    cache.write(&source, &table, &log);
                }
                table
            }
        };
        table.finds_first = options.quirks.keeps_repeated_keys;
        table.check_keys(file, options.key_limit)?;
        let index = Self::of(Arc::new(IndexParts::whole(table)), start.by_line, None);
        let index = Index { doubtful_cache, ..index };
        index.parts.announce(&log, file.path(), origin, begun.elapsed());
        if options.warns_of_repeats {
            warnings::of_repeats(&[(&FileHandle::Open(file.clone()), &index.parts)], corpus, &log);
        }
        Ok(index)
    }

    fn of(parts: Arc<IndexParts>, by_line: bool, incremental: Option<IncrementalIndex>) -> Index {
        let (chunks, fingerprint) = Default::default();
        Index {
            parts,
            incremental,
            by_line,
            doubtful_cache: None,
            chunks,
            cut_off: OnceLock::new(),
            fingerprint,
        }
    }

    /// Whether [`Index::check_ids`] compares anything.
    pub(crate) fn is_doubtful(&self) -> bool {
        self.doubtful_cache.is_some()
    }

    /// Fails if sequences do not begin with their ids in `text`, whose first byte has the offset
    /// `base` in the file. Nothing is compared if the index was built from the file, or came from a
    /// cache that records the state of its data.
    pub(crate) fn check_ids(
        &self,
        spans: impl Iterator<Item = SequenceSpan>,
        text: &[u8],
        base: u64,
    ) -> Result<()> {
        let Some(cache) = &self.doubtful_cache else { return Ok(()) };
        for span in spans {
            let id = span.offset.checked_sub(base).and_then(|at| text.get(at as usize..));
            let found = id.and_then(|id| Digits::read(id).value);
            if found != Some(span.key) {
                let message = format!("The index cache '{cache}' does not fit its file.");
                let found = found.map_or_else(String::new, |found| format!(" and begins with {found} there"));
                let detail = format!(
                    "It says that sequence {} begins at this offset{found}. The file was replaced after the cache was written: \
                     delete the cache; it will be written again.",
                    span.key
                );
                let key = span.key.to_string();
                return Err(Error::data(message).with_detail(detail).at(span.offset, None).for_key(key));
            }
        }
        Ok(())
    }

    /// Whether every line is a sequence whose key is its line number; otherwise lines begin with
    /// ids.
    pub(crate) fn is_by_line(&self) -> bool {
        self.by_line
    }

    /// Returns the number of lines of a file whose keys are line numbers. The index must be
    /// complete.
    pub(crate) fn lines(&self, file: &DataFile) -> Result<u64> {
        let last = self.chunks().len().checked_sub(1).map(|last| last as ChunkId);
        let last = last.and_then(|last| self.spans(last, 0..self.info(last).sequences).next_back());
        let (lines, end) = last.map_or((0, 0), |last| (last.key + 1, last.offset + u64::from(last.size)));
        Ok(lines + lines::count(file, end)?)
    }

    /// Returns all chunks, waiting until they are indexed. If the file is malformed, these are the
    /// chunks before the error.
    pub fn chunks(&self) -> &[ChunkInfo] {
        match &self.incremental {
            None => self.parts.iter().next().map_or(&[], |part| &part.table.chunks),
            Some(incremental) => {
                if let Some(chunks) = self.chunks.get() {
                    return chunks;
                }
                let known = || self.parts.iter().flat_map(|part| part.table.chunks.iter().copied()).collect();
                // Not inside `get_or_init`: the caller may ask while a prefetching thread waits
                // here. An error is reported by `wait_for`, to the caller that asks for the first
                // chunk after it.
                match incremental.wait_for_all() {
                    Err(error) if error.is_of_one_call() => self.cut_off.get_or_init(known),
                    _ => self.chunks.get_or_init(known),
                }
            }
        }
    }

    /// Returns the interface for an index that is extended while the file is read, if it is one.
    pub(crate) fn incremental(&self) -> Option<&dyn IncrementalTable> {
        self.incremental.as_ref().map(|index| index as &dyn IncrementalTable)
    }

    /// Returns the table of a chunk, the chunk's number there, and its span.
    ///
    /// # Panics
    ///
    /// If the chunk is not indexed: callers only name chunks that the index has returned.
    fn locate(&self, chunk: ChunkId) -> (&IndexTable, usize, &ChunkSpan) {
        let Some((part, chunk)) = self.parts.find(chunk) else { panic!("There is no chunk {chunk}.") };
        (&part.table, chunk, &part.table.chunk_spans[chunk])
    }

    /// Returns the numbers of samples and sequences of an indexed chunk.
    pub fn info(&self, chunk: ChunkId) -> ChunkInfo {
        let (table, chunk, _) = self.locate(chunk);
        table.chunks[chunk]
    }

    /// Returns the declared lengths of a chunk's sequences.
    pub(crate) fn lengths(&self, chunk: ChunkId) -> Lengths<'_> {
        let (table, chunk, _) = self.locate(chunk);
        if table.samples.is_empty() {
            return Lengths::Ones;
        }
        Lengths::Each(&table.samples[table.positions(chunk)])
    }

    /// Returns the sequences of a chunk with these indexes, in file order. Takes constant time to
    /// reach the first one.
    pub fn spans(
        &self,
        chunk: ChunkId,
        indexes: Range<u32>,
    ) -> impl ExactSizeIterator<Item = SequenceSpan> + DoubleEndedIterator + '_ {
        let (table, chunk, chunk_span) = self.locate(chunk);
        let end = table.positions(chunk).end;
        indexes.map(move |index| table.span(chunk_span.first + index as usize, chunk_span, end))
    }

    /// Appends the keys of sequences.
    pub fn keys(&self, sequences: &[SequenceId], keys: &mut Vec<SequenceKey>) {
        for run in sequences.chunk_by(|one, next| one.chunk == next.chunk) {
            let (table, _, chunk_span) = self.locate(run[0].chunk);
            keys.extend(
                run.iter().map(|one| table.keys.get(chunk_span.first + one.index as usize, chunk_span)),
            );
        }
    }

    /// Sorts the keys for [`Index::find`].
    pub fn prepare_to_find(&self) -> Result<()> {
        self.chunks();
        self.parts.iter().try_for_each(IndexPart::prepare_to_find)
    }

    /// Returns the sequence that CNTK finds for this key. Keys are looked up in secondary
    /// deserializers, whose index is built at once. In an incremental index, this finds a sequence
    /// of the first part that has the key.
    pub fn find(&self, key: SequenceKey) -> Option<SequenceId> {
        self.chunks();
        self.parts.iter().find_map(|part| part.find_key(key))
    }

    /// Returns a 64-bit hash of chunk table, lengths and keys.
    pub fn fingerprint(&self) -> u64 {
        let chunks = self.chunks().len();
        let of_all = || self.parts.fingerprint(chunks);
        // Not cached for the chunks known to a failed call.
        let is_known = self.incremental.is_none() || self.chunks.get().is_some();
        if is_known { *self.fingerprint.get_or_init(of_all) } else { of_all() }
    }

    /// Returns the [fingerprint](Index::fingerprint) of the first `chunks` chunks, as if the file
    /// had no others. They must be indexed.
    pub(crate) fn fingerprint_of(&self, chunks: usize) -> u64 {
        self.parts.fingerprint(chunks)
    }

    /// Returns the end of the last sequence of the first `chunks` chunks, which must be indexed.
    pub(crate) fn end_of(&self, chunks: usize) -> u64 {
        let Some(last) = chunks.checked_sub(1) else { return 0 };
        let sequences = self.info(last as ChunkId).sequences;
        let span = self.spans(last as ChunkId, sequences.saturating_sub(1)..sequences).next();
        span.map_or(0, |span| span.offset + u64::from(span.size))
    }

    /// Memory in bytes.
    pub fn memory(&self) -> usize {
        self.parts.bytes()
    }
}

/// Warns if several sequences of some files have the same key.
pub(crate) fn warn_of_repeats(files: &[(&FileHandle, &Index)], corpus: &Corpus, log: &Logger) {
    let files: Vec<_> = files.iter().map(|(file, index)| (*file, &*index.parts)).collect();
    warnings::of_repeats(&files, corpus, log);
}

impl fmt::Debug for Index {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Index")
            .field("progress", &self.incremental().map(IncrementalTable::progress))
            .finish_non_exhaustive()
    }
}
