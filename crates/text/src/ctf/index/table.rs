//! The table of sequences, and its builder, which groups them into chunks.
//!
//! The table has flat arrays over all sequences in file order, each stored only if needed:
//! `offsets` (relative to the chunk) always, `sizes` if there are bytes between sequences,
//! `samples` if not every sequence is one sample, and keys as [`Keys`] stores them. A file of lines
//! without a main stream takes 4 bytes per sequence, and a file with ids at most 16 (20 if ids are
//! far apart and there are bytes between sequences).

use super::SequenceSpan;
use super::keys::Keys;
use cntk_reader_core::format::ChunkInfo;
use cntk_reader_core::memory::room;
use cntk_reader_core::sequence::SequenceKey;
use cntk_reader_core::{Error, Result};

/// A sequence to be added to the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Record {
    pub key: SequenceKey,
    pub samples: u32,
    pub offset: u64,
    pub size: u64,
}

impl From<SequenceSpan> for Record {
    fn from(SequenceSpan { key, samples, offset, size }: SequenceSpan) -> Self {
        Record { key, samples, offset, size: u64::from(size) }
    }
}

/// Place of a chunk in the table and in the file.
#[derive(Debug, Clone, Copy)]
pub(super) struct ChunkSpan {
    /// Position of its first sequence.
    pub first: usize,
    /// Offset of its first byte.
    pub offset: u64,
    /// Offset after its last byte.
    pub end: u64,
    /// Key of its first sequence.
    pub key: SequenceKey,
}

/// The sequences and chunks of a file.
#[derive(Debug, Default)]
pub(super) struct IndexTable {
    pub chunks: Vec<ChunkInfo>,
    pub chunk_spans: Vec<ChunkSpan>,
    pub offsets: Vec<u32>,
    /// Bytes of each sequence. Empty if each sequence ends where the next one begins, and the last
    /// one of a chunk at the end of the chunk.
    pub sizes: Vec<u32>,
    /// Samples of each sequence. Empty if all have one.
    pub samples: Vec<u32>,
    pub keys: Keys,
    /// Whether each key is greater than all before it, in this table and in the parts removed from
    /// it ([`TableBuilder::take_complete`]).
    pub ascending: bool,
    /// Whether a look-up finds the first of several sequences with the same key, instead of the one
    /// that CNTK's sort leaves in front.
    pub finds_first: bool,
}

impl IndexTable {
    pub fn len(&self) -> usize {
        self.offsets.len()
    }

    /// Returns the positions of a chunk's sequences.
    pub fn positions(&self, chunk: usize) -> std::ops::Range<usize> {
        let first = self.chunk_spans[chunk].first;
        first..first + self.chunks[chunk].sequences as usize
    }

    /// Returns the sequence at a position. `chunk_span` is the span of its chunk, and `end` the
    /// position after the chunk's last sequence.
    #[inline]
    pub fn span(&self, position: usize, chunk_span: &ChunkSpan, end: usize) -> SequenceSpan {
        let offset = self.offsets[position];
        let size = match self.sizes.get(position) {
            Some(&size) => size,
            None if position + 1 < end => self.offsets[position + 1] - offset,
            None => (chunk_span.end - chunk_span.offset - u64::from(offset)) as u32,
        };
        SequenceSpan {
            key: self.keys.get(position, chunk_span),
            samples: self.samples.get(position).copied().unwrap_or(1),
            offset: chunk_span.offset + u64::from(offset),
            size,
        }
    }

    /// Memory in bytes.
    pub fn bytes(&self) -> usize {
        size_of_val(self.chunks.as_slice())
            + size_of_val(self.chunk_spans.as_slice())
            + 4 * (self.offsets.len() + self.sizes.len() + self.samples.len())
            + self.keys.bytes()
    }
}

/// A table that is being built, sequence by sequence in file order.
pub(super) struct TableBuilder {
    table: IndexTable,
    /// Maximum bytes of a chunk.
    limit: u64,
    /// Whether keys are line numbers.
    keys_are_lines: bool,
    last_key: SequenceKey,
}

impl TableBuilder {
    pub fn new(chunk_size: u64, keys_are_lines: bool) -> Self {
        let table = IndexTable { ascending: true, ..IndexTable::default() };
        TableBuilder { table, limit: chunk_size, keys_are_lines, last_key: 0 }
    }

