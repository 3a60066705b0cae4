//! Dense samples, 64 bytes at a time.
//!
//! Walking a line byte by byte, or token by token, is bound by waiting: where a token begins is known only when the
//! one before has been loaded, classified and measured (20 to 35 cycles). So the text is classified first, 64 bytes
//! at once, into bit masks: which bytes are digits, points, signs, white space. Starts and ends of all tokens fall
//! out of the masks by shifting; taking the next token off a mask costs one cycle, and the conversions of several
//! tokens overlap in the processor. There is one branch per token, and it goes the same way for columns that look
//! alike; signs, lengths and leading zeros are no branches at all. Token by token: 0.6 GB/s of `%.6f`; by blocks 1 GB/s
//! and more, and for short integers several times the speed.
//!
//! Blocks of nothing but short integers, the pixels of images, go further: the number that ends at each byte is computed
//! for all 64 bytes together, wherever numbers end, and the ends pick theirs: 7 instructions for a number, not 38.
//! [`super::simd::avx512`] converts all numbers of a block together: 3 GB/s of `%.6f`, 4 of pixels.
//!
//! Where a block ends is all that the next one waits for, so that it is found before anything else, by the last white
//! space: that alone gives AVX-512 a quarter to a half, AVX2 a fourteenth, and a quarter of pixels.

use super::number::{DIVISORS, joined, load8, quick};
use super::rules::is_non_printable;
use crate::compact::Value;

/// Bytes that may be read before a block.
pub const LEAD: usize = 3;

/// Bytes of a block.
pub const BLOCK: usize = 64;

/// Values that may be written behind a sample's last one, in vain, so that their number need not be predicted: as many
/// as a block can have.
pub const SLACK: usize = BLOCK / 2;

/// One bit per byte of a block, the first byte lowest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Block {
    /// Space or tab.
    pub space: u64,
    /// `0` to `9`.
    pub digit: u64,
    /// The decimal point.
    pub dot: u64,
    /// The minus sign.
    pub minus: u64,
    /// `:`.
    pub colon: u64,
}

/// The bits of a block's tokens, all of which are complete: `-1` or `2.5`, or something unusual. A point follows a digit, a
/// sign begins a token.
#[derive(Debug, Clone, Copy)]
pub struct Tokens {
    /// See [`Block`].
    pub digit: u64,
    /// See [`Block`].
    pub dot: u64,
    /// See [`Block`].
    pub minus: u64,
    /// The bytes behind tokens.
    pub ends: u64,
}

/// What differs between processors.
pub trait Isa {
    /// Classifies the 64 bytes at `p`.
    ///
    /// # Safety
    /// `p` must be valid for reading 64 bytes, and the processor must have what the implementation names.
    unsafe fn classify(p: *const u8) -> Block;

    /// The lowest `count` bits, 0 to 64.
    ///
    /// # Safety
    /// The processor must have what the implementation names.
    #[inline(always)]
    unsafe fn lowest(bits: u64, count: u32) -> u64 {
        if count < 64 { bits & ((1 << count) - 1) } else { bits }
    }

    /// Whether [`Isa::short_integers`] is there.
    const SHORT_INTEGERS: bool;

    /// Writes the numbers of a block of whole numbers without signs, of 4 digits at most, to `out`.
    ///
    /// # Safety
    /// As for [`Isa::plain_numbers`], and [`LEAD`] bytes must be readable before the block.
    #[inline(always)]
    unsafe fn short_integers<T: Value>(p: *const u8, tokens: &Tokens, out: *mut T) {
        let _ = (p, tokens, out);
    }

    /// Writes the numbers of a block to `out`, if all of them are plain: without an exponent, and not too long. Otherwise,
    /// and on processors where one by one is as good, it returns false.
    ///
    /// # Safety
    /// `p` must be valid for reading 64 bytes, `out` for writing as many values as there are tokens, and [`SLACK`] behind
    /// them; the processor must have what the implementation names.
    #[inline(always)]
    unsafe fn plain_numbers<T: Value>(p: *const u8, tokens: &Tokens, out: *mut T) -> bool {
        let _ = (p, tokens, out);
        false
    }

