//! Entries of short whole numbers, as most are: where they lie in a block is known, and they are converted.

#[cfg(target_arch = "x86_64")]
pub mod avx2;
#[cfg(target_arch = "x86_64")]
pub mod avx512;
#[cfg(target_arch = "x86_64")]
pub mod entries512;

#[cfg(target_arch = "x86_64")]
use super::dense::BLOCK;
use super::dense::{Isa, Portable};
use super::number::{joined, load8};
use super::output::Column;
use super::uniform_lines::{self as lines, Lines, Template};
use crate::compact::Value;
#[cfg(target_arch = "x86_64")]
use avx2::{Avx2, Sse2, numbers_ending};
#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;

/// Values, rows and starts that may be written behind the last ones.
pub const SLACK: usize = 8;

/// Eight times `0`.
pub const ZEROS: u64 = 0x3030_3030_3030_3030;

/// Entries of a block, one bit per byte: the masks have as many bits each, and these take turns.
#[derive(Debug, Clone, Copy)]
pub struct Found {
    /// First digits of the rows.
    pub starts: u64,
    /// Colons, which end the rows; the byte behind is the value's first digit.
    pub colons: u64,
    /// Bytes behind the values' last digits.
    pub ends: u64,
}

/// What differs between processors.
pub trait Pairs: Isa + Sized {
    /// Which of the 64 bytes at `p` are `byte`.
    ///
    /// # Safety
    /// `p` must be valid for reading 64 bytes, and the processor must have what the implementation names.
    unsafe fn equal(p: *const u8, byte: u8) -> u64;

    /// Whether masks cost so little that [`lines::lines`] pays.
    const LINES: bool = true;

    /// Entries that [`Pairs::convert`] takes, at most.
    const AT_ONCE: u32 = 64;

    /// What numbers of the block at `p` are read from.
    type Digits;

    /// See [`Pairs::Digits`].
    ///
    /// # Safety
    /// `p` must be valid for reading 64 bytes, and [`super::dense::LEAD`] bytes before; the processor must have what the
    /// implementation names.
    unsafe fn digits(p: *const u8) -> Self::Digits;

    /// The number that begins at byte `start` of the block at `p` and ends before byte `end`, with 1 to 8 digits.
    ///
    /// # Safety
    /// `start` must be in the block, and 8 bytes behind it readable. The processor must have what the implementation names.
    #[inline(always)]
    unsafe fn number(p: *const u8, digits: &Self::Digits, start: u32, end: u32) -> i32 {
        let _ = digits;
        // SAFETY: promised by the caller.
        joined(unsafe { load8(p.add(start as usize)) } ^ ZEROS, end - start) as i32
    }

    /// Converts the first `count` entries of the block at `p`, none of whose numbers has more than 8 digits. False
    /// if a row is not below `dim`.
    ///
    /// # Safety
    /// The entries must lie so in the 64 bytes at `p`, 8 bytes behind which must be readable; there must be room for
    /// `count` values and rows, and [`SLACK`] more. The processor must have what the implementation names.
    #[inline(always)]
    unsafe fn convert<T: Value>(
        p: *const u8,
        found: Found,
        count: u32,
        dim: usize,
        values: *mut T,
        rows: *mut i32,
    ) -> bool {
        let Found { mut starts, mut colons, mut ends } = found;
        // SAFETY: promised by the caller.
        let digits = unsafe { Self::digits(p) };
        for i in 0..count as usize {
            let (start, colon, end) =
                (starts.trailing_zeros(), colons.trailing_zeros(), ends.trailing_zeros());
            starts &= starts.wrapping_sub(1);
            colons &= colons.wrapping_sub(1);
            ends &= ends.wrapping_sub(1);
            // SAFETY: the numbers begin in the block.
            let (row, value) =
                unsafe { (Self::number(p, &digits, start, colon), Self::number(p, &digits, colon + 1, end)) };
            if row as usize >= dim {
                return false;
            }
            // SAFETY: there is room for `count`.
            unsafe {
                rows.add(i).write(row);
                values.add(i).write(T::from_i32(value));
            }
        }
        true
    }

    /// Gives the columns the entries of lines, of which there are [`Pairs::AT_ONCE`] at most. False, and nothing counts,
    /// if the lines do not fit the template.
    ///
    /// # Safety
    /// As for [`lines::lines`]; the marks must be those of the lines at `p`.
    #[inline(always)]
    unsafe fn deliver<T: Value>(
        p: *const u8,
        lines: Lines,
        template: &Template,
        columns: &mut [Column<T>],
    ) -> bool {
        // SAFETY: promised by the caller.
        unsafe { lines::deliver::<T, Self>(p, lines, template, columns) }
    }
}

