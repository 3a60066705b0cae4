//! The sequences of arrays, which are runs of rows, and the chunks that they are loaded in.

use crate::array::Array;
use cntk_reader_core::fingerprint::{SEED, mix};
use cntk_reader_core::format::{ChunkInfo, Lengths};
use cntk_reader_core::memory::room;
use cntk_reader_core::sequence::{ChunkId, SequenceId, SequenceKey};
use cntk_reader_core::{Error, Result};
use std::ops::Range;

/// Rows of a chunk, whatever their size: packers count samples in 32 bits.
const MOST_ROWS: u64 = i32::MAX as u64;

/// Where sequences and chunks begin. The key of a sequence is its number.
pub struct Table {
    pub chunks: Vec<ChunkInfo>,
    /// The number of each chunk's first sequence, and that of all sequences.
    firsts: Vec<u64>,
    /// Empty: each sequence is one row.
    lengths: Vec<u32>,
    /// The first row of each sequence, and the number of all rows; as empty as `lengths`.
    starts: Vec<u64>,
}

impl Table {
    /// Divides `rows` rows of `row_bytes` bytes into chunks of up to `chunk_bytes` bytes. A longer
    /// sequence is a chunk by itself.
    pub fn new(rows: u64, lengths: Vec<u32>, row_bytes: u64, chunk_bytes: u64) -> Result<Table> {
        let most = (chunk_bytes / row_bytes.max(1)).clamp(1, MOST_ROWS);
        let mut table = Table { chunks: Vec::new(), firsts: vec![0], lengths, starts: Vec::new() };
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

    /// Number of sequences.
    pub fn total(&self) -> u64 {
        self.firsts.last().copied().unwrap_or(0)
    }

    /// The number of a sequence.
    pub fn ordinal(&self, id: SequenceId) -> u64 {
        self.firsts[id.chunk as usize] + u64::from(id.index)
    }

    /// Lengths of a chunk's sequences.
    pub fn lengths(&self, chunk: ChunkId) -> Lengths<'_> {
        let (first, end) = (self.firsts[chunk as usize], self.firsts[chunk as usize + 1]);
        match self.lengths.is_empty() {
            true => Lengths::Ones,
            false => Lengths::Each(&self.lengths[first as usize..end as usize]),
        }
    }

    /// Rows of the sequences with these numbers.
    pub fn rows(&self, sequences: Range<u64>) -> Range<u64> {
        match self.starts.is_empty() {
            true => sequences,
            false => self.starts[sequences.start as usize]..self.starts[sequences.end as usize],
        }
    }

    /// Rows of a chunk.
    pub fn rows_of(&self, chunk: ChunkId) -> Range<u64> {
        self.rows(self.firsts[chunk as usize]..self.firsts[chunk as usize + 1])
    }

    /// The sequence with this key.
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

    /// Bytes of memory that it takes.
    pub fn memory(&self) -> u64 {
        let of_chunks = size_of_val(self.chunks.as_slice()) + size_of_val(self.firsts.as_slice());
        (of_chunks + size_of_val(self.lengths.as_slice()) + size_of_val(self.starts.as_slice())) as u64
    }
}

/// Reads the lengths of sequences, whose sum has to be the number of rows.
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
            let detail =
                format!("Expected 1 to {left}, the rows of the arrays that are left. Correct the lengths.");
            return Err(wrong(message, detail).at(offset, None));
        };
        sum += u64::from(fitting);
        lengths.push(fitting);
        Ok(())
    })?;
    if sum != rows {
        let message = format!("The lengths of all sequences are {sum} rows together.");
        return Err(wrong(message, format!("Expected {rows}, the rows of the arrays. Correct the lengths.")));
    }
    Ok(lengths)
}
