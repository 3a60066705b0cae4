//! Classification and conversion with AVX-512: a block of 64 bytes is one register, a comparison of its bytes a mask, and
//! the numbers of a block are converted together, eight in a register.
//!
//! `vpcompressb` gathers what a mask picks, places of bytes for example, into one place per number; `vpermb` copies each
//! number's digits from there into a lane of its own. No step depends on how long the numbers are, and there is no branch
//! to mispredict.
//!
//! What is used more than once is a function that is always inlined, not a closure: a closure that the compiler leaves on
//! its own has no AVX-512, and each instruction becomes a call.

use super::super::dense::{Block, Isa, Tokens};
use super::super::number::DIVISORS;
use super::avx2::Avx2;
use crate::compact::Value;
use std::arch::x86_64::*;

/// The register of bytes that are `$rule` of their place `$i`.
macro_rules! bytes {
    (|$i:ident| $rule:expr) => {{
        static BYTES: [u8; 64] = {
            let mut bytes = [0; 64];
            let mut $i = 0u8;
            while $i < 64 {
                bytes[$i as usize] = $rule;
                $i += 1;
            }
            bytes
        };
        _mm512_loadu_si512(BYTES.as_ptr().cast())
    }};
}

/// Processors with all that [`crate::processor::Processor::Avx512`] names.
pub struct Avx512;

/// Digits behind a point from which on a number is not for this way; [`DIVISORS`] has so many.
const TOO_LONG: u32 = 24;
const _: () = assert!(TOO_LONG as usize <= DIVISORS.len());

impl Isa for Avx512 {
    const SHORT_INTEGERS: bool = true;

    #[inline(always)]
    unsafe fn classify(p: *const u8) -> Block {
        // SAFETY: the caller promises the processor, and 64 bytes.
        unsafe {
            let text = load(p);
            let less_zero = _mm512_sub_epi8(text, _mm512_set1_epi8(0x30));
            Block {
                space: equal(text, b' ') | equal(text, b'\t'),
                digit: _mm512_cmplt_epu8_mask(less_zero, _mm512_set1_epi8(10)),
                dot: equal(text, b'.'),
                minus: equal(text, b'-'),
                colon: equal(text, b':'),
            }
        }
    }

    #[inline(always)]
    unsafe fn lowest(bits: u64, count: u32) -> u64 {
        // SAFETY: the caller promises the processor.
        unsafe { _bzhi_u64(bits, count) }
    }

    /// As for [`Avx2`], for all bytes at once; then those where numbers end are picked.
    #[inline(always)]
    unsafe fn short_integers<T: Value>(p: *const u8, tokens: &Tokens, out: *mut T) {
        let Tokens { digit, ends, .. } = *tokens;
        // A byte counts if all bytes between it and the end are digits.
        let two = digit << 1;
        let three = two & (digit << 2);
        let four = three & (digit << 3);
        let lasts = ends >> 1;
        // SAFETY: the caller promises the processor, 64 bytes at `p` and 3 before, and room for 32 values.
        unsafe {
            let zero = _mm512_set1_epi8(0x30);
            // Looked up by the lower half of a byte.
            let tens = _mm_setr_epi8(0, 10, 20, 30, 40, 50, 60, 70, 80, 90, 0, 0, 0, 0, 0, 0);
            let tens = _mm512_broadcast_i32x4(tens);
            let low = _mm512_sub_epi8(load(p), zero);
            let low = _mm512_add_epi8(low, _mm512_maskz_shuffle_epi8(two, tens, load(p.sub(1))));
            let high = _mm512_maskz_sub_epi8(three, load(p.sub(2)), zero);
            let high = _mm512_add_epi8(high, _mm512_maskz_shuffle_epi8(four, tens, load(p.sub(3))));
            // A block has at most 32 numbers.
            let low = _mm512_maskz_compress_epi8(lasts, low);
            let high = _mm512_castsi512_si256(_mm512_maskz_compress_epi8(lasts, high));
            let both = _mm512_inserti64x4::<1>(low, high);
            for half in 0..2 {
                let from = _mm512_add_epi8(bytes!(|i| i / 4 + i % 2 * 32), _mm512_set1_epi8(16 * half));
                let pairs = _mm512_permutexvar_epi8(from, both);
                let weights = _mm512_set1_epi32(0x6401);
                let numbers = _mm512_dpbusd_epi32(_mm512_setzero_si512(), pairs, weights);
                store_integers(numbers, out.add(16 * half as usize));
            }
        }
    }

