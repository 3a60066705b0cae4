//! [`Simd`] with AVX2: a block is two registers of 32 bytes, and a comparison of bytes takes two
//! steps to become a mask.
//!
//! All numbers are converted in the same way: eight or four at a time, from the bytes before the
//! end of each one ([`digits`]). Their starts need not be known, which saves a third of the work of
//! finding places: bits are removed from a mask one by one here. No branch depends on a sign, on a
//! length of up to eight digits, or on the presence of a point ([`numbers`]).

mod digits;
mod numbers;
mod tiny_integers;

use super::{Classes, Entries, LANES, MAX_ENTRIES, MAX_NUMBERS, Scaled, Simd, Tokens, Window, has_five};
use cntk_reader_core::cpu::processor::Avx2;
use cntk_reader_core::memory::compact::Value;
use digits::{decimals, digits_of, doubles, eights, four_before, fours, in_order, low_halves, spelt};
use numbers::{convert, convert_scaled, quotients, short_numbers, store, store_integers, store_second_half};
use std::arch::x86_64::*;
use tiny_integers::tiny_integers;

impl Simd for Avx2 {
    const UNIFORM_LINES: bool = true;
    const FEW: usize = 3;

    #[inline(always)]
    fn classify(self, text: Window<'_>) -> Classes {
        let mut classes = Classes::default();
        for (half, bytes) in text.back::<0>().as_chunks::<32>().0.iter().enumerate() {
            // SAFETY: the `Avx2` value proves CPU support; `bytes` has the 32 bytes that are read.
            unsafe {
                let text = _mm256_loadu_si256(bytes.as_ptr().cast());
                let (_, digit) = digits_of(self, text);
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
            // SAFETY: the `Avx2` value proves CPU support; `bytes` has the 32 bytes that are read.
            let text = unsafe { _mm256_loadu_si256(bytes.as_ptr().cast()) };
            mask |= mask_of(self, is_byte(self, text, byte)) << (32 * half);
        }
        mask
    }

    #[inline(always)]
    fn printable(self, text: Window<'_>) -> u64 {
        let mut mask = 0;
        for (half, bytes) in text.back::<0>().as_chunks::<32>().0.iter().enumerate() {
            // SAFETY: the `Avx2` value proves CPU support; `bytes` has the 32 bytes that are read.
            let printable = unsafe {
                _mm256_cmpgt_epi8(_mm256_loadu_si256(bytes.as_ptr().cast()), _mm256_set1_epi8(0x20))
            };
            mask |= mask_of(self, printable) << (32 * half);
        }
        mask
    }

    #[inline(always)]
    fn lowest(self, bits: u64, count: u32) -> u64 {
        // SAFETY: the `Avx2` value proves CPU support, including BMI2.
        unsafe { _bzhi_u64(bits, count) }
    }

    #[inline(always)]
    fn extract(self, bits: u64, mask: u64) -> u64 {
        // SAFETY: the `Avx2` value proves CPU support, including BMI2.
        unsafe { _pext_u64(bits, mask) }
    }

    #[inline(always)]
    fn plain_numbers<T: Value>(self, text: Window<'_>, tokens: &Tokens, out: &mut [T; MAX_NUMBERS]) -> bool {
        if (size_of::<T>() == size_of::<f32>() || tokens.dot == 0)
            && let Some(firsts) = tokens.firsts_if_short()
        {
            match (tokens.dot != 0, has_five(tokens.digit | tokens.dot) == 0) {
                (false, false) => short_numbers::<false, false, T>(self, text, tokens, firsts, out),
                (false, true) if tokens.minus == 0 => {
                    tiny_integers::<T, false>(self, text, tokens, firsts, out);
                }
                (false, true) => tiny_integers::<T, true>(self, text, tokens, firsts, out),
                (true, false) => short_numbers::<true, false, T>(self, text, tokens, firsts, out),
                (true, true) => short_numbers::<true, true, T>(self, text, tokens, firsts, out),
            }
            return true;
        }
        let Some(wholes) = tokens.wholes() else { return false };
        if wholes.has_long {
            convert::<T, true>(self, text, tokens, wholes, out);
        } else {
            convert::<T, false>(self, text, tokens, wholes, out);
        }
        true
    }

    #[inline(always)]
    fn entries<T: Value>(
        self,
        text: Window<'_>,
        entries: Entries,
        limit: u32,
        indices: &mut [i32; MAX_ENTRIES],
        values: &mut [T; MAX_ENTRIES],
    ) -> bool {
        convert_entries::<T, false>(self, text, entries, limit, indices, values)
    }

    #[inline(always)]
    fn decimal_entries<T: Value>(
        self,
        text: Window<'_>,
        entries: Entries,
        limit: u32,
        indices: &mut [i32; MAX_ENTRIES],
        values: &mut [T; MAX_ENTRIES],
    ) -> Option<bool> {
        if size_of::<T>() != size_of::<f32>() {
            return None;
        }
        Some(convert_entries::<T, true>(self, text, entries, limit, indices, values))
    }

    #[inline(always)]
    fn scaled_numbers<T: Value>(
        self,
        text: Window<'_>,
        numbers: &Scaled,
        out: &mut [T; MAX_ENTRIES],
    ) -> bool {
        size_of::<T>() == size_of::<f32>() && convert_scaled(self, text, numbers, out)
    }

    #[inline(always)]
    fn scaled_entries<T: Value>(
        self,
        text: Window<'_>,
        entries: Entries,
        numbers: &Scaled,
        limit: u32,
        indices: &mut [i32; MAX_ENTRIES],
        values: &mut [T; MAX_ENTRIES],
    ) -> Option<bool> {
        if !self.scaled_numbers(text, numbers, values) {
            return None;
        }
        let mut colons = entries.colons;
        for indices in indices.as_chunks_mut::<LANES>().0 {
            if colons == 0 {
                break;
            }
            let count = colons.count_ones();
            let found =
                spelt(self, four_before(self, text, &mut colons), four_before(self, text, &mut colons));
            // SAFETY: the `Avx2` value proves CPU support; `indices` has the 32 bytes that are
            // written.
            let large = unsafe {
                _mm256_storeu_si256(indices.as_mut_ptr().cast(), found);
                are_large(self, found, _mm256_set1_epi32(limit as i32))
            };
            if self.lowest(large, count) != 0 {
                return Some(false);
            }
        }
        Some(true)
    }

    #[inline(always)]
    fn entries_in_order<T: Value>(
        self,
        text: Window<'_>,
        entries: Entries,
        order: &[u32; LANES],
        limits: &[u32; LANES],
        indices: &mut [i32; LANES],
        values: &mut [T; LANES],
    ) -> bool {
        let Entries { mut colons, mut ends, .. } = entries;
        let count = ends.count_ones();
        let first = spelt(self, four_before(self, text, &mut colons), four_before(self, text, &mut ends));
        // SAFETY: the `Avx2` value proves CPU support; the arrays that are read and written have 32
        // bytes each.
        unsafe {
            let second = if count > 4 {
                spelt(self, four_before(self, text, &mut colons), four_before(self, text, &mut ends))
            } else {
                _mm256_setzero_si256()
            };
            let lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
            let is_entry = _mm256_cmpgt_epi32(_mm256_set1_epi32(count as i32), lanes);
            let order = _mm256_loadu_si256(order.as_ptr().cast());
            let found_indices = _mm256_and_si256(_mm256_permute2x128_si256::<0x20>(first, second), is_entry);
            let found_indices = _mm256_permutevar8x32_epi32(found_indices, order);
            let found_values = _mm256_and_si256(_mm256_permute2x128_si256::<0x31>(first, second), is_entry);
            let found_values = _mm256_permutevar8x32_epi32(found_values, order);
            _mm256_storeu_si256(indices.as_mut_ptr().cast(), found_indices);
            store_integers(self, found_values, 0, values);
            let limits = _mm256_loadu_si256(limits.as_ptr().cast());
            are_large(self, found_indices, limits) == 0
        }
    }
}

/// Body of [`Simd::entries`], or of [`Simd::decimal_entries`] if `POINTS`. [`short_numbers`]
/// explains why the values are right.
#[inline(always)]
fn convert_entries<T: Value, const POINTS: bool>(
    simd: Avx2,
    text: Window<'_>,
    entries: Entries,
    limit: u32,
    indices: &mut [i32; MAX_ENTRIES],
    values: &mut [T; MAX_ENTRIES],
) -> bool {
    let Entries { mut colons, mut ends, .. } = entries;
    let (indices, values) = (indices.as_chunks_mut::<4>().0, values.as_chunks_mut::<4>().0);
    for (indices, values) in indices.iter_mut().zip(values) {
        if ends == 0 {
            break;
        }
        let count = ends.count_ones();
        let (index, value) = (four_before(simd, text, &mut colons), four_before(simd, text, &mut ends));
        let numbers = if POINTS {
            let (value, decimals) = decimals(simd, value);
            let numbers = eights(simd, fours(simd, index), value);
            let quotients = quotients(simd, numbers, low_halves(simd, decimals, decimals));
            store_second_half(simd, in_order(simd, quotients), values);
            in_order(simd, numbers)
        } else {
            let numbers = spelt(simd, index, value);
            store(simd, doubles(simd, numbers).1, values);
            numbers
        };
        // SAFETY: the `Avx2` value proves CPU support; `indices` has the 16 bytes that are written.
        let large = unsafe {
            let found = _mm256_castsi256_si128(numbers);
            _mm_storeu_si128(indices.as_mut_ptr().cast(), found);
            let is_large = _mm_cmpeq_epi32(_mm_max_epu32(found, _mm_set1_epi32(limit as i32)), found);
            _mm_movemask_ps(_mm_castsi128_ps(is_large)) as u64
        };
        if simd.lowest(large, count) != 0 {
            return false;
        }
    }
    true
}

/// Returns a bit for each of eight numbers that is not below its limit.
#[inline(always)]
fn are_large(_: Avx2, numbers: __m256i, limits: __m256i) -> u64 {
    // SAFETY: the `Avx2` value proves CPU support.
    unsafe {
        let is_large = _mm256_cmpeq_epi32(_mm256_max_epu32(numbers, limits), numbers);
        _mm256_movemask_ps(_mm256_castsi256_ps(is_large)) as u64
    }
}

/// Returns all ones in the bytes that are `byte`.
#[inline(always)]
fn is_byte(_: Avx2, text: __m256i, byte: u8) -> __m256i {
    // SAFETY: the `Avx2` value proves CPU support.
    unsafe { _mm256_cmpeq_epi8(text, _mm256_set1_epi8(byte as i8)) }
}

/// Returns the top bits of the 32 bytes.
#[inline(always)]
fn mask_of(_: Avx2, bytes: __m256i) -> u64 {
    // SAFETY: the `Avx2` value proves CPU support.
    u64::from(unsafe { _mm256_movemask_epi8(bytes) } as u32)
}
