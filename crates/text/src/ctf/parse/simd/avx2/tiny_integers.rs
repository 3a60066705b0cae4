//! Integers of at most four digits with AVX2, such as pixels and counts: computes the number before
//! each place of the block, whether a token ends there or not, and selects the numbers of tokens.
//!
//! Finding the places one by one would take longer than the conversion: two operations find a bit,
//! two remove it, two load the digits. Here the cost is the same for any number of tokens: pixels
//! are 27 % faster, numbers of four digits 8 %.

use super::digits::digits_of;
use super::numbers::{signed, store};
use crate::ctf::parse::simd::{MAX_NUMBERS, Simd, Tokens, Window};
use cntk_reader_core::cpu::processor::Avx2;
use cntk_reader_core::memory::compact::Value;
use std::arch::x86_64::*;

/// Maximum number of tokens that end in eight bytes: ends are at least two bytes apart.
const MAX_ENDS: usize = 4;

/// Converts tokens of at most four digits, with signs if `SIGNED`; `firsts` has their first digits.
#[inline(always)]
pub fn tiny_integers<T: Value, const SIGNED: bool>(
    simd: Avx2,
    text: Window<'_>,
    tokens: &Tokens,
    firsts: u64,
    out: &mut [T; MAX_NUMBERS],
) {
    let negative = if SIGNED { simd.extract(tokens.minus << 1, firsts) } else { 0 };
    let mut count = 0;
    for half in 0..2 {
        for (quarter, numbers) in numbers_before(simd, text, half).into_iter().enumerate() {
            let eighth = 4 * half + quarter;
            let ends = tokens.ends >> (8 * eighth) & 0xff;
            // `count` is never larger; the minimum shows the compiler that there is room.
            let first = count.min(MAX_ENDS * eighth);
            if let Some(room) = out[first..].first_chunk_mut() {
                store_four::<T, SIGNED>(simd, picked(simd, numbers, ends), negative >> first, room);
            }
            count += ends.count_ones() as usize;
        }
    }
}

/// Returns four times eight numbers: for each place of half a block, the digits right before it, at
/// most four.
#[inline(always)]
fn numbers_before(simd: Avx2, text: Window<'_>, half: usize) -> [__m128i; 4] {
    let (ones, is_one) = digits(simd, &text.back::<1>().as_chunks().0[half]);
    let (tens, is_ten) = digits(simd, &text.back::<2>().as_chunks().0[half]);
    let (hundreds, is_hundred) = digits(simd, &text.back::<3>().as_chunks().0[half]);
    let (thousands, is_thousand) = digits(simd, &text.back::<4>().as_chunks().0[half]);
    // SAFETY: the `Avx2` value proves CPU support.
    unsafe {
        // A digit counts only if the digits after it do.
        let is_ten = _mm256_and_si256(is_one, is_ten);
        let is_hundred = _mm256_and_si256(is_ten, is_hundred);
        let is_thousand = _mm256_and_si256(is_hundred, is_thousand);
        let ones = _mm256_and_si256(ones, is_one);
        let tens = _mm256_and_si256(tens, is_ten);
        let hundreds = _mm256_and_si256(hundreds, is_hundred);
        let thousands = _mm256_and_si256(thousands, is_thousand);
        // The first and the third eight places, then the second and the fourth.
        let first = joined(simd, _mm256_unpacklo_epi8(ones, tens), _mm256_unpacklo_epi8(hundreds, thousands));
        let second =
            joined(simd, _mm256_unpackhi_epi8(ones, tens), _mm256_unpackhi_epi8(hundreds, thousands));
        [
            _mm256_castsi256_si128(first),
            _mm256_castsi256_si128(second),
            _mm256_extracti128_si256::<1>(first),
            _mm256_extracti128_si256::<1>(second),
        ]
    }
}

/// Like [`digits_of`], for 32 bytes of text.
#[inline(always)]
fn digits(simd: Avx2, text: &[u8; 32]) -> (__m256i, __m256i) {
    // SAFETY: the `Avx2` value proves CPU support; `text` has the 32 bytes that are read.
    digits_of(simd, unsafe { _mm256_loadu_si256(text.as_ptr().cast()) })
}

/// Joins two pairs of digits, the lower digit first, into 16-bit numbers.
#[inline(always)]
fn joined(_: Avx2, low: __m256i, high: __m256i) -> __m256i {
    // SAFETY: the `Avx2` value proves CPU support.
    unsafe {
        let weights = _mm256_set1_epi16(0x0a01);
        let (low, high) = (_mm256_maddubs_epi16(low, weights), _mm256_maddubs_epi16(high, weights));
        _mm256_add_epi16(low, _mm256_mullo_epi16(high, _mm256_set1_epi16(100)))
    }
}

/// Returns the numbers whose bits are set, at most the first four, with 32 bits each.
#[inline(always)]
fn picked(_: Avx2, numbers: __m128i, bits: u64) -> __m128i {
    let picks = &PICKS[bits as usize % PICKS.len()];
    // SAFETY: the `Avx2` value proves CPU support; the row has the 16 bytes that are read, and is
    // aligned to 16.
    unsafe { _mm_shuffle_epi8(numbers, _mm_load_si128(picks.0.as_ptr().cast())) }
}

/// 16 bytes, aligned to 16.
#[derive(Clone, Copy)]
#[repr(align(16))]
struct Row([u8; 16]);

/// For each mask of eight bits: the bytes of the 16-bit numbers whose bits are set, at most the
/// first four; 0x80, which stands for zero, after every two.
static PICKS: [Row; 256] = {
    let mut table = [Row([0x80; 16]); 256];
    let mut bits = 0;
    while bits < table.len() {
        let (mut place, mut lane) = (0, 0);
        while place < 8 && lane < MAX_ENDS {
            if bits >> place & 1 != 0 {
                table[bits].0[4 * lane] = 2 * place as u8;
                table[bits].0[4 * lane + 1] = 2 * place as u8 + 1;
                lane += 1;
            }
            place += 1;
        }
        bits += 1;
    }
    table
};

/// Stores four integers as values; if `SIGNED`, negated (zeros too) where `negative` has a bit.
#[inline(always)]
fn store_four<T: Value, const SIGNED: bool>(
    simd: Avx2,
    numbers: __m128i,
    negative: u64,
    out: &mut [T; MAX_ENDS],
) {
    // SAFETY: the `Avx2` value proves CPU support. Four values of 4 bytes are written, as many as
    // `out` has, and any bit pattern is a valid `Value`, which is `Pod`.
    unsafe {
        if size_of::<T>() == size_of::<f32>() {
            let mut numbers = _mm_cvtepi32_ps(numbers);
            if SIGNED {
                let signs = _mm_sllv_epi32(_mm_set1_epi32(negative as i32), _mm_setr_epi32(31, 30, 29, 28));
                numbers = _mm_xor_ps(numbers, _mm_and_ps(_mm_castsi128_ps(signs), _mm_set1_ps(-0.0)));
            }
            _mm_storeu_ps(out.as_mut_ptr().cast(), numbers);
        } else {
            store(simd, signed(simd, _mm256_cvtepi32_pd(numbers), negative), out);
        }
    }
}
