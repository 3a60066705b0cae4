//! Weighted sums of adjacent three-byte pixels: the hot loop of resizing 8-bit images.
//!
//! One instruction (`pmaddwd`), which compilers do not find, multiplies and adds the bytes and
//! weights of two pixels. It makes resizing about 3 to 4 times as fast.

#![allow(unsafe_code, reason = "vector instructions")]

use cntk_reader_core::cpu::processor::InstructionSet;
#[cfg(target_arch = "x86_64")]
use cntk_reader_core::cpu::processor::{Avx2, Processor};
#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;

/// Sums two pixels, which begin at `window[0]` and `window[3]`, and drops the lowest four bits. The
/// fourth sum is unspecified. The window must have 8 bytes, and the weights must be those of linear
/// interpolation so that the sums fit.
#[inline(always)]
pub(super) fn sums_of_two<S: InstructionSet>(instructions: S, window: &[u8], weights: &[i16]) -> [i16; 4] {
    #[cfg(target_arch = "x86_64")]
    if let (Some(avx2), Some(window), Some(weights)) =
        (avx2(instructions), window.first_chunk(), weights.first_chunk())
    {
        return two(avx2, window, weights);
    }
    let _ = instructions;
    plain::<2>(window, weights).map(|sum| (sum >> 4) as i16)
}

/// Sums four pixels, 3 bytes apart. The fourth sum is unspecified. The window must have 16 bytes.
#[inline(always)]
pub(super) fn sums_of_four<S: InstructionSet>(instructions: S, window: &[u8], weights: &[i16]) -> [i32; 4] {
    #[cfg(target_arch = "x86_64")]
    if let (Some(avx2), Some(window), Some(weights)) =
        (avx2(instructions), window.first_chunk(), weights.first_chunk())
    {
        return four(avx2, window, weights);
    }
    let _ = instructions;
    plain::<4>(window, weights)
}

#[inline(always)]
fn plain<const TAPS: usize>(window: &[u8], weights: &[i16]) -> [i32; 4] {
    let mut sums = [0; 4];
    for tap in 0..TAPS {
        for (sum, &value) in sums.iter_mut().zip(&window[3 * tap..][..3]) {
            *sum += i32::from(value) * i32::from(weights[tap]);
        }
    }
    sums
}

#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn avx2<S: InstructionSet>(instructions: S) -> Option<Avx2> {
    match instructions.processor() {
        Processor::Avx512(avx512) => Some(avx512.avx2()),
        Processor::Avx2(avx2) => Some(avx2),
        Processor::Portable(_) => None,
    }
}

/// Shuffle index that yields 0.
#[cfg(target_arch = "x86_64")]
const O: i8 = -1;

#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn two(_: Avx2, window: &[u8; 8], weights: &[i16; 2]) -> [i16; 4] {
    let weights = i32::from(weights[0]) & 0xffff | i32::from(weights[1]) << 16;
    // SAFETY: the `Avx2` value proves that the processor has AVX2. The store writes the 8 bytes of
    // `sums`.
    unsafe {
        let pixels = _mm_cvtsi64_si128(i64::from_le_bytes(*window));
        // The values of both pixels, interleaved as 16-bit numbers.
        let pairs = _mm_setr_epi8(0, O, 3, O, 1, O, 4, O, 2, O, 5, O, O, O, O, O);
        let products = _mm_madd_epi16(_mm_shuffle_epi8(pixels, pairs), _mm_set1_epi32(weights));
        let wide = _mm_srai_epi32::<4>(products);
        let mut sums = [0i16; 4];
        _mm_storel_epi64(sums.as_mut_ptr().cast(), _mm_packs_epi32(wide, wide));
        sums
    }
}

#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn four(_: Avx2, window: &[u8; 16], weights: &[i16; 4]) -> [i32; 4] {
    let [a, b, c, d] = *weights;
    let (first, second) =
        (i32::from(a) & 0xffff | i32::from(b) << 16, i32::from(c) & 0xffff | i32::from(d) << 16);
    let both = i64::from(first) & 0xffff_ffff | i64::from(second) << 32;
    // SAFETY: the `Avx2` value proves that the processor has AVX2. The load reads the 16 bytes of
    // `window`, and the store writes the 16 bytes of `sums`.
    unsafe {
        let pixels = _mm256_broadcastsi128_si256(_mm_loadu_si128(window.as_ptr().cast()));
        // The values of the first two pixels, interleaved as 16-bit numbers; in the upper half
        // those of the other two.
        let pairs = _mm256_setr_epi8(
            0, O, 3, O, 1, O, 4, O, 2, O, 5, O, O, O, O, O, //
            6, O, 9, O, 7, O, 10, O, 8, O, 11, O, O, O, O, O,
        );
        let spread = _mm256_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1);
        let weights = _mm256_permutevar8x32_epi32(_mm256_set1_epi64x(both), spread);
        let products = _mm256_madd_epi16(_mm256_shuffle_epi8(pixels, pairs), weights);
        let (first, second) = (_mm256_castsi256_si128(products), _mm256_extracti128_si256::<1>(products));
        let mut sums = [0i32; 4];
        _mm_storeu_si128(sums.as_mut_ptr().cast(), _mm_add_epi32(first, second));
        sums
    }
}