    /// `joined(a, a_count)` and `joined(b, b_count)` as doubles; counts 0 to 8.
    ///
    /// # Safety
    /// The processor must have what the implementation names.
    unsafe fn joined_pair(a: u64, a_count: u32, b: u64, b_count: u32) -> (f64, f64);
}

/// Any processor.
pub struct Portable;

impl Isa for Portable {
    const SHORT_INTEGERS: bool = false;

    #[inline(always)]
    unsafe fn classify(p: *const u8) -> Block {
        const ONES: u64 = 0x0101_0101_0101_0101;
        const LOW: u64 = 0x7f7f_7f7f_7f7f_7f7f;
        /// The top bit of each byte that is zero.
        fn zeros(word: u64) -> u64 {
            !(((word & LOW) + LOW) | word | LOW)
        }
        /// The top bits of the bytes, side by side.
        fn gather(tops: u64) -> u64 {
            (tops >> 7).wrapping_mul(0x0102_0408_1020_4080) >> 56
        }
        let mut block = Block::default();
        for i in 0..8 {
            // SAFETY: 8 of the 64 bytes that the caller promises.
            let word = unsafe { load8(p.add(8 * i)) };
            let less_zero = word ^ (ONES * 0x30);
            let no_digit = ((less_zero & LOW) + ONES * 0x76) | less_zero;
            let shift = 8 * i;
            block.space |= gather(zeros(word ^ (ONES * 0x20)) | zeros(word ^ (ONES * 0x09))) << shift;
            block.digit |= gather(!no_digit & (ONES * 0x80)) << shift;
            block.dot |= gather(zeros(word ^ (ONES * 0x2e))) << shift;
            block.minus |= gather(zeros(word ^ (ONES * 0x2d))) << shift;
            block.colon |= gather(zeros(word ^ (ONES * 0x3a))) << shift;
        }
        block
    }

    #[inline(always)]
    unsafe fn joined_pair(a: u64, a_count: u32, b: u64, b_count: u32) -> (f64, f64) {
        (joined(a, a_count) as f64, joined(b, b_count) as f64)
    }
}

