//! Chunks of the layout that CNTK 2.7 uses: lengths, then stream after stream, sequence after sequence.
//!
//! Dense sequence: samples `u32`, values. Sparse sequence: samples `u32`, number of values `i32`, values, rows `i32`,
//! number of values of each sample `i32`. There is no alignment.

use super::Context;
use super::chunk::{Part, Places, Samples};
use crate::deserialize::Lengths;
use crate::stream::Storage;
use crate::{Error, Result};

/// Finds the sequences of all streams.
pub fn parts(context: &Context<'_>, data: &[u8], lengths: Lengths<'_>) -> Result<Vec<Part>> {
    let mut tally = Tally { lengths, first: true, open: Vec::new(), still: Vec::new(), at: 0 };
    let mut walk = Walk { context, data, at: 4 * context.row.sequences as usize, stream: 0 };
    let mut parts: Vec<Part> = Vec::with_capacity(context.header.streams.len());
    for (number, stream) in context.header.streams.iter().enumerate() {
        walk.stream = number;
        let earlier = parts.last().map(Part::samples);
        parts.push(match stream.storage {
            Storage::Dense => walk.dense(stream.sample_bytes(), &mut tally, earlier)?,
            Storage::SparseCsc => walk.sparse(stream.dim, stream.element.size(), &mut tally, earlier)?,
        });
        tally.end_stream();
    }
    match tally.open.first() {
        None => Ok(parts),
        Some(&index) => Err(context.error(
            4 * index as usize,
            None,
            Some(index),
            format!("A sequence is said to have {} samples, but no stream has as many.", lengths.get(index)),
        )),
    }
}

/// Holds the samples of all streams against the declared lengths: a length is the largest of them.
struct Tally<'a> {
    lengths: Lengths<'a>,
    /// This is the first stream: no sequence has reached its length yet.
    first: bool,
    /// Sequences that no stream before has filled, ascending.
    open: Vec<u32>,
    /// Those of them that this stream has not filled either.
    still: Vec<u32>,
    /// How many of `open` have passed.
    at: usize,
}

impl Tally<'_> {
    /// Takes the number of samples of the next sequence; false if it is more than the declared length.
    #[inline(always)]
    fn take(&mut self, index: u32, samples: u32) -> bool {
        let length = self.lengths.get(index);
        if samples > length {
            return false;
        }
        let open = self.first || self.open.get(self.at) == Some(&index);
        self.at += usize::from(open);
        if open && samples < length {
            self.still.push(index);
        }
        true
    }

    fn end_stream(&mut self) {
        std::mem::swap(&mut self.open, &mut self.still);
        self.still.clear();
        self.first = false;
        self.at = 0;
    }
}

/// Walks over the bytes of a chunk.
struct Walk<'a> {
    context: &'a Context<'a>,
    data: &'a [u8],
    at: usize,
    stream: usize,
}

