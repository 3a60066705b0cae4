//! Numbers of at most eight bytes with AVX-512 that become `f32`: decimals, and products of decimals and powers of ten.
//!
//! `vpcompressb` takes the points out of a block, and `pext` takes them out of its masks. A decimal is a whole number then, which is
//! divided by a power of ten or multiplied by one. Why the results are CNTK's is said where AVX2 does the same:
//! [`short_numbers`](super::super::avx2::numbers::short_numbers), [`convert_scaled`](super::super::avx2::numbers::convert_scaled).

use super::{convert_entries, digits, in_turn, is_byte, load, places, spelt, spread, store};
use crate::compact::Value;
use crate::deserialize::text::parse::number::{USUAL_EXPONENT, usual_powers};
use crate::deserialize::text::parse::simd::{
    Entries, LANES, MOST_ENTRIES, MOST_NUMBERS, Scaled, Simd, Tokens, Window, run_ends,
};
use crate::processor::Avx512;
use std::arch::x86_64::*;

/// A block of decimals without its points.
struct Pointless {
    /// The values of its bytes, as [`digits`] gives them.
    digits: __m512i,
    /// The bytes of the block that are in it.
    kept: u64,
}

impl Pointless {
    #[inline(always)]
    fn new(simd: Avx512, text: Window<'_>, dot: u64) -> Pointless {
        let all = digits(simd, load::<0>(simd, text));
        // SAFETY: there is a value of `Avx512`.
        let digits = unsafe { _mm512_maskz_compress_epi8(!dot, all) };
        Pointless { digits, kept: !dot }
    }

    /// Where the bytes are that are set in a mask of the block, none of them points.
    #[inline(always)]
    fn places(&self, simd: Avx512, bits: u64) -> __m512i {
        places(simd, simd.extract(bits, self.kept))
    }

    /// Where the decimals begin, given the bytes after the digits before the points, or after the numbers that have none.
    #[inline(always)]
    fn fractions(&self, simd: Avx512, whole_ends: u64) -> __m512i {
        // After a point, if there is one.
        self.places(simd, (whole_ends & self.kept) | ((whole_ends & !self.kept) << 1))
    }
}

/// Converts tokens of at most eight bytes without their signs to `f32`, eight at a time.
#[inline(always)]
pub(super) fn short_numbers<T: Value>(
    simd: Avx512,
    text: Window<'_>,
    tokens: &Tokens,
    firsts: u64,
    out: &mut [T; MOST_NUMBERS],
) {
    let Tokens { digit, dot, minus, ends } = *tokens;
    let text = Pointless::new(simd, text, dot);
    let (begin, end) = (text.places(simd, firsts), text.places(simd, ends));
    let fractions = text.fractions(simd, run_ends(digit, firsts));
    let mut negative = simd.extract(minus << 1, firsts);
    let mut left = ends.count_ones();
    let mut from = 0;
    for out in out.as_chunks_mut::<LANES>().0 {
        if left == 0 {
            return;
        }
        let (begin, end) = (spread(simd, from, begin), spread(simd, from, end));
        let fractions = spread(simd, from, fractions);
        // SAFETY: there is a value of `Avx512`.
        let quotients = unsafe {
            let before = _mm512_sub_epi8(begin, _mm512_set1_epi8(1));
            let numbers = _mm512_cvtepi64_epi32(spelt(simd, text.digits, before, end));
            quotients(simd, numbers, _mm512_cvtepi64_epi32(_mm512_sub_epi8(end, fractions)))
        };
        store_floats(simd, quotients, negative as u8, out);
        negative >>= LANES;
        left = left.saturating_sub(LANES as u32);
        from += LANES as u8;
    }
}

