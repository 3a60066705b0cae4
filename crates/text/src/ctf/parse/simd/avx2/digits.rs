//! Digits with AVX2: text before the places where numbers end, and the whole numbers that it spells.

use crate::ctf::parse::simd::{LANES, Window};
use cntk_reader_core::cpu::processor::Avx2;
use std::arch::x86_64::*;

/// The eight bytes before each of the lowest four places, which are taken off the mask; before the block's end for those that are
/// missing.
#[inline(always)]
pub fn four_before(simd: Avx2, text: Window<'_>, places: &mut u64) -> __m256i {
    let mut eights = [0; 4];
    for eight in &mut eights {
        *eight = text.eight_before(places.trailing_zeros()) as i64;
        *places &= places.wrapping_sub(1);
    }
    four(simd, eights)
}

/// Four integers as a register.
#[inline(always)]
pub fn four(_: Avx2, [a, b, c, d]: [i64; 4]) -> __m256i {
    // SAFETY: there is a value of `Avx2`.
    unsafe { _mm256_setr_epi64x(a, b, c, d) }
}

/// The four bytes before each of the lowest eight places, which are taken off the mask, as [`reversed`] has eight bytes.
#[inline(always)]
pub fn reversed_fours(_: Avx2, text: Window<'_>, places: &mut u64) -> __m256i {
    let mut fours = [0; LANES];
    for four in &mut fours {
        *four = text.four_before(places.trailing_zeros()) as i32;
        *places &= places.wrapping_sub(1);
    }
    let [a, b, c, d, e, f, g, h] = fours;
    // SAFETY: there is a value of `Avx2`.
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

/// Numbers of eight bytes each, the last byte first, and ten or more in each byte that is no digit.
#[inline(always)]
fn reversed(_: Avx2, text: __m256i) -> __m256i {
    // SAFETY: there is a value of `Avx2`.
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

/// The bytes less `0`, and all ones in those that are digits.
#[inline(always)]
pub fn digits_of(_: Avx2, text: __m256i) -> (__m256i, __m256i) {
    // SAFETY: there is a value of `Avx2`.
    unsafe {
        let digits = _mm256_sub_epi8(text, _mm256_set1_epi8(0x30));
        (digits, _mm256_cmpeq_epi8(_mm256_min_epu8(digits, _mm256_set1_epi8(9)), digits))
    }
}

/// All ones in the bytes that are no digits of [`reversed`] text.
#[inline(always)]
fn no_digits(_: Avx2, digits: __m256i) -> __m256i {
    // SAFETY: there is a value of `Avx2`.
    unsafe { _mm256_cmpeq_epi8(_mm256_max_epu8(digits, _mm256_set1_epi8(10)), digits) }
}

/// Ones in the bytes of each eight, or of each four if `TINY`, before the first one that is set.
#[inline(always)]
fn before_first<const TINY: bool>(_: Avx2, bytes: __m256i) -> __m256i {
    // SAFETY: there is a value of `Avx2`.
    unsafe {
        let ones = _mm256_set1_epi64x(-1);
        let less = if TINY { _mm256_add_epi32(bytes, ones) } else { _mm256_add_epi64(bytes, ones) };
        _mm256_andnot_si256(bytes, less)
    }
}

/// The digits of the numbers with which each eight bytes end, or each four if `TINY`, without the points among them; and ones in the bytes
/// of the digits after the points, or in all bytes where there is none.
#[inline(always)]
fn without_points<const TINY: bool>(simd: Avx2, digits: __m256i) -> (__m256i, __m256i) {
    // SAFETY: there is a value of `Avx2`.
    unsafe {
        let points = _mm256_cmpeq_epi8(digits, _mm256_set1_epi8(b'.'.wrapping_sub(b'0') as i8));
        let number = before_first::<TINY>(simd, _mm256_andnot_si256(points, no_digits(simd, digits)));
        let fraction = before_first::<TINY>(simd, _mm256_and_si256(points, number));
        let digits = _mm256_and_si256(digits, number);
        // What is before the point moves to its place.
        let moved = if TINY { _mm256_srli_epi32::<8>(digits) } else { _mm256_srli_epi64::<8>(digits) };
        (_mm256_blendv_epi8(moved, digits, fraction), fraction)
    }
}

/// Neighbours of [`reversed`] digits joined by multiply-and-add, twice: to numbers of two and of four digits.
#[inline(always)]
fn joined(_: Avx2, digits: __m256i) -> __m256i {
    // SAFETY: there is a value of `Avx2`.
    unsafe {
        let twos = _mm256_maddubs_epi16(digits, _mm256_set1_epi16(0x0a01));
        _mm256_madd_epi16(twos, _mm256_set1_epi32(0x0064_0001))
    }
}

/// The numbers with which each eight bytes end, in two parts of four digits.
///
/// Only digits after the last byte that is none count. With the bytes in reverse, these are the ones before the first byte that is none.
#[inline(always)]
pub fn fours(simd: Avx2, text: __m256i) -> __m256i {
    let digits = reversed(simd, text);
    let number = before_first::<false>(simd, no_digits(simd, digits));
    // SAFETY: there is a value of `Avx2`.
    joined(simd, unsafe { _mm256_and_si256(digits, number) })
}

/// The numbers with which each eight bytes end, without their points, in two parts of four digits; and how many digits follow the
/// points, or 8 where there is none.
#[inline(always)]
pub fn decimals(simd: Avx2, text: __m256i) -> (__m256i, __m256i) {
    let (digits, fraction) = without_points::<false>(simd, reversed(simd, text));
    // SAFETY: there is a value of `Avx2`.
    let count = unsafe { _mm256_sad_epu8(_mm256_abs_epi8(fraction), _mm256_setzero_si256()) };
    (joined(simd, digits), count)
}

/// The numbers with which each four [`reversed`] bytes end, without their points, and how many digits follow the points.
#[inline(always)]
pub fn tiny_decimals(simd: Avx2, digits: __m256i) -> (__m256i, __m256i) {
    let (digits, fraction) = without_points::<true>(simd, digits);
    // SAFETY: there is a value of `Avx2`.
    let count = unsafe {
        let pairs = _mm256_maddubs_epi16(_mm256_abs_epi8(fraction), _mm256_set1_epi8(1));
        // Four bytes without a point count as none.
        _mm256_and_si256(_mm256_madd_epi16(pairs, _mm256_set1_epi16(1)), _mm256_set1_epi32(3))
    };
    (joined(simd, digits), count)
}

/// The numbers whose parts of four digits these are: two of `a`, two of `b`, and again.
#[inline(always)]
pub fn eights(_: Avx2, a: __m256i, b: __m256i) -> __m256i {
    // SAFETY: there is a value of `Avx2`.
    unsafe { _mm256_madd_epi16(_mm256_packus_epi32(a, b), _mm256_set1_epi32(0x2710_0001)) }
}

/// The lower halves of integers of 64 bits in the order of [`eights`].
#[inline(always)]
pub fn low_halves(_: Avx2, a: __m256i, b: __m256i) -> __m256i {
    // SAFETY: there is a value of `Avx2`.
    unsafe {
        let halves = _mm256_shuffle_ps::<0b10_00_10_00>(_mm256_castsi256_ps(a), _mm256_castsi256_ps(b));
        _mm256_castps_si256(halves)
    }
}

/// Those of `a`, then those of `b`, of what is in the order of [`eights`].
#[inline(always)]
pub fn in_order(_: Avx2, both: __m256i) -> __m256i {
    // SAFETY: there is a value of `Avx2`.
    unsafe { _mm256_permute4x64_epi64::<0b11_01_10_00>(both) }
}

/// The numbers that end where these eight times eight bytes end, at most 8 digits of them: those of `a`, then those of `b`.
#[inline(always)]
pub fn spelt(simd: Avx2, a: __m256i, b: __m256i) -> __m256i {
    in_order(simd, eights(simd, fours(simd, a), fours(simd, b)))
}

/// What [`spelt`] gives, as doubles.
#[inline(always)]
pub fn doubles(_: Avx2, numbers: __m256i) -> (__m256d, __m256d) {
    // SAFETY: there is a value of `Avx2`.
    unsafe {
        let low = _mm256_cvtepi32_pd(_mm256_castsi256_si128(numbers));
        (low, _mm256_cvtepi32_pd(_mm256_extracti128_si256::<1>(numbers)))
    }
}