impl Walk<'_> {
    #[cold]
    fn error(&self, index: u32, message: String) -> Error {
        self.context.error(self.at, Some(self.stream), Some(index), message)
    }

    #[cold]
    fn too_long(&self, index: u32, samples: u32, length: u32) -> Error {
        self.error(
            index,
            format!(
                "A sequence has {samples} samples, but is said to have no more than {length} in any stream."
            ),
        )
    }

    #[cold]
    fn ended(&self, index: u32) -> Error {
        let row = self.context.row;
        self.error(
            index,
            format!(
                "A sequence goes on behind the end of its chunk, which is from {} to {}.",
                row.start, row.end
            ),
        )
    }

    #[inline(always)]
    fn word(&mut self, index: u32) -> Result<u32> {
        let bytes = self.data.get(self.at..).and_then(|rest| rest.first_chunk());
        let word = bytes.ok_or_else(|| self.ended(index))?;
        self.at += 4;
        Ok(u32::from_le_bytes(*word))
    }

    /// Passes over `count` items of `size` bytes.
    #[inline(always)]
    fn skip(&mut self, index: u32, count: u32, size: u64) -> Result<()> {
        let bytes = u64::from(count).checked_mul(size);
        match bytes.filter(|&bytes| bytes <= (self.data.len() - self.at) as u64) {
            Some(bytes) => {
                self.at += bytes as usize;
                Ok(())
            }
            None => Err(self.ended(index)),
        }
    }

    fn dense(&mut self, sample_bytes: u64, tally: &mut Tally<'_>, earlier: Option<&Samples>) -> Result<Part> {
        let sequences = self.context.row.sequences;
        let start = self.at;
        let mut every = 0;
        let mut total = 0;
        // Stays empty as long as all sequences have the same number of samples.
        let mut firsts = Vec::new();
        for index in 0..sequences {
            let count = self.word(index)?;
            if !tally.take(index, count) {
                return Err(self.too_long(index, count, tally.lengths.get(index)));
            }
            if index == 0 {
                every = count;
            } else if count != every && firsts.is_empty() {
                firsts.reserve_exact(sequences as usize + 1);
                firsts.extend((0..index).map(|index| index * every));
            }
            if !firsts.is_empty() {
                firsts.push(total);
            }
            // At most the sum of the declared lengths, which the table has as 32 bits.
            total += count;
            self.skip(index, count, sample_bytes)?;
        }
        let samples = if firsts.is_empty() {
            Samples::Every(every)
        } else {
            firsts.push(total);
            Samples::new(firsts, earlier)
        };
        Ok(Part::Dense { start, head: 4, samples })
    }

    fn sparse(
        &mut self,
        dim: u32,
        value_size: usize,
        tally: &mut Tally<'_>,
        earlier: Option<&Samples>,
    ) -> Result<Part> {
        let sequences = self.context.row.sequences;
        let start = self.at;
        let mut firsts = Vec::with_capacity(sequences as usize + 1);
        // The stream has at most the declared samples, and each of them takes four bytes.
        let most = (self.context.row.samples as usize).min((self.data.len() - start) / 4);
        let mut starts = Vec::with_capacity(most + 1);
        starts.push(0);
        let mut total = 0u32;
        firsts.push(0);
        for index in 0..sequences {
            let samples = self.word(index)?;
            if !tally.take(index, samples) {
                return Err(self.too_long(index, samples, tally.lengths.get(index)));
            }
            let count = self.word(index)?;
            if i32::try_from(count).is_err() {
                self.at -= 4;
                return Err(self.error(index, "NNZ count is too large for an IndexType value.".to_owned()));
            }
            self.skip(index, count, value_size as u64)?;
            let rows = self.at;
            self.skip(index, count, 4)?;
            self.check_rows(index, rows, dim)?;
            let counts = self.at;
            self.skip(index, samples, 4)?;
            let end = total.checked_add(count);
            let mut sum = total;
            for bytes in self.data[counts..self.at].as_chunks::<4>().0 {
                let next = sum.checked_add(u32::from_le_bytes(*bytes));
                let Some(next) = next.filter(|&next| end.is_some_and(|end| next <= end)) else {
                    break;
                };
                sum = next;
                starts.push(sum);
            }
            let Ok(samples_so_far) = u32::try_from(starts.len() - 1) else {
                return Err(self.error(index, "The chunk has more than 4294967295 samples.".to_owned()));
            };
            let before = firsts[index as usize];
            if end != Some(sum) || samples_so_far - before != samples {
                self.at = counts;
                return Err(self.error(
                    index,
                    format!(
                        "The numbers of values of {samples} samples do not add up to the sequence's {count}."
                    ),
                ));
            }
            total = sum;
            firsts.push(samples_so_far);
        }
        let samples = Samples::new(firsts, earlier);
        Ok(Part::Sparse { samples, starts, places: Places::Each(start) })
    }

    /// Checks that all rows between `rows` and here are in a sample.
    fn check_rows(&mut self, index: u32, rows: usize, dim: u32) -> Result<()> {
        let words = self.data[rows..self.at].as_chunks::<4>().0;
        // Negative ones are large; without an early end, so that it is compiled to vector instructions.
        let largest = words.iter().fold(0, |largest, bytes| u32::from_le_bytes(*bytes).max(largest));
        if largest < dim || words.is_empty() {
            return Ok(());
        }
        let bad = words.iter().position(|bytes| u32::from_le_bytes(*bytes) >= dim).unwrap_or(0);
        self.at = rows + 4 * bad;
        let row = u32::from_le_bytes(words[bad]).cast_signed();
        Err(self.error(index, format!("A sparse value has the index {row}, but a sample has {dim} values.")))
    }
}
