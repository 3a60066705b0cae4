//! Numbers with AVX2: conversion of the tokens of a block to values.

use super::digits::{
    decimals, doubles, eights, four, four_before, fours, in_order, low_halves, reversed_fours, spelt,
    tiny_decimals,
};
use crate::ctf::parse::number::{DIVISORS, USUAL_EXPONENT, usual_powers};
use crate::ctf::parse::simd::{
    CLOSE, LANES, LAST_BITS, MAX_ENTRIES, MAX_NUMBERS, Scaled, Simd, TIE, Tokens, Wholes, Window,
};
use cntk_reader_core::cpu::processor::Avx2;
use cntk_reader_core::memory::compact::Value;
use std::arch::x86_64::*;

/// Converts tokens with fractions of up to 8 digits, or fewer than
/// [`TOO_LONG`](super::super::TOO_LONG) if `LONG`, four at a time.
#[inline(always)]
pub fn convert<T: Value, const LONG: bool>(
    simd: Avx2,
    text: Window<'_>,
    tokens: &Tokens,
    wholes: Wholes,
    out: &mut [T; MAX_NUMBERS],
) {
    let mut ends = tokens.ends;
    let mut whole_ends = wholes.ends;
    let mut negative = if tokens.minus == 0 { 0 } else { simd.extract(tokens.minus << 1, wholes.firsts) };
    for out in out.as_chunks_mut::<4>().0 {
        if ends == 0 {
            break;
        }
        let divisor = divisors(simd, whole_ends, ends);
        let (whole, fraction) = if LONG {
            long_parts(simd, text, &mut whole_ends, &mut ends)
        } else {
            let whole = four_before(simd, text, &mut whole_ends);
            doubles(simd, spelt(simd, whole, four_before(simd, text, &mut ends)))
        };
        // SAFETY: the `Avx2` value proves CPU support.
        let numbers = unsafe { _mm256_add_pd(whole, _mm256_div_pd(fraction, divisor)) };
        store(simd, signed(simd, numbers, negative), out);
        negative >>= 4;
    }
}

/// Converts tokens of at most eight bytes without their signs, eight at a time; to `f32` if
/// `POINTS`. Tokens of at most four bytes (`TINY`) fill half as many registers.
///
/// Seven digits with a point among them are an integer below 2^24, which an `f32` holds exactly, as
/// it holds the power of ten by which the integer is divided. So the quotient is the `f32` nearest
/// to the written number. CNTK instead adds two doubles, each at most 2^-53 off, and takes the
/// `f32` nearest to their sum. Both are the same, unless a tie of two `f32` is between the sum and
/// the written number, or equals one of them. But a tie has 25 significant bits: with k decimals it
/// is a multiple of 5^k that is greater than 2^24 * 5^k, eight digits; and a number with at most 6
/// decimals that is not a tie differs from every tie by more than 2^-46 of its value. A test tries
/// all numbers.
#[inline(always)]
pub fn short_numbers<const POINTS: bool, const TINY: bool, T: Value>(
    simd: Avx2,
    text: Window<'_>,
    tokens: &Tokens,
    firsts: u64,
    out: &mut [T; MAX_NUMBERS],
) {
    let mut ends = tokens.ends;
    let mut negative = if tokens.minus == 0 { 0 } else { simd.extract(tokens.minus << 1, firsts) };
    for out in out.as_chunks_mut::<LANES>().0 {
        if ends == 0 {
            break;
        }
        match (POINTS, TINY) {
            (true, true) => {
                let (numbers, count) = tiny_decimals(simd, reversed_fours(simd, text, &mut ends));
                store_floats(simd, quotients(simd, numbers, count), negative, out);
            }
            (true, false) => {
                let (a, a_count) = decimals(simd, four_before(simd, text, &mut ends));
                let (b, b_count) = decimals(simd, four_before(simd, text, &mut ends));
                let numbers = quotients(simd, eights(simd, a, b), low_halves(simd, a_count, b_count));
                store_floats(simd, in_order(simd, numbers), negative, out);
            }
            (false, _) => {
                let (a, b) = (four_before(simd, text, &mut ends), four_before(simd, text, &mut ends));
                store_integers(simd, spelt(simd, a, b), negative, out);
            }
        }
        negative >>= LANES;
    }
}

