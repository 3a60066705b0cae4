//! Declared lengths: what the timeline goes by. They are in front of each chunk and read when the file is opened.

use super::header::{ChunkRow, Header};
use crate::deserialize::Lengths;
use crate::file::DataFile;
use crate::sequence::{ChunkId, SequenceId, SequenceKey};
use crate::{Error, Result};
use rayon::prelude::*;

/// Chunks up to this size are read past rather than skipped while tables are collected: the converter of CNTK 2.7
/// writes files in which nearly every sequence is a chunk of its own.
const SMALL_CHUNK: u64 = 64 << 10;

/// Bytes of one read over small chunks.
const BLOCK: u64 = 256 << 10;

/// Chunks whose tables are collected by one task.
const TASK: usize = 512;

/// Lengths of all sequences, and where chunks begin among them.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct LengthTable {
    /// Ordinal of each chunk's first sequence; at the end their number.
    firsts: Vec<u64>,
    /// Empty: all are 1.
    lengths: Vec<u32>,
}

impl LengthTable {
    /// From the lengths of all chunks' sequences in order.
    pub fn new(chunks: &[ChunkRow], mut lengths: Vec<u32>) -> Self {
        let mut firsts = Vec::with_capacity(chunks.len() + 1);
        let mut first = 0;
        firsts.push(first);
        for row in chunks {
            first += u64::from(row.sequences);
            firsts.push(first);
        }
        if lengths.iter().all(|&length| length == 1) {
            lengths = Vec::new();
        }
        LengthTable { firsts, lengths }
    }

    /// Reads the tables in front of the chunks.
    pub fn read(file: &DataFile, header: &Header) -> Result<Self> {
        let pieces = header
            .chunks
            .par_chunks(TASK)
            .enumerate()
            .map(|(task, rows)| read_tables(file, rows, task * TASK))
            .collect::<Result<Vec<_>>>()?;
        Ok(Self::new(&header.chunks, pieces.concat()))
    }

    /// Bytes of memory that it takes.
    pub fn bytes(&self) -> usize {
        size_of_val(self.firsts.as_slice()) + size_of_val(self.lengths.as_slice())
    }

    /// Number of sequences.
    pub fn total(&self) -> u64 {
        self.firsts.last().copied().unwrap_or(0)
    }

    /// Ordinal of a chunk's first sequence.
    pub fn first(&self, chunk: ChunkId) -> u64 {
        self.firsts[chunk as usize]
    }

    /// Lengths of a chunk's sequences.
    pub fn of(&self, chunk: ChunkId) -> Lengths<'_> {
        if self.lengths.is_empty() {
            return Lengths::Ones;
        }
        let range = self.firsts[chunk as usize] as usize..self.firsts[chunk as usize + 1] as usize;
        Lengths::Each(&self.lengths[range])
    }

    /// The sequence with this ordinal.
    pub fn find(&self, key: SequenceKey) -> Option<SequenceId> {
        if key >= self.total() {
            return None;
        }
        let chunk = self.firsts.partition_point(|&first| first <= key) - 1;
        Some(SequenceId { chunk: chunk as ChunkId, index: (key - self.firsts[chunk]) as u32 })
    }
}

/// The tables of some chunks, the first of them with this number.
fn read_tables(file: &DataFile, rows: &[ChunkRow], number: usize) -> Result<Vec<u32>> {
    let mut lengths = Vec::with_capacity(rows.iter().map(|row| row.sequences as usize).sum());
    let end = rows.last().map_or(0, |row| row.end);
    let path = file.path();
    let (mut block, mut block_at) = (Vec::new(), 0);
    for (number, row) in (number..).zip(rows) {
        let size = 4 * u64::from(row.sequences);
        let within = row.start >= block_at && row.start + size <= block_at + block.len() as u64;
        if !within {
            let small = row.end - row.start <= SMALL_CHUNK;
            let wanted = if small { BLOCK.min(end - row.start).max(size) } else { size };
            block_at = row.start;
            block.resize(wanted as usize, 0);
            let count = file.read_at(row.start, &mut block)?;
            block.truncate(count);
            if (count as u64) < size {
                let message = format!("Error reading file '{path}': it ends inside chunk {number}.");
                return Err(Error::data(message).in_file(path).at(row.start, None));
            }
        }
        let table = &block[(row.start - block_at) as usize..][..size as usize];
        let before = lengths.len();
        lengths.extend(table.as_chunks::<4>().0.iter().map(|bytes| u32::from_le_bytes(*bytes)));
        let samples: u64 = lengths[before..].iter().map(|&length| u64::from(length)).sum();
        if samples != u64::from(row.samples) {
            let message = format!(
                "Chunk {number} is said to have {} samples, but the lengths of its {} sequences add up to {samples}.",
                row.samples, row.sequences
            );
            return Err(Error::data(message).in_file(path).at(row.start, None));
        }
    }
    Ok(lengths)
}
