//! Digits with AVX2: the text before the ends of numbers, and the integers that it spells.

use crate::ctf::parse::simd::{LANES, Window};
use cntk_reader_core::cpu::processor::Avx2;
use std::arch::x86_64::*;

/// Loads the eight bytes before each of the lowest four places, which are removed from the mask.
/// Missing places count as the block's end.
#[inline(always)]
pub fn four_before(simd: Avx2, text: Window<'_>, places: &mut u64) -> __m256i {
    let mut eights = [0; 4];
    for eight in &mut eights {
        *eight = text.eight_before(places.trailing_zeros()) as i64;
        *places &= places.wrapping_sub(1);
    }
    four(simd, eights)
}

/// Returns four integers as a register.
#[inline(always)]
pub fn four(_: Avx2, [a, b, c, d]: [i64; 4]) -> __m256i {
    // SAFETY: the `Avx2` value proves CPU support.
    unsafe { _mm256_setr_epi64x(a, b, c, d) }
}

/// Loads the four bytes before each of the lowest eight places, which are removed from the mask, in
/// the form of [`reversed`].
#[inline(always)]
pub fn reversed_fours(_: Avx2, text: Window<'_>, places: &mut u64) -> __m256i {
    let mut fours = [0; LANES];
    for four in &mut fours {
        *four = text.four_before(places.trailing_zeros()) as i32;
        *places &= places.wrapping_sub(1);
    }
    let [a, b, c, d, e, f, g, h] = fours;
    // SAFETY: the `Avx2` value proves CPU support.
    unsafe {
        let reverse = _mm256_set_epi64x(
            0x0c0d0e0f_08090a0b,
            0x04050607_00010203,
            0x0c0d0e0f_08090a0b,
            0x04050607_00010203,
        );
        let text = _mm256_shuffle_epi8(_mm256_setr_epi32(a, b, c, d, e, f, g, h), reverse);
        _mm256_sub_epi8(text, _mm256_set1_epi8(0x30))
    }
}

/// Reverses each eight bytes and subtracts `0`: digits become their values, other bytes ten or
/// more.
#[inline(always)]
fn reversed(_: Avx2, text: __m256i) -> __m256i {
    // SAFETY: the `Avx2` value proves CPU support.
    unsafe {
        let reverse = _mm256_set_epi64x(
            0x08090a0b_0c0d0e0f,
            0x00010203_04050607,
            0x08090a0b_0c0d0e0f,
            0x00010203_04050607,
        );
        _mm256_sub_epi8(_mm256_shuffle_epi8(text, reverse), _mm256_set1_epi8(0x30))
    }
}

/// Returns the bytes minus `0`, and all ones in the bytes that are digits.
#[inline(always)]
pub fn digits_of(_: Avx2, text: __m256i) -> (__m256i, __m256i) {
    // SAFETY: the `Avx2` value proves CPU support.
    unsafe {
        let digits = _mm256_sub_epi8(text, _mm256_set1_epi8(0x30));
        (digits, _mm256_cmpeq_epi8(_mm256_min_epu8(digits, _mm256_set1_epi8(9)), digits))
    }
}

/// Returns all ones in the bytes of [`reversed`] text that are not digits.
#[inline(always)]
fn no_digits(_: Avx2, digits: __m256i) -> __m256i {
    // SAFETY: the `Avx2` value proves CPU support.
    unsafe { _mm256_cmpeq_epi8(_mm256_max_epu8(digits, _mm256_set1_epi8(10)), digits) }
}

/// Returns ones in the bytes before the first set byte of each eight, or of each four if `TINY`.
#[inline(always)]
fn before_first<const TINY: bool>(_: Avx2, bytes: __m256i) -> __m256i {
    // SAFETY: the `Avx2` value proves CPU support.
    unsafe {
        let ones = _mm256_set1_epi64x(-1);
        let less = if TINY { _mm256_add_epi32(bytes, ones) } else { _mm256_add_epi64(bytes, ones) };
        _mm256_andnot_si256(bytes, less)
    }
}

/// Returns the digits of the numbers at the end of each eight bytes, or each four if `TINY`,
/// without their points; and ones in the bytes of the digits after the points, or in all bytes if
/// there is no point.
#[inline(always)]
fn without_points<const TINY: bool>(simd: Avx2, digits: __m256i) -> (__m256i, __m256i) {
    // SAFETY: the `Avx2` value proves CPU support.
    unsafe {
        let points = _mm256_cmpeq_epi8(digits, _mm256_set1_epi8(b'.'.wrapping_sub(b'0') as i8));
        let number = before_first::<TINY>(simd, _mm256_andnot_si256(points, no_digits(simd, digits)));
        let fraction = before_first::<TINY>(simd, _mm256_and_si256(points, number));
        let digits = _mm256_and_si256(digits, number);
        // The digits before the point move to its place.
        let moved = if TINY { _mm256_srli_epi32::<8>(digits) } else { _mm256_srli_epi64::<8>(digits) };
        (_mm256_blendv_epi8(moved, digits, fraction), fraction)
    }
}