    #[inline(always)]
    unsafe fn plain_numbers<T: Value>(p: *const u8, tokens: &Tokens, out: *mut T) -> bool {
        let Tokens { digit, dot, minus, ends } = *tokens;
        // Each token has one run of digits that is not behind a point: where these begin and end. The sum carries through
        // each run.
        let firsts = digit & !(digit << 1) & !(dot << 1);
        let whole_ends = digit.wrapping_add(firsts) & !digit;
        let whole = whole_ends.wrapping_sub(firsts);
        // The last of so many digits.
        let two = digit & (digit << 1);
        let four = two & (two << 2);
        let eight = four & (four << 4);
        let nine = eight & (digit << 8);
        let too_long = eight & (eight << 8) & (eight << 16);
        const _: () = assert!(TOO_LONG == 24);
        // A point ends a run, a sign is followed by one.
        if (dot & !whole_ends) | (minus << 1 & !digit) | (nine & whole) | too_long != 0 {
            return false;
        }
        if ends == 0 {
            return true;
        }
        // SAFETY: promised by the caller; the masks were looked at.
        unsafe {
            if nine == 0 {
                convert::<T, false>(p, tokens, firsts, whole_ends, out);
            } else {
                convert::<T, true>(p, tokens, firsts, whole_ends, out);
            }
        }
        true
    }

    #[inline(always)]
    unsafe fn joined_pair(a: u64, a_count: u32, b: u64, b_count: u32) -> (f64, f64) {
        // SAFETY: processors with AVX-512 have AVX2.
        unsafe { Avx2::joined_pair(a, a_count, b, b_count) }
    }
}

/// Converts tokens of a whole part that begins at `firsts` and ends before `whole_ends`, with up to 8 digits, and of
/// a fraction or none: up to 8 digits, or below [`TOO_LONG`] if `LONG`.
///
/// # Safety
/// As for [`Isa::plain_numbers`]; every token has a bit in each mask.
#[inline(always)]
unsafe fn convert<T: Value, const LONG: bool>(
    p: *const u8,
    tokens: &Tokens,
    firsts: u64,
    whole_ends: u64,
    out: *mut T,
) {
    // SAFETY: the caller promises the processor, 64 bytes at `p`, and room for the values and 8 more.
    unsafe {
        let digits = _mm512_sub_epi8(load(p), _mm512_set1_epi8(0x30));
        let (firsts_at, whole_ends_at) = (places(firsts), places(whole_ends));
        let ends_at = places(tokens.ends);
        let mut negative = _pext_u64(tokens.minus << 1, firsts);
        let total = tokens.ends.count_ones() as usize;
        let mut lanes = bytes!(|i| i / 8);
        let mut written = 0;
        loop {
            // In all bytes of a lane. Lanes behind the last number have no digits: all places are 0.
            let first = _mm512_permutexvar_epi8(lanes, firsts_at);
            let whole_end = _mm512_permutexvar_epi8(lanes, whole_ends_at);
            let end = _mm512_permutexvar_epi8(lanes, ends_at);
            let before_first = _mm512_sub_epi8(first, _mm512_set1_epi8(1));
            let whole = _mm512_cvtepi64_pd(spelt(digits, before_first, whole_end));
            let (fraction, divisor) = if LONG {
                // As `number::run`: 16 digits make an integer, those behind are added one by one.
                let stop = _mm512_min_epi8(end, _mm512_add_epi8(whole_end, _mm512_set1_epi8(17)));
                let high = spelt(digits, whole_end, _mm512_sub_epi8(stop, _mm512_set1_epi8(8)));
                let scaled = _mm512_mul_epu32(high, _mm512_set1_epi64(100_000_000));
                let low = spelt(digits, whole_end, stop);
                let mut fraction = _mm512_cvtepi64_pd(_mm512_add_epi64(scaled, low));
                let mut at = stop;
                loop {
                    let is_part = _mm512_cmplt_epi64_mask(at, end);
                    if is_part == 0 {
                        break;
                    }
                    let digit = _mm512_permutexvar_epi8(at, digits);
                    let digit = _mm512_cvtepi64_pd(_mm512_and_si512(digit, _mm512_set1_epi64(15)));
                    let tenfold = _mm512_mul_pd(fraction, _mm512_set1_pd(10.0));
                    fraction = _mm512_mask_add_pd(fraction, is_part, tenfold, digit);
                    at = _mm512_add_epi8(at, _mm512_set1_epi8(1));
                }
                let count = _mm512_sub_epi8(end, whole_end);
                let count =
                    _mm512_subs_epu8(_mm512_and_si512(count, _mm512_set1_epi64(255)), _mm512_set1_epi64(1));
                (fraction, _mm512_i64gather_pd::<8>(count, DIVISORS.as_ptr()))
            } else {
                // The lookup takes 3 bits. Without digits the divisor does not matter.
                let place = _mm512_sub_epi8(end, whole_end);
                let divisor = _mm512_permutexvar_pd(place, _mm512_loadu_pd(DIVISORS_BEFORE.as_ptr()));
                (_mm512_cvtepi64_pd(spelt(digits, whole_end, end)), divisor)
            };
            let number = _mm512_add_pd(whole, _mm512_div_pd(fraction, divisor));
            let number = _mm512_mask_xor_pd(number, negative as u8, number, _mm512_set1_pd(-0.0));
            store(number, out.add(written));
            written += 8;
            if written >= total {
                return;
            }
            negative >>= 8;
            lanes = _mm512_add_epi8(lanes, _mm512_set1_epi8(8));
        }
    }
}