/// Converts numbers with powers of ten to `f32`, four at a time. Returns false if one needs a
/// closer look.
///
/// CNTK's double and the double computed here result from the written number by at most four
/// roundings each, so they differ by a few units in their last place. The nearest `f32` is the
/// same, unless they are about as close to a tie of two `f32`: then the last 29 bits of the double
/// are close to 2^28. Below the smallest normal `f32`, ties have other bits.
#[inline(always)]
pub fn convert_scaled<T: Value>(
    simd: Avx2,
    text: Window<'_>,
    numbers: &Scaled,
    out: &mut [T; MAX_ENTRIES],
) -> bool {
    let Scaled { mut letters, mut ends, mut negative, mut negative_powers, .. } = *numbers;
    let powers = usual_powers();
    for out in out.as_chunks_mut::<4>().0 {
        if letters == 0 {
            break;
        }
        let count = letters.count_ones();
        let (mantissas, decimals) = decimals(simd, four_before(simd, text, &mut letters));
        let exponents = fours(simd, four_before(simd, text, &mut ends));
        let mut places = [0i32; 4];
        // SAFETY: the `Avx2` value proves CPU support; `places` has the 16 bytes that are written.
        let mantissas = unsafe {
            let both = in_order(simd, eights(simd, mantissas, exponents));
            let decimals = in_order(simd, low_halves(simd, decimals, decimals));
            // 8 means that there is no point.
            let decimals = _mm256_and_si256(decimals, _mm256_set1_epi32(7));
            let lanes = _mm256_setr_epi32(0, 1, 2, 3, 0, 1, 2, 3);
            let is_number = _mm256_cmpgt_epi32(_mm256_set1_epi32(count as i32), lanes);
            let both = _mm256_and_si256(both, is_number);
            let decimals = _mm256_castsi256_si128(_mm256_and_si256(decimals, is_number));
            let minus =
                _mm_sllv_epi32(_mm_set1_epi32(negative_powers as i32), _mm_setr_epi32(31, 30, 29, 28));
            let minus = _mm_srai_epi32::<31>(minus);
            let exponents = _mm_sub_epi32(_mm_xor_si128(_mm256_extracti128_si256::<1>(both), minus), minus);
            let place = _mm_add_epi32(_mm_sub_epi32(exponents, decimals), _mm_set1_epi32(USUAL_EXPONENT));
            _mm_storeu_si128(places.as_mut_ptr().cast(), place);
            _mm256_castsi256_si128(both)
        };
        let mut factors = [0.0; 4];
        for (factor, place) in factors.iter_mut().zip(places) {
            let Some(power) = powers.get(place as usize) else { return false };
            *factor = *power;
        }
        // SAFETY: the `Avx2` value proves CPU support; `factors` has the 32 bytes that are read.
        unsafe {
            let product = _mm256_mul_pd(_mm256_cvtepi32_pd(mantissas), _mm256_loadu_pd(factors.as_ptr()));
            let from_tie = _mm256_add_epi64(_mm256_castpd_si256(product), _mm256_set1_epi64x(CLOSE - TIE));
            let from_tie = _mm256_and_si256(from_tie, _mm256_set1_epi64x(LAST_BITS));
            let is_close = _mm256_castsi256_pd(_mm256_cmpgt_epi64(_mm256_set1_epi64x(2 * CLOSE), from_tie));
            let least = _mm256_set1_pd(f64::from(f32::MIN_POSITIVE));
            let is_less = _mm256_cmp_pd::<_CMP_LT_OQ>(product, least);
            let is_tiny = _mm256_and_pd(is_less, _mm256_cmp_pd::<_CMP_GT_OQ>(product, _mm256_setzero_pd()));
            if _mm256_movemask_pd(_mm256_or_pd(is_close, is_tiny)) != 0 {
                return false;
            }
            store(simd, signed(simd, product, negative), out);
        }
        negative >>= 4;
        negative_powers >>= 4;
    }
    true
}

