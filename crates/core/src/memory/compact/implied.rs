//! Implied data: what is equal for all sequences and so is not stored at all.
//!
//! Samples of one entry each, as words and labels have, only name an index: their values are all 1, and their offsets count
//! up by one. Both are read from tables that all chunks share.

use super::Value;
use super::narrow::BLOCK;
use crate::Result;
use crate::memory::room;

/// The largest number of samples, and of entries, of a sequence whose data may be implied: the tables' length.
pub const LONGEST: usize = 4095;

static FLOATS: [f32; LONGEST] = [1.0; LONGEST];
static DOUBLES: [f64; LONGEST] = [1.0; LONGEST];
static OFFSETS: [u32; LONGEST + 1] = {
    let mut offsets = [0; LONGEST + 1];
    let mut i = 0;
    while i <= LONGEST {
        offsets[i] = i as u32;
        i += 1;
    }
    offsets
};

/// `count` values of 1 as bytes; each value has `size` bytes, 4 or 8. At most [`LONGEST`].
#[inline]
pub fn ones(count: usize, size: usize) -> &'static [u8] {
    if size == size_of::<f32>() {
        bytemuck::cast_slice(&FLOATS[..count])
    } else {
        bytemuck::cast_slice(&DOUBLES[..count])
    }
}

/// The offsets of `samples` samples of one entry each: 0 to `samples`, at most [`LONGEST`].
#[inline]
pub fn offsets(samples: usize) -> &'static [u32] {
    &OFFSETS[..=samples]
}

/// The offsets of sequences of one entry for each sample, where sequences may be longer than [`LONGEST`], as the labels of
/// utterances are: one table for all sequences of a chunk. Such a sequence is this view:
///
/// ```ignore
/// SequenceView {
///     samples,
///     values: &[],
///     form: ValueForm::Ones,
///     kind: ViewKind::Sparse(SparseView {
///         indices,                                        // of one class for each sample
///         narrow: true,                                   // in 2 bytes each
///         offsets: self.offsets.get(samples as usize)?,   // with `Offsets::new(longest)` when the chunk was made
///         single: true,
///     }),
/// }
/// ```
#[derive(Debug, Clone, Default)]
pub struct Offsets {
    /// Has no entries if the common table suffices.
    own: Vec<u32>,
}

impl Offsets {
    /// For sequences of at most `longest` samples.
    pub fn new(longest: u32) -> Result<Offsets> {
        let is_short = longest as usize <= LONGEST;
        Ok(Offsets { own: if is_short { Vec::new() } else { room::collect(0..=longest, room::CHUNK)? } })
    }

    /// The offsets of `samples` samples of one entry each: 0 to `samples`. `None` if that is more than the longest sequence.
    #[inline]
    pub fn get(&self, samples: u32) -> Option<&[u32]> {
        let table = if self.own.is_empty() { &OFFSETS[..] } else { &self.own };
        table.get(..=samples as usize)
    }

    /// Bytes of memory that it holds.
    pub fn memory(&self) -> usize {
        size_of_val(self.own.as_slice())
    }
}

/// Whether all values are 1. Tests many values before it branches, so that the compiler uses vector instructions.
pub fn are_ones<T: Value>(values: &[T]) -> bool {
    let one = T::from_u16(1);
    values.chunks(BLOCK).all(|values| values.iter().fold(true, |same, &value| same & (value == one)))
}

/// Whether these are the offsets of samples of one entry each. Tests like [`are_ones`].
pub fn are_single(offsets: &[u32]) -> bool {
    offsets.chunks(BLOCK).zip((0..).step_by(BLOCK)).all(|(offsets, first)| {
        offsets.iter().zip(first..).fold(true, |same, (&offset, number)| same & (offset == number))
    })
}
