//! The index cache: CNTK's file beside the data. A cache is used only if it fits the data;
//! otherwise it is written again.
//!
//! CNTK trusts any cache that is not older than its data. Here a cache must also fit the data, or
//! the index is rebuilt:
//! - records ascend, do not overlap, lie inside the file, and have bytes and samples;
//! - without a main stream they cover the file from its first sequence to its end, without gaps;
//! - in line mode keys are line numbers: they count up, and skip lines exactly where bytes were
//!   left out;
//! - with a main stream, the text before the first record and after the last one is scanned again
//!   together with these two records, and must yield exactly these;
//! - some records in between must start a line, with their id;
//! - the data has the size and the modification time that the cache records.
//!
//! Size and modification time are in a record that this library adds after CNTK's, see
//! [`index_cache`]. Caches written by CNTK lack it; for these the ids of all sequences are compared
//! when chunks are loaded ([`super::Index::check_ids`]). One case goes undetected: a file without
//! ids that, at the same size, was replaced by an older one, or changed inside in the very second
//! in which CNTK indexed it.

use super::IndexOptions;
use super::indexer::Scan;
use super::number::Digits;
use super::source::SourceFile;
use super::start::Start;
use super::table::{IndexTable, Record, TableBuilder};
use cntk_reader_core::corpus::Corpus;
use cntk_reader_core::file::{DataFile, FileState};
use cntk_reader_core::format::index_cache;
pub(super) use cntk_reader_core::format::index_cache::{HEADER, RECORD, words};
use cntk_reader_core::memory::room;
use cntk_reader_core::runtime::cancel::Current;
use cntk_reader_core::runtime::log::{Level, Logger};
use cntk_reader_core::{ErrorKind, Result};
use std::fs::File;
use std::io::{self, Write};

/// Number of records read or written at once.
const BLOCK: usize = 16 << 10;
/// Number of records, spread over the file, that are compared with the file.
const PROBES: usize = 32;
/// Without a main stream, a first or last sequence with more bytes is not scanned again.
const LONGEST_SCANNED: u64 = 16 << 20;

/// The cache of a file.
pub(super) struct Cache {
    path: String,
}

/// A cache that is open.
pub(super) struct OpenCache {
    pub file: DataFile,
    /// Number of records.
    pub sequences: usize,
    /// Whether it records the state of its data, which is the present state.
    pub knows_data: bool,
}

/// Whether an index cache can be used.
///
/// [`IndexCache::state`](super::IndexCache::state) reads the whole cache to find out;
/// `InspectedMember::index_cache` reads only its header and the ends of the data, which takes no
/// time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum CacheState {
    /// The cache fits the data.
    Fits,
    /// There is no cache.
    Missing,
    /// The cache is older than the data.
    Outdated,
    /// The cache does not fit the data, for this reason.
    Unfit(&'static str),
}

/// Why a cache is not used, or an error unrelated to the cache.
pub(super) enum Refusal {
    Missing,
    Outdated,
    Unfit(&'static str),
    Failed(cntk_reader_core::Error),
}

pub(super) type Checked<T> = std::result::Result<T, Refusal>;

impl From<cntk_reader_core::Error> for Refusal {
    fn from(error: cntk_reader_core::Error) -> Self {
        Refusal::Failed(error)
    }
}

impl CacheState {
    /// Name of the state in results of programs: `fits`, `missing`, `outdated` or `unfit`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            CacheState::Fits => "fits",
            CacheState::Missing => "missing",
            CacheState::Outdated => "outdated",
            CacheState::Unfit(_) => "unfit",
        }
    }

    /// Returns the state of a cache from the result of checking it.
    pub(super) fn of<T>(checked: Checked<T>) -> Result<CacheState> {
        match checked {
            Ok(_) => Ok(CacheState::Fits),
            Err(Refusal::Missing) => Ok(CacheState::Missing),
            Err(Refusal::Outdated) => Ok(CacheState::Outdated),
            Err(Refusal::Unfit(reason)) => Ok(CacheState::Unfit(reason)),
            Err(Refusal::Failed(error)) => Err(error),
        }
    }
}

impl Cache {
    /// Returns the cache beside a file, if one is wanted. Symbolic keys have none, because their
    /// numbers differ between processes; nor has a file outside the file system. The cache of a
    /// compressed file has the offsets of the unpacked data.
    pub fn beside(file: &DataFile, options: &IndexOptions, corpus: &Corpus) -> Option<Cache> {
        if !options.cache || matches!(corpus, Corpus::Symbolic(_)) || !file.is_local() {
            return None;
        }
        let path = format!(
            "{}.{}.{}.{}.{}.v1.cache",
            file.path(),
            options.main_stream.as_deref().unwrap_or("_"),
            u8::from(options.skip_sequence_ids),
            u8::from(!corpus.is_numeric()),
            u8::from(corpus.is_hashed()),
        );
        Some(Cache { path })
    }

