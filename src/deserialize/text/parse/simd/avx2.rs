//! [`Simd`] with AVX2: a block is two registers of 32 bytes, and a comparison of bytes takes two steps to become a mask.
//!
//! All numbers are converted in the same way: eight at a time, from the eight bytes before the place where each of them ends
//! ([`spelt`]). Where it begins need not be known, which saves a third of the work of finding places: bits are taken off a mask one
//! by one here. No branch depends on a sign, on a length up to eight digits, or on whether there is a point.

use super::{Classes, Entries, LANES, MOST_ENTRIES, MOST_NUMBERS, Simd, Tokens, Wholes, Window};
use crate::compact::Value;
use crate::deserialize::text::parse::number::DIVISORS;
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
        let Entries { mut colons, mut ends, .. } = entries;
        let (indices, values) = (indices.as_chunks_mut::<4>().0, values.as_chunks_mut::<4>().0);
        for (indices, values) in indices.iter_mut().zip(values) {
            if ends == 0 {
                break;
            }
            let count = ends.count_ones();
            let numbers =
                spelt(self, four_before(self, text, &mut colons), four_before(self, text, &mut ends));
            store(self, doubles(self, numbers).1, values);
            // SAFETY: there is a value of `Avx2`; the 16 bytes that are written are those of `indices`.
            let large = unsafe {
                let found = _mm256_castsi256_si128(numbers);
                _mm_storeu_si128(indices.as_mut_ptr().cast(), found);
                let is_large = _mm_cmpeq_epi32(_mm_max_epu32(found, _mm_set1_epi32(limit as i32)), found);
                _mm_movemask_ps(_mm_castsi128_ps(is_large)) as u64
            };
            if self.lowest(large, count) != 0 {
                return false;
            }
        }
        true
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
///
/// Only digits after the last byte that is none count. With the bytes in reverse, these are the bits below the lowest one that is set
/// for others. Then neighbours are joined by multiply-and-add, three times: to numbers of two, of four and of eight digits.
#[inline(always)]
fn spelt(simd: Avx2, a: __m256i, b: __m256i) -> __m256i {
    #[inline(always)]
    fn fours(_: Avx2, text: __m256i) -> __m256i {
        // SAFETY: there is a value of `Avx2`.
        unsafe {
            let reverse = _mm256_set_epi64x(
                0x08090a0b_0c0d0e0f,
                0x00010203_04050607,
                0x08090a0b_0c0d0e0f,
                0x00010203_04050607,
            );
            let digits = _mm256_sub_epi8(_mm256_shuffle_epi8(text, reverse), _mm256_set1_epi8(0x30));
            let others = _mm256_cmpeq_epi8(_mm256_max_epu8(digits, _mm256_set1_epi8(10)), digits);
            let before = _mm256_andnot_si256(others, _mm256_add_epi64(others, _mm256_set1_epi64x(-1)));
            let twos = _mm256_maddubs_epi16(_mm256_and_si256(digits, before), _mm256_set1_epi16(0x0a01));
            _mm256_madd_epi16(twos, _mm256_set1_epi32(0x0064_0001))
        }
    }
    // SAFETY: there is a value of `Avx2`.
    unsafe {
        let both = _mm256_packus_epi32(fours(simd, a), fours(simd, b));
        // Two of `a`, two of `b`, and again.
        let both = _mm256_madd_epi16(both, _mm256_set1_epi32(0x2710_0001));
        _mm256_permute4x64_epi64::<0b11_01_10_00>(both)
    }
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
        // SAFETY: there is a value of `Avx2`. Eight values of 4 bytes are written, as many as `out` has, and any bits are a value,
        // because a `Value` is `Plain`.
        unsafe {
            let bits = _mm256_set1_epi32(negative as i32);
            let signs = _mm256_sllv_epi32(bits, _mm256_setr_epi32(31, 30, 29, 28, 27, 26, 25, 24));
            let signs = _mm256_and_ps(_mm256_castsi256_ps(signs), _mm256_set1_ps(-0.0));
            _mm256_storeu_ps(out.as_mut_ptr().cast(), _mm256_xor_ps(_mm256_cvtepi32_ps(numbers), signs));
        }
    } else if let [first, second] = out.as_chunks_mut::<4>().0 {
        let (low, high) = doubles(simd, numbers);
        store(simd, signed(simd, low, negative), first);
        store(simd, signed(simd, high, negative >> 4), second);
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