/// Returns the bits of integers as `f32`, divided by the powers of ten with these exponents, 0 to
/// 7; 8 counts as 0.
#[inline(always)]
pub fn quotients(_: Avx2, numbers: __m256i, exponents: __m256i) -> __m256i {
    // SAFETY: the `Avx2` value proves CPU support.
    unsafe {
        let powers = _mm256_setr_ps(1.0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7);
        let divisors = _mm256_permutevar8x32_ps(powers, exponents);
        _mm256_castps_si256(_mm256_div_ps(_mm256_cvtepi32_ps(numbers), divisors))
    }
}

/// Converts four tokens, which are removed from the masks: the digits before the points, and those
/// after.
///
/// As in `number::run`: 16 digits form an integer, further ones are added one by one.
#[inline(always)]
fn long_parts(simd: Avx2, text: Window<'_>, whole_ends: &mut u64, ends: &mut u64) -> (__m256d, __m256d) {
    let (mut low, mut high, mut more, mut counts) = ([0; 4], [0; 4], [0; 4], [0; 4]);
    let mut rest = *whole_ends;
    for i in 0..4 {
        let (whole_end, end) = (rest.trailing_zeros(), ends.trailing_zeros());
        rest &= rest.wrapping_sub(1);
        *ends &= ends.wrapping_sub(1);
        let stop = end.min(whole_end + 17);
        low[i] = text.eight_before(stop) as i64;
        high[i] = if stop > whole_end + 9 { text.eight_before(stop - 8) as i64 } else { 0 };
        more[i] = text.eight(stop) as i64;
        counts[i] = i64::from(end - stop);
    }
    let whole = four_before(simd, text, whole_ends);
    let (whole, low) = doubles(simd, spelt(simd, whole, four(simd, low)));
    let high = four(simd, high);
    let (high, _) = doubles(simd, spelt(simd, high, high));
    let (mut more, mut counts) = (four(simd, more), four(simd, counts));
    // SAFETY: the `Avx2` value proves CPU support.
    unsafe {
        // Only the sum is rounded.
        let mut fraction = _mm256_add_pd(_mm256_mul_pd(high, _mm256_set1_pd(1e8)), low);
        while _mm256_testz_si256(counts, counts) == 0 {
            let is_part = _mm256_cmpgt_epi64(counts, _mm256_setzero_si256());
            // The lower half of a digit is its value; the bits of 2^52 make it a double.
            let bits = _mm256_castpd_si256(_mm256_set1_pd(4_503_599_627_370_496.0));
            let digit = _mm256_or_si256(_mm256_and_si256(more, _mm256_set1_epi64x(15)), bits);
            let digit = _mm256_sub_pd(_mm256_castsi256_pd(digit), _mm256_castsi256_pd(bits));
            let next = _mm256_add_pd(_mm256_mul_pd(fraction, _mm256_set1_pd(10.0)), digit);
            fraction = _mm256_blendv_pd(fraction, next, _mm256_castsi256_pd(is_part));
            // -1 where there was another digit.
            counts = _mm256_add_epi64(counts, is_part);
            more = _mm256_srli_epi64::<8>(more);
        }
        (whole, fraction)
    }
}

/// Returns the divisors of the fractions between the lowest four places of both masks.
#[inline(always)]
fn divisors(_: Avx2, mut whole_ends: u64, mut ends: u64) -> __m256d {
    let mut divisors = [0.0; 4];
    for divisor in &mut divisors {
        let distance = ends.trailing_zeros().wrapping_sub(whole_ends.trailing_zeros());
        *divisor = DIVISORS_AFTER[distance as usize % DIVISORS_AFTER.len()];
        whole_ends &= whole_ends.wrapping_sub(1);
        ends &= ends.wrapping_sub(1);
    }
    // SAFETY: the `Avx2` value proves CPU support.
    unsafe { _mm256_setr_pd(divisors[0], divisors[1], divisors[2], divisors[3]) }
}