/// The divisor for `k` digits at `(k + 1) % 8`, for 1 to 8 digits.
static DIVISORS_BEFORE: [f64; 8] = {
    let mut table = [1.0; 8];
    let mut count = 1;
    while count <= 8 {
        table[(count + 1) % 8] = DIVISORS[count];
        count += 1;
    }
    table
};

/// The 64 bytes at `p`.
///
/// # Safety
/// They must be readable; the processor must be [`Avx512`].
#[inline(always)]
pub(super) unsafe fn load(p: *const u8) -> __m512i {
    // SAFETY: promised by the caller.
    unsafe { _mm512_loadu_si512(p.cast()) }
}

/// The bytes that are this one.
///
/// # Safety
/// The processor must be [`Avx512`].
#[inline(always)]
pub(super) unsafe fn equal(text: __m512i, byte: u8) -> u64 {
    // SAFETY: promised by the caller.
    unsafe { _mm512_cmpeq_epi8_mask(text, _mm512_set1_epi8(byte as i8)) }
}

/// The places of the bits, one a byte.
///
/// # Safety
/// The processor must be [`Avx512`].
#[inline(always)]
pub(super) unsafe fn places(bits: u64) -> __m512i {
    // SAFETY: promised by the caller.
    unsafe { _mm512_maskz_compress_epi8(bits, bytes!(|i| i)) }
}

/// For each lane the number that the digits behind place `before` and before place `end` spell, the last 8 of them.
///
/// # Safety
/// The processor must be [`Avx512`].
#[inline(always)]
unsafe fn spelt(digits: __m512i, before: __m512i, end: __m512i) -> __m512i {
    // SAFETY: promised by the caller.
    unsafe {
        let from = _mm512_add_epi8(end, bytes!(|i| (i % 8).wrapping_sub(8)));
        let is_part = _mm512_cmpgt_epi8_mask(from, before);
        let digits = _mm512_maskz_permutexvar_epi8(is_part, from, digits);
        let pairs = _mm512_maddubs_epi16(digits, _mm512_set1_epi16(0x010a));
        let fours = _mm512_madd_epi16(pairs, _mm512_set1_epi32(0x0001_0064));
        // The first four, times 10000, are added to the last four.
        _mm512_dpwssd_epi32(_mm512_srli_epi64::<32>(fours), fours, _mm512_set1_epi64(10_000))
    }
}

/// Stores 8 values.
///
/// # Safety
/// `out` must be valid for writing them; the processor must be [`Avx512`].
#[inline(always)]
unsafe fn store<T: Value>(numbers: __m512d, out: *mut T) {
    // SAFETY: promised by the caller; a `Value` is `f32` or `f64`.
    unsafe {
        if size_of::<T>() == 4 {
            _mm256_storeu_ps(out.cast(), _mm512_cvtpd_ps(numbers));
        } else {
            _mm512_storeu_pd(out.cast(), numbers);
        }
    }
}