/// The values of one dense sample, written to `out`: the first byte behind them and their number. `None` if there are
/// more than `dim`, or anything that is unusual.
///
/// # Safety
/// `out` must be valid for writing `dim` and [`SLACK`] values. From `p` on there must be a line break, and [`BLOCK`]
/// and [`super::number::OVERRUN`] bytes behind it; before `p`, [`LEAD`] bytes. The processor must have what `I` names.
#[inline(always)]
pub unsafe fn dense<T: Value, I: Isa>(p: *const u8, out: *mut T, dim: usize) -> Option<(*const u8, usize)> {
    // SAFETY: all reads begin at or before the line break (`p` never passes the first byte that is neither part of a
    // number nor white space, and a line break is neither) and reach at most BLOCK bytes further. Every write is
    // preceded by a check of `count` against `dim`, and at most SLACK are written in vain.
    unsafe {
        let mut p = p;
        let mut count = 0;
        loop {
            let block = I::classify(p);
            let token = block.digit | block.dot | block.minus;
            let mut starts = token & !(token << 1);
            let mut ends = !token & (token << 1);
            // Everything before `stop` is known; `rest` is the same, unless a token goes on behind it, which is left out.
            let (mut stop, mut rest, mut is_end) = (64, 64 - block.space.leading_zeros(), false);
            let known = token | block.space;
            if known != u64::MAX {
                stop = (!known).trailing_zeros();
                // A byte that ends the sample, or one that takes a closer look ('e', '+', junk).
                let ender = *p.add(stop as usize);
                is_end = ender == b'|' || is_non_printable(ender);
                rest = if is_end { stop } else { 64 - I::lowest(!token, stop).leading_zeros() };
                ends = I::lowest(ends, stop + u32::from(is_end));
            }
            // A point has a digit before it, a sign begins a token.
            let wrong = (block.dot & !(block.digit << 1)) | (block.minus & !starts);
            if I::lowest(wrong, stop) != 0 {
                return None;
            }
            let mut dots = I::lowest(block.dot, rest);
            let digit = I::lowest(block.digit, rest);
            let minus = I::lowest(block.minus, rest);
            let total = ends.count_ones() as usize;
            if count + total > dim {
                return None;
            }
            let long_runs = {
                let pairs = digit & (digit << 1);
                pairs & (pairs << 2) & (digit << 4)
            };
            let tokens = Tokens { digit, dot: dots, minus, ends };
            if I::SHORT_INTEGERS && long_runs | dots | minus == 0 {
                I::short_integers(p, &tokens, out.add(count));
                count += total;
            } else if I::plain_numbers(p, &tokens, out.add(count)) {
                count += total;
            } else if dots == 0 {
                // Integers.
                while ends != 0 {
                    let (start, end) = (starts.trailing_zeros(), ends.trailing_zeros());
                    starts &= starts - 1;
                    ends &= ends - 1;
                    let negative = minus >> start & 1;
                    let first = start + negative as u32;
                    let digits = end - first;
                    let value = if digits.wrapping_sub(1) < 8 {
                        let text = load8(p.add(first as usize)) ^ 0x3030_3030_3030_3030;
                        f64::from_bits((joined(text, digits) as f64).to_bits() | negative << 63)
                    } else {
                        long(p, start, end)?
                    };
                    out.add(count).write(T::from_f64(value));
                    count += 1;
                }
            } else {
                while ends != 0 {
                    let (start, end) = (starts.trailing_zeros(), ends.trailing_zeros());
                    starts &= starts - 1;
                    ends &= ends - 1;
                    let dot = dots.trailing_zeros();
                    let negative = minus >> start & 1;
                    let first = start + negative as u32;
                    let value = if dot < end {
                        dots &= dots - 1;
                        // A second point in the token before makes `whole` huge; the closer look refuses it.
                        let (whole, fraction) = (dot.wrapping_sub(first), end - dot - 1);
                        if whole.wrapping_sub(1) < 8 && fraction <= 8 {
                            let a = load8(p.add(first as usize)) ^ 0x3030_3030_3030_3030;
                            let b = load8(p.add(dot as usize + 1)) ^ 0x3030_3030_3030_3030;
                            let (a, b) = I::joined_pair(a, whole, b, fraction);
                            let number = a + b / DIVISORS[fraction as usize];
                            f64::from_bits(number.to_bits() | negative << 63)
                        } else if dot > start {
                            long(p, start, end)?
                        } else {
                            return None;
                        }
                    } else {
                        let digits = end - first;
                        if digits.wrapping_sub(1) < 8 {
                            let text = load8(p.add(first as usize)) ^ 0x3030_3030_3030_3030;
                            f64::from_bits((joined(text, digits) as f64).to_bits() | negative << 63)
                        } else {
                            long(p, start, end)?
                        }
                    };
                    out.add(count).write(T::from_f64(value));
                    count += 1;
                }
                if dots != 0 {
                    return None;
                }
            }
            p = p.add(rest as usize);
            if is_end {
                return Some((p, count));
            }
            if stop < 64 || rest == 0 {
                // A number with an exponent or a plus, or one longer than a block.
                if count == dim {
                    return None;
                }
                let (value, end) = quick(p)?;
                out.add(count).write(T::from_f64(value));
                count += 1;
                p = end;
            }
        }
    }
}

/// A number of more than eight digits on one side, from `start` to `end`.
///
/// # Safety
/// As for [`dense`].
#[inline(always)]
unsafe fn long(p: *const u8, start: u32, end: u32) -> Option<f64> {
    // SAFETY: a token lies before the line break.
    let (value, stop) = unsafe { quick(p.add(start as usize)) }?;
    // SAFETY: both are in the same text.
    (stop == unsafe { p.add(end as usize) }).then_some(value)
}

/// [`dense`] for samples of a few values, where classifying 64 bytes does not pay.
///
/// # Safety
/// As for [`dense`].
#[inline(always)]
pub unsafe fn dense_few<T: Value>(p: *const u8, out: *mut T, dim: usize) -> Option<(*const u8, usize)> {
    // SAFETY: as in `dense`.
    unsafe {
        let mut p = p;
        let mut count = 0;
        loop {
            let byte = *p;
            if byte == b' ' || byte == b'\t' {
                p = p.add(1);
            } else if byte == b'|' || is_non_printable(byte) {
                return Some((p, count));
            } else if count < dim {
                let (value, end) = quick(p)?;
                out.add(count).write(T::from_f64(value));
                count += 1;
                p = end;
            } else {
                return None;
            }
        }
    }
}
