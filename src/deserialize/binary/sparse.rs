//! Sparse sequences of a chunk, stored in less memory than the file has them: values that are all 1 and samples of one
//! entry are implied, small whole values take one byte and small rows two.
//!
//! What can be stored so shows as it is read. A stream begins with the least form and starts anew with a larger one where
//! a sequence does not fit; chunks that are read later begin with that one. Of words and labels a window then takes an
//! eighth of the memory: loading takes half as long, and packing, which waits for memory, two thirds.

use super::buffer::Buffer;
use super::chunk::{Part, Places, Samples};
use super::magic::{Place, Tally, word};
use super::pieces::Pieces;
use crate::Result;
use crate::compact::implied;
use crate::compact::narrow::Narrow;
use crate::stream::ElementType;
use parking_lot::Mutex;

/// What of a stream is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Form {
    pub values: Values,
    /// Where each sample's entries begin; else each sample has one.
    pub starts: bool,
    /// Small numbers may be stored narrow.
    pub narrow: bool,
}

/// How values are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Values {
    /// Not at all: they are 1.
    Implied,
    /// As `u8`.
    Narrow,
    Whole,
}

impl Form {
    /// The least form.
    pub fn new(narrow: bool) -> Form {
        Form { values: Values::Implied, starts: false, narrow }
    }

    fn more_values(self) -> Form {
        let next = match self.values {
            Values::Implied if self.narrow => Values::Narrow,
            _ => Values::Whole,
        };
        Form { values: next, ..self }
    }

    /// Bytes of a stored value, and of a row.
    fn sizes(self, value_size: usize, dim: u32) -> (usize, usize) {
        let value = match self.values {
            Values::Implied => 0,
            Values::Narrow => 1,
            Values::Whole => value_size,
        };
        // Rows are below the dimension.
        (value, if self.narrow && dim <= 1 << 16 { 2 } else { 4 })
    }
}

/// Reads a stream.
pub fn read(
    place: Place<'_>,
    pieces: &mut Pieces<'_>,
    data: &mut Buffer,
    form: &Mutex<Form>,
    tally: &mut Tally<'_>,
    earlier: Option<&Samples>,
) -> Result<Part> {
    match place.context.header.streams[place.stream].element {
        ElementType::Float => read_as(place, f32::from_le_bytes, pieces, data, form, tally, earlier),
        ElementType::Double => read_as(place, f64::from_le_bytes, pieces, data, form, tally, earlier),
    }
}

