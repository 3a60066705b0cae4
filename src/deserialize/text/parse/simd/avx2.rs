//! Classification and conversion with the vector instructions of x86-64.

use super::super::dense::{BLOCK, Block, Isa, Tokens};
use crate::compact::Value;
use std::arch::x86_64::*;

/// Short integers are picked in steps of so many, the last ones in vain, so that their number need not be predicted.
const STEP: usize = 8;

/// Every x86-64.
pub struct Sse2;

impl Isa for Sse2 {
    const SHORT_INTEGERS: bool = false;

    #[inline(always)]
    unsafe fn classify(p: *const u8) -> Block {
        let mut block = Block::default();
        for i in 0..4 {
            // SAFETY: SSE2 is part of x86-64; 16 of the 64 bytes that the caller promises are read.
            unsafe {
                let text = _mm_loadu_si128(p.add(16 * i).cast());
                let less_zero = _mm_sub_epi8(text, _mm_set1_epi8(0x30));
                let digit = _mm_cmpeq_epi8(_mm_min_epu8(less_zero, _mm_set1_epi8(9)), less_zero);
                let equal = |byte: u8| _mm_cmpeq_epi8(text, _mm_set1_epi8(byte as i8));
                let space = _mm_or_si128(equal(b' '), equal(b'\t'));
                let put = |bytes: __m128i| (_mm_movemask_epi8(bytes) as u16 as u64) << (16 * i);
                block.digit |= put(digit);
                block.space |= put(space);
                block.dot |= put(equal(b'.'));
                block.minus |= put(equal(b'-'));
                block.colon |= put(equal(b':'));
            }
        }
        block
    }

    #[inline(always)]
    unsafe fn joined_pair(a: u64, a_count: u32, b: u64, b_count: u32) -> (f64, f64) {
        // SAFETY: needs nothing.
        unsafe { super::super::dense::Portable::joined_pair(a, a_count, b, b_count) }
    }
}

/// Processors with AVX2, BMI1 and BMI2.
pub struct Avx2;

impl Isa for Avx2 {
    #[inline(always)]
    unsafe fn lowest(bits: u64, count: u32) -> u64 {
        // SAFETY: the caller promises BMI2.
        unsafe { _bzhi_u64(bits, count) }
    }

    const SHORT_INTEGERS: bool = true;

    #[inline(always)]
    unsafe fn short_integers<T: Value>(p: *const u8, tokens: &Tokens, out: *mut T) {
        // SAFETY: promised by the caller; there are as many values as ends, and up to STEP more are written.
        unsafe {
            let numbers = numbers_ending(p);
            let mut ends = tokens.ends;
            let total = ends.count_ones() as usize;
            let mut picked = 0;
            while picked < total {
                for i in 0..STEP {
                    // Without an end left this is the last number.
                    let end = ends.trailing_zeros().wrapping_sub(1) & 63;
                    ends &= ends.wrapping_sub(1);
                    out.add(picked + i).write(T::from_u16(*numbers.get_unchecked(end as usize)));
                }
                picked += STEP;
            }
        }
    }

    #[inline(always)]
    unsafe fn classify(p: *const u8) -> Block {
        let mut block = Block::default();
        for i in 0..2 {
            // SAFETY: the caller promises AVX2, and 64 bytes, of which 32 are read.
            unsafe {
                let text = _mm256_loadu_si256(p.add(32 * i).cast());
                let less_zero = _mm256_sub_epi8(text, _mm256_set1_epi8(0x30));
                let digit = _mm256_cmpeq_epi8(_mm256_min_epu8(less_zero, _mm256_set1_epi8(9)), less_zero);
                let equal = |byte: u8| _mm256_cmpeq_epi8(text, _mm256_set1_epi8(byte as i8));
                let space = _mm256_or_si256(equal(b' '), equal(b'\t'));
                let put = |bytes: __m256i| (_mm256_movemask_epi8(bytes) as u32 as u64) << (32 * i);
                block.digit |= put(digit);
                block.space |= put(space);
                block.dot |= put(equal(b'.'));
                block.minus |= put(equal(b'-'));
                block.colon |= put(equal(b':'));
            }
        }
        block
    }

    /// Both numbers side by side in one register: neighbouring digits are joined by multiply-and-add, three times.
    #[inline(always)]
    unsafe fn joined_pair(a: u64, a_count: u32, b: u64, b_count: u32) -> (f64, f64) {
        // SAFETY: the caller promises AVX2.
        unsafe {
            let digits = _mm_set_epi64x(b as i64, a as i64);
            // A shift by 64 gives 0 here.
            let shifts = _mm_set_epi64x(64 - 8 * i64::from(b_count), 64 - 8 * i64::from(a_count));
            let digits = _mm_sllv_epi64(digits, shifts);
            let tens = _mm_set1_epi16(0x010a);
            let pairs = _mm_maddubs_epi16(digits, tens);
            let fours = _mm_madd_epi16(pairs, _mm_set1_epi32(0x0001_0064));
            let packed = _mm_packus_epi32(fours, fours);
            let eights = _mm_madd_epi16(packed, _mm_set1_epi32(0x0001_2710));
            let doubles = _mm_cvtepi32_pd(eights);
            (_mm_cvtsd_f64(doubles), _mm_cvtsd_f64(_mm_unpackhi_pd(doubles, doubles)))
        }
    }
}

