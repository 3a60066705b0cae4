//! [`Simd`] with AVX2: a block is two registers of 32 bytes, and a comparison of bytes takes two steps to become a mask.
//!
//! Numbers of up to four digits need no places to be computed: the number that ends at each byte of the block is computed
//! for all 64 bytes together ([`numbers_ending`]), wherever numbers end, and the ends pick theirs: 7 instructions for a
//! number instead of 38.

use super::{BLOCK, Classes, Entries, LANES, MOST_ENTRIES, MOST_NUMBERS, Simd, Tokens, Window};
use crate::compact::Value;
use crate::processor::Avx2;
use std::arch::x86_64::*;

impl Simd for Avx2 {
    const SHORT_INTEGERS: bool = true;

    const UNIFORM_LINES: bool = true;

    #[inline(always)]
    fn classify(self, text: Window<'_>) -> Classes {
        let mut classes = Classes::default();
        for (half, bytes) in text.back::<0>().as_chunks::<32>().0.iter().enumerate() {
            // SAFETY: there is a value of `Avx2`; the 32 bytes that are read are those of `bytes`.
            unsafe {
                let text = _mm256_loadu_si256(bytes.as_ptr().cast());
                let less_zero = _mm256_sub_epi8(text, _mm256_set1_epi8(0x30));
                let digit = _mm256_cmpeq_epi8(_mm256_min_epu8(less_zero, _mm256_set1_epi8(9)), less_zero);
                let space = _mm256_or_si256(is_byte(self, text, b' '), is_byte(self, text, b'\t'));
                classes.digit |= mask_of(self, digit) << (32 * half);
                classes.space |= mask_of(self, space) << (32 * half);
                classes.dot |= mask_of(self, is_byte(self, text, b'.')) << (32 * half);
                classes.minus |= mask_of(self, is_byte(self, text, b'-')) << (32 * half);
                classes.colon |= mask_of(self, is_byte(self, text, b':')) << (32 * half);
            }
        }
        classes
    }

    #[inline(always)]
    fn equal(self, text: Window<'_>, byte: u8) -> u64 {
        let mut mask = 0;
        for (half, bytes) in text.back::<0>().as_chunks::<32>().0.iter().enumerate() {
            // SAFETY: there is a value of `Avx2`; the 32 bytes that are read are those of `bytes`.
            let text = unsafe { _mm256_loadu_si256(bytes.as_ptr().cast()) };
            mask |= mask_of(self, is_byte(self, text, byte)) << (32 * half);
        }
        mask
    }

    #[inline(always)]
    fn lowest(self, bits: u64, count: u32) -> u64 {
        // SAFETY: there is a value of `Avx2`, which stands for BMI2 as well.
        unsafe { _bzhi_u64(bits, count) }
    }

    #[inline(always)]
    fn extract(self, bits: u64, mask: u64) -> u64 {
        // SAFETY: there is a value of `Avx2`, which stands for BMI2 as well.
        unsafe { _pext_u64(bits, mask) }
    }

    /// In steps of eight, the last ones in vain, so that the number of tokens need not be predicted.
    #[inline(always)]
    fn short_integers<T: Value>(self, text: Window<'_>, tokens: &Tokens, out: &mut [T; MOST_NUMBERS]) {
        let numbers = numbers_ending(self, text);
        let mut ends = tokens.ends;
        for out in out.as_chunks_mut::<LANES>().0 {
            if ends == 0 {
                return;
            }
            for out in out {
                // Without an end left this is the number at byte 63.
                let last = ends.trailing_zeros().wrapping_sub(1) as usize % BLOCK;
                ends &= ends.wrapping_sub(1);
                *out = T::from_u16(numbers[last]);
            }
        }
    }

    #[inline(always)]
    fn entries<T: Value>(
        self,
        text: Window<'_>,
        entries: Entries,
        limit: u32,
        indices: &mut [i32; MOST_ENTRIES],
        values: &mut [T; MOST_ENTRIES],
    ) -> bool {
        let numbers = numbers_ending(self, text);
        // Up to 8 digits: the last four, and the four before them.
        let number = |start: u32, end: u32| {
            let last = |end: u32| i32::from(numbers[end.wrapping_sub(1) as usize % BLOCK]);
            let is_long = if end.wrapping_sub(start) > 4 { -1 } else { 0 };
            last(end) + 10_000 * (last(end.wrapping_sub(4)) & is_long)
        };
        let Entries { mut starts, mut colons, mut ends } = entries;
        for (index, value) in indices.iter_mut().zip(values) {
            if ends == 0 {
                break;
            }
            let (start, colon, end) =
                (starts.trailing_zeros(), colons.trailing_zeros(), ends.trailing_zeros());
            starts &= starts.wrapping_sub(1);
            colons &= colons.wrapping_sub(1);
            ends &= ends - 1;
            *index = number(start, colon);
            *value = T::from_i32(number(colon + 1, end));
            if *index as u32 >= limit {
                return false;
            }
        }
        true
    }

