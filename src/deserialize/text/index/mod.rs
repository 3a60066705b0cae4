//! Index of a text file: where each sequence lies, how long it is, which key it has, and how chunks are cut.
//!
//! `start` looks at the start of the file and decides between the two modes, `lines` and `ids`. `scan` runs
//! their scanners over ranges of the file in parallel, their joiners put the pieces together, and `table` cuts
//! chunks and stores what comes out. `cache` keeps it beside the data; `lookup` answers where a key is.

mod cache;
#[cfg(test)]
mod cache_tests;
mod ids;
mod keys;
mod lines;
mod lookup;
mod main_stream;
mod number;
mod read;
mod scan;
mod start;
mod table;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod twin;

use crate::Result;
use crate::corpus::Corpus;
use crate::deserialize::{ChunkInfo, Lengths};
use crate::log::{Level, Logger};
use crate::sequence::{ChunkId, SequenceId, SequenceKey};
use ids::{IdJoiner, IdScanner};
use lines::{LineJoiner, LineScanner};
use main_stream::Needle;
use read::Source;
use scan::Cut;
use start::Start;
use std::fs::File;
use std::ops::Range;
use std::sync::OnceLock;
use std::time::Instant;
use table::{Builder, Table};

/// What an index depends on, beside the file.
#[derive(Debug, Clone)]
pub struct IndexOptions {
    /// Path of the file, for messages and for the cache beside it.
    pub file: String,
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
#[derive(Debug, Default)]
pub struct Index {
    table: Table,
    /// Positions in the order of their keys, made when a key is first looked for and keys are in no order.
    sorted: OnceLock<lookup::Sorted>,
    fingerprint: OnceLock<u64>,
}

impl Index {
    /// Loads the index from its cache, or builds it from the file (in parallel ranges, on the threads of the current
    /// rayon pool) and writes the cache if that is asked for. When it returns, the cache is in place or a warning
    /// says why it is not.
    pub fn open(file: &File, options: &IndexOptions, corpus: &Corpus) -> Result<Index> {
        Self::open_cut(file, options, corpus, Cut::default()).map_err(|error| error.in_file(&options.file))
    }

    fn open_cut(file: &File, options: &IndexOptions, corpus: &Corpus, cut: Cut) -> Result<Index> {
        let begun = Instant::now();
        let log = Logger { trace_level: options.trace_level };
        let source = Source::new(file, &options.file)?;
        let start = Start::read(&source, options.skip_sequence_ids, corpus)?;
        let needle = options.main_stream.as_deref().map(Needle::new);
        let scan = Scan { source: &source, corpus, main_stream: needle.as_ref(), cut };
        let cache = cache::Cache::beside(options, corpus);
        let cached = match &cache {
            Some(cache) => cache.load(&scan, &start, options.chunk_size, &log)?,
            None => None,
        };
        let origin = if cached.is_some() { ", from its cache" } else { "" };
        let table = match cached {
            Some(table) => table,
            None => {
                let table = scan.table(start, source.size, options.chunk_size)?;
                if let Some(cache) = cache.filter(|_| cache::is_writer()) {
                    cache.write(&source, &table, &log);
                }
                table
            }
        };
        if log.shows(Level::Info) {
            log.write(
                Level::Info,
                &format!(
                    "Indexed '{}'{origin}: {} sequences in {} chunks, {} ms, {} bytes of memory.",
                    options.file,
                    table.len(),
                    table.chunks.len(),
                    begun.elapsed().as_millis(),
                    table.bytes()
                ),
            );
        }
        Ok(Index { table, ..Index::default() })
    }

    /// The chunks.
    pub fn chunks(&self) -> &[ChunkInfo] {
        &self.table.chunks
    }

    /// Where a chunk's bytes are in the file, from its first sequence to its last with the gaps between them.
    pub fn extent(&self, chunk: ChunkId) -> Range<u64> {
        let place = &self.table.places[chunk as usize];
        place.offset..place.end
    }

    /// Declared lengths of a chunk's sequences.
    pub fn lengths(&self, chunk: ChunkId) -> Lengths<'_> {
        if self.table.samples.is_empty() {
            return Lengths::Ones;
        }
        Lengths::Each(&self.table.samples[self.table.positions(chunk as usize)])
    }

    /// The sequences of a chunk with these indexes, in file order. Each takes the same time, wherever the indexes start.
    pub fn spans(
        &self,
        chunk: ChunkId,
        indexes: Range<u32>,
    ) -> impl ExactSizeIterator<Item = SequenceSpan> + DoubleEndedIterator + '_ {
        let place = &self.table.places[chunk as usize];
        let end = self.table.positions(chunk as usize).end;
        indexes.map(move |index| self.table.span(place.first + index as usize, place, end))
    }

    /// Key of a sequence.
    pub fn key(&self, sequence: SequenceId) -> SequenceKey {
        let place = &self.table.places[sequence.chunk as usize];
        self.table.keys.get(place.first + sequence.index as usize, place)
    }

    /// The sequence that CNTK finds for this key.
    pub fn find(&self, key: SequenceKey) -> Option<SequenceId> {
        self.table.find(key, &self.sorted)
    }

    /// 64-bit hash of chunk table, lengths and keys.
    pub fn fingerprint(&self) -> u64 {
        *self.fingerprint.get_or_init(|| self.table.fingerprint())
    }

    /// Bytes of memory that the index takes.
    pub fn memory(&self) -> usize {
        self.table.bytes() + self.sorted.get().map_or(0, lookup::Sorted::bytes)
    }
}

/// Everything that scanning depends on.
struct Scan<'a> {
    source: &'a Source<'a>,
    corpus: &'a Corpus,
    main_stream: Option<&'a Needle>,
    cut: Cut,
}

impl Scan<'_> {
    /// Indexes the file from `start` to `end`, both at the start of a sequence or at the end of the file.
    fn table(&self, start: Start, end: u64, chunk_size: u64) -> Result<Table> {
        let Scan { source, corpus, main_stream, cut } = *self;
        let mut builder = Builder::new(chunk_size, start.by_line);
        let extent = start.content..end;
        if start.by_line {
            let mut joiner = LineJoiner::new(&start);
            let scanner = || LineScanner::new(main_stream);
            scan::scan(source, extent, cut, scanner, |piece| joiner.take(piece, &mut builder))?;
            joiner.finish(end, &mut builder)?;
        } else {
            let mut joiner = IdJoiner::new(&start);
            let scanner = || IdScanner::new(corpus, main_stream);
            scan::scan(source, extent, cut, scanner, |piece| joiner.take(piece, &mut builder))?;
            joiner.finish(end, &mut builder)?;
        }
        Ok(builder.finish())
    }
}
