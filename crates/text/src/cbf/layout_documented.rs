//! Chunks in the layout on CNTK's public page: one block per stream.
//!
//! Dense: one sample per sequence. Sparse: number of values `i32`, values, codes `i32`, and the
//! number of values before each sequence and of all values, `i32` each. A code is `sample number *
//! dimension + index`; when a chunk is read, its codes are replaced by the indices.

use super::chunk::{ChunkStream, Entries, Samples};
use super::context::ChunkContext;
use super::header::Header;
use super::lengths::LengthTable;
use cntk_reader_core::file::DataFile;
use cntk_reader_core::format::buffer::BufferPool;
use cntk_reader_core::limits::{SAMPLES_PER_BYTE, SOME_SAMPLES};
use cntk_reader_core::memory::room;
use cntk_reader_core::runtime::cancel::carried;
use cntk_reader_core::stream::Storage;
use cntk_reader_core::{Error, Result};
use rayon::prelude::*;

/// Determines the lengths of all sequences. This layout does not store them, so all chunks are read
/// if there are sparse streams.
pub fn lengths(file: &DataFile, header: &Header) -> Result<LengthTable> {
    let mut first = 0;
    let mut first_keys = room::with_capacity(header.chunks.len(), room::INDEX)?;
    for record in &header.chunks {
        first_keys.push(first);
        first += u64::from(record.sequences);
    }
    let buffers = BufferPool::new(0);
    let sparse = header.streams.iter().any(|stream| stream.storage == Storage::SparseCsc);
    let pieces = header
        .chunks
        .par_iter()
        .zip(&first_keys)
        .map(carried(|(record, &first_key): (&_, &_)| {
            let context = ChunkContext { file, header, ids: &[], record, first_key };
            let lengths = if sparse {
                let range = record.start..record.end;
                let mut data = buffers.take(file.path(), &range)?;
                data.read(file, range)?;
                let lengths = longest(&find_streams(&context, data.bytes_mut())?, record.sequences)?;
                buffers.give_back(data);
                lengths
            } else {
                // There is nothing to read, but the chunk must be long enough.
                let size: u64 = header.streams.iter().map(|stream| stream.sample_bytes()).sum();
                if u128::from(record.end - record.start) < u128::from(size) * u128::from(record.sequences) {
                    let message = "The chunk is shorter than its sequences.".to_owned();
                    return Err(context.error(0, None, None, message));
                }
                room::filled(record.sequences as usize, 1, room::INDEX)?
            };
            let samples: u64 = lengths.iter().map(|&length| u64::from(length)).sum();
            if samples == u64::from(record.samples) {
                return Ok(lengths);
            }
            let message = format!(
                "The chunk table gives the chunk {} samples, but its sequences have {samples}.",
                record.samples
            );
            Err(context.error(0, None, None, message))
        }))
        .collect::<Result<Vec<_>>>()?;
    LengthTable::new(&header.chunks, room::concat(&pieces, room::INDEX)?)
}

/// The largest number of samples in any stream, for each sequence.
fn longest(streams: &[ChunkStream], sequences: u32) -> Result<Vec<u32>> {
    let mut longest = room::filled(sequences as usize, 1, room::INDEX)?;
    for stream in streams {
        for (index, length) in longest.iter_mut().enumerate() {
            *length = stream.samples().of(index).max(*length);
        }
    }
    Ok(longest)
}