    /// Both numbers side by side in one register: neighbouring digits are joined by multiply-and-add, three times.
    #[inline(always)]
    fn joined_pair(self, a: u64, a_count: u32, b: u64, b_count: u32) -> (f64, f64) {
        // SAFETY: there is a value of `Avx2`; nothing is read from memory.
        unsafe {
            let digits = _mm_set_epi64x(b as i64, a as i64);
            // A shift by 64 gives 0 here.
            let shifts = _mm_set_epi64x(64 - 8 * i64::from(b_count), 64 - 8 * i64::from(a_count));
            let digits = _mm_sllv_epi64(digits, shifts);
            let pairs = _mm_maddubs_epi16(digits, _mm_set1_epi16(0x010a));
            let fours = _mm_madd_epi16(pairs, _mm_set1_epi32(0x0001_0064));
            let packed = _mm_packus_epi32(fours, fours);
            let eights = _mm_madd_epi16(packed, _mm_set1_epi32(0x0001_2710));
            let doubles = _mm_cvtepi32_pd(eights);
            (_mm_cvtsd_f64(doubles), _mm_cvtsd_f64(_mm_unpackhi_pd(doubles, doubles)))
        }
    }
}

/// All ones in the bytes that are `byte`.
#[inline(always)]
fn is_byte(_: Avx2, text: __m256i, byte: u8) -> __m256i {
    // SAFETY: there is a value of `Avx2`.
    unsafe { _mm256_cmpeq_epi8(text, _mm256_set1_epi8(byte as i8)) }
}

/// The top bits of the 32 bytes.
#[inline(always)]
fn mask_of(_: Avx2, bytes: __m256i) -> u64 {
    // SAFETY: there is a value of `Avx2`.
    u64::from(unsafe { _mm256_movemask_epi8(bytes) } as u32)
}

/// For each byte of the block that is a digit: the number that ends there, or its last 4 digits.
///
/// Digits that are no part of the number are taken as zeros: a byte counts if all bytes between it and the end are
/// digits. Two neighbouring digits make a byte below 100, two of those bytes a number of 16 bits.
#[inline(always)]
pub(super) fn numbers_ending(simd: Avx2, text: Window<'_>) -> [u16; BLOCK] {
    let mut numbers = [0; BLOCK];
    for (half, out) in numbers.as_chunks_mut::<32>().0.iter_mut().enumerate() {
        let (d0, _) = digits(simd, text.back::<0>(), half);
        let (d1, is1) = digits(simd, text.back::<1>(), half);
        let (d2, is2) = digits(simd, text.back::<2>(), half);
        let (d3, _) = digits(simd, text.back::<3>(), half);
        let out = out.as_mut_ptr().cast::<__m128i>();
        // SAFETY: there is a value of `Avx2`. The four stores of 16 bytes fill the 32 numbers of 2 bytes of `out`.
        unsafe {
            let low = _mm256_add_epi8(d0, tens(simd, d1));
            let high = _mm256_and_si256(_mm256_add_epi8(d2, tens(simd, d3)), _mm256_and_si256(is1, is2));
            let weights = _mm256_set1_epi16(0x6401);
            let first = _mm256_maddubs_epi16(_mm256_unpacklo_epi8(low, high), weights);
            let second = _mm256_maddubs_epi16(_mm256_unpackhi_epi8(low, high), weights);
            _mm_storeu_si128(out, _mm256_castsi256_si128(first));
            _mm_storeu_si128(out.add(1), _mm256_castsi256_si128(second));
            _mm_storeu_si128(out.add(2), _mm256_extracti128_si256::<1>(first));
            _mm_storeu_si128(out.add(3), _mm256_extracti128_si256::<1>(second));
        }
    }
    numbers
}

/// The digits of half a block, 0 for other bytes; and which bytes are digits.
#[inline(always)]
fn digits(_: Avx2, text: &[u8; BLOCK], half: usize) -> (__m256i, __m256i) {
    let bytes = &text.as_chunks::<32>().0[half];
    // SAFETY: there is a value of `Avx2`; the 32 bytes that are read are those of `bytes`.
    unsafe {
        let text = _mm256_loadu_si256(bytes.as_ptr().cast());
        let less_zero = _mm256_sub_epi8(text, _mm256_set1_epi8(0x30));
        let is_digit = _mm256_cmpeq_epi8(_mm256_min_epu8(less_zero, _mm256_set1_epi8(9)), less_zero);
        (_mm256_and_si256(less_zero, is_digit), is_digit)
    }
}

/// Ten times each byte.
#[inline(always)]
fn tens(_: Avx2, digits: __m256i) -> __m256i {
    // SAFETY: there is a value of `Avx2`.
    unsafe {
        let twice = _mm256_add_epi8(digits, digits);
        let five = _mm256_add_epi8(_mm256_add_epi8(twice, twice), digits);
        _mm256_add_epi8(five, five)
    }
}