    /// Path of the cache, whether it exists or not.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Checks whether the cache can be used.
    pub fn state(&self, scan: &Scan<'_>, start: &Start) -> Result<CacheState> {
        CacheState::of(self.try_load(scan, start, u64::MAX))
    }

    /// Opens the cache if it is not older than its data, and checks its header and its record of
    /// the data.
    pub fn open(&self, source: &SourceFile<'_>) -> Checked<OpenCache> {
        let file = DataFile::open(&self.path).map_err(|_| Refusal::Missing)?;
        let state = file.state().map_err(|_| Refusal::Missing)?;
        // CNTK compares whole seconds.
        if state.modified.0 < source.state.modified.0 {
            return Err(Refusal::Outdated);
        }
        let sequences = index_cache::read_header(&file, state.size).map_err(Refusal::Unfit)?;
        let checked = index_cache::check_data(&file, state.size, sequences, &source.state);
        let knows_data = checked.map_err(Refusal::Unfit)?;
        Ok(OpenCache { file, sequences, knows_data })
    }

    /// Loads the cache; the second result says whether it records the state of its data. `None` if
    /// there is no cache that is fresh and fits.
    pub fn load(
        &self,
        scan: &Scan<'_>,
        start: &Start,
        chunk_size: u64,
        log: &Logger,
    ) -> Result<Option<(IndexTable, bool)>> {
        match self.try_load(scan, start, chunk_size) {
            Ok(table) => Ok(Some(table)),
            Err(Refusal::Missing | Refusal::Outdated) => Ok(None),
            Err(Refusal::Failed(error)) => Err(error),
            Err(Refusal::Unfit(reason)) => {
                log.write(Level::Warning, &format!("The index cache '{}' is not used: {reason}.", self.path));
                Ok(None)
            }
        }
    }

    fn try_load(&self, scan: &Scan<'_>, start: &Start, chunk_size: u64) -> Checked<(IndexTable, bool)> {
        let OpenCache { file, sequences, knows_data } = self.open(scan.source)?;
        let mut fit = CacheCheck::new(scan, start);
        let mut builder = TableBuilder::new(chunk_size, start.by_line);
        builder.reserve(sequences)?;
        // Reads the next block while checking the current one.
        let (mut now, mut later) = (Vec::new(), Vec::new());
        let mut read = 0;
        let call = Current::get();
        while builder.len() < sequences {
            let load = |block: &mut Vec<u8>| {
                room::resize(block, RECORD * BLOCK.min(sequences - read), 0, room::FILE)?;
                file.read_exact_at((HEADER + RECORD * read) as u64, block)
                    .map_err(|_| Refusal::Unfit("it cannot be read"))
            };
            let mut take =
                || now.as_chunks::<RECORD>().0.iter().try_for_each(|bytes| fit.take(bytes, &mut builder));
            let (taken, loaded) = if sequences > BLOCK {
                rayon::join(take, || call.within(|| load(&mut later)))
            } else {
                (take(), load(&mut later))
            };
            taken?;
            loaded?;
            read += later.len() / RECORD;
            std::mem::swap(&mut now, &mut later);
        }
        let table = builder.finish();
        fit.check_ends(&table)?;
        fit.probe(&table)?;
        Ok((table, knows_data))
    }

    /// Writes the cache, unless the file has changed while it was indexed. Failures are logged as
    /// warnings.
    pub fn write(&self, source: &SourceFile<'_>, table: &IndexTable, log: &Logger) {
        if let Err(cause) = self.try_write(source, table)
            && !index_cache::is_written_by_other(&cause)
        {
            log.write(Level::Warning, &format!("Cannot write the index cache '{}': {cause}.", self.path));
        }
    }

    /// Writes the cache, unless the file has changed while it was indexed.
    pub fn try_write(&self, source: &SourceFile<'_>, table: &IndexTable) -> io::Result<()> {
        index_cache::write(&self.path, |file| write_to(file, table, &source.state), || source.is_unchanged())
    }
}

fn write_to(file: &mut File, table: &IndexTable, data: &FileState) -> io::Result<()> {
    let mut block = Vec::new();
    block.try_reserve_exact(HEADER + RECORD * BLOCK)?;
    block.extend(index_cache::bytes(index_cache::header(table.len())));
    for (chunk, chunk_span) in table.chunk_spans.iter().enumerate() {
        let positions = table.positions(chunk);
        let end = positions.end;
        for position in positions {
            let span = table.span(position, chunk_span, end);
            let record = [span.key, u64::from(span.samples), span.offset, u64::from(span.size)];
            block.extend(index_cache::bytes(record));
            if block.len() >= RECORD * BLOCK {
                file.write_all(&block)?;
                block.clear();
            }
        }
    }
    block.extend(index_cache::bytes(index_cache::data_record(data)));
    file.write_all(&block)
}

