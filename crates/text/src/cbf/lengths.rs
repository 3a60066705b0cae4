//! Declared lengths of sequences, which determine their order and the sizes of minibatches. Each
//! chunk begins with the lengths of its sequences; they are read when the file is opened.

use super::header::{ChunkRecord, Header};
use byteorder::{ByteOrder, LE};
use cntk_reader_core::file::DataFile;
use cntk_reader_core::format::Lengths;
use cntk_reader_core::memory::room;
use cntk_reader_core::runtime::cancel::carried;
use cntk_reader_core::sequence::{ChunkId, SequenceId, SequenceKey};
use cntk_reader_core::{Error, Result};
use rayon::prelude::*;

/// Chunks up to this size are read completely while lengths are collected, many at a time, rather
/// than skipped: in files from CNTK 2.7's converter, nearly every sequence is a separate chunk.
const SMALL_CHUNK: u64 = 64 << 10;

/// Size of a read of small chunks in bytes.
const BLOCK: u64 = 256 << 10;

/// Number of chunks whose tables one task collects.
const TASK: usize = 512;

/// Lengths of all sequences, and the start of each chunk among them.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct LengthTable {
    /// Ordinal of each chunk's first sequence; the last entry is the number of all sequences.
    firsts: Vec<u64>,
    /// Empty if all are 1.
    lengths: Vec<u32>,
}

impl LengthTable {
    /// Creates a table from the lengths of all sequences, in order.
    pub fn new(chunks: &[ChunkRecord], mut lengths: Vec<u32>) -> Result<Self> {
        let mut firsts = room::with_capacity(chunks.len() + 1, room::INDEX)?;
        let mut first = 0;
        firsts.push(first);
        for record in chunks {
            first += u64::from(record.sequences);
            firsts.push(first);
        }
        if lengths.iter().all(|&length| length == 1) {
            lengths = Vec::new();
        }
        Ok(LengthTable { firsts, lengths })
    }

    /// Reads the lengths at the start of each chunk.
    pub fn read(file: &DataFile, header: &Header) -> Result<Self> {
        let pieces = header
            .chunks
            .par_chunks(TASK)
            .enumerate()
            .map(carried(|(task, records): (usize, &[_])| read_tables(file, records, task * TASK)))
            .collect::<Result<Vec<_>>>()?;
        Self::new(&header.chunks, room::concat(&pieces, room::INDEX)?)
    }

    /// Memory in use, in bytes.
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

    /// Finds the sequence with this ordinal.
    pub fn find(&self, key: SequenceKey) -> Option<SequenceId> {
        if key >= self.total() {
            return None;
        }
        let chunk = self.firsts.partition_point(|&first| first <= key) - 1;
        Some(SequenceId { chunk: chunk as ChunkId, index: (key - self.firsts[chunk]) as u32 })
    }
}

/// Reads the lengths at the start of consecutive chunks, the first of which is chunk `number`.
fn read_tables(file: &DataFile, records: &[ChunkRecord], number: usize) -> Result<Vec<u32>> {
    let count = records.iter().map(|record| record.sequences as usize).sum();
    let mut lengths = room::with_capacity(count, room::INDEX)?;
    let end = records.last().map_or(0, |record| record.end);
    let path = file.path();
    let (mut block, mut block_at) = (Vec::new(), 0);
    for (number, record) in (number..).zip(records) {
        let size = 4 * u64::from(record.sequences);
        let within = record.start >= block_at && record.start + size <= block_at + block.len() as u64;
        if !within {
            let small = record.end - record.start <= SMALL_CHUNK;
            let wanted = if small { BLOCK.min(end - record.start).max(size) } else { size };
            block_at = record.start;
            room::resize(&mut block, wanted as usize, 0, room::FILE)?;
            let count = file.read_at(record.start, &mut block)?;
            block.truncate(count);
            if (count as u64) < size {
                let message = format!("Error reading file '{path}': it ends inside chunk {number}.");
                let detail = format!(
                    "The chunk begins with {size} bytes of lengths: the file is not complete. Write or copy it again."
                );
                return Err(Error::data(message).with_detail(detail).in_file(path).at(record.start, None));
            }
        }
        let table = &block[(record.start - block_at) as usize..][..size as usize];
        let before = lengths.len();
        lengths.resize(before + record.sequences as usize, 0);
        LE::read_u32_into(table, &mut lengths[before..]);
        let samples: u64 = lengths[before..].iter().map(|&length| u64::from(length)).sum();
        if samples != u64::from(record.samples) {
            let message = format!(
                "The chunk table gives chunk {number} {} samples, but the lengths of its {} sequences add up to {samples}.",
                record.samples, record.sequences
            );
            let error = Error::data(message).with_detail("The file is damaged: convert the data again.");
            return Err(error.in_file(path).at(record.start, None));
        }
    }
    Ok(lengths)
}
