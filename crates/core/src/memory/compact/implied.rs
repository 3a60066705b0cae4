//! Implied data: values and offsets that are equal for all sequences, and thus not stored at all.
//!
//! Samples with one entry each, such as words and labels, only name an index: all values are 1, and
//! the offsets count up by one. Both are read from tables shared by all chunks.

use super::Value;
use super::narrow::BLOCK;
use crate::Result;
use crate::memory::room;

/// Length of the tables: the maximum number of samples, and of entries, of a sequence whose data
/// may be implied.
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

/// Returns the bytes of `count` values of 1, of `size` bytes each (4 or 8). `count` is at most
/// [`LONGEST`].
#[inline]
pub fn ones(count: usize, size: usize) -> &'static [u8] {
    if size == size_of::<f32>() {
        bytemuck::cast_slice(&FLOATS[..count])
    } else {
        bytemuck::cast_slice(&DOUBLES[..count])
    }
}

/// Returns the offsets of `samples` samples with one entry each: 0 to `samples`, which is at most
/// [`LONGEST`].
#[inline]
pub fn offsets(samples: usize) -> &'static [u32] {
    &OFFSETS[..=samples]
}

/// Offsets for sequences with one entry per sample that may be longer than [`LONGEST`], such as the
/// labels of utterances: one table for all sequences of a chunk. Such a sequence is this view:
///
/// ```ignore
/// SequenceView {
///     samples,
///     values: &[],
///     form: ValueForm::Ones,
///     kind: ViewKind::Sparse(SparseView {
///         indices,                                        // one class per sample
///         narrow: true,                                   // stored in 2 bytes each
///         offsets: self.offsets.get(samples)?,            // from `Offsets::new(longest)`
///         single: true,
///     }),
/// }
/// ```
#[derive(Debug, Clone, Default)]
pub struct Offsets {
    /// Empty if the shared table suffices.
    own: Vec<u32>,
}

impl Offsets {
    /// Creates offsets for sequences of at most `longest` samples.
    pub fn new(longest: u32) -> Result<Offsets> {
        let is_short = longest as usize <= LONGEST;
        Ok(Offsets { own: if is_short { Vec::new() } else { room::collect(0..=longest, room::CHUNK)? } })
    }

    /// Returns the offsets of `samples` samples with one entry each: 0 to `samples`. `None` if that
    /// exceeds the longest sequence.
    #[inline]
    pub fn get(&self, samples: u32) -> Option<&[u32]> {
        let table = if self.own.is_empty() { &OFFSETS[..] } else { &self.own };
        table.get(..=samples as usize)
    }

    /// Returns the memory that it holds, in bytes.
    pub fn memory(&self) -> usize {
        size_of_val(self.own.as_slice())
    }
}

/// Returns whether all values are 1. Tests many values per branch, so that the compiler vectorizes
/// it.
pub fn are_ones<T: Value>(values: &[T]) -> bool {
    let one = T::from_u16(1);
    values.chunks(BLOCK).all(|values| values.iter().fold(true, |same, &value| same & (value == one)))
}

/// Returns whether these are the offsets of samples with one entry each. Vectorized like
/// [`are_ones`].
pub fn are_single(offsets: &[u32]) -> bool {
    offsets.chunks(BLOCK).zip((0..).step_by(BLOCK)).all(|(offsets, first)| {
        offsets.iter().zip(first..).fold(true, |same, (&offset, number)| same & (offset == number))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_contain_ones_and_consecutive_offsets() {
        for count in [0, 1, 2, LONGEST] {
            assert_eq!(ones(count, 4), vec![1f32.to_ne_bytes(); count].as_flattened());
            assert_eq!(ones(count, 8), vec![1f64.to_ne_bytes(); count].as_flattened());
            assert!(offsets(count).iter().copied().eq(0..=count as u32), "{count}");
        }
    }

    #[test]
    fn long_sequences_get_a_table_of_their_own() {
        const SHARED: u32 = LONGEST as u32;
        for (longest, available, memory) in [
            (0, SHARED, 0),
            (SHARED, SHARED, 0),
            (SHARED + 1, SHARED + 1, 4 * (LONGEST + 2)),
            (9999, 9999, 40_000),
        ] {
            let offsets = Offsets::new(longest).expect("memory");
            assert_eq!(offsets.memory(), memory, "{longest}");
            for samples in [0, 1, available] {
                let table = offsets.get(samples).expect("a table");
                assert!(table.iter().copied().eq(0..=samples), "{samples} of {longest}");
            }
            assert_eq!(offsets.get(available + 1), None, "{longest}");
        }
    }

    #[test]
    fn other_numbers_are_noticed_anywhere() {
        for length in [0, 1, 2, BLOCK, BLOCK + 1, 3 * BLOCK - 1] {
            let (mut floats, mut doubles) = (vec![1f32; length], vec![1f64; length]);
            let mut offsets: Vec<u32> = (0..length as u32).collect();
            assert!(are_ones(&floats) && are_ones(&doubles) && are_single(&offsets), "{length}");
            for place in
                [0, 1, BLOCK - 1, BLOCK, length.saturating_sub(1)].into_iter().filter(|&place| place < length)
            {
                (floats[place], doubles[place], offsets[place]) =
                    (1.0 + f32::EPSILON, -1.0, place as u32 + 1);
                let found = (are_ones(&floats), are_ones(&doubles), are_single(&offsets));
                assert_eq!(found, (false, false, false), "{place} of {length}");
                (floats[place], doubles[place], offsets[place]) = (1.0, 1.0, place as u32);
            }
        }
    }
}