/// [`Simd::decimal_entries`] as `f32`.
#[inline(always)]
pub(super) fn decimal_entries<T: Value>(
    simd: Avx512,
    text: Window<'_>,
    entries: Entries,
    limit: u32,
    indices: &mut [i32; MOST_ENTRIES],
    values: &mut [T; MOST_ENTRIES],
) -> bool {
    let Entries { starts, colons, ends } = entries;
    let bytes = load::<0>(simd, text);
    let dot = is_byte(simd, bytes, b'.');
    // SAFETY: there is a value of `Avx512`.
    let digit = unsafe { _mm512_cmplt_epu8_mask(digits(simd, bytes), _mm512_set1_epi8(10)) };
    let mut text = Pointless::new(simd, text, dot);
    // SAFETY: there is a value of `Avx512`. A minus becomes a zero before its number.
    text.digits = unsafe { _mm512_maskz_mov_epi8(simd.extract(digit, text.kept), text.digits) };
    let (begin, middle, end) =
        (text.places(simd, starts), text.places(simd, colons), text.places(simd, ends));
    let in_value = digit | (colons << 1);
    let fractions = text.fractions(simd, run_ends(in_value, colons << 1));
    let order = in_turn(simd, &[0, 1, 2, 3, 4, 5, 6, 7]);
    let mut left = ends.count_ones();
    let mut from = 0;
    for (indices, values) in
        indices.as_chunks_mut::<LANES>().0.iter_mut().zip(values.as_chunks_mut::<LANES>().0)
    {
        if left == 0 {
            break;
        }
        let numbers = convert_entries(simd, text.digits, &[begin, middle, end], from);
        let (end, fractions) = (spread(simd, from, end), spread(simd, from, fractions));
        // SAFETY: there is a value of `Avx512`; 32 bytes are written to `indices`, which has as many.
        let (quotients, large) = unsafe {
            let both = _mm512_permutexvar_epi32(order, numbers);
            let found = _mm512_castsi512_si256(both);
            _mm256_storeu_si256(indices.as_mut_ptr().cast(), found);
            let decimals = _mm512_cvtepi64_epi32(_mm512_sub_epi8(end, fractions));
            let quotients = quotients(simd, _mm512_extracti64x4_epi64::<1>(both), decimals);
            (quotients, _mm256_cmpge_epu32_mask(found, _mm256_set1_epi32(limit as i32)))
        };
        store_floats(simd, quotients, 0, values);
        if simd.lowest(large.into(), left) != 0 {
            return false;
        }
        left = left.saturating_sub(LANES as u32);
        from += LANES as u8;
    }
    true
}

/// [`Simd::scaled_numbers`] as `f32`.
#[inline(always)]
pub(super) fn scaled_numbers<T: Value>(
    simd: Avx512,
    text: Window<'_>,
    numbers: &Scaled,
    out: &mut [T; MOST_ENTRIES],
) -> bool {
    /// As with AVX2.
    const CLOSE: i64 = 64;
    const LAST_BITS: i64 = (1 << 29) - 1;
    const TIE: i64 = 1 << 28;
    let Scaled { firsts, letters, ends, mut negative, mut negative_powers } = *numbers;
    let bytes = load::<0>(simd, text);
    // SAFETY: there is a value of `Avx512`.
    let digit = unsafe { _mm512_cmplt_epu8_mask(digits(simd, bytes), _mm512_set1_epi8(10)) };
    let mut text = Pointless::new(simd, text, is_byte(simd, bytes, b'.'));
    // SAFETY: there is a value of `Avx512`. The sign of a power becomes a zero before it.
    text.digits = unsafe { _mm512_maskz_mov_epi8(simd.extract(digit, text.kept), text.digits) };
    let (begin, middle, end) =
        (text.places(simd, firsts), text.places(simd, letters), text.places(simd, ends));
    let fractions = text.fractions(simd, run_ends(digit, firsts));
    let powers = usual_powers();
    let mut left = letters.count_ones();
    let mut from = 0;
    for out in out.as_chunks_mut::<LANES>().0 {
        if left == 0 {
            break;
        }
        let (begin, middle) = (spread(simd, from, begin), spread(simd, from, middle));
        let (end, fractions) = (spread(simd, from, end), spread(simd, from, fractions));
        // SAFETY: there is a value of `Avx512`. A power is read for the places that are less than the length of `powers`.
        let product = unsafe {
            let before = _mm512_sub_epi8(begin, _mm512_set1_epi8(1));
            let mantissas = spelt(simd, text.digits, before, middle);
            let exponents = spelt(simd, text.digits, middle, end);
            let zero = _mm512_setzero_si512();
            let exponents = _mm512_mask_sub_epi64(exponents, negative_powers as u8, zero, exponents);
            let decimals = _mm512_and_si512(_mm512_sub_epi8(middle, fractions), _mm512_set1_epi64(7));
            let place = _mm512_sub_epi64(exponents, decimals);
            let place = _mm512_add_epi64(place, _mm512_set1_epi64(USUAL_EXPONENT.into()));
            let length = _mm512_set1_epi64(powers.len() as i64);
            let is_number = simd.lowest(0xff, left) as u8;
            let is_usual = _mm512_mask_cmplt_epu64_mask(is_number, place, length);
            if is_usual != is_number {
                return false;
            }
            let one = _mm512_set1_pd(1.0);
            let factors = _mm512_mask_i64gather_pd::<8>(one, is_usual, place, powers.as_ptr());
            let product = _mm512_mul_pd(_mm512_cvtepi64_pd(mantissas), factors);
            let bits = _mm512_castpd_si512(product);
            let from_tie = _mm512_add_epi64(bits, _mm512_set1_epi64(CLOSE - TIE));
            let from_tie = _mm512_and_si512(from_tie, _mm512_set1_epi64(LAST_BITS));
            let is_close = _mm512_cmplt_epu64_mask(from_tie, _mm512_set1_epi64(2 * CLOSE));
            // The bits of positive doubles have the order of their values.
            let least = _mm512_set1_epi64(f64::from(f32::MIN_POSITIVE).to_bits() as i64);
            let is_less = _mm512_cmplt_epu64_mask(bits, least);
            let is_tiny = _mm512_mask_test_epi64_mask(is_less, bits, bits);
            if is_close | is_tiny != 0 {
                return false;
            }
            _mm512_mask_xor_pd(product, negative as u8, product, _mm512_set1_pd(-0.0))
        };
        store(simd, product, out);
        negative >>= LANES;
        negative_powers >>= LANES;
        left = left.saturating_sub(LANES as u32);
        from += LANES as u8;
    }
    true
}