fn read_as<T: Narrow, const N: usize>(
    place: Place<'_>,
    number: impl Fn([u8; N]) -> T + Copy,
    pieces: &mut Pieces<'_>,
    data: &mut Buffer,
    shared_form: &Mutex<Form>,
    tally: &mut Tally<'_>,
    earlier: Option<&Samples>,
) -> Result<Part> {
    let first_form = *shared_form.lock();
    let mut form = first_form;
    let (at, start) = (pieces.at(), data.len());
    let dim = place.context.header.streams[place.stream].dim;
    loop {
        let stream = Stream { place, form, dim, number };
        match stream.read(pieces, data, tally)? {
            Ok((firsts, starts)) => {
                if form != first_form {
                    *shared_form.lock() = form;
                }
                let (value, row) = form.sizes(N, dim);
                let samples = Samples::new(firsts, earlier);
                return Ok(Part::Sparse { samples, starts, places: Places::Each { start, value, row } });
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

/// A stream that is read in a form.
struct Stream<'a, F> {
    place: Place<'a>,
    form: Form,
    dim: u32,
    /// Makes a value of its bytes.
    number: F,
}

/// The number of samples before each sequence and behind the last one; and that of the entries before each sample.
type Tables = (Vec<u32>, Option<Vec<u32>>);

impl<F> Stream<'_, F> {
    /// Reads all sequences; or gives the form that is needed.
    fn read<T: Narrow, const N: usize>(
        &self,
        pieces: &mut Pieces<'_>,
        data: &mut Buffer,
        tally: &mut Tally<'_>,
    ) -> Result<std::result::Result<Tables, Form>>
    where
        F: Fn([u8; N]) -> T + Copy,
    {
        let (place, form) = (self.place, self.form);
        let row = place.context.row;
        let mut firsts = Vec::with_capacity(row.sequences as usize + 1);
        firsts.push(0u32);
        let mut starts = form.starts.then(|| {
            // The stream has at most the declared samples, and each of them takes four bytes.
            let most = (row.samples as usize).min(pieces.left() / 4);
            let mut starts = Vec::with_capacity(most + 1);
            starts.push(0u32);
            starts
        });
        let (_, row_size) = form.sizes(N, self.dim);
        let (mut samples_before, mut entries_before) = (0u32, 0u32);
        for index in 0..row.sequences {
            let (at, left) = (pieces.at(), pieces.left() as u64);
            let head = pieces.look(8)?;
            let samples = word(head, 0).ok_or_else(|| place.ended(at, index))?;
            place.tally(tally, at + 4, index, samples)?;
            let count = word(head, 4).ok_or_else(|| place.ended(at + 4, index))?;
            if i32::try_from(count).is_err() {
                let message = "NNZ count is too large for an IndexType value.".to_owned();
                return Err(place.error(at + 4, index, message));
            }
            let rows = 8 + u64::from(count) * N as u64;
            let counts = rows + u64::from(count) * 4;
            let end = counts + u64::from(samples) * 4;
            let text = pieces.look(end.min(left) as usize)?;
            let cut = |from: u64, to: u64| {
                let within = (to <= left).then(|| &text[from as usize..to as usize]);
                within.ok_or_else(|| place.ended(at + from as usize, index))
            };
            let values = cut(8, rows)?.as_chunks::<N>().0;
            let rows = self.rows(cut(rows, counts)?.as_chunks::<4>().0, at + rows as usize, index)?;
            let sizes = cut(counts, end)?.as_chunks::<4>().0;

            let is_short = samples.max(count) as usize <= implied::LONGEST;
            let fits = match form.values {
                Values::Implied => is_short && self.are_ones(values),
                Values::Narrow => self.are_narrow(values),
                Values::Whole => true,
            };
            if !fits {
                return Ok(Err(form.more_values()));
            }
            let samples_here = samples_before.checked_add(samples).ok_or_else(|| {
                place.error(at, index, "The chunk has more than 4294967295 samples.".to_owned())
            })?;
            let wrong = || {
                let message = format!(
                    "The numbers of values of {samples} samples do not add up to the sequence's {count}."
                );
                place.error(at + counts as usize, index, message)
            };
            match &mut starts {
                None if is_short && count == samples && are_all_one(sizes) => {}
                None => return Ok(Err(Form { starts: true, ..form })),
                Some(starts) => {
                    let end = entries_before.checked_add(count);
                    let mut sum = entries_before;
                    for size in sizes {
                        let next = sum.checked_add(u32::from_le_bytes(*size));
                        sum = next.filter(|&next| end.is_some_and(|end| next <= end)).ok_or_else(wrong)?;
                        starts.push(sum);
                    }
                    if end != Some(sum) {
                        return Err(wrong());
                    }
                }
            }
            match form.values {
                Values::Implied => {}
                Values::Narrow => data.extend(values, |bytes| [(self.number)(bytes).guess()]),
                Values::Whole => data.extend(values, |bytes| bytes),
            }
            if row_size == 2 {
                data.extend(rows, |[low, high, ..]| [low, high]);
            } else {
                data.extend(rows, |bytes| bytes);
            }
            // No more than a number of samples or an entry number that was checked.
            entries_before += count;
            samples_before = samples_here;
            firsts.push(samples_before);
            pieces.pass(end as usize);
        }
        Ok(Ok((firsts, starts)))
    }

    /// Checks that all rows are in a sample.
    #[inline(always)]
    fn rows<'b>(&self, rows: &'b [[u8; 4]], at: usize, index: u32) -> Result<&'b [[u8; 4]]> {
        // The dimension is an `i32`; what is negative or not below it leaves a sign. Without an early end, so that it is
        // compiled to vector instructions.
        let last = (self.dim - 1).cast_signed();
        let sign =
            |bytes: &[u8; 4]| i32::from_le_bytes(*bytes) | last.wrapping_sub(i32::from_le_bytes(*bytes));
        if rows.iter().fold(0, |signs, bytes| signs | sign(bytes)) >= 0 {
            return Ok(rows);
        }
        let bad = rows.iter().position(|bytes| sign(bytes) < 0).unwrap_or(0);
        let (row, dim) = (i32::from_le_bytes(rows[bad]), self.dim);
        let message = format!("A sparse value has the index {row}, but a sample has {dim} values.");
        Err(self.place.error(at + 4 * bad, index, message))
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
