//! Weighted sums of source pixels, and their rounding: one kernel for each interpolation and value
//! type.

use super::axis::Axis;
use super::sums::{sums_of_four, sums_of_two};
use crate::transform::pixels::{Real, Value};
use cntk_reader_core::cpu::processor::InstructionSet;
use std::marker::PhantomData;

/// A way to sum source pixels.
pub(super) trait Kernel {
    /// Type of the image's values.
    type Pixel: Value;
    /// Type of horizontally resized values.
    type Middle: Copy + Default;
    /// Type of weights.
    type Weight: Copy;
    /// Source pixels per direction.
    const TAPS: usize;
    /// Number of values that [`Kernel::triple`] may read.
    const REACH: usize;

    /// Returns the weights of a direction.
    fn weights(axis: &Axis) -> &[Self::Weight];

    /// Sums [`Kernel::TAPS`] values of `window`, starting at `first` and `step` values apart.
    fn blend(window: &[Self::Pixel], weights: &[Self::Weight], first: usize, step: usize) -> Self::Middle;

    /// Sums pixels of three values, starting at the first value of a window of [`Kernel::REACH`]
    /// values. The fourth number of the result is unspecified.
    fn triple<S: InstructionSet>(
        instructions: S,
        window: &[Self::Pixel],
        weights: &[Self::Weight],
    ) -> [Self::Middle; 4];

    /// Sums rows of `row` values, which are at `places` in the ring. The first `eights` values are
    /// those that OpenCV computes eight at a time.
    fn vertical(
        ring: &[Self::Middle],
        places: [usize; 8],
        row: usize,
        weights: &[Self::Weight],
        out: &mut [Self::Pixel],
        eights: usize,
    );
}

/// Returns the rows at `places` in the ring.
#[inline(always)]
fn rows<M, const TAPS: usize>(ring: &[M], places: [usize; 8], row: usize) -> [&[M]; TAPS] {
    let mut rows = [&ring[..0]; TAPS];
    for (rows, place) in rows.iter_mut().zip(places) {
        *rows = &ring[place * row..][..row];
    }
    rows
}

/// Returns the weights of a pixel as an array.
#[inline(always)]
fn weights_of<W: Copy + Default, const TAPS: usize>(weights: &[W]) -> [W; TAPS] {
    let mut array = [W::default(); TAPS];
    array.copy_from_slice(&weights[..TAPS]);
    array
}

/// Linear interpolation of bytes. The horizontal sums, at most 255 * 2048, drop their lowest four
/// bits immediately.
pub(super) struct ByteLinear;

impl Kernel for ByteLinear {
    type Pixel = u8;
    type Middle = i16;
    type Weight = i16;
    const TAPS: usize = 2;
    const REACH: usize = 8;

    #[inline(always)]
    fn weights(axis: &Axis) -> &[i16] {
        &axis.fixed
    }

    #[inline(always)]
    fn blend(window: &[u8], weights: &[i16], first: usize, step: usize) -> i16 {
        let (a, b) = (i32::from(window[first]), i32::from(window[first + step]));
        ((a * i32::from(weights[0]) + b * i32::from(weights[1])) >> 4) as i16
    }

    #[inline(always)]
    fn triple<S: InstructionSet>(instructions: S, window: &[u8], weights: &[i16]) -> [i16; 4] {
        sums_of_two(instructions, window, weights)
    }

    #[inline(always)]
    fn vertical(
        ring: &[i16],
        places: [usize; 8],
        row: usize,
        weights: &[i16],
        out: &mut [u8],
        _eights: usize,
    ) {
        let [upper, lower] = rows(ring, places, row);
        let [above, below] = weights_of(weights);
        for ((out, &upper), &lower) in out.iter_mut().zip(upper).zip(lower) {
            *out = ((high(upper, above) + high(lower, below) + 2) >> 2) as u8;
        }
    }
}

/// Returns the upper half of a product, which vectorizes to a single instruction.
#[inline(always)]
fn high(a: i16, b: i16) -> i16 {
    ((i32::from(a) * i32::from(b)) >> 16) as i16
}

/// Cubic interpolation of bytes. Horizontal sums are integers, which `f32` represents exactly.
/// Vertical sums are in single precision, except for the last, fewer than eight, values of a row:
/// those are computed in integers, with halves rounded up.
pub(super) struct ByteCubic;

impl Kernel for ByteCubic {
    type Pixel = u8;
    type Middle = f32;
    type Weight = i16;
    const TAPS: usize = 4;
    const REACH: usize = 16;

    #[inline(always)]
    fn weights(axis: &Axis) -> &[i16] {
        &axis.fixed
    }

    #[inline(always)]
    fn blend(window: &[u8], weights: &[i16], first: usize, step: usize) -> f32 {
        let mut sum = 0;
        for tap in 0..Self::TAPS {
            sum += i32::from(window[first + tap * step]) * i32::from(weights[tap]);
        }
        sum as f32
    }

    #[inline(always)]
    fn triple<S: InstructionSet>(instructions: S, window: &[u8], weights: &[i16]) -> [f32; 4] {
        sums_of_four(instructions, window, weights).map(|sum| sum as f32)
    }

