//! Compact storage for the sparse sequences of a chunk: values of 1 and samples of one entry are
//! implied, small integers take one byte, and small indices two.
//!
//! Whether data fit a form is found out while reading. A stream begins with the most compact form,
//! and is read again in a larger one when a sequence does not fit; later chunks begin with that
//! form. For words and labels, this cuts the memory of a window to an eighth, the time to load it
//! to half, and the time of packing, which is bound by memory, to two thirds.

use super::chunk::{ChunkStream, Entries, Samples};
use super::context::StreamContext;
use super::layout_cntk::{Tally, word};
use super::pieces::Pieces;
use cntk_reader_core::Result;
use cntk_reader_core::format::buffer::ChunkBuffer;
use cntk_reader_core::memory::compact::implied;
use cntk_reader_core::memory::compact::narrow::Narrow;
use cntk_reader_core::memory::room;
use cntk_reader_core::runtime::lock::Mutex;
use cntk_reader_core::stream::ElementType;

/// How a sparse stream is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Form {
    pub values: Values,
    /// Whether a table stores the number of values before each sample; otherwise each sample has
    /// one value.
    pub offsets: bool,
    /// Whether small numbers may be stored narrow.
    pub narrow: bool,
}

/// How values are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Values {
    /// Not stored: all are 1.
    Implied,
    /// As `u8`.
    Narrow,
    /// As in the file.
    Whole,
}

impl Form {
    /// The most compact form.
    pub fn new(narrow: bool) -> Form {
        Form { values: Values::Implied, offsets: false, narrow }
    }

    fn more_values(self) -> Form {
        let next = match self.values {
            Values::Implied if self.narrow => Values::Narrow,
            _ => Values::Whole,
        };
        Form { values: next, ..self }
    }

    /// Sizes in bytes of a stored value and of an index.
    fn sizes(self, value_size: usize, dim: u32) -> (usize, usize) {
        let value = match self.values {
            Values::Implied => 0,
            Values::Narrow => 1,
            Values::Whole => value_size,
        };
        // Indices are below the dimension.
        (value, if self.narrow && dim <= 1 << 16 { 2 } else { 4 })
    }
}

/// Reads a stream. `form` is the form in which it was last stored; `earlier` are the samples of
/// another stream.
pub fn read(
    context: StreamContext<'_>,
    pieces: &mut Pieces<'_>,
    data: &mut ChunkBuffer,
    form: &Mutex<Form>,
    tally: &mut Tally<'_>,
    earlier: Option<&Samples>,
) -> Result<ChunkStream> {
    match context.stream().element {
        ElementType::Double => read_as(context, f64::from_le_bytes, pieces, data, form, tally, earlier),
        _ => read_as(context, f32::from_le_bytes, pieces, data, form, tally, earlier),
    }
}

fn read_as<T: Narrow, const N: usize>(
    context: StreamContext<'_>,
    number: impl Fn([u8; N]) -> T + Copy,
    pieces: &mut Pieces<'_>,
    data: &mut ChunkBuffer,
    shared_form: &Mutex<Form>,
    tally: &mut Tally<'_>,
    earlier: Option<&Samples>,
) -> Result<ChunkStream> {
    let first_form = *shared_form.lock();
    let mut form = first_form;
    let (at, start) = (pieces.at(), data.len());
    let dim = context.stream().dim;
    loop {
        let reader = SparseReader { context, form, dim, number };
        match reader.read(pieces, data, tally)? {
            Ok((sequence_offsets, offsets)) => {
                if form != first_form {
                    *shared_form.lock() = form;
                }
                let (value_size, index_size) = form.sizes(N, dim);
                let samples = Samples::new(sequence_offsets, earlier);
                let entries = Entries::Each { start, value_size, index_size };
                return Ok(ChunkStream::Sparse { samples, offsets, entries });
            }
            Err(larger) => {
                form = larger;
                pieces.seek(at);
                data.truncate(start);
                tally.restart_stream();
            }
        }
    }
}

/// Reads a stream and stores it in one form.
struct SparseReader<'a, F> {
    context: StreamContext<'a>,
    form: Form,
    dim: u32,
    /// Decodes a value.
    number: F,
}