    /// Returns key and offset of the first sequence.
    pub fn first(&self) -> Option<(SequenceKey, u64)> {
        self.table.chunk_spans.first().map(|first| (first.key, first.offset))
    }

    /// Takes over another builder's state about the sequences before its first chunk.
    pub fn continue_after(&mut self, other: &TableBuilder) {
        self.table.ascending = other.table.ascending;
    }

    /// Reserves memory for this number of sequences.
    pub fn reserve(&mut self, sequences: usize) -> Result<()> {
        room::reserve_exact(&mut self.table.offsets, sequences, room::INDEX)
    }

    /// Number of sequences so far.
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Appends a sequence, to the last chunk or to a new one. Gaps inside a chunk count towards its
    /// limit; the gap before the sequence does not.
    #[inline]
    pub fn add(&mut self, record: Record) -> Result<()> {
        let Record { key, samples, offset, size } = record;
        let table = &mut self.table;
        let position = table.offsets.len();
        if size > u64::from(u32::MAX) {
            let message = format!("Sequence size overflows uint32_t type: {size} vs {}.", size as u32);
            return Err(self.refuse(record, &message));
        }
        let gap = match table.chunk_spans.last() {
            Some(chunk_span) if (chunk_span.end - chunk_span.offset).saturating_add(size) <= self.limit => {
                offset - chunk_span.end
            }
            _ => {
                self.open_chunk(record)?;
                0
            }
        };
        let table = &mut self.table;
        let (Some(chunk_span), Some(chunk)) = (table.chunk_spans.last_mut(), table.chunks.last_mut()) else {
            return Err(Error::internal("a chunk table without chunks"));
        };
        let (Ok(relative), Some(sequences)) =
            (u32::try_from(offset - chunk_span.offset), chunk.sequences.checked_add(1))
        else {
            let start = chunk_span.offset;
            let message = format!(
                "Sequence offset in chunk overflows uint32_t type (while adding a sequence with key = {key}, \
                 offset = {offset}, number of samples = {samples}, size = {size} to chunk with the start offset = {start})."
            );
            return Err(self.refuse(record, &message));
        };
        if gap > 0 && table.sizes.is_empty() {
            self.store_sizes()?;
        }
        let table = &mut self.table;
        table.keys.push(key, position, &table.chunk_spans)?;
        table.ascending &= position == 0 || self.last_key < key;
        self.last_key = key;
        if samples != 1 && table.samples.is_empty() {
            room::resize(&mut table.samples, position, 1, room::INDEX)?;
            room::push(&mut table.samples, samples, room::INDEX)?;
        } else if !table.samples.is_empty() {
            room::push(&mut table.samples, samples, room::INDEX)?;
        }
        if !table.sizes.is_empty() {
            room::push(&mut table.sizes, size as u32, room::INDEX)?;
        }
        room::push(&mut table.offsets, relative, room::INDEX)?;
        if let (Some(chunk_span), Some(chunk)) = (table.chunk_spans.last_mut(), table.chunks.last_mut()) {
            chunk_span.end = offset + size;
            chunk.sequences = sequences;
            chunk.samples += u64::from(samples);
        }
        Ok(())
    }

    /// Appends lines of one sample each that follow each other without gaps, with keys that count
    /// up from `key`. A line extends from each of `starts` to the next one; these are relative to
    /// `base`. Equivalent to [`TableBuilder::add`] for each line.
    pub fn add_lines(&mut self, key: SequenceKey, base: u64, starts: &[u32]) -> Result<()> {
        let lines = starts.len().saturating_sub(1);
        let mut done = 0;
        while done < lines {
            // Add one line separately: it may open a chunk, or be too far from the chunk's start.
            let (offset, end) = (base + u64::from(starts[done]), base + u64::from(starts[done + 1]));
            self.add(Record { key: key + done as u64, samples: 1, offset, size: end - offset })?;
            done += 1;
            // Then add all further lines that fit into the chunk.
            let table = &mut self.table;
            let plain = table.sizes.is_empty() && table.samples.is_empty() && table.keys.are_counting();
            let (Some(chunk_span), Some(chunk), true) =
                (table.chunk_spans.last_mut(), table.chunks.last_mut(), plain)
            else {
                continue;
            };
            let limit = chunk_span.offset.saturating_add(self.limit);
            let fit = starts[done + 1..].partition_point(|&end| base + u64::from(end) <= limit);
            let fit = starts[done..done + fit]
                .partition_point(|&start| base + u64::from(start) - chunk_span.offset <= u64::from(u32::MAX));
            let Some(sequences) = u32::try_from(fit).ok().and_then(|fit| chunk.sequences.checked_add(fit))
            else {
                continue;
            };
            let shift = base.wrapping_sub(chunk_span.offset) as u32;
            room::reserve(&mut table.offsets, fit, room::INDEX)?;
            table.offsets.extend(starts[done..done + fit].iter().map(|start| start.wrapping_add(shift)));
            done += fit;
            chunk_span.end = base + u64::from(starts[done]);
            chunk.sequences = sequences;
            chunk.samples += fit as u64;
            self.last_key = key + done as u64 - 1;
        }
        Ok(())
    }