impl Pairs for Portable {
    const LINES: bool = false;

    type Digits = ();

    #[inline(always)]
    unsafe fn digits(_: *const u8) {}

    #[inline(always)]
    unsafe fn equal(p: *const u8, byte: u8) -> u64 {
        const LOW: u64 = 0x7f7f_7f7f_7f7f_7f7f;
        (0..8).fold(0, |mask, i| {
            // SAFETY: 8 of the 64 bytes.
            let other = unsafe { load8(p.add(8 * i)) } ^ u64::from_ne_bytes([byte; 8]);
            // The top bit of each byte that is zero, then these side by side.
            let tops = !(((other & LOW) + LOW) | other | LOW);
            mask | ((tops >> 7).wrapping_mul(0x0102_0408_1020_4080) >> 56) << (8 * i)
        })
    }
}

#[cfg(target_arch = "x86_64")]
impl Pairs for Sse2 {
    type Digits = ();

    #[inline(always)]
    unsafe fn digits(_: *const u8) {}

    #[inline(always)]
    unsafe fn equal(p: *const u8, byte: u8) -> u64 {
        let mut mask = 0;
        for i in 0..4 {
            // SAFETY: SSE2 is part of x86-64; 16 of the 64 bytes are read.
            let equal = unsafe {
                let text = _mm_loadu_si128(p.add(16 * i).cast());
                _mm_movemask_epi8(_mm_cmpeq_epi8(text, _mm_set1_epi8(byte as i8)))
            };
            mask |= u64::from(equal as u16) << (16 * i);
        }
        mask
    }
}

#[cfg(target_arch = "x86_64")]
impl Pairs for Avx2 {
    /// The last 4 digits, at most, of the number that ends at each byte.
    type Digits = [u16; BLOCK];

    #[inline(always)]
    unsafe fn digits(p: *const u8) -> [u16; BLOCK] {
        // SAFETY: promised by the caller.
        unsafe { numbers_ending(p) }
    }

    #[inline(always)]
    unsafe fn number(_: *const u8, digits: &[u16; BLOCK], start: u32, end: u32) -> i32 {
        let last = |end: u32| i32::from(digits[end.wrapping_sub(1) as usize % BLOCK]);
        let is_long = if end - start > 4 { -1 } else { 0 };
        last(end) + 10_000 * (last(end.wrapping_sub(4)) & is_long)
    }

    #[inline(always)]
    unsafe fn equal(p: *const u8, byte: u8) -> u64 {
        let mut mask = 0;
        for i in 0..2 {
            // SAFETY: the caller promises AVX2; 32 of the 64 bytes are read.
            let equal = unsafe {
                let text = _mm256_loadu_si256(p.add(32 * i).cast());
                _mm256_movemask_epi8(_mm256_cmpeq_epi8(text, _mm256_set1_epi8(byte as i8)))
            };
            mask |= u64::from(equal as u32) << (32 * i);
        }
        mask
    }
}

/// The place of bit number `n`, from 0, of those that are set; 64 if there are not as many.
#[inline(always)]
pub fn nth(mut mask: u64, n: u32) -> u32 {
    for _ in 0..n {
        mask &= mask.wrapping_sub(1);
    }
    mask.trailing_zeros()
}

/// The entries in a block where there is nothing else but white space; one that is cut off at its end may have no value or no
/// end. `None` if that is not so, or if a number has more than 8 digits.
#[inline(always)]
pub fn whole_numbers(digit: u64, colons: u64) -> Option<Found> {
    let runs = digit & !(digit << 1);
    let (starts, values) = (runs & !(colons << 1), runs & (colons << 1));
    // Adding its first bit to a run of ones carries through the run and comes out where it ends.
    let row_ends = digit.wrapping_add(starts) & !digit;
    let ends = digit.wrapping_add(values) & !digit;
    let wrong = (row_ends ^ colons) | ((colons << 1) & !digit) | long_runs(digit);
    (wrong == 0).then_some(Found { starts, colons, ends })
}

/// Not 0 if one of the runs of ones has more than 8.
#[inline(always)]
pub fn long_runs(mask: u64) -> u64 {
    let twos = mask & (mask << 1);
    let fours = twos & (twos << 2);
    fours & (fours << 4) & (mask << 8)
}