/// The divisor for a fraction of `k` digits at index `k + 1`. If a number has no point, its digits
/// are also read as a fraction, and divided to 0.
static DIVISORS_AFTER: [f64; 32] = {
    let mut table = [f64::INFINITY; 32];
    let mut count = 1;
    while count + 1 < table.len() {
        table[count + 1] = DIVISORS[count];
        count += 1;
    }
    table
};

/// Negates the numbers (zeros too) where `negative` has a bit.
#[inline(always)]
pub fn signed(_: Avx2, numbers: __m256d, negative: u64) -> __m256d {
    // SAFETY: the `Avx2` value proves CPU support.
    unsafe {
        let bits = _mm256_set1_epi64x(negative as i64);
        let signs = _mm256_sllv_epi64(bits, _mm256_setr_epi64x(63, 62, 61, 60));
        _mm256_xor_pd(numbers, _mm256_and_pd(_mm256_castsi256_pd(signs), _mm256_set1_pd(-0.0)))
    }
}

/// Stores four doubles as values.
#[inline(always)]
pub fn store<T: Value>(_: Avx2, numbers: __m256d, out: &mut [T; 4]) {
    const { assert!(size_of::<T>() == 4 || size_of::<T>() == 8) };
    // SAFETY: the `Avx2` value proves CPU support. Four values of 4 or 8 bytes are written, as many
    // as `out` has, and any bit pattern is a valid `Value`, which is `Pod`.
    unsafe {
        if size_of::<T>() == size_of::<f32>() {
            _mm_storeu_ps(out.as_mut_ptr().cast(), _mm256_cvtpd_ps(numbers));
        } else {
            _mm256_storeu_pd(out.as_mut_ptr().cast(), numbers);
        }
    }
}

/// Stores eight integers as values, negated (zeros too) where `negative` has a bit. Converts
/// directly to `f32`: pixels by way of doubles are 10 % slower.
#[inline(always)]
pub fn store_integers<T: Value>(simd: Avx2, numbers: __m256i, negative: u64, out: &mut [T; LANES]) {
    if size_of::<T>() == size_of::<f32>() {
        // SAFETY: the `Avx2` value proves CPU support.
        let numbers = unsafe { _mm256_castps_si256(_mm256_cvtepi32_ps(numbers)) };
        store_floats(simd, numbers, negative, out);
    } else if let [first, second] = out.as_chunks_mut::<4>().0 {
        let (low, high) = doubles(simd, numbers);
        store(simd, signed(simd, low, negative), first);
        store(simd, signed(simd, high, negative >> 4), second);
    }
}

/// Stores the bits of eight `f32` as values of that type, negated where `negative` has a bit.
#[inline(always)]
fn store_floats<T: Value>(_: Avx2, numbers: __m256i, negative: u64, out: &mut [T; LANES]) {
    assert!(size_of::<T>() == size_of::<f32>());
    // SAFETY: the `Avx2` value proves CPU support. Eight values of 4 bytes are written, as many as
    // `out` has, and any bit pattern is a valid `Value`, which is `Pod`.
    unsafe {
        let bits = _mm256_set1_epi32(negative as i32);
        let signs = _mm256_sllv_epi32(bits, _mm256_setr_epi32(31, 30, 29, 28, 27, 26, 25, 24));
        let signs = _mm256_and_si256(signs, _mm256_set1_epi32(i32::MIN));
        _mm256_storeu_si256(out.as_mut_ptr().cast(), _mm256_xor_si256(numbers, signs));
    }
}

/// Stores the second half of the bits of eight `f32` as values of that type.
#[inline(always)]
pub fn store_second_half<T: Value>(_: Avx2, numbers: __m256i, out: &mut [T; 4]) {
    assert!(size_of::<T>() == size_of::<f32>());
    // SAFETY: the `Avx2` value proves CPU support. Four values of 4 bytes are written, as many as
    // `out` has, and any bit pattern is a valid `Value`, which is `Pod`.
    unsafe { _mm_storeu_si128(out.as_mut_ptr().cast(), _mm256_extracti128_si256::<1>(numbers)) };
}
