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
        let Tokens { digit, minus, mut ends, .. } = *tokens;
        let token = digit | minus;
        let mut negative = if minus == 0 { 0 } else { self.extract(minus, token & !(token << 1)) };
        for out in out.as_chunks_mut::<LANES>().0 {
            if ends == 0 {
                return;
            }
            for out in &mut *out {
                // Without an end left this is the number at byte 63.
                let last = ends.trailing_zeros().wrapping_sub(1) as usize % BLOCK;
                ends &= ends.wrapping_sub(1);
                *out = T::from_u16(numbers[last]);
            }
            if minus != 0 {
                for out in out {
                    if negative & 1 != 0 {
                        *out = out.negated();
                    }
                    negative >>= 1;
                }
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
        // Up to 8 digits: the last four, and the four before them. Where a minus is among these, no number ends, and there is 0.
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

    #[inline(always)]
    fn entries_in_order<T: Value>(
        self,
        text: Window<'_>,
        mut entries: Entries,
        order: &[u32; LANES],
        limits: &[u32; LANES],
        indices: &mut [i32; LANES],
        values: &mut [T; LANES],
    ) -> bool {
        let count = entries.ends.count_ones();
        let first = four_entries(self, text, &mut entries);
        // SAFETY: there is a value of `Avx2`; the arrays that are read and written have 32 bytes each.
        unsafe {
            let second =
                if count > 4 { four_entries(self, text, &mut entries) } else { _mm256_setzero_si256() };
            let lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
            let is_entry = _mm256_cmpgt_epi32(_mm256_set1_epi32(count as i32), lanes);
            let order = _mm256_loadu_si256(order.as_ptr().cast());
            let found_indices = _mm256_and_si256(_mm256_permute2x128_si256::<0x20>(first, second), is_entry);
            let found_indices = _mm256_permutevar8x32_epi32(found_indices, order);
            let found_values = _mm256_and_si256(_mm256_permute2x128_si256::<0x31>(first, second), is_entry);
            let found_values = _mm256_permutevar8x32_epi32(found_values, order);
            _mm256_storeu_si256(indices.as_mut_ptr().cast(), found_indices);
            store_eight_integers(self, found_values, values);
            let limits = _mm256_loadu_si256(limits.as_ptr().cast());
            let is_large = _mm256_cmpeq_epi32(_mm256_max_epu32(found_indices, limits), found_indices);
            _mm256_movemask_epi8(is_large) == 0
        }
    }

    /// Both numbers side by side in one register: neighbouring digits are joined by multiply-and-add, three times.
    #[inline(always)]
    fn joined_pair(self, a: u64, a_count: u32, b: u64, b_count: u32) -> (f64, f64) {
        // The last digit comes last, with zeros before the first one. Two shifts, because 64 is not allowed for one. Vectors
        // have one that allows it, but the compiler replaces it by more instructions than these.
        let (a, half) = (a << ((8 * a_count).wrapping_neg() % 64), 32 - 4 * b_count);
        let b = (b << half) << half;
        // SAFETY: there is a value of `Avx2`; nothing is read from memory.
        unsafe {
            let digits = _mm_and_si128(_mm_set_epi64x(b as i64, a as i64), _mm_set1_epi8(15));
            let pairs = _mm_maddubs_epi16(digits, _mm_set1_epi16(0x010a));
            let fours = _mm_madd_epi16(pairs, _mm_set1_epi32(0x0001_0064));
            let packed = _mm_packus_epi32(fours, fours);
            let eights = _mm_madd_epi16(packed, _mm_set1_epi32(0x0001_2710));
            let doubles = _mm_cvtepi32_pd(eights);
            (_mm_cvtsd_f64(doubles), _mm_cvtsd_f64(_mm_unpackhi_pd(doubles, doubles)))
        }
    }
}

/// Four indices, then the values of these four entries, which are taken off the masks. What stands for entries that are missing
/// is not specified.
///
/// Each number is brought to the end of 8 bytes, with zeros before it. Then neighbours are joined by multiply-and-add, three
/// times: to numbers of two, of four and of eight digits.
#[inline(always)]
fn four_entries(_: Avx2, text: Window<'_>, entries: &mut Entries) -> __m256i {
    let (mut indices, mut values) = ([0; 4], [0; 4]);
    for (index, value) in indices.iter_mut().zip(&mut values) {
        let Entries { starts, colons, ends } = entries;
        let (start, colon, end) = (starts.trailing_zeros(), colons.trailing_zeros(), ends.trailing_zeros());
        *starts &= starts.wrapping_sub(1);
        *colons &= colons.wrapping_sub(1);
        *ends &= ends.wrapping_sub(1);
        *index = at_end(text, start, colon);
        *value = at_end(text, colon + 1, end);
    }
    // SAFETY: there is a value of `Avx2`; nothing is read from memory.
    unsafe {
        let low = _mm256_set1_epi8(15);
        let [a, b, c, d] = indices;
        let indices = _mm256_and_si256(_mm256_setr_epi64x(a, b, c, d), low);
        let [a, b, c, d] = values;
        let values = _mm256_and_si256(_mm256_setr_epi64x(a, b, c, d), low);
        let (tens, hundreds) = (_mm256_set1_epi16(0x010a), _mm256_set1_epi32(0x0001_0064));
        let indices = _mm256_madd_epi16(_mm256_maddubs_epi16(indices, tens), hundreds);
        let values = _mm256_madd_epi16(_mm256_maddubs_epi16(values, tens), hundreds);
        let both = _mm256_madd_epi16(_mm256_packus_epi32(indices, values), _mm256_set1_epi32(0x0001_2710));
        // Two indices, two values, and again.
        _mm256_permute4x64_epi64::<0b11_01_10_00>(both)
    }
}

/// The 1 to 8 bytes from place `start` to place `end`, at the end of eight bytes that begin with zeros.
#[inline(always)]
fn at_end(text: Window<'_>, start: u32, end: u32) -> i64 {
    (text.eight(start) << (start.wrapping_sub(end).wrapping_mul(8) % 64)) as i64
}

/// Stores eight integers as values.
#[inline(always)]
fn store_eight_integers<T: Value>(_: Avx2, numbers: __m256i, out: &mut [T; LANES]) {
    const { assert!(size_of::<T>() == 4 || size_of::<T>() == 8) };
    // SAFETY: there is a value of `Avx2`. Eight values of 4 bytes, or two times four of 8 bytes, are written, as many as `out`
    // has, and any bits are a value, because a `Value` is `Plain`.
    unsafe {
        if size_of::<T>() == size_of::<f32>() {
            _mm256_storeu_ps(out.as_mut_ptr().cast(), _mm256_cvtepi32_ps(numbers));
        } else {
            let out = out.as_mut_ptr().cast::<f64>();
            _mm256_storeu_pd(out, _mm256_cvtepi32_pd(_mm256_castsi256_si128(numbers)));
            _mm256_storeu_pd(out.add(4), _mm256_cvtepi32_pd(_mm256_extracti128_si256::<1>(numbers)));
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
