//! Index of a text file: where each sequence lies, how long it is, which key it has, and how chunks are cut.
//!
//! `start` looks at the start of the file and decides between the two modes, `lines` and `ids`. `scan` runs
//! their scanners over ranges of the file in parallel, their joiners put the pieces together, and `table` cuts
//! chunks and stores what comes out. `cache` keeps it beside the data; `lookup` answers where a key is.
//!
//! An index is made whole, or part after part while its file is read (`growth`); `parts` is what is known of it.

mod breaks;
mod cache;
#[cfg(test)]
mod cache_tests;
mod growth;
#[cfg(test)]
mod growth_tests;
mod ids;
mod indexer;
mod keys;
mod lines;
mod lookup;
mod main_stream;
mod number;
mod parts;
mod repeats;
mod scan;
mod source;
mod start;
mod table;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod twin;
mod warnings;

use crate::Result;
use crate::corpus::Corpus;
use crate::deserialize::{ChunkInfo, Known, Lengths};
use crate::file::DataFile;
use crate::log::Logger;
use crate::pool::Pool;
use crate::sequence::{ChunkId, SequenceId, SequenceKey};
use growth::Growth;
use indexer::Scan;
use main_stream::Needle;
use parts::Parts;
use scan::Cut;
use source::Source;
use start::Start;
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, OnceLock};
use std::time::Instant;
use table::{Place, Table};

/// What an index depends on, beside the file.
#[derive(Debug, Clone)]
pub struct IndexOptions {
    /// Name in the file of the stream that defines the minibatch size.
    pub main_stream: Option<String>,
    /// Take every line as a sequence.
    pub skip_sequence_ids: bool,
    /// Limit for the bytes of a chunk.
    pub chunk_size: u64,
    /// Read and write the index cache.
    pub cache: bool,
    /// What is logged.
    pub trace_level: u32,
}

/// One sequence of the index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SequenceSpan {
    /// Its key.
    pub key: SequenceKey,
    /// Declared length.
    pub samples: u32,
    /// Offset of its first byte in the file.
    pub offset: u64,
    /// Its bytes.
    pub size: u32,
}

/// The index.
pub struct Index {
    parts: Arc<Parts>,
    /// Finds the parts behind those; `None` if all were known from the start.
    growth: Option<Growth>,
    /// The chunks of all parts, once they were asked for and if there are several parts.
    chunks: OnceLock<Vec<ChunkInfo>>,
    fingerprint: OnceLock<u64>,
}

impl Index {
    /// Loads the index from its cache, or builds it from the file (in parallel ranges, on the threads of the current
    /// rayon pool) and writes the cache if that is asked for. When it returns, the cache is in place or a warning
    /// says why it is not.
    pub fn open(file: &DataFile, options: &IndexOptions, corpus: &Corpus) -> Result<Index> {
        Self::open_cut(file, options, corpus, Cut::default()).map_err(|error| error.in_file(file.path()))
    }

    /// Builds the start of the index from the file, at least one chunk if there is one; all the rest in the background
    /// when [`Index::chunk`] gets near it. What is wrong with the rest is known only then. Small files, and those
    /// whose index is to be kept in a cache, are indexed at once.
    pub fn open_growing(
        file: &DataFile,
        options: &IndexOptions,
        corpus: &Arc<Corpus>,
        pool: &Pool,
    ) -> Result<Index> {
        Self::open_in_steps(file, options, corpus, pool, growth::STEP)
    }

