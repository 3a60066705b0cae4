//! [`Simd`] with AVX2: a block is two registers of 32 bytes, and a comparison of bytes takes two steps to become a mask.
//!
//! All numbers are converted in the same way: eight at a time, from the eight bytes before the place where each of them ends
//! ([`spelt`]). Where it begins need not be known, which saves a third of the work of finding places: bits are taken off a mask one
//! by one here. No branch depends on a sign, on a length up to eight digits, or on whether there is a point.

use super::{Classes, Entries, LANES, MOST_ENTRIES, MOST_NUMBERS, Scaled, Simd, Tokens, Wholes, Window};
use crate::compact::Value;
use crate::deserialize::text::parse::number::{DIVISORS, USUAL_EXPONENT, usual_powers};
use crate::processor::Avx2;
use std::arch::x86_64::*;

impl Simd for Avx2 {
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

    #[inline(always)]
    fn plain_numbers<T: Value>(self, text: Window<'_>, tokens: &Tokens, out: &mut [T; MOST_NUMBERS]) -> bool {
        if size_of::<T>() == size_of::<f32>()
            && tokens.dot != 0
            && let Some(firsts) = tokens.firsts_if_short()
        {
            short_decimals(self, text, tokens, firsts, out);
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
        indices: &mut [i32; MOST_ENTRIES],
        values: &mut [T; MOST_ENTRIES],
    ) -> bool {
        convert_entries::<T, false>(self, text, entries, limit, indices, values)
    }

    #[inline(always)]
    fn decimal_entries<T: Value>(
        self,
        text: Window<'_>,
        entries: Entries,
        limit: u32,
        indices: &mut [i32; MOST_ENTRIES],
        values: &mut [T; MOST_ENTRIES],
    ) -> Option<bool> {
        (size_of::<T>() == size_of::<f32>())
            .then(|| convert_entries::<T, true>(self, text, entries, limit, indices, values))
    }

    #[inline(always)]
    fn scaled_numbers<T: Value>(
        self,
        text: Window<'_>,
        numbers: &Scaled,
        out: &mut [T; MOST_ENTRIES],
    ) -> bool {
        size_of::<T>() == size_of::<f32>() && convert_scaled(self, text, numbers, out)
    }

    #[inline(always)]
    fn scaled_entries<T: Value>(
        self,
        text: Window<'_>,
        mut colons: u64,
        numbers: &Scaled,
        limit: u32,
        indices: &mut [i32; MOST_ENTRIES],
        values: &mut [T; MOST_ENTRIES],
    ) -> Option<bool> {
        if !self.scaled_numbers(text, numbers, values) {
            return None;
        }
        for indices in indices.as_chunks_mut::<LANES>().0 {
            if colons == 0 {
                break;
            }
            let count = colons.count_ones();
            let found =
                spelt(self, four_before(self, text, &mut colons), four_before(self, text, &mut colons));
            // SAFETY: there is a value of `Avx2`; the 32 bytes that are written are those of `indices`.
            let large = unsafe {
                _mm256_storeu_si256(indices.as_mut_ptr().cast(), found);
                let is_large =
                    _mm256_cmpeq_epi32(_mm256_max_epu32(found, _mm256_set1_epi32(limit as i32)), found);
                _mm256_movemask_ps(_mm256_castsi256_ps(is_large)) as u64
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
        // SAFETY: there is a value of `Avx2`; the arrays that are read and written have 32 bytes each.
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
            let is_large = _mm256_cmpeq_epi32(_mm256_max_epu32(found_indices, limits), found_indices);
            _mm256_movemask_epi8(is_large) == 0
        }
    }
}

/// See [`Simd::entries`]; with `POINTS` see [`Simd::decimal_entries`], and [`short_decimals`] for why the values are right.
#[inline(always)]
fn convert_entries<T: Value, const POINTS: bool>(
    simd: Avx2,
    text: Window<'_>,
    entries: Entries,
    limit: u32,
    indices: &mut [i32; MOST_ENTRIES],
    values: &mut [T; MOST_ENTRIES],
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
        // SAFETY: there is a value of `Avx2`; the 16 bytes that are written are those of `indices`.
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

/// Converts tokens without points, eight at a time; others four at a time, with fractions of up to 8 digits, or less than
/// [`super::TOO_LONG`] if `LONG`.
#[inline(always)]
fn convert<T: Value, const LONG: bool>(
    simd: Avx2,
    text: Window<'_>,
    tokens: &Tokens,
    wholes: Wholes,
    out: &mut [T; MOST_NUMBERS],
) {
    let mut ends = tokens.ends;
    let mut whole_ends = wholes.ends;
    let mut negative = if tokens.minus == 0 { 0 } else { simd.extract(tokens.minus << 1, wholes.firsts) };
    if !LONG && tokens.dot == 0 {
        for out in out.as_chunks_mut::<LANES>().0 {
            if ends == 0 {
                break;
            }
            let numbers = spelt(simd, four_before(simd, text, &mut ends), four_before(simd, text, &mut ends));
            store_integers(simd, numbers, negative, out);
            negative >>= LANES;
        }
        return;
    }
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
        // SAFETY: there is a value of `Avx2`.
        let numbers = unsafe { _mm256_add_pd(whole, _mm256_div_pd(fraction, divisor)) };
        store(simd, signed(simd, numbers, negative), out);
        negative >>= 4;
    }
}

/// Converts tokens of at most eight bytes without their signs to `f32`, eight at a time.
///
/// Seven digits with a point among them are one whole number below 2^24, which an `f32` holds as exactly as the power of ten that it is
/// divided by. So the quotient is the `f32` nearest to what is written. CNTK adds two doubles instead, each at most 2^-53 off, and
/// takes the `f32` nearest to their sum. Both are the same: a number with at most 6 decimals is no tie of two `f32`, which has 25
/// significant bits and with them more digits, and differs from a tie by more than 2^-46 of it.
#[inline(always)]
fn short_decimals<T: Value>(
    simd: Avx2,
    text: Window<'_>,
    tokens: &Tokens,
    firsts: u64,
    out: &mut [T; MOST_NUMBERS],
) {
    let mut ends = tokens.ends;
    let mut negative = if tokens.minus == 0 { 0 } else { simd.extract(tokens.minus << 1, firsts) };
    for out in out.as_chunks_mut::<LANES>().0 {
        if ends == 0 {
            break;
        }
        let (a, b) = (four_before(simd, text, &mut ends), four_before(simd, text, &mut ends));
        let ((a, a_count), (b, b_count)) = (decimals(simd, a), decimals(simd, b));
        let numbers = quotients(simd, eights(simd, a, b), low_halves(simd, a_count, b_count));
        store_floats(simd, in_order(simd, numbers), negative, out);
        negative >>= LANES;
    }
}

/// Converts numbers with powers of ten to `f32`, four at a time; false if one needs a closer look.
///
/// CNTK's double and the one that is computed here have come from what is written by at most four roundings each, so they differ by a few
/// units in their last place. The `f32` nearest to them is the same, unless they are about as close to a tie of two `f32`: then the
/// last 29 bits of the double are close to 2^28. Below the least normal `f32` ties have other bits.
#[inline(always)]
fn convert_scaled<T: Value>(
    simd: Avx2,
    text: Window<'_>,
    numbers: &Scaled,
    out: &mut [T; MOST_ENTRIES],
) -> bool {
    /// How close to a tie is too close, in units in the last place of a double: more than those few.
    const CLOSE: i64 = 64;
    const LAST_BITS: i64 = (1 << 29) - 1;
    const TIE: i64 = 1 << 28;
    let Scaled { mut letters, mut ends, mut negative, mut negative_powers } = *numbers;
    let powers = usual_powers();
    for out in out.as_chunks_mut::<4>().0 {
        if letters == 0 {
            break;
        }
        let count = letters.count_ones();
        let (mantissas, decimals) = decimals(simd, four_before(simd, text, &mut letters));
        let exponents = fours(simd, four_before(simd, text, &mut ends));
        let mut places = [0i32; 4];
        // SAFETY: there is a value of `Avx2`; the 16 bytes that are written are those of `places`.
        let mantissas = unsafe {
            let both = in_order(simd, eights(simd, mantissas, exponents));
            let decimals = in_order(simd, low_halves(simd, decimals, decimals));
            // 8 stands for no point.
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
        // SAFETY: there is a value of `Avx2`; the 32 bytes that are read are those of `factors`.
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

/// The bits of the `f32` that whole numbers are, divided by the powers of ten with these exponents, 0 to 7; 8 counts as 0.
#[inline(always)]
fn quotients(_: Avx2, numbers: __m256i, exponents: __m256i) -> __m256i {
    // SAFETY: there is a value of `Avx2`.
    unsafe {
        let powers = _mm256_setr_ps(1.0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7);
        let divisors = _mm256_permutevar8x32_ps(powers, exponents);
        _mm256_castps_si256(_mm256_div_ps(_mm256_cvtepi32_ps(numbers), divisors))
    }
}

/// Four tokens, which are taken off the masks: the digits before the points, and those after them.
///
/// As `number::run`: 16 digits make an integer, those after them are added one by one.
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
    // SAFETY: there is a value of `Avx2`.
    unsafe {
        // Only the sum is rounded.
        let mut fraction = _mm256_add_pd(_mm256_mul_pd(high, _mm256_set1_pd(1e8)), low);
        while _mm256_testz_si256(counts, counts) == 0 {
            let is_part = _mm256_cmpgt_epi64(counts, _mm256_setzero_si256());
            // The lower half of a digit is its value; the bits of 2^52 make a double of it.
            let bits = _mm256_castpd_si256(_mm256_set1_pd(4_503_599_627_370_496.0));
            let digit = _mm256_or_si256(_mm256_and_si256(more, _mm256_set1_epi64x(15)), bits);
            let digit = _mm256_sub_pd(_mm256_castsi256_pd(digit), _mm256_castsi256_pd(bits));
            let next = _mm256_add_pd(_mm256_mul_pd(fraction, _mm256_set1_pd(10.0)), digit);
            fraction = _mm256_blendv_pd(fraction, next, _mm256_castsi256_pd(is_part));
            // -1 where there was one more.
            counts = _mm256_add_epi64(counts, is_part);
            more = _mm256_srli_epi64::<8>(more);
        }
        (whole, fraction)
    }
}

/// The eight bytes before each of the lowest four places, which are taken off the mask; before the block's end for those that are
/// missing.
#[inline(always)]
fn four_before(simd: Avx2, text: Window<'_>, places: &mut u64) -> __m256i {
    let mut eights = [0; 4];
    for eight in &mut eights {
        *eight = text.eight_before(places.trailing_zeros()) as i64;
        *places &= places.wrapping_sub(1);
    }
    four(simd, eights)
}

/// Four integers as a register.
#[inline(always)]
fn four(_: Avx2, [a, b, c, d]: [i64; 4]) -> __m256i {
    // SAFETY: there is a value of `Avx2`.
    unsafe { _mm256_setr_epi64x(a, b, c, d) }
}

/// The numbers that end where these eight times eight bytes end, at most 8 digits of them: those of `a`, then those of `b`.
#[inline(always)]
fn spelt(simd: Avx2, a: __m256i, b: __m256i) -> __m256i {
    in_order(simd, eights(simd, fours(simd, a), fours(simd, b)))
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

/// Ones in the bytes of each eight before the first one that is set.
#[inline(always)]
fn before_first(_: Avx2, bytes: __m256i) -> __m256i {
    // SAFETY: there is a value of `Avx2`.
    unsafe { _mm256_andnot_si256(bytes, _mm256_add_epi64(bytes, _mm256_set1_epi64x(-1))) }
}

/// All ones in the bytes that are no digits of [`reversed`] text.
#[inline(always)]
fn no_digits(_: Avx2, digits: __m256i) -> __m256i {
    // SAFETY: there is a value of `Avx2`.
    unsafe { _mm256_cmpeq_epi8(_mm256_max_epu8(digits, _mm256_set1_epi8(10)), digits) }
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
fn fours(simd: Avx2, text: __m256i) -> __m256i {
    let digits = reversed(simd, text);
    let number = before_first(simd, no_digits(simd, digits));
    // SAFETY: there is a value of `Avx2`.
    joined(simd, unsafe { _mm256_and_si256(digits, number) })
}

/// The numbers with which each eight bytes end, without their points, in two parts of four digits; and how many digits follow the
/// points, or 8 where there is none.
#[inline(always)]
fn decimals(simd: Avx2, text: __m256i) -> (__m256i, __m256i) {
    let digits = reversed(simd, text);
    // SAFETY: there is a value of `Avx2`.
    unsafe {
        let points = _mm256_cmpeq_epi8(digits, _mm256_set1_epi8(b'.'.wrapping_sub(b'0') as i8));
        let number = before_first(simd, _mm256_andnot_si256(points, no_digits(simd, digits)));
        let fraction = before_first(simd, _mm256_and_si256(points, number));
        let digits = _mm256_and_si256(digits, number);
        // What is before the point moves to its place.
        let digits = _mm256_blendv_epi8(_mm256_srli_epi64::<8>(digits), digits, fraction);
        let count = _mm256_sad_epu8(_mm256_abs_epi8(fraction), _mm256_setzero_si256());
        (joined(simd, digits), count)
    }
}

/// The numbers whose parts of four digits these are: two of `a`, two of `b`, and again.
#[inline(always)]
fn eights(_: Avx2, a: __m256i, b: __m256i) -> __m256i {
    // SAFETY: there is a value of `Avx2`.
    unsafe { _mm256_madd_epi16(_mm256_packus_epi32(a, b), _mm256_set1_epi32(0x2710_0001)) }
}

/// The lower halves of integers of 64 bits in the order of [`eights`].
#[inline(always)]
fn low_halves(_: Avx2, a: __m256i, b: __m256i) -> __m256i {
    // SAFETY: there is a value of `Avx2`.
    unsafe {
        let halves = _mm256_shuffle_ps::<0b10_00_10_00>(_mm256_castsi256_ps(a), _mm256_castsi256_ps(b));
        _mm256_castps_si256(halves)
    }
}

/// Those of `a`, then those of `b`, of what is in the order of [`eights`].
#[inline(always)]
fn in_order(_: Avx2, both: __m256i) -> __m256i {
    // SAFETY: there is a value of `Avx2`.
    unsafe { _mm256_permute4x64_epi64::<0b11_01_10_00>(both) }
}

/// What [`spelt`] gives, as doubles.
#[inline(always)]
fn doubles(_: Avx2, numbers: __m256i) -> (__m256d, __m256d) {
    // SAFETY: there is a value of `Avx2`.
    unsafe {
        let low = _mm256_cvtepi32_pd(_mm256_castsi256_si128(numbers));
        (low, _mm256_cvtepi32_pd(_mm256_extracti128_si256::<1>(numbers)))
    }
}

/// The divisors of the fractions between the lowest four places of both masks.
#[inline(always)]
fn divisors(_: Avx2, mut whole_ends: u64, mut ends: u64) -> __m256d {
    let mut divisors = [0.0; 4];
    for divisor in &mut divisors {
        let distance = ends.trailing_zeros().wrapping_sub(whole_ends.trailing_zeros());
        *divisor = DIVISORS_AFTER[distance as usize % DIVISORS_AFTER.len()];
        whole_ends &= whole_ends.wrapping_sub(1);
        ends &= ends.wrapping_sub(1);
    }
    // SAFETY: there is a value of `Avx2`.
    unsafe { _mm256_setr_pd(divisors[0], divisors[1], divisors[2], divisors[3]) }
}

/// The divisor for a fraction of `k` digits at `k + 1`. Where a number has no point, its digits are read as those of a fraction as
/// well, and divided to 0.
static DIVISORS_AFTER: [f64; 32] = {
    let mut table = [f64::INFINITY; 32];
    let mut count = 1;
    while count + 1 < table.len() {
        table[count + 1] = DIVISORS[count];
        count += 1;
    }
    table
};

/// The numbers, those with a bit in `negative` with a minus, also zeros.
#[inline(always)]
fn signed(_: Avx2, numbers: __m256d, negative: u64) -> __m256d {
    // SAFETY: there is a value of `Avx2`.
    unsafe {
        let bits = _mm256_set1_epi64x(negative as i64);
        let signs = _mm256_sllv_epi64(bits, _mm256_setr_epi64x(63, 62, 61, 60));
        _mm256_xor_pd(numbers, _mm256_and_pd(_mm256_castsi256_pd(signs), _mm256_set1_pd(-0.0)))
    }
}

/// Stores four doubles as values.
#[inline(always)]
fn store<T: Value>(_: Avx2, numbers: __m256d, out: &mut [T; 4]) {
    const { assert!(size_of::<T>() == 4 || size_of::<T>() == 8) };
    // SAFETY: there is a value of `Avx2`. Four values of 4 or 8 bytes are written, as many as `out` has, and any bits are a
    // value, because a `Value` is `Plain`.
    unsafe {
        if size_of::<T>() == size_of::<f32>() {
            _mm_storeu_ps(out.as_mut_ptr().cast(), _mm256_cvtpd_ps(numbers));
        } else {
            _mm256_storeu_pd(out.as_mut_ptr().cast(), numbers);
        }
    }
}

/// Stores eight integers as values, those with a bit in `negative` with a minus, also zeros. As `f32` directly: pixels by way of
/// doubles are a tenth slower.
#[inline(always)]
fn store_integers<T: Value>(simd: Avx2, numbers: __m256i, negative: u64, out: &mut [T; LANES]) {
    if size_of::<T>() == size_of::<f32>() {
        // SAFETY: there is a value of `Avx2`.
        let numbers = unsafe { _mm256_castps_si256(_mm256_cvtepi32_ps(numbers)) };
        store_floats(simd, numbers, negative, out);
    } else if let [first, second] = out.as_chunks_mut::<4>().0 {
        let (low, high) = doubles(simd, numbers);
        store(simd, signed(simd, low, negative), first);
        store(simd, signed(simd, high, negative >> 4), second);
    }
}

/// Stores the bits of eight `f32` as values of that type, those with a bit in `negative` with a minus.
#[inline(always)]
fn store_floats<T: Value>(_: Avx2, numbers: __m256i, negative: u64, out: &mut [T; LANES]) {
    assert!(size_of::<T>() == size_of::<f32>());
    // SAFETY: there is a value of `Avx2`. Eight values of 4 bytes are written, as many as `out` has, and any bits are a value,
    // because a `Value` is `Plain`.
    unsafe {
        let bits = _mm256_set1_epi32(negative as i32);
        let signs = _mm256_sllv_epi32(bits, _mm256_setr_epi32(31, 30, 29, 28, 27, 26, 25, 24));
        let signs = _mm256_and_si256(signs, _mm256_set1_epi32(i32::MIN));
        _mm256_storeu_si256(out.as_mut_ptr().cast(), _mm256_xor_si256(numbers, signs));
    }
}

/// Stores the second half of the bits of eight `f32` as values of that type.
#[inline(always)]
fn store_second_half<T: Value>(_: Avx2, numbers: __m256i, out: &mut [T; 4]) {
    assert!(size_of::<T>() == size_of::<f32>());
    // SAFETY: there is a value of `Avx2`. Four values of 4 bytes are written, as many as `out` has, and any bits are a value,
    // because a `Value` is `Plain`.
    unsafe { _mm_storeu_si128(out.as_mut_ptr().cast(), _mm256_extracti128_si256::<1>(numbers)) };
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
