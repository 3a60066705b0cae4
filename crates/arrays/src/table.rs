//! The sequences of arrays, which are runs of rows, and the chunks in which they are loaded.

use crate::array::Array;
use cntk_reader_core::fingerprint::{SEED, mix};
use cntk_reader_core::format::{ChunkInfo, Lengths};
use cntk_reader_core::memory::room;
use cntk_reader_core::sequence::{ChunkId, SequenceId, SequenceKey};
use cntk_reader_core::{Error, Result};
use std::ops::Range;

/// Maximum number of rows of a chunk: packers count samples in 32 bits.
const MAX_ROWS: u64 = i32::MAX as u64;

/// The sequences and chunks of arrays. The key of a sequence is its number.
pub struct RowTable {
    pub chunks: Vec<ChunkInfo>,
    /// Number of the first sequence of each chunk, followed by the number of all sequences.
    firsts: Vec<u64>,
    /// Empty if each sequence is one row.
    lengths: Vec<u32>,
    /// First row of each sequence, followed by the number of all rows; empty if `lengths` is.
    starts: Vec<u64>,
}

impl RowTable {
    /// Divides `rows` rows of `row_bytes` bytes into chunks of at most `chunk_bytes` bytes. A
    /// longer sequence forms a chunk by itself.
    pub fn new(rows: u64, lengths: Vec<u32>, row_bytes: u64, chunk_bytes: u64) -> Result<RowTable> {
        let most = (chunk_bytes / row_bytes.max(1)).clamp(1, MAX_ROWS);
        let mut table = RowTable { chunks: Vec::new(), firsts: vec![0], lengths, starts: Vec::new() };
        if table.lengths.is_empty() {
            for first in (0..rows).step_by(most as usize) {
                let count = (rows - first).min(most);
                table.push(count, count)?;
            }
        } else {
            let mut starts = room::with_capacity(table.lengths.len() + 1, room::INDEX)?;
            let (mut start, mut count, mut samples) = (0, 0, 0);
            for place in 0..table.lengths.len() {
                let length = u64::from(table.lengths[place]);
                if count > 0 && samples + length > most {
                    table.push(samples, count)?;
                    (count, samples) = (0, 0);
                }
                starts.push(start);
                (start, count, samples) = (start + length, count + 1, samples + length);
            }
            starts.push(start);
            table.push(samples, count)?;
            table.starts = starts;
        }
        Ok(table)
    }

    fn push(&mut self, samples: u64, sequences: u64) -> Result<()> {
        if self.chunks.len() >= ChunkId::MAX as usize {
            let error = Error::argument("The arrays have more than 4294967295 chunks.");
            return Err(error.with_detail("Set a larger ‹array_chunk_size›; its default is 32 MiB."));
        }
        room::push(&mut self.chunks, ChunkInfo { samples, sequences: sequences as u32 }, room::INDEX)?;
        let end = self.total() + sequences;
        room::push(&mut self.firsts, end, room::INDEX)
    }

    /// Returns the number of sequences.
    pub fn total(&self) -> u64 {
        self.firsts.last().copied().unwrap_or(0)
    }

    /// Returns the number of a sequence.
    pub fn ordinal(&self, id: SequenceId) -> u64 {
        self.firsts[id.chunk as usize] + u64::from(id.index)
    }

    /// Returns the lengths of a chunk's sequences.
    pub fn lengths(&self, chunk: ChunkId) -> Lengths<'_> {
        let (first, end) = (self.firsts[chunk as usize], self.firsts[chunk as usize + 1]);
        match self.lengths.is_empty() {
            true => Lengths::Ones,
            false => Lengths::Each(&self.lengths[first as usize..end as usize]),
        }
    }

    /// Returns the rows of the sequences with these numbers.
    pub fn rows(&self, sequences: Range<u64>) -> Range<u64> {
        match self.starts.is_empty() {
            true => sequences,
            false => self.starts[sequences.start as usize]..self.starts[sequences.end as usize],
        }
    }

    /// Returns the rows of a chunk.
    pub fn rows_of(&self, chunk: ChunkId) -> Range<u64> {
        self.rows(self.firsts[chunk as usize]..self.firsts[chunk as usize + 1])
    }

    /// Returns the sequence with this key.
    pub fn find(&self, key: SequenceKey) -> Option<SequenceId> {
        if key >= self.total() {
            return None;
        }
        let chunk = self.firsts.partition_point(|&first| first <= key) - 1;
        Some(SequenceId { chunk: chunk as ChunkId, index: (key - self.firsts[chunk]) as u32 })
    }

    pub fn fingerprint(&self) -> u64 {
        let chunks = self.chunks.iter();
        let hash = chunks.fold(SEED, |hash, chunk| mix(hash, chunk.samples, chunk.sequences.into()));
        let lengths = (0..).zip(&self.lengths);
        lengths.fold(hash, |hash, (place, &length)| mix(hash, place, length.into()))
    }

    /// Returns its memory in bytes.
    pub fn memory(&self) -> u64 {
        let of_chunks = size_of_val(self.chunks.as_slice()) + size_of_val(self.firsts.as_slice());
        (of_chunks + size_of_val(self.lengths.as_slice()) + size_of_val(self.starts.as_slice())) as u64
    }
}

/// Reads the lengths of sequences, which must add up to the number of rows.
pub fn read_lengths(array: &Array, rows: u64) -> Result<Vec<u32>> {
    let mut lengths = room::with_capacity(usize::try_from(array.rows).unwrap_or(usize::MAX), room::INDEX)?;
    let mut sum = 0;
    let wrong =
        |message: String, detail: String| Error::data(message).with_detail(detail).in_file(array.file.path());
    array.integers(|length, offset| {
        let left = rows - sum;
        let Some(fitting) = u32::try_from(length).ok().filter(|&one| one > 0 && u64::from(one) <= left)
        else {
            let message = format!("Sequence {} has the length {length}.", lengths.len());
            let detail = format!("Expected 1 to {left}, the number of remaining rows. Correct the lengths.");
            return Err(wrong(message, detail).at(offset, None));
        };
        sum += u64::from(fitting);
        lengths.push(fitting);
        Ok(())
    })?;
    if sum != rows {
        let message = format!("The lengths of all sequences add up to {sum} rows.");
        return Err(wrong(
            message,
            format!("Expected {rows}, the number of rows of the arrays. Correct the lengths."),
        ));
    }
    Ok(lengths)
}