/// Number of samples before each sequence, and finally of all samples; and, if the form has such a
/// table, the number of values before each sample, and finally of all values.
type Tables = (Vec<u32>, Option<Vec<u32>>);

impl<F> SparseReader<'_, F> {
    /// Reads all sequences, or returns the larger form that they need.
    fn read<T: Narrow, const N: usize>(
        &self,
        pieces: &mut Pieces<'_>,
        data: &mut ChunkBuffer,
        tally: &mut Tally<'_>,
    ) -> Result<std::result::Result<Tables, Form>>
    where
        F: Fn([u8; N]) -> T + Copy,
    {
        let (context, form) = (self.context, self.form);
        let record = context.chunk.record;
        let mut sequence_offsets = room::with_capacity(record.sequences as usize + 1, room::CHUNK)?;
        sequence_offsets.push(0u32);
        let mut offsets = None;
        if form.offsets {
            // The stream has at most the declared number of samples, and each takes four bytes.
            let most = (record.samples as usize).min(pieces.left() / 4);
            let offsets = offsets.insert(room::with_capacity(most + 1, room::CHUNK)?);
            offsets.push(0u32);
        }
        let (_, index_size) = form.sizes(N, self.dim);
        let (mut samples_before, mut entries_before) = (0u32, 0u32);
        for index in 0..record.sequences {
            let (at, left) = (pieces.at(), pieces.left() as u64);
            let head = pieces.look(8)?;
            let samples = word(head, 0).ok_or_else(|| context.ended(at, index))?;
            context.tally(tally, at + 4, index, samples)?;
            let count = word(head, 4).ok_or_else(|| context.ended(at + 4, index))?;
            if i32::try_from(count).is_err() {
                let message = "NNZ count is too large for an IndexType value.".to_owned();
                return Err(context.error(at + 4, index, message));
            }
            let indices = 8 + u64::from(count) * N as u64;
            let counts = indices + u64::from(count) * 4;
            let end = counts + u64::from(samples) * 4;
            let bytes = pieces.look(end.min(left) as usize)?;
            let cut = |from: u64, to: u64| {
                let within = (to <= left).then(|| &bytes[from as usize..to as usize]);
                within.ok_or_else(|| context.ended(at + from as usize, index))
            };
            let values = cut(8, indices)?.as_chunks::<N>().0;
            let indices =
                self.indices(cut(indices, counts)?.as_chunks::<4>().0, at + indices as usize, index)?;
            let sizes = cut(counts, end)?.as_chunks::<4>().0;

            if context.is_ids() {
                self.check_ids(values, sizes, at, index)?;
            }
            // Values and offsets of ids are not delivered.
            let is_short = samples.max(count) as usize <= implied::LONGEST || context.is_ids();
            let fits = match form.values {
                Values::Implied => is_short && self.are_ones(values),
                Values::Narrow => self.are_narrow(values),
                Values::Whole => true,
            };
            if !fits {
                return Ok(Err(form.more_values()));
            }
            let wrong = || {
                let message = format!(
                    "The numbers of values of {samples} samples do not add up to the sequence's {count}."
                );
                context.error(at + counts as usize, index, message)
            };
            match &mut offsets {
                None if is_short && count == samples && are_all_one(sizes) => {}
                None => return Ok(Err(Form { offsets: true, ..form })),
                Some(offsets) => {
                    let end = entries_before.checked_add(count);
                    let mut sum = entries_before;
                    for size in sizes {
                        let next = sum.checked_add(u32::from_le_bytes(*size));
                        sum = next.filter(|&next| end.is_some_and(|end| next <= end)).ok_or_else(wrong)?;
                        offsets.push(sum);
                    }
                    if end != Some(sum) {
                        return Err(wrong());
                    }
                }
            }
            match form.values {
                Values::Implied => {}
                Values::Narrow => data.extend(values, |bytes| [(self.number)(bytes).guess()])?,
                Values::Whole => data.extend(values, |bytes| bytes)?,
            }
            if index_size == 2 {
                data.extend(indices, |[low, high, ..]| [low, high])?;
            } else {
                data.extend(indices, |bytes| bytes)?;
            }
            // Neither can overflow: `samples_before` is at most the sum of the declared lengths, a
            // `u32` in the chunk table, and `entries_before` becomes either `end`, which was checked,
            // or equals `samples_before`.
            entries_before += count;
            samples_before += samples;
            sequence_offsets.push(samples_before);
            pieces.pass(end as usize);
        }
        Ok(Ok((sequence_offsets, offsets)))
    }

    /// Checks that each sample of a sequence, which begins at byte `at`, is one entry with the
    /// value 1.
    fn check_ids<T: Narrow, const N: usize>(
        &self,
        values: &[[u8; N]],
        sizes: &[[u8; 4]],
        at: usize,
        index: u32,
    ) -> Result<()>
    where
        F: Fn([u8; N]) -> T + Copy,
    {
        if !are_all_one(sizes) {
            let counts = sizes.iter().map(|size| u32::from_le_bytes(*size));
            let count = counts.into_iter().find(|&count| count != 1).unwrap_or_default();
            return Err(self.context.no_id(at, index, &format!("{count} entries")));
        }
        if !self.are_ones(values) {
            let one = T::from_f64(1.0);
            let other = values.iter().map(|bytes| (self.number)(*bytes)).find(|value| *value != one);
            return Err(self.context.no_id(at, index, &format!("the value {:?}", other.unwrap_or_default())));
        }
        Ok(())
    }

    /// Checks that all indices are below the dimension.
    #[inline(always)]
    fn indices<'b>(&self, indices: &'b [[u8; 4]], at: usize, index: u32) -> Result<&'b [[u8; 4]]> {
        // The dimension is an `i32`, so a negative or too large index makes one of the two operands
        // negative. No early exit, so that the loop is vectorized.
        let last = (self.dim - 1).cast_signed();
        let sign =
            |bytes: &[u8; 4]| i32::from_le_bytes(*bytes) | last.wrapping_sub(i32::from_le_bytes(*bytes));
        if indices.iter().fold(0, |signs, bytes| signs | sign(bytes)) >= 0 {
            return Ok(indices);
        }
        let bad = indices.iter().position(|bytes| sign(bytes) < 0).unwrap_or(0);
        let (found, dim) = (i32::from_le_bytes(indices[bad]), self.dim);
        let message = format!("A sparse value has the index {found}, but a sample has {dim} values.");
        Err(self.context.error(at + 4 * bad, index, message))
    }

    /// Whether all values are 1.
    #[inline(always)]
    fn are_ones<T: Narrow, const N: usize>(&self, values: &[[u8; N]]) -> bool
    where
        F: Fn([u8; N]) -> T + Copy,
    {
        let one = T::from_f64(1.0);
        values.iter().fold(true, |all, bytes| all & ((self.number)(*bytes) == one))
    }

    /// Whether all values can be stored narrow.
    #[inline(always)]
    fn are_narrow<T: Narrow, const N: usize>(&self, values: &[[u8; N]]) -> bool
    where
        F: Fn([u8; N]) -> T + Copy,
    {
        let value = |bytes: &[u8; N]| (self.number)(*bytes);
        values.iter().fold(true, |all, bytes| all & value(bytes).is(value(bytes).guess()))
    }
}

/// Whether every sample has one entry.
#[inline(always)]
fn are_all_one(sizes: &[[u8; 4]]) -> bool {
    sizes.iter().fold(true, |all, bytes| all & (u32::from_le_bytes(*bytes) == 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_grow_until_values_fit() {
        use Values::{Implied, Narrow, Whole};
        for (narrow, values) in
            [(true, &[Implied, Narrow, Whole, Whole][..]), (false, &[Implied, Whole, Whole])]
        {
            let first = Form { offsets: true, ..Form::new(narrow) };
            let forms = std::iter::successors(Some(first), |form| Some(form.more_values()));
            for (form, &values) in forms.zip(values) {
                assert_eq!(form, Form { values, offsets: true, narrow });
                let value = |size| [0, 1, size][values as usize];
                for (dim, index) in [(1, 2), (65_536, 2), (65_537, 4), (u32::MAX, 4)] {
                    let index = if narrow { index } else { 4 };
                    assert_eq!(form.sizes(8, dim), (value(8), index), "{form:?}");
                    assert_eq!(form.sizes(4, dim), (value(4), index), "{form:?}");
                }
            }
            assert!(!Form::new(narrow).offsets);
        }
    }
}