/// For each of the 64 bytes at `p` that is a digit: the number that ends there, or its last 4 digits.
///
/// Digits that are no part of the number are taken as zeros: a byte counts if all bytes between it and the end are
/// digits. Two neighbouring digits make a byte below 100, two of those a number of 16 bits.
///
/// # Safety
/// `p` must be valid for reading 64 bytes, and [`LEAD`](super::super::dense::LEAD) bytes before; the processor must have AVX2.
#[inline(always)]
pub unsafe fn numbers_ending(p: *const u8) -> [u16; BLOCK] {
    let mut numbers = std::mem::MaybeUninit::<[u16; BLOCK]>::uninit();
    // SAFETY: the caller promises AVX2, and 64 bytes at `p` and 3 before. The stores fill the 64 numbers, 8 each.
    unsafe {
        let out = numbers.as_mut_ptr().cast::<__m128i>();
        for i in 0..2 {
            let digits = |back: usize| {
                let text = _mm256_loadu_si256(p.add(32 * i).sub(back).cast());
                let less_zero = _mm256_sub_epi8(text, _mm256_set1_epi8(0x30));
                let is_digit = _mm256_cmpeq_epi8(_mm256_min_epu8(less_zero, _mm256_set1_epi8(9)), less_zero);
                (_mm256_and_si256(less_zero, is_digit), is_digit)
            };
            let tens = |digits: __m256i| {
                let twice = _mm256_add_epi8(digits, digits);
                let five = _mm256_add_epi8(_mm256_add_epi8(twice, twice), digits);
                _mm256_add_epi8(five, five)
            };
            let ((d0, _), (d1, is1), (d2, is2), (d3, _)) = (digits(0), digits(1), digits(2), digits(3));
            let low = _mm256_add_epi8(d0, tens(d1));
            let high = _mm256_and_si256(_mm256_add_epi8(d2, tens(d3)), _mm256_and_si256(is1, is2));
            let weights = _mm256_set1_epi16(0x6401);
            let first = _mm256_maddubs_epi16(_mm256_unpacklo_epi8(low, high), weights);
            let second = _mm256_maddubs_epi16(_mm256_unpackhi_epi8(low, high), weights);
            _mm_storeu_si128(out.add(4 * i), _mm256_castsi256_si128(first));
            _mm_storeu_si128(out.add(4 * i + 1), _mm256_castsi256_si128(second));
            _mm_storeu_si128(out.add(4 * i + 2), _mm256_extracti128_si256::<1>(first));
            _mm_storeu_si128(out.add(4 * i + 3), _mm256_extracti128_si256::<1>(second));
        }
        numbers.assume_init()
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::dense::Portable;
    use super::super::avx512::Avx512;
    use super::*;
    use crate::processor::Processor;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn all_processors_classify_alike(text in proptest::collection::vec(any::<u8>(), 64..=64)) {
            // SAFETY: there are 64 bytes, and processors are asked before more is used.
            unsafe {
                let expected = Portable::classify(text.as_ptr());
                prop_assert_eq!(Sse2::classify(text.as_ptr()), expected);
                if Processor::Avx2.is_here() {
                    prop_assert_eq!(Avx2::classify(text.as_ptr()), expected);
                }
                if Processor::Avx512.is_here() {
                    prop_assert_eq!(Avx512::classify(text.as_ptr()), expected);
                }
                for (i, &byte) in text.iter().enumerate() {
                    prop_assert_eq!(expected.digit >> i & 1 == 1, byte.is_ascii_digit());
                    prop_assert_eq!(expected.space >> i & 1 == 1, byte == b' ' || byte == b'\t');
                    prop_assert_eq!(expected.dot >> i & 1 == 1, byte == b'.');
                    prop_assert_eq!(expected.minus >> i & 1 == 1, byte == b'-');
                    prop_assert_eq!(expected.colon >> i & 1 == 1, byte == b':');
                }
            }
        }

        #[test]
        fn numbers_are_found_where_they_end(text in "[ 0-9]{67}") {
            if !Processor::Avx2.is_here() {
                return Ok(());
            }
            // SAFETY: 3 and 64 bytes, and AVX2 was asked for.
            let numbers = unsafe { numbers_ending(text.as_ptr().add(3)) };
            for (i, &number) in numbers.iter().enumerate() {
                let before = text[..i + 4].trim_end_matches(|c: char| c.is_ascii_digit()).len();
                let digits = &text[before..i + 4];
                if (1..=4).contains(&digits.len()) {
                    prop_assert_eq!(digits.parse(), Ok(number));
                }
            }
        }

        #[test]
        fn all_processors_join_alike(a: u64, b: u64, a_count in 0u32..=8, b_count in 0u32..=8) {
            let digits = |n: u64| n.to_le_bytes().map(|byte| byte % 10);
            let (a, b) = (u64::from_le_bytes(digits(a)), u64::from_le_bytes(digits(b)));
            let spelt = |n: u64, count: u32| {
                n.to_le_bytes()[..count as usize].iter().fold(0.0, |sum, &digit| sum * 10.0 + f64::from(digit))
            };
            let expected = (spelt(a, a_count), spelt(b, b_count));
            // SAFETY: processors are asked before more than SSE2 is used.
            unsafe {
                prop_assert_eq!(Sse2::joined_pair(a, a_count, b, b_count), expected);
                if Processor::Avx2.is_here() {
                    prop_assert_eq!(Avx2::joined_pair(a, a_count, b, b_count), expected);
                }
            }
        }
    }
}