    fn open_chunk(&mut self, record: Record) -> Result<()> {
        let Record { key, offset, .. } = record;
        if self.table.chunks.len() == u32::MAX as usize {
            return Err(self.refuse(record, "Exceeded the maximum number of chunks."));
        }
        let chunk_span = ChunkSpan { first: self.table.offsets.len(), offset, end: offset, key };
        room::push(&mut self.table.chunk_spans, chunk_span, room::INDEX)?;
        room::push(&mut self.table.chunks, ChunkInfo { samples: 0, sequences: 0 }, room::INDEX)
    }

    /// Stores the sizes of all sequences so far; from here on, there may be bytes between
    /// sequences.
    #[cold]
    fn store_sizes(&mut self) -> Result<()> {
        let table = &mut self.table;
        let mut sizes = room::with_capacity(table.offsets.capacity(), room::INDEX)?;
        for (chunk, chunk_span) in table.chunk_spans.iter().enumerate() {
            let end = table.positions(chunk).end;
            sizes.extend((chunk_span.first..end).map(|position| table.span(position, chunk_span, end).size));
        }
        table.sizes = sizes;
        Ok(())
    }

    #[cold]
    fn refuse(&self, record: Record, message: &str) -> Error {
        let line = self.keys_are_lines.then(|| record.key + 1);
        let detail = "Sequences and chunks may have 4 GB, and a file 4294967295 chunks: give each sequence its own id, or set \
                      another ‹chunk_size›.";
        let error = Error::data(message).with_detail(detail).at(record.offset, line);
        error.for_key(record.key.to_string())
    }

    /// Removes and returns all chunks except the last one, to which sequences may still be added.
    pub fn take_complete(&mut self) -> Result<IndexTable> {
        let (Some(first), Some(chunks)) = (
            self.table.chunk_spans.last().map(|chunk_span| chunk_span.first),
            self.table.chunks.len().checked_sub(1),
        ) else {
            return Ok(IndexTable::default());
        };
        if chunks == 0 {
            return Ok(IndexTable::default());
        }
        let IndexTable { sizes, samples, .. } = &mut self.table;
        let split_off = |list: &mut Vec<u32>| room::split_off(list, first.min(list.len()), room::INDEX);
        let last = IndexTable {
            sizes: split_off(sizes)?,
            samples: split_off(samples)?,
            offsets: split_off(&mut self.table.offsets)?,
            keys: self.table.keys.split_off(first)?,
            chunks: self.table.chunks.split_off(chunks),
            chunk_spans: self
                .table
                .chunk_spans
                .split_off(chunks)
                .into_iter()
                .map(|last| ChunkSpan { first: 0, ..last })
                .collect(),
            ascending: self.table.ascending,
            finds_first: self.table.finds_first,
        };
        Ok(std::mem::replace(&mut self.table, last).shrunk())
    }

    /// Returns the table.
    pub fn finish(self) -> IndexTable {
        self.table.shrunk()
    }
}

impl IndexTable {
    fn shrunk(mut self) -> IndexTable {
        let table = &mut self;
        table.chunks.shrink_to_fit();
        table.chunk_spans.shrink_to_fit();
        table.offsets.shrink_to_fit();
        table.sizes.shrink_to_fit();
        table.samples.shrink_to_fit();
        table.keys.shrink();
        self
    }
}
