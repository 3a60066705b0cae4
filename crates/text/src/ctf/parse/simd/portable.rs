//! [`Simd`] for any processor, with 64-bit registers as vectors of 8 bytes.

use super::{Classes, Entries, MAX_ENTRIES, Simd, Window};
use cntk_reader_core::cpu::digits::{ZEROS, joined};
use cntk_reader_core::cpu::processor::Portable;
use cntk_reader_core::memory::compact::Value;

/// The lower seven bits of each byte.
const LOW: u64 = 0x7f7f_7f7f_7f7f_7f7f;

/// The lowest bit of each byte.
const ONES: u64 = 0x0101_0101_0101_0101;

/// Returns the top bit of each byte that is zero.
#[inline(always)]
fn zeros(word: u64) -> u64 {
    !(((word & LOW) + LOW) | word | LOW)
}

/// Packs the top bits of the bytes together.
#[inline(always)]
fn gather(tops: u64) -> u64 {
    (tops >> 7).wrapping_mul(0x0102_0408_1020_4080) >> 56
}

impl Simd for Portable {
    // Measured: slower than sample by sample.
    const UNIFORM_LINES: bool = false;
    const FEW: usize = 3;

    #[inline(always)]
    fn classify(self, text: Window<'_>) -> Classes {
        let mut classes = Classes::default();
        for shift in (0..64).step_by(8) {
            let word = text.eight(shift);
            let less_zero = word ^ (ONES * 0x30);
            let no_digit = ((less_zero & LOW) + ONES * 0x76) | less_zero;
            classes.space |= gather(zeros(word ^ (ONES * 0x20)) | zeros(word ^ (ONES * 0x09))) << shift;
            classes.digit |= gather(!no_digit & (ONES * 0x80)) << shift;
            classes.dot |= gather(zeros(word ^ (ONES * 0x2e))) << shift;
            classes.minus |= gather(zeros(word ^ (ONES * 0x2d))) << shift;
            classes.colon |= gather(zeros(word ^ (ONES * 0x3a))) << shift;
        }
        classes
    }

    #[inline(always)]
    fn equal(self, text: Window<'_>, byte: u8) -> u64 {
        (0..64).step_by(8).fold(0, |mask, shift| {
            mask | gather(zeros(text.eight(shift) ^ (ONES * u64::from(byte)))) << shift
        })
    }

    #[inline(always)]
    fn printable(self, text: Window<'_>) -> u64 {
        (0..64).step_by(8).fold(0, |mask, shift| {
            let word = text.eight(shift);
            // Bytes from 0x21 on have the top bit after the addition; bytes from 0x80 on had it
            // before.
            mask | gather(((word & LOW) + ONES * 0x5f) & !word & !LOW) << shift
        })
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
        let Entries { mut starts, mut colons, mut ends } = entries;
        for (index, value) in indices.iter_mut().zip(values) {
            if ends == 0 {
                break;
            }
            let (start, colon, end) =
                (starts.trailing_zeros(), colons.trailing_zeros(), ends.trailing_zeros());
            starts &= starts.wrapping_sub(1);
            colons &= colons.wrapping_sub(1);
            ends &= ends - 1;
            *index = joined(text.eight(start) ^ ZEROS, colon.wrapping_sub(start).min(8)) as i32;
            let first = colon + 1 + u32::from(text.byte(colon + 1) == b'-');
            let digits = end.wrapping_sub(first).min(8);
            *value = T::from_i32(joined(text.eight(first) ^ ZEROS, digits) as i32);
            if *index as u32 >= limit {
                return false;
            }
        }
        true
    }
}