/// Finds the sequences of all streams, and replaces codes by indices.
pub fn find_streams(context: &ChunkContext<'_>, data: &mut [u8]) -> Result<Vec<ChunkStream>> {
    let mut at = 0;
    let sequences = context.record.sequences;
    let mut found = Vec::with_capacity(context.header.streams.len());
    for (number, stream) in context.header.streams.iter().enumerate() {
        let ended = |at: usize| {
            let message = "The stream extends past the end of its chunk.".to_owned();
            context.error(at, Some(number), None, message)
        };
        let end_of = |at: usize, count: u32, size: u64| {
            let size = u64::from(count).checked_mul(size).filter(|&size| size <= (data.len() - at) as u64);
            size.map(|size| at + size as usize).ok_or_else(|| ended(at))
        };
        if stream.storage == Storage::Dense {
            let end = end_of(at, sequences, stream.sample_bytes())?;
            found.push(ChunkStream::Dense { start: at, head: 0, samples: Samples::Every(1) });
            at = end;
            continue;
        }
        let count = data[at..].first_chunk().map(|bytes| i32::from_le_bytes(*bytes));
        let Ok(count) = u32::try_from(count.ok_or_else(|| ended(at))?) else {
            let message = "NNZ count is too large for an IndexType value.".to_owned();
            return Err(context.error(at, Some(number), None, message));
        };
        let values = at + 4;
        let indices = end_of(values, count, stream.element.size() as u64)?;
        let columns = end_of(indices, count, 4)?;
        let end = end_of(columns, sequences, 4).and_then(|end| end_of(end, 1, 4))?;
        let (before, columns_data) = data.split_at_mut(columns);
        let block = Block {
            context,
            number,
            dim: stream.dim,
            at: indices,
            codes: before[indices..].as_chunks_mut::<4>().0,
            columns: columns_data[..end - columns].as_chunks::<4>().0,
            columns_at: columns,
            // Numbers of samples have 32 bits.
            most: (SOME_SAMPLES + SAMPLES_PER_BYTE * (end - at)).min(u32::MAX as usize),
        };
        found.push(block.unfold(values)?);
        at = end;
    }
    Ok(found)
}

/// A sparse stream's block.
struct Block<'a> {
    context: &'a ChunkContext<'a>,
    number: usize,
    dim: u32,
    /// Offset of the codes in the chunk.
    at: usize,
    codes: &'a mut [[u8; 4]],
    /// The number of values before each sequence, and finally of all values.
    columns: &'a [[u8; 4]],
    /// Offset of `columns` in the chunk.
    columns_at: usize,
    /// Maximum number of samples in the chunk.
    most: usize,
}

impl Block<'_> {
    fn error(&self, at: usize, index: usize, message: impl Into<String>) -> Error {
        self.context.error(at, Some(self.number), Some(index as u32), message.into())
    }

    /// Finds the sequences; `values` is the offset of the values in the chunk.
    fn unfold(mut self, values: usize) -> Result<ChunkStream> {
        let mut sequence_offsets = room::with_capacity(self.columns.len(), room::CHUNK)?;
        sequence_offsets.push(0);
        let mut offsets = vec![0];
        let mut from = 0;
        for index in 0..self.columns.len() - 1 {
            let to = u32::from_le_bytes(self.columns[index + 1]) as usize;
            if u32::from_le_bytes(self.columns[index]) as usize != from || to < from || to > self.codes.len()
            {
                let at = self.columns_at + 4 * index;
                return Err(self.error(at, index, "The column offsets of a sparse stream do not ascend."));
            }
            self.sequence(index, from, to, &mut offsets)?;
            sequence_offsets.push(offsets.len() as u32 - 1);
            from = to;
        }
        if from != self.codes.len() {
            let (at, last) = (self.columns_at, self.columns.len() - 2);
            return Err(self.error(
                at,
                last,
                "The column offsets of a sparse stream do not cover its values.",
            ));
        }
        let samples = Samples::new(sequence_offsets, None);
        let entries = Entries::Together { values, indices: self.at };
        Ok(ChunkStream::Sparse { samples, offsets: Some(offsets), entries })
    }

    /// Appends the offsets of one sequence's samples, and replaces its codes. The sequence has the
    /// values `from..to`.
    fn sequence(&mut self, index: usize, from: usize, to: usize, offsets: &mut Vec<u32>) -> Result<()> {
        let first = offsets.len() - 1;
        for entry in from..to {
            let code = i32::from_le_bytes(self.codes[entry]);
            let at = self.at + 4 * entry;
            let Ok(code) = u32::try_from(code) else {
                return Err(self.error(at, index, format!("A sparse value has the index {code}.")));
            };
            let (sample, entry_index) = ((code / self.dim) as usize, code % self.dim);
            // Number of samples that have ended; all their values have been counted.
            let ended = offsets.len() - 1 - first;
            if sample < ended {
                return Err(self.error(at, index, "The samples of a sparse sequence do not ascend."));
            }
            if first + sample >= self.most {
                return Err(self.error(at, index, format!("A sparse sequence claims {sample} samples.")));
            }
            room::resize(offsets, first + 1 + sample, entry as u32, room::CHUNK)?;
            self.codes[entry] = entry_index.to_le_bytes();
        }
        if to > from {
            room::push(offsets, to as u32, room::CHUNK)?;
        }
        Ok(())
    }
}
