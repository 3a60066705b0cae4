//! Numbers of at most eight bytes that become `f32`, with AVX-512: decimals, and products of
//! decimals and powers of ten.
//!
//! `vpcompressb` removes the points from a block, and `pext` removes them from its masks. A decimal
//! is then an integer, which is divided or multiplied by a power of ten. The AVX2 versions explain
//! why the results are CNTK's: see `short_numbers` and `convert_scaled`.
//!
//! Moving a mask out of a general register and gathering its places takes five cycles (AMD Zen 5).
//! So marks that alternate, such as the first digits and the ends of numbers, share a mask, which
//! makes first sweeps 5 % faster. Compared with doubles that are converted one by one, first sweeps
//! are 40 % faster for entries with decimals, and 25 % for entries and samples as `%e` prints them.

use super::{digits_or_zeros, is_byte, load, places, spelt, spread, store};
use crate::ctf::parse::number::{USUAL_EXPONENT, usual_powers};
use crate::ctf::parse::simd::{
    CLOSE, Entries, LANES, LAST_BITS, MAX_ENTRIES, MAX_NUMBERS, Scaled, Simd, TIE, Tokens, Window, run_ends,
};
use cntk_reader_core::cpu::processor::Avx512;
use cntk_reader_core::memory::compact::Value;
use std::arch::x86_64::*;

/// A block without its points, and the places of `TURNS` kinds of marks in it, which alternate. No
/// mark is at a point.
struct Pointless<const TURNS: usize> {
    /// Values of the bytes that are digits, and 0 for others.
    digits: __m512i,
    /// Places of the marks, one per byte; 0 after the last one.
    marks: __m512i,
    /// Where the decimals of each number begin, or where the number ends if it has none.
    fractions: __m512i,
}

impl<const TURNS: usize> Pointless<TURNS> {
    /// Removes the points. `firsts` are the first bytes of the numbers that may have points:
    /// digits, or signs before them.
    #[inline(always)]
    fn new(simd: Avx512, text: Window<'_>, marks: u64, firsts: u64) -> Self {
        let text = load::<0>(simd, text);
        let ((digit, digits), dot) = (digits_or_zeros(simd, text), is_byte(simd, text, b'.'));
        // SAFETY: the `Avx512` value proves CPU support.
        let digits = unsafe { _mm512_maskz_compress_epi8(!dot, digits) };
        let whole_ends = run_ends(digit | firsts, firsts);
        // After a point, if there is one.
        let fractions = whole_ends.wrapping_add(whole_ends & dot);
        let (marks, fractions) = (simd.extract(marks, !dot), simd.extract(fractions, !dot));
        Pointless { digits, marks: places(simd, marks), fractions: places(simd, fractions) }
    }

    /// Returns the places of the marks of kind `turn` of eight numbers from number `from` on, each
    /// in all bytes of a lane.
    #[inline(always)]
    fn marks(&self, simd: Avx512, turn: usize, from: usize) -> __m512i {
        spread::<TURNS>(simd, self.marks, from * TURNS + turn)
    }

    /// Returns eight integers, whose digits are after these places and before the marks of kind
    /// `end`.
    #[inline(always)]
    fn wholes(&self, simd: Avx512, before: __m512i, end: usize, from: usize) -> __m512i {
        spelt(simd, self.digits, before, self.marks(simd, end, from))
    }

    /// Like [`Pointless::wholes`], for the digits of decimals; also returns how many are after a
    /// point.
    #[inline(always)]
    fn decimals(&self, simd: Avx512, before: __m512i, end: usize, from: usize) -> (__m512i, __m512i) {
        let fraction = spread::<1>(simd, self.fractions, from);
        // SAFETY: the `Avx512` value proves CPU support.
        let decimals = unsafe { _mm512_sub_epi8(self.marks(simd, end, from), fraction) };
        (self.wholes(simd, before, end, from), decimals)
    }
}

/// Returns the places before these.
#[inline(always)]
fn before(_: Avx512, places: __m512i) -> __m512i {
    // SAFETY: the `Avx512` value proves CPU support.
    unsafe { _mm512_sub_epi8(places, _mm512_set1_epi8(1)) }
}