/// [`Simd::scaled_entries`] as `f32`.
#[inline(always)]
pub(super) fn scaled_entries<T: Value>(
    simd: Avx512,
    text: Window<'_>,
    entries: Entries,
    numbers: &Scaled,
    limit: u32,
    indices: &mut [i32; MOST_ENTRIES],
    values: &mut [T; MOST_ENTRIES],
) -> Option<bool> {
    if !scaled_numbers(simd, text, numbers, values) {
        return None;
    }
    let Entries { starts, colons, .. } = entries;
    let digits = digits(simd, load::<0>(simd, text));
    let (begin, end) = (places(simd, starts), places(simd, colons));
    let mut left = colons.count_ones();
    let mut from = 0;
    for indices in indices.as_chunks_mut::<LANES>().0 {
        if left == 0 {
            break;
        }
        let (begin, end) = (spread(simd, from, begin), spread(simd, from, end));
        // SAFETY: there is a value of `Avx512`; the 32 bytes that are written are those of `indices`.
        let large = unsafe {
            let before = _mm512_sub_epi8(begin, _mm512_set1_epi8(1));
            let found = _mm512_cvtepi64_epi32(spelt(simd, digits, before, end));
            _mm256_storeu_si256(indices.as_mut_ptr().cast(), found);
            _mm256_cmpge_epu32_mask(found, _mm256_set1_epi32(limit as i32))
        };
        if simd.lowest(large.into(), left) != 0 {
            return Some(false);
        }
        left = left.saturating_sub(LANES as u32);
        from += LANES as u8;
    }
    Some(true)
}

/// Whole numbers divided by the powers of ten with these exponents, of which the lowest three bits count.
#[inline(always)]
fn quotients(_: Avx512, numbers: __m256i, exponents: __m256i) -> __m256 {
    // SAFETY: there is a value of `Avx512`.
    unsafe {
        let powers = _mm256_setr_ps(1.0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7);
        _mm256_div_ps(_mm256_cvtepi32_ps(numbers), _mm256_permutevar8x32_ps(powers, exponents))
    }
}

/// Stores eight `f32` as values of that type, those with a bit in `negative` with a minus, also zeros.
#[inline(always)]
fn store_floats<T: Value>(_: Avx512, numbers: __m256, negative: u8, out: &mut [T; LANES]) {
    assert!(size_of::<T>() == size_of::<f32>());
    // SAFETY: there is a value of `Avx512`. Eight values of 4 bytes are written, as many as `out` has, and any bits are a value,
    // because a `Value` is `Plain`.
    unsafe {
        let signed = _mm256_mask_xor_ps(numbers, negative, numbers, _mm256_set1_ps(-0.0));
        _mm256_storeu_ps(out.as_mut_ptr().cast(), signed);
    }
}