    #[inline(always)]
    fn vertical(
        ring: &[f32],
        places: [usize; 8],
        row: usize,
        weights: &[i16],
        out: &mut [u8],
        eights: usize,
    ) {
        let rows: [&[f32]; 4] = rows(ring, places, row);
        let weights: [i16; 4] = weights_of(weights);
        let eights = eights.min(row);
        let mut floats = [0f32; 4];
        for (float, weight) in floats.iter_mut().zip(weights) {
            *float = f32::from(weight) * (1.0 / 4_194_304.0);
        }
        let (head, tail) = out.split_at_mut(eights);
        let [r0, r1, r2, r3] = rows.map(|row| &row[..eights]);
        let [b0, b1, b2, b3] = floats;
        for ((((out, r0), r1), r2), r3) in head.iter_mut().zip(r0).zip(r1).zip(r2).zip(r3) {
            *out = round(r0 * b0 + r1 * b1 + r2 * b2 + r3 * b3).clamp(0, 255) as u8;
        }
        for (i, out) in (eights..row).zip(tail) {
            let mut sum = 1 << 21;
            for (row, weight) in rows.iter().zip(weights) {
                sum += row[i] as i32 * i32::from(weight);
            }
            *out = (sum >> 22).clamp(0, 255) as u8;
        }
    }
}

/// Rounds a number below 2^22, halves to even, by adding a number so large that the sum has no
/// fractional bits.
#[inline(always)]
fn round(number: f32) -> i32 {
    const MAGIC: f32 = 12_582_912.0;
    (number + MAGIC).to_bits() as i32 - MAGIC.to_bits() as i32
}

/// Lanczos interpolation of bytes, in integers.
pub(super) struct ByteLanczos;

impl Kernel for ByteLanczos {
    type Pixel = u8;
    type Middle = i32;
    type Weight = i16;
    const TAPS: usize = 8;
    const REACH: usize = 28;

    #[inline(always)]
    fn weights(axis: &Axis) -> &[i16] {
        &axis.fixed
    }

    #[inline(always)]
    fn blend(window: &[u8], weights: &[i16], first: usize, step: usize) -> i32 {
        let mut sum = 0;
        for tap in 0..Self::TAPS {
            sum += i32::from(window[first + tap * step]) * i32::from(weights[tap]);
        }
        sum
    }

    #[inline(always)]
    fn triple<S: InstructionSet>(instructions: S, window: &[u8], weights: &[i16]) -> [i32; 4] {
        let mut sums = sums_of_four(instructions, &window[..16], &weights[..4]);
        let rest = sums_of_four(instructions, &window[12..], &weights[4..]);
        sums.iter_mut().zip(rest).for_each(|(sum, rest)| *sum += rest);
        sums
    }

    #[inline(always)]
    fn vertical(
        ring: &[i32],
        places: [usize; 8],
        row: usize,
        weights: &[i16],
        out: &mut [u8],
        _eights: usize,
    ) {
        let rows: [&[i32]; 8] = rows(ring, places, row);
        let weights: [i16; 8] = weights_of(weights);
        for (i, out) in out.iter_mut().enumerate() {
            let mut sum = 1i32 << 21;
            for (row, weight) in rows.iter().zip(weights) {
                sum = sum.wrapping_add(row[i].wrapping_mul(i32::from(weight)));
            }
            *out = (sum >> 22).clamp(0, 255) as u8;
        }
    }
}

/// Any interpolation of floating-point values: sums from left to right and from top to bottom,
/// rounded at each step.
pub(super) struct Plain<T, const TAPS: usize>(pub PhantomData<T>);

impl<T: Real, const TAPS: usize> Kernel for Plain<T, TAPS> {
    type Pixel = T;
    type Middle = T;
    type Weight = f32;
    const TAPS: usize = TAPS;
    const REACH: usize = 3 * TAPS + 1;

    #[inline(always)]
    fn weights(axis: &Axis) -> &[f32] {
        &axis.weights
    }

    #[inline(always)]
    fn blend(window: &[T], weights: &[f32], first: usize, step: usize) -> T {
        let mut sum = window[first] * T::from_f32(weights[0]);
        for tap in 1..TAPS {
            sum += window[first + tap * step] * T::from_f32(weights[tap]);
        }
        sum
    }

    #[inline(always)]
    fn triple<S: InstructionSet>(_: S, window: &[T], weights: &[f32]) -> [T; 4] {
        let mut sums = [T::default(); 4];
        for tap in 0..TAPS {
            let weight = T::from_f32(weights[tap]);
            let values = &window[3 * tap..][..4];
            for i in 0..4 {
                let product = values[i] * weight;
                sums[i] = if tap == 0 { product } else { sums[i] + product };
            }
        }
        sums
    }

    #[inline(always)]
    fn vertical(ring: &[T], places: [usize; 8], row: usize, weights: &[f32], out: &mut [T], _eights: usize) {
        let rows: [&[T]; TAPS] = rows(ring, places, row);
        let weights: [f32; TAPS] = weights_of(weights);
        for (i, out) in out.iter_mut().enumerate() {
            let mut sum = rows[0][i] * T::from_f32(weights[0]);
            for tap in 1..TAPS {
                sum += rows[tap][i] * T::from_f32(weights[tap]);
            }
            *out = sum;
        }
    }
}