/// Compares a cache's records with the file.
struct CacheCheck<'a> {
    scan: &'a Scan<'a>,
    start: &'a Start,
    /// End of the previous record.
    end: u64,
    /// The last key plus one: in line mode, the key of the next line.
    line: u64,
    first: Option<Record>,
}

impl<'a> CacheCheck<'a> {
    fn new(scan: &'a Scan<'a>, start: &'a Start) -> Self {
        CacheCheck { scan, start, end: start.content, line: start.line, first: None }
    }

    /// Checks a record and appends it.
    #[inline]
    fn take(&mut self, bytes: &[u8; RECORD], builder: &mut TableBuilder) -> Checked<()> {
        let [key, samples, offset, size] = words(bytes);
        // The upper halves are padding with undefined content.
        let record = Record { key, samples: samples as u32, offset, size: u64::from(size as u32) };
        if record.samples == 0 || record.size == 0 {
            return Err(Refusal::Unfit("it has an empty sequence"));
        }
        let end = offset.checked_add(record.size).filter(|&end| end <= self.scan.source.size());
        let (Some(end), Some(gap)) = (end, offset.checked_sub(self.end)) else {
            return Err(Refusal::Unfit("its sequences do not lie in the file"));
        };
        if gap > 0 && self.scan.main_stream.is_none() {
            return Err(Refusal::Unfit("it leaves out a part of the file"));
        }
        let keys_fit = if self.start.by_line {
            let skipped = key.checked_sub(self.line);
            record.samples == 1 && skipped.is_some_and(|lines| lines <= gap && (lines == 0) == (gap == 0))
        } else {
            gap > 0 || key != self.line.wrapping_sub(1) || builder.len() == 0
        };
        if !keys_fit {
            return Err(Refusal::Unfit("its keys are not the file's"));
        }
        self.end = end;
        self.line = key.wrapping_add(1);
        if builder.len() == 0 {
            self.first = Some(record);
        }
        Ok(builder.add(record)?)
    }

    /// Scans the first and the last sequence again, with the text before and after them.
    fn check_ends(&self, table: &IndexTable) -> Checked<()> {
        let size = self.scan.source.size();
        let unfit = Err(Refusal::Unfit("it does not fit the file's start or end"));
        let has_main_stream = self.scan.main_stream.is_some();
        let (Some(first), Some(last)) = (self.first, table.len().checked_sub(1)) else {
            return if has_main_stream && self.scan_again(*self.start, size)? == (None, 0) {
                Ok(())
            } else {
                unfit
            };
        };
        let last = Record::from(table.span_at(last));
        let scans = |record: &Record| has_main_stream || record.size <= LONGEST_SCANNED;
        let end = first.offset + first.size;
        if scans(&first) && self.scan_again(*self.start, end)? != (Some(first), 1) {
            return unfit;
        }
        if !has_main_stream && self.end != size {
            return unfit;
        }
        // Keys are line numbers, and hence small, only in line mode.
        let line = if self.start.by_line { last.key } else { 0 };
        let start = Start { content: last.offset, line, by_line: self.start.by_line };
        if scans(&last) && self.scan_again(start, size)? != (Some(last), 1) {
            return unfit;
        }
        Ok(())
    }

    /// Returns the first sequence of a range of the file, and the number of sequences in it.
    fn scan_again(&self, start: Start, end: u64) -> Checked<(Option<Record>, usize)> {
        let table = self.scan.table(start, end, u64::MAX).map_err(|error| match error.kind() {
            ErrorKind::Memory => Refusal::Failed(error),
            _ => Refusal::Unfit("the file's ids cannot be read"),
        })?;
        let first = (table.len() > 0).then(|| Record::from(table.span_at(0)));
        Ok((first, table.len()))
    }

    /// Compares some sequences with the file: each must start a line, with its id.
    fn probe(&self, table: &IndexTable) -> Checked<()> {
        let step = (table.len() / PROBES).max(1);
        for position in (step..table.len()).step_by(step) {
            let span = table.span_at(position);
            // A line break, 20 digits and the byte after them. Longer ids are not compared.
            let mut bytes = [0; 22];
            let bytes = &mut bytes[..22.min((self.scan.source.size() - (span.offset - 1)) as usize)];
            self.scan.source.read(bytes, span.offset - 1)?;
            let digits = Digits::read(&bytes[1..]);
            let numeric =
                !self.start.by_line && self.scan.corpus.is_numeric() && digits.len < bytes.len() - 1;
            if bytes[0] != b'\n' || numeric && digits.value != Some(span.key) {
                return Err(Refusal::Unfit("its sequences do not start where the file's do"));
            }
        }
        Ok(())
    }
}
