//! Indexing of a file from front to back, at once or in steps of any size.

use super::ids::{IdJoiner, IdScanner};
use super::lines::{LineJoiner, LineScanner};
use super::main_stream::Needle;
use super::scan::{self, Cut};
use super::source::SourceFile;
use super::start::{LINE_UNKNOWN, Start};
use super::table::{IndexTable, TableBuilder};
use cntk_reader_core::Result;
use cntk_reader_core::corpus::Corpus;
use std::ops::Range;

/// Parameters of a scan.
pub(super) struct Scan<'a> {
    pub source: &'a SourceFile<'a>,
    pub corpus: &'a Corpus,
    pub main_stream: Option<&'a Needle>,
    pub cut: Cut,
}

impl Scan<'_> {
    /// Indexes the file from `start` to `end`; each is the start of a sequence, or the end of the
    /// file.
    pub fn table(&self, start: Start, end: u64, chunk_size: u64) -> Result<IndexTable> {
        let mut indexer = Indexer::new(start, end, chunk_size);
        indexer.advance(self, end)?;
        Ok(indexer.finish())
    }
}

/// A table that is being built, and the scanned extent of its file.
pub(super) struct Indexer {
    joiner: Joiner,
    builder: TableBuilder,
    start: Start,
    chunk_size: u64,
    extent: Range<u64>,
    /// Lines that start before this have been scanned.
    at: u64,
}

enum Joiner {
    Lines(LineJoiner),
    Ids(IdJoiner),
}

impl Indexer {
    /// Begins at `start`; `end` is the end of the file, or the start of the first sequence to leave
    /// out.
    pub fn new(start: Start, end: u64, chunk_size: u64) -> Self {
        let joiner = if start.by_line {
            Joiner::Lines(LineJoiner::new(&start))
        } else {
            Joiner::Ids(IdJoiner::new(&start))
        };
        let builder = TableBuilder::new(chunk_size, start.by_line);
        Indexer { joiner, builder, start, chunk_size, extent: start.content..end, at: start.content }
    }

    /// Returns an indexer with the same results, which starts again at the first chunk that
    /// [`Indexer::take_complete`] has not removed; for use after a failure.
    pub fn restarted(&self) -> Indexer {
        let mut start = self.start;
        if let Some((key, offset)) = self.builder.first() {
            // Keys of lines are their numbers. The line number of an id is not known, and messages
            // do without it.
            start = Start { content: offset, line: if start.by_line { key } else { LINE_UNKNOWN }, ..start };
        }
        let mut restarted = Indexer::new(start, self.extent.end, self.chunk_size);
        restarted.builder.continue_after(&self.builder);
        restarted
    }

    /// Returns the offset up to which the file is scanned.
    pub fn at(&self) -> u64 {
        self.at
    }

    /// Whether the whole file is scanned.
    pub fn is_done(&self) -> bool {
        self.at == self.extent.end
    }

    /// Scans the lines that start before `to`.
    pub fn advance(&mut self, scan: &Scan<'_>, to: u64) -> Result<()> {
        let Scan { source, corpus, main_stream, cut } = *scan;
        let Indexer { joiner, builder, extent, at, .. } = self;
        let part = *at..to.min(extent.end);
        *at = part.end;
        match joiner {
            Joiner::Lines(joiner) => {
                let scanner = || LineScanner::new(main_stream);
                scan::scan(source, extent.clone(), part, cut, scanner, |piece| joiner.take(piece, builder))?;
                if *at == extent.end {
                    joiner.finish(*at, builder)?;
                }
            }
            Joiner::Ids(joiner) => {
                let scanner = || IdScanner::new(corpus, main_stream);
                scan::scan(source, extent.clone(), part, cut, scanner, |piece| joiner.take(piece, builder))?;
                if *at == extent.end {
                    joiner.finish(*at, builder)?;
                }
            }
        }
        Ok(())
    }

    /// Removes and returns the complete chunks: all but the last one.
    pub fn take_complete(&mut self) -> Result<IndexTable> {
        self.builder.take_complete()
    }

    /// Returns the chunks that [`Indexer::take_complete`] has not removed.
    pub fn finish(self) -> IndexTable {
        self.builder.finish()
    }
}