/// Converts tokens of at most eight bytes without their signs to `f32`, eight at a time.
#[inline(always)]
pub(super) fn short_numbers<T: Value>(
    simd: Avx512,
    text: Window<'_>,
    tokens: &Tokens,
    firsts: u64,
    out: &mut [T; MAX_NUMBERS],
) {
    let text = Pointless::<2>::new(simd, text, firsts | tokens.ends, firsts);
    let total = tokens.ends.count_ones() as usize;
    let mut negative = simd.extract(tokens.minus << 1, firsts);
    for (group, out) in out.as_chunks_mut::<LANES>().0.iter_mut().enumerate() {
        if group * LANES >= total {
            return;
        }
        let from = group * LANES;
        let numbers = text.decimals(simd, before(simd, text.marks(simd, 0, from)), 1, from);
        store_floats(simd, quotients(simd, numbers), negative as u8, out);
        negative >>= LANES;
    }
}

/// [`Simd::decimal_entries`] as `f32`.
#[inline(always)]
pub(super) fn decimal_entries<T: Value>(
    simd: Avx512,
    text: Window<'_>,
    entries: Entries,
    limit: u32,
    indices: &mut [i32; MAX_ENTRIES],
    values: &mut [T; MAX_ENTRIES],
) -> bool {
    let Entries { starts, colons, ends } = entries;
    let text = Pointless::<3>::new(simd, text, starts | colons | ends, colons << 1);
    let total = ends.count_ones() as usize;
    let (indices, values) = (indices.as_chunks_mut::<LANES>().0, values.as_chunks_mut::<LANES>().0);
    for (group, (indices, values)) in indices.iter_mut().zip(values).enumerate() {
        let from = group * LANES;
        if from >= total {
            break;
        }
        let numbers = text.decimals(simd, text.marks(simd, 1, from), 2, from);
        store_floats(simd, quotients(simd, numbers), 0, values);
        let found = text.wholes(simd, before(simd, text.marks(simd, 0, from)), 1, from);
        let large = store_indices(simd, found, limit, indices);
        if simd.lowest(large, (total - from) as u32) != 0 {
            return false;
        }
    }
    true
}

