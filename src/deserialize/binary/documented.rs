//! Chunks of the layout that CNTK's public page describes: one block per stream.
//!
//! Dense: one sample per sequence. Sparse: number of values `i32`, values, codes `i32`, and for each sequence and
//! behind the last one the number of values before, `i32`. A code is `sample number * dimension + row`; once a chunk is
//! read, its codes are replaced by the rows.

use super::Context;
use super::buffer::Buffers;
use super::chunk::{Part, Places, Samples};
use super::header::Header;
use super::lengths::LengthTable;
use crate::file::DataFile;
use crate::stream::Storage;
use crate::{Error, Result};
use rayon::prelude::*;

/// Samples of a chunk per byte of it, and some more. A code can claim any number of empty samples; no data do.
const SAMPLES_PER_BYTE: usize = 16;
const SOME_SAMPLES: usize = 1 << 16;

/// The declared lengths, which this layout does not store: reads all chunks if there are sparse streams.
pub fn lengths(file: &DataFile, header: &Header) -> Result<LengthTable> {
    let mut first = 0;
    let mut firsts = Vec::with_capacity(header.chunks.len());
    for row in &header.chunks {
        firsts.push(first);
        first += u64::from(row.sequences);
    }
    let buffers = Buffers::new(0);
    let sparse = header.streams.iter().any(|stream| stream.storage == Storage::SparseCsc);
    let pieces = header
        .chunks
        .par_iter()
        .zip(&firsts)
        .map(|(row, &first)| {
            let context = Context { file, header, row, first };
            let lengths = if sparse {
                let range = row.start..row.end;
                let mut data = buffers.take(file.path(), &range)?;
                data.read(file, range)?;
                let lengths = longest(&parts(&context, data.bytes_mut())?, row.sequences);
                buffers.give_back(data);
                lengths
            } else {
                // Nothing to read, but the chunk has to be long enough.
                let size: u64 = header.streams.iter().map(|stream| stream.sample_bytes()).sum();
                if u128::from(row.end - row.start) < u128::from(size) * u128::from(row.sequences) {
                    let message = "The chunk is shorter than its sequences.".to_owned();
                    return Err(context.error(0, None, None, message));
                }
                vec![1; row.sequences as usize]
            };
            let samples: u64 = lengths.iter().map(|&length| u64::from(length)).sum();
            if samples == u64::from(row.samples) {
                return Ok(lengths);
            }
            let message = format!(
                "The chunk is said to have {} samples, but its sequences have {samples}.",
                row.samples
            );
            Err(context.error(0, None, None, message))
        })
        .collect::<Result<Vec<_>>>()?;
    Ok(LengthTable::new(&header.chunks, pieces.concat()))
}

/// The most samples of any stream, for each sequence.
fn longest(parts: &[Part], sequences: u32) -> Vec<u32> {
    let mut longest = vec![1; sequences as usize];
    for part in parts {
        for (index, length) in longest.iter_mut().enumerate() {
            *length = part.samples().of(index).max(*length);
        }
    }
    longest
}

/// Finds the sequences of all streams, and turns codes into rows.
pub fn parts(context: &Context<'_>, data: &mut [u8]) -> Result<Vec<Part>> {
    let mut at = 0;
    let sequences = context.row.sequences;
    let mut parts = Vec::with_capacity(context.header.streams.len());
    for (number, stream) in context.header.streams.iter().enumerate() {
        let ended = |at: usize| {
            let message = "The stream goes on behind the end of its chunk.".to_owned();
            context.error(at, Some(number), None, message)
        };
        let room = |at: usize, count: u32, size: u64| {
            let size = u64::from(count).checked_mul(size).filter(|&size| size <= (data.len() - at) as u64);
            size.map(|size| at + size as usize).ok_or_else(|| ended(at))
        };
        if stream.storage == Storage::Dense {
            let end = room(at, sequences, stream.sample_bytes())?;
            parts.push(Part::Dense { start: at, head: 0, samples: Samples::Every(1) });
            at = end;
            continue;
        }
        let count = data[at..].first_chunk().map(|bytes| i32::from_le_bytes(*bytes));
        let Ok(count) = u32::try_from(count.ok_or_else(|| ended(at))?) else {
            let message = "NNZ count is too large for an IndexType value.".to_owned();
            return Err(context.error(at, Some(number), None, message));
        };
        let values = at + 4;
        let rows = room(values, count, stream.element.size() as u64)?;
        let columns = room(rows, count, 4)?;
        let end = room(columns, sequences, 4).and_then(|end| room(end, 1, 4))?;
        let (before, columns_data) = data.split_at_mut(columns);
        let block = Block {
            context,
            number,
            dim: stream.dim,
            at: rows,
            codes: before[rows..].as_chunks_mut::<4>().0,
            columns: columns_data[..end - columns].as_chunks::<4>().0,
            columns_at: columns,
            most: SOME_SAMPLES + SAMPLES_PER_BYTE * (end - at),
        };
        parts.push(block.unfold(values)?);
        at = end;
    }
    Ok(parts)
}

/// A sparse stream's block.
struct Block<'a> {
    context: &'a Context<'a>,
    number: usize,
    dim: u32,
    /// Where the codes are.
    at: usize,
    codes: &'a mut [[u8; 4]],
    /// For each sequence and behind the last one, the number of values before.
    columns: &'a [[u8; 4]],
    columns_at: usize,
    /// Samples that are believed.
    most: usize,
}

impl Block<'_> {
    fn error(&self, at: usize, index: usize, message: impl Into<String>) -> Error {
        self.context.error(at, Some(self.number), Some(index as u32), message.into())
    }

    fn unfold(mut self, values: usize) -> Result<Part> {
        let mut firsts = vec![0];
        let mut starts = vec![0];
        let mut from = 0;
        for index in 0..self.columns.len() - 1 {
            let to = u32::from_le_bytes(self.columns[index + 1]) as usize;
            if u32::from_le_bytes(self.columns[index]) as usize != from || to < from || to > self.codes.len()
            {
                let at = self.columns_at + 4 * index;
                return Err(self.error(at, index, "The column offsets of a sparse stream do not ascend."));
            }
            self.sequence(index, from, to, &mut starts)?;
            firsts.push(starts.len() as u32 - 1);
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
        let samples = Samples::new(firsts, None);
        Ok(Part::Sparse { samples, starts: Some(starts), places: Places::Together { values, rows: self.at } })
    }

    /// One sequence: its values are number `from` to `to`.
    fn sequence(&mut self, index: usize, from: usize, to: usize, starts: &mut Vec<u32>) -> Result<()> {
        let first = starts.len() - 1;
        for entry in from..to {
            let code = i32::from_le_bytes(self.codes[entry]);
            let at = self.at + 4 * entry;
            let Ok(code) = u32::try_from(code) else {
                return Err(self.error(at, index, format!("A sparse value has the index {code}.")));
            };
            let (sample, row) = ((code / self.dim) as usize, code % self.dim);
            // Behind every sample before this one is the number of values before.
            let ended = starts.len() - 1 - first;
            if sample < ended {
                return Err(self.error(at, index, "The samples of a sparse sequence do not ascend."));
            }
            if first + sample >= self.most {
                return Err(self.error(at, index, format!("A sparse sequence claims {sample} samples.")));
            }
            starts.resize(first + 1 + sample, entry as u32);
            self.codes[entry] = row.to_le_bytes();
        }
        if to > from {
            starts.push(to as u32);
        }
        Ok(())
    }
}