/// Joins neighbouring [`reversed`] digits by multiply-and-add, twice: into numbers of two and of
/// four digits.
#[inline(always)]
fn joined(_: Avx2, digits: __m256i) -> __m256i {
    // SAFETY: the `Avx2` value proves CPU support.
    unsafe {
        let twos = _mm256_maddubs_epi16(digits, _mm256_set1_epi16(0x0a01));
        _mm256_madd_epi16(twos, _mm256_set1_epi32(0x0064_0001))
    }
}

/// Returns the numbers at the end of each eight bytes, in two parts of four digits.
///
/// Only digits after the last other byte count. With the bytes reversed, these are the ones before
/// the first other byte.
#[inline(always)]
pub fn fours(simd: Avx2, text: __m256i) -> __m256i {
    let digits = reversed(simd, text);
    let number = before_first::<false>(simd, no_digits(simd, digits));
    // SAFETY: the `Avx2` value proves CPU support.
    joined(simd, unsafe { _mm256_and_si256(digits, number) })
}

/// Returns the numbers at the end of each eight bytes, without their points, in two parts of four
/// digits; and the number of digits after each point, or 8 if there is none.
#[inline(always)]
pub fn decimals(simd: Avx2, text: __m256i) -> (__m256i, __m256i) {
    let (digits, fraction) = without_points::<false>(simd, reversed(simd, text));
    // SAFETY: the `Avx2` value proves CPU support.
    let count = unsafe { _mm256_sad_epu8(_mm256_abs_epi8(fraction), _mm256_setzero_si256()) };
    (joined(simd, digits), count)
}

/// Returns the numbers at the end of each four [`reversed`] bytes, without their points, and the
/// number of digits after each point.
#[inline(always)]
pub fn tiny_decimals(simd: Avx2, digits: __m256i) -> (__m256i, __m256i) {
    let (digits, fraction) = without_points::<true>(simd, digits);
    // SAFETY: the `Avx2` value proves CPU support.
    let count = unsafe {
        let pairs = _mm256_maddubs_epi16(_mm256_abs_epi8(fraction), _mm256_set1_epi8(1));
        // Four bytes without a point count as no decimals.
        _mm256_and_si256(_mm256_madd_epi16(pairs, _mm256_set1_epi16(1)), _mm256_set1_epi32(3))
    };
    (joined(simd, digits), count)
}

/// Joins parts of four digits into numbers: two of `a`, two of `b`, and again.
#[inline(always)]
pub fn eights(_: Avx2, a: __m256i, b: __m256i) -> __m256i {
    // SAFETY: the `Avx2` value proves CPU support.
    unsafe { _mm256_madd_epi16(_mm256_packus_epi32(a, b), _mm256_set1_epi32(0x2710_0001)) }
}

/// Returns the lower halves of 64-bit integers in the order of [`eights`].
#[inline(always)]
pub fn low_halves(_: Avx2, a: __m256i, b: __m256i) -> __m256i {
    // SAFETY: the `Avx2` value proves CPU support.
    unsafe {
        let halves = _mm256_shuffle_ps::<0b10_00_10_00>(_mm256_castsi256_ps(a), _mm256_castsi256_ps(b));
        _mm256_castps_si256(halves)
    }
}

/// Reorders the result of [`eights`]: the numbers of `a`, then the numbers of `b`.
#[inline(always)]
pub fn in_order(_: Avx2, both: __m256i) -> __m256i {
    // SAFETY: the `Avx2` value proves CPU support.
    unsafe { _mm256_permute4x64_epi64::<0b11_01_10_00>(both) }
}

/// Returns the numbers at the ends of these eight times eight bytes, of at most 8 digits: the
/// numbers of `a`, then the numbers of `b`.
#[inline(always)]
pub fn spelt(simd: Avx2, a: __m256i, b: __m256i) -> __m256i {
    in_order(simd, eights(simd, fours(simd, a), fours(simd, b)))
}

/// Converts the result of [`spelt`] to doubles.
#[inline(always)]
pub fn doubles(_: Avx2, numbers: __m256i) -> (__m256d, __m256d) {
    // SAFETY: the `Avx2` value proves CPU support.
    unsafe {
        let low = _mm256_cvtepi32_pd(_mm256_castsi256_si128(numbers));
        (low, _mm256_cvtepi32_pd(_mm256_extracti128_si256::<1>(numbers)))
    }
}