/// Stores 16 values.
///
/// # Safety
/// As for [`store`].
#[inline(always)]
unsafe fn store_integers<T: Value>(numbers: __m512i, out: *mut T) {
    // SAFETY: promised by the caller; a `Value` is `f32` or `f64`.
    unsafe {
        if size_of::<T>() == 4 {
            _mm512_storeu_ps(out.cast(), _mm512_cvtepi32_ps(numbers));
        } else {
            let second = _mm512_extracti64x4_epi64::<1>(numbers);
            _mm512_storeu_pd(out.cast(), _mm512_cvtepi32_pd(_mm512_castsi512_si256(numbers)));
            _mm512_storeu_pd(out.add(8).cast(), _mm512_cvtepi32_pd(second));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::dense::{BLOCK, LEAD, SLACK};
    use super::super::super::number::read;
    use super::*;
    use crate::processor::Processor;
    use proptest::prelude::*;

    /// The numbers of a text of at most a block, if they are taken all together, and whether they are short integers;
    /// else `None`.
    fn together<T: Value>(text: &str) -> Option<(Vec<T>, bool)> {
        let mut padded = vec![b'7'; LEAD];
        padded.extend(text.bytes());
        padded.resize(LEAD + BLOCK, b' ');
        let mut values = vec![T::default(); SLACK + SLACK];
        // SAFETY: there are LEAD and BLOCK bytes, and room for all values; the caller asked for the processor.
        unsafe {
            let p = padded.as_ptr().add(LEAD);
            let Block { digit, dot, minus, .. } = Avx512::classify(p);
            let token = digit | dot | minus;
            let tokens = Tokens { digit, dot, minus, ends: !token & (token << 1) };
            let short = dot | minus == 0 && text.split(' ').all(|word| word.len() <= 4);
            if short {
                Avx512::short_integers(p, &tokens, values.as_mut_ptr());
            } else if !Avx512::plain_numbers(p, &tokens, values.as_mut_ptr()) {
                return None;
            }
            values.truncate(tokens.ends.count_ones() as usize);
            Some((values, short))
        }
    }

    fn alike<T: Value>(text: &str) -> bool {
        let expected: Vec<T> = text
            .split_ascii_whitespace()
            .map(|word| T::from_f64(read(word.as_bytes()).value.expect("a number")))
            .collect();
        let found = together::<T>(text);
        assert!(
            found.iter().all(|(values, _)| format!("{values:?}") == format!("{expected:?}")),
            "{found:?}"
        );
        found.is_some()
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(20_000) })]

        #[test]
        fn plain_numbers_are_taken(
            text in " {0,2}((-?[0-9]{1,8}(\\.[0-9]{0,8})?|[0-9]) {1,2}){0,20}",
            long in " ?(-?[0-9]{1,8}(\\.[0-9]{0,23})? {1,2}){0,4}",
        ) {
            if Processor::Avx512.is_here() {
                for text in [text, long] {
                    let text = &text[..text.len().min(BLOCK)];
                    let text = text.rfind(' ').map_or("", |end| &text[..=end]);
                    prop_assert!(alike::<f32>(text) && alike::<f64>(text), "{text}");
                }
            }
        }

        #[test]
        fn short_integers_are_picked(text in "([0-9]{1,4} {1,2}){0,32}", tail in "( [0-9]){0,32}") {
            if Processor::Avx512.is_here() {
                for text in [text, tail + " "] {
                    let text = &text[..text.len().min(BLOCK)];
                    let text = text.rfind(' ').map_or("", |end| &text[..=end]);
                    prop_assert!(alike::<f32>(text) && alike::<f64>(text), "{text}");
                }
            }
        }

        #[test]
        fn what_is_not_plain_is_left(words in "[0-9]{1,9}|-|-?[0-9]\\.\\.[0-9]|[0-9]\\.[0-9]\\.[0-9]|1\\.[0-9]{24,30}|[0-9]{9,12}\\.5") {
            let is_plain = words.len() <= 8 && words.bytes().all(|byte| byte.is_ascii_digit());
            if Processor::Avx512.is_here() {
                prop_assert_eq!(together::<f32>(&format!("1.5 {words} 2.5 ")).is_some(), is_plain);
            }
        }
    }
}