    /// The same with another size of steps.
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
        let growth = Growth::begin(file, options, corpus, pool, step);
        let growth = growth.map_err(|error| error.in_file(file.path()))?;
        Ok(Self::of(Arc::clone(growth.parts()), Some(growth)))
    }

    fn open_cut(file: &DataFile, options: &IndexOptions, corpus: &Corpus, cut: Cut) -> Result<Index> {
        let begun = Instant::now();
        let log = Logger { trace_level: options.trace_level };
        let source = Source::new(file)?;
        let start = Start::read(&source, options.skip_sequence_ids, corpus)?;
        warnings::of_ignored_ids(&source, options, start, &log)?;
        let needle = options.main_stream.as_deref().map(Needle::new);
        let scan = Scan { source: &source, corpus, main_stream: needle.as_ref(), cut };
        let cache = cache::Cache::beside(file, options, corpus);
        let cached = match &cache {
            Some(cache) => cache.load(&scan, &start, options.chunk_size, &log)?,
            None => None,
        };
        let origin = if cached.is_some() { ", from its cache" } else { "" };
        let table = match cached {
            Some(table) => table,
            None => {
                let table = scan.table(start, source.size(), options.chunk_size)?;
                if let Some(cache) = cache.filter(|_| cache::is_writer()) {
                    cache.write(&source, &table, &log);
                }
                table
            }
        };
        let index = Self::of(Arc::new(Parts::whole(table)), None);
        index.parts.announce(&log, file.path(), origin, begun.elapsed());
        warnings::of_repeats(file, corpus, &index.parts, &log);
        Ok(index)
    }

    fn of(parts: Arc<Parts>, growth: Option<Growth>) -> Index {
        Index { parts, growth, chunks: OnceLock::new(), fingerprint: OnceLock::new() }
    }

    /// All chunks. Waits until they are known; if the file turns out to be wrong somewhere, those before.
    pub fn chunks(&self) -> &[ChunkInfo] {
        match &self.growth {
            None => self.parts.iter().next().map_or(&[], |part| &part.table.chunks),
            Some(growth) => self.chunks.get_or_init(|| {
                // The failure is told by whoever asks for what lies behind it.
                let _ = growth.wait_for_all();
                self.parts.iter().flat_map(|part| part.table.chunks.iter().copied()).collect()
            }),
        }
    }

    /// A chunk; `None` behind the last one. Waits until that is known, so not on a thread of the pool.
    pub fn chunk(&self, chunk: ChunkId) -> Result<Option<ChunkInfo>> {
        match &self.growth {
            None => Ok(self.parts.find(chunk).map(|(part, chunk)| part.table.chunks[chunk])),
            Some(growth) => growth.chunk(chunk),
        }
    }

    /// What is known without waiting.
    pub fn known(&self) -> Known {
        match &self.growth {
            None => Known { chunks: self.chunks().len(), all: true },
            Some(growth) => growth.known(),
        }
    }

    /// Whether it was not known as a whole from the start.
    pub fn grows(&self) -> bool {
        self.growth.is_some()
    }

    /// Nobody needs what is not known yet: whoever waits for it gets an error.
    pub fn abandon(&self) {
        if let Some(growth) = &self.growth {
            growth.abandon();
        }
    }

    /// The part that a chunk is in, and its place there. Chunks that were never told of are the caller's mistake.
    fn place(&self, chunk: ChunkId) -> (&Table, usize, &Place) {
        let Some((part, chunk)) = self.parts.find(chunk) else { panic!("There is no chunk {chunk}.") };
        (&part.table, chunk, &part.table.places[chunk])
    }

    /// Size of a chunk that is known.
    pub fn info(&self, chunk: ChunkId) -> ChunkInfo {
        let (table, chunk, _) = self.place(chunk);
        table.chunks[chunk]
    }

    /// Declared lengths of a chunk's sequences.
    pub fn lengths(&self, chunk: ChunkId) -> Lengths<'_> {
        let (table, chunk, _) = self.place(chunk);
        if table.samples.is_empty() {
            return Lengths::Ones;
        }
        Lengths::Each(&table.samples[table.positions(chunk)])
    }

    /// The sequences of a chunk with these indexes, in file order. Each takes the same time, wherever the indexes start.
    pub fn spans(
        &self,
        chunk: ChunkId,
        indexes: Range<u32>,
    ) -> impl ExactSizeIterator<Item = SequenceSpan> + DoubleEndedIterator + '_ {
        let (table, chunk, place) = self.place(chunk);
        let end = table.positions(chunk).end;
        indexes.map(move |index| table.span(place.first + index as usize, place, end))
    }

    /// Appends the keys of sequences.
    pub fn keys(&self, sequences: &[SequenceId], keys: &mut Vec<SequenceKey>) {
        for run in sequences.chunk_by(|one, next| one.chunk == next.chunk) {
            let (table, _, place) = self.place(run[0].chunk);
            keys.extend(run.iter().map(|one| table.keys.get(place.first + one.index as usize, place)));
        }
    }

    /// The sequence that CNTK finds for this key. An index that grows is no secondary deserializer's: nothing is looked
    /// up there but by tests, and of equal keys it gives one of the first part that has any.
    pub fn find(&self, key: SequenceKey) -> Option<SequenceId> {
        self.chunks();
        self.parts.iter().find_map(|part| part.find_key(key))
    }

    /// 64-bit hash of chunk table, lengths and keys.
    pub fn fingerprint(&self) -> u64 {
        let chunks = self.chunks().len();
        *self.fingerprint.get_or_init(|| self.parts.fingerprint(chunks))
    }

    /// The same of the first chunks, as if there were no others; they must be known.
    pub fn fingerprint_of(&self, chunks: usize) -> u64 {
        self.parts.fingerprint(chunks)
    }

    /// Bytes of memory that the index takes.
    pub fn memory(&self) -> usize {
        self.parts.bytes()
    }
}

impl fmt::Debug for Index {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Index").field("known", &self.known()).finish_non_exhaustive()
    }
}
