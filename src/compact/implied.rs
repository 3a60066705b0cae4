//! What is the same for every sequence and so never stored: the values of samples that only name rows, which are all 1,
//! and the entry numbers of samples of one entry.

use super::Value;
use super::narrow::BLOCK;

/// The most samples and entries that a sequence may have for this.
pub const LONGEST: usize = 4095;

static FLOATS: [f32; LONGEST] = [1.0; LONGEST];
static DOUBLES: [f64; LONGEST] = [1.0; LONGEST];
static STARTS: [u32; LONGEST + 1] = {
    let mut starts = [0; LONGEST + 1];
    let mut i = 0;
    while i <= LONGEST {
        starts[i] = i as u32;
        i += 1;
    }
    starts
};

/// This many values of 1, of `size` bytes each.
#[inline]
pub fn ones(count: usize, size: usize) -> &'static [u8] {
    if size == size_of::<f32>() { bytes(&FLOATS[..count]) } else { bytes(&DOUBLES[..count]) }
}

/// The entry numbers of so many samples of one entry each, and of the sample behind.
#[inline]
pub fn starts(samples: usize) -> &'static [u32] {
    &STARTS[..=samples]
}

/// Whether all values are 1. Looks at many together, which vector instructions do; and so does [`are_single`].
pub fn are_ones<T: Value>(values: &[T]) -> bool {
    let one = T::from_u16(1);
    values.chunks(BLOCK).all(|values| values.iter().fold(true, |same, &value| same & (value == one)))
}

/// Whether these are the starts of samples of one entry each.
pub fn are_single(starts: &[u32]) -> bool {
    starts.chunks(BLOCK).zip((0..).step_by(BLOCK)).all(|(starts, first)| {
        starts.iter().zip(first..).fold(true, |same, (&start, number)| same & (start == number))
    })
}

fn bytes<T: super::arena::Plain>(values: &[T]) -> &[u8] {
    // SAFETY: every byte of a plain value is initialised.
    unsafe { std::slice::from_raw_parts(values.as_ptr().cast(), size_of_val(values)) }
}