/// [`Simd::scaled_numbers`] as `f32`.
#[inline(always)]
pub(super) fn scaled_numbers<T: Value>(
    simd: Avx512,
    text: Window<'_>,
    numbers: &Scaled,
    out: &mut [T; MAX_ENTRIES],
) -> bool {
    let Scaled { firsts, letters, ends, mut negative, mut negative_powers } = *numbers;
    let text = Pointless::<3>::new(simd, text, firsts | letters | ends, firsts);
    let total = letters.count_ones() as usize;
    for (group, out) in out.as_chunks_mut::<LANES>().0.iter_mut().enumerate() {
        let from = group * LANES;
        if from >= total {
            break;
        }
        let mantissas = text.decimals(simd, before(simd, text.marks(simd, 0, from)), 1, from);
        let powers = text.wholes(simd, text.marks(simd, 1, from), 2, from);
        let Some(products) = products(simd, mantissas, powers, negative_powers as u8) else { return false };
        store(simd, products, negative as u8, out);
        negative >>= LANES;
        negative_powers >>= LANES;
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
    indices: &mut [i32; MAX_ENTRIES],
    values: &mut [T; MAX_ENTRIES],
) -> Option<bool> {
    let Entries { starts, colons, .. } = entries;
    let Scaled { letters, ends, mut negative, mut negative_powers, .. } = *numbers;
    let text = Pointless::<4>::new(simd, text, starts | colons | letters | ends, colons << 1);
    let total = colons.count_ones() as usize;
    let (indices, values) = (indices.as_chunks_mut::<LANES>().0, values.as_chunks_mut::<LANES>().0);
    for (group, (indices, values)) in indices.iter_mut().zip(values).enumerate() {
        let from = group * LANES;
        if from >= total {
            break;
        }
        let mantissas = text.decimals(simd, text.marks(simd, 1, from), 2, from);
        let powers = text.wholes(simd, text.marks(simd, 2, from), 3, from);
        let products = products(simd, mantissas, powers, negative_powers as u8)?;
        store(simd, products, negative as u8, values);
        let found = text.wholes(simd, before(simd, text.marks(simd, 0, from)), 1, from);
        let large = store_indices(simd, found, limit, indices);
        if simd.lowest(large, (total - from) as u32) != 0 {
            return Some(false);
        }
        negative >>= LANES;
        negative_powers >>= LANES;
    }
    Some(true)
}

/// Returns the products of decimals and powers of ten, some of which are negative; `None` if one
/// needs a closer look.
#[inline(always)]
fn products(
    _: Avx512,
    (numbers, decimals): (__m512i, __m512i),
    powers: __m512i,
    negative_powers: u8,
) -> Option<__m512d> {
    /// Powers from this one on are looked up in two registers, which is five times as fast as a
    /// gathering load.
    const NEAR: i32 = -12;
    let table = usual_powers();
    let near: &[f64; 16] = table.get((USUAL_EXPONENT + NEAR) as usize..)?.first_chunk()?;
    // SAFETY: the `Avx512` value proves CPU support. `near` has two times eight powers; of `table`,
    // only places below its length are read.
    unsafe {
        let powers = _mm512_mask_sub_epi64(powers, negative_powers, _mm512_setzero_si512(), powers);
        let power = _mm512_sub_epi64(powers, _mm512_and_si512(decimals, _mm512_set1_epi64(7)));
        let place = _mm512_sub_epi64(power, _mm512_set1_epi64(NEAR.into()));
        let factors = if _mm512_cmpge_epu64_mask(place, _mm512_set1_epi64(near.len() as i64)) == 0 {
            let (low, high) = (near.as_ptr(), near.as_ptr().add(LANES));
            _mm512_permutex2var_pd(_mm512_loadu_pd(low), place, _mm512_loadu_pd(high))
        } else {
            let place = _mm512_add_epi64(power, _mm512_set1_epi64(USUAL_EXPONENT.into()));
            if _mm512_cmpge_epu64_mask(place, _mm512_set1_epi64(table.len() as i64)) != 0 {
                return None;
            }
            _mm512_i64gather_pd::<8>(place, table.as_ptr())
        };
        let products = _mm512_mul_pd(_mm512_cvtepi64_pd(numbers), factors);
        let bits = _mm512_castpd_si512(products);
        let from_tie = _mm512_add_epi64(bits, _mm512_set1_epi64(CLOSE - TIE));
        let from_tie = _mm512_and_si512(from_tie, _mm512_set1_epi64(LAST_BITS));
        let is_close = _mm512_cmplt_epu64_mask(from_tie, _mm512_set1_epi64(2 * CLOSE));
        // Positive doubles are ordered like their bits. 0 is not tiny.
        let less_one = _mm512_sub_epi64(bits, _mm512_set1_epi64(1));
        let least = _mm512_set1_epi64(f64::from(f32::MIN_POSITIVE).to_bits() as i64 - 1);
        let is_tiny = _mm512_cmplt_epu64_mask(less_one, least);
        (is_close | is_tiny == 0).then_some(products)
    }
}

/// Divides integers by the powers of ten with these exponents, of which only the lowest three bits
/// count.
#[inline(always)]
fn quotients(_: Avx512, (numbers, exponents): (__m512i, __m512i)) -> __m256 {
    // SAFETY: the `Avx512` value proves CPU support.
    unsafe {
        let powers = _mm256_setr_ps(1.0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7);
        let divisors = _mm256_permutevar8x32_ps(powers, _mm512_cvtepi64_epi32(exponents));
        _mm256_div_ps(_mm512_cvtepi64_ps(numbers), divisors)
    }
}

/// Stores eight `f32` as values of that type, negated (zeros too) where `negative` has a bit.
#[inline(always)]
fn store_floats<T: Value>(_: Avx512, numbers: __m256, negative: u8, out: &mut [T; LANES]) {
    assert!(size_of::<T>() == size_of::<f32>());
    // SAFETY: the `Avx512` value proves CPU support. Eight values of 4 bytes are written, as many
    // as `out` has, and any bit pattern is a valid `Value`, which is `Pod`.
    unsafe {
        let signed = _mm256_mask_xor_ps(numbers, negative, numbers, _mm256_set1_ps(-0.0));
        _mm256_storeu_ps(out.as_mut_ptr().cast(), signed);
    }
}

/// Stores eight indices. Returns a bit for each one that is not below the limit.
#[inline(always)]
fn store_indices(_: Avx512, numbers: __m512i, limit: u32, indices: &mut [i32; LANES]) -> u64 {
    // SAFETY: the `Avx512` value proves CPU support; `indices` has the 32 bytes that are written.
    unsafe {
        let found = _mm512_cvtepi64_epi32(numbers);
        _mm256_storeu_si256(indices.as_mut_ptr().cast(), found);
        _mm256_cmpge_epu32_mask(found, _mm256_set1_epi32(limit as i32)).into()
    }
}
