//! Classification and conversion with AVX-512: a block of 64 bytes is one register, and a comparison of its bytes a mask.

use super::blocks::{BLOCK, Block, Isa};
use super::x86::Avx2;
use std::arch::x86_64::*;

/// Processors with all that [`super::fast::Processor::Avx512`] names.
pub struct Avx512;

impl Isa for Avx512 {
    const SHORT_INTEGERS: bool = true;

    #[inline(always)]
    unsafe fn short_integers(p: *const u8) -> [u16; BLOCK] {
        // SAFETY: promised by the caller; processors with AVX-512 have AVX2.
        unsafe { Avx2::short_integers(p) }
    }

    #[inline(always)]
    unsafe fn classify(p: *const u8) -> Block {
        // SAFETY: the caller promises AVX-512 F and BW, and 64 bytes.
        unsafe {
            let text = _mm512_loadu_si512(p.cast());
            let equal = |byte: u8| _mm512_cmpeq_epi8_mask(text, _mm512_set1_epi8(byte as i8));
            let less_zero = _mm512_sub_epi8(text, _mm512_set1_epi8(0x30));
            Block {
                space: equal(b' ') | equal(b'\t'),
                digit: _mm512_cmplt_epu8_mask(less_zero, _mm512_set1_epi8(10)),
                dot: equal(b'.'),
                minus: equal(b'-'),
                colon: equal(b':'),
            }
        }
    }

    #[inline(always)]
    unsafe fn joined_pair(a: u64, a_count: u32, b: u64, b_count: u32) -> (f64, f64) {
        // SAFETY: processors with AVX-512 have AVX2.
        unsafe { Avx2::joined_pair(a, a_count, b, b_count) }
    }
}
