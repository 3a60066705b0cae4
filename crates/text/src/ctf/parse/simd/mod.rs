//! Bytes, masks and numbers: the operations that the shapes of lines need from an instruction set.
//!
//! Text is examined through a [`Window`] of 64 bytes. [`Simd::classify`] turns the bytes into masks
//! with one bit each: digits, points, signs, white space, colons. Shifts and additions of masks
//! then give the starts and ends of tokens; the text itself is read again only to convert digits.
//! Conversions get masks of the starts and ends of numbers, and write into arrays with room for as
//! many numbers as 64 bytes can hold. The masks say how many of them count. So the number of writes
//! need not be predicted, and no bounds check is left inside.
//!
//! This module knows bytes, masks and numbers, and nothing about streams, samples or lines. The
//! trait [`Simd`] has three implementations. A value that implements it proves that the processor
//! has the instructions ([`cntk_reader_core::cpu::processor`]), so all functions are safe to call.

#![allow(unsafe_code, reason = "vector instructions")]

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod portable;
#[cfg(test)]
mod tests;

use super::number::{DIVISORS, quick};
use cntk_reader_core::cpu::digits::{ZEROS, joined};
use cntk_reader_core::cpu::processor::InstructionSet;
use cntk_reader_core::memory::compact::Value;

/// Bytes of a block: one for each bit of a mask.
pub const BLOCK: usize = 64;

/// Bytes of a window before its block, so that eight bytes can be read before any place. They are
/// never part of a converted number: if a block begins with a digit, the byte before it must not be
/// one.
pub const LEAD: usize = 8;

/// Bytes of a window after its block, so that eight bytes can be read from the block's end.
pub const TAIL: usize = 8;

/// Bytes of a window.
const WINDOW: usize = LEAD + BLOCK + TAIL;

/// Maximum number of numbers in a block: one byte each, and one between two.
pub const MAX_NUMBERS: usize = BLOCK / 2;

/// Maximum number of entries in a block: `1:2` and the byte that ends it.
pub const MAX_ENTRIES: usize = BLOCK / 4;

/// Number of values that are converted together.
pub const LANES: usize = 8;

/// A block of 64 bytes of text, the [`LEAD`] bytes before and the [`TAIL`] bytes after it.
#[derive(Debug, Clone, Copy)]
pub struct Window<'a>(&'a [u8; WINDOW]);

impl<'a> Window<'a> {
    /// Returns the window whose block begins at byte `at` of the text; `None` if the text does not
    /// have all of its bytes.
    #[inline(always)]
    pub fn at(text: &'a [u8], at: usize) -> Option<Self> {
        text.get(at.checked_sub(LEAD)?..)?.first_chunk().map(Window)
    }

    /// Returns the 64 bytes that begin `BACK` bytes before the block.
    #[inline(always)]
    pub fn back<const BACK: usize>(self) -> &'a [u8; BLOCK] {
        const { assert!(BACK <= LEAD) };
        // SAFETY: BACK is at most LEAD, so the BLOCK bytes from LEAD - BACK on lie within the
        // window's LEAD + BLOCK + TAIL bytes; the result borrows what the window borrows.
        unsafe { &*self.0.as_ptr().add(LEAD - BACK).cast() }
    }

    /// Returns the byte at place `at % 64` of the block.
    #[inline(always)]
    pub fn byte(self, at: u32) -> u8 {
        self.0[LEAD + at as usize % BLOCK]
    }

    /// Returns the eight bytes from place `at % 64` of the block on, the first one lowest.
    #[inline(always)]
    pub fn eight(self, at: u32) -> u64 {
        // SAFETY: `at % 64` is at most 63, so the last byte read has index LEAD + 63 + 7, which is
        // less than WINDOW (LEAD + 64 + 8). The read is unaligned.
        u64::from_le(unsafe {
            self.0.as_ptr().add(LEAD + at as usize % BLOCK).cast::<u64>().read_unaligned()
        })
    }

    /// Returns the four bytes before place `at` of the block, at most 64, the first one lowest.
    #[inline(always)]
    pub fn four_before(self, at: u32) -> u32 {
        (self.eight_before(at) >> 32) as u32
    }

    /// Returns the eight bytes before place `at` of the block, at most 64, the first one lowest.
    #[inline(always)]
    pub fn eight_before(self, at: u32) -> u64 {
        const { assert!(LEAD >= 8) };
        // SAFETY: the place is at most 64, so the bytes begin LEAD - 8 bytes after the window's
        // start or later, and end LEAD + 64 bytes after it or earlier. The read is unaligned.
        u64::from_le(unsafe {
            self.0.as_ptr().add(LEAD - 8 + at.min(BLOCK as u32) as usize).cast::<u64>().read_unaligned()
        })
    }

    /// Returns all bytes from place `at % 64` of the block on.
    #[inline(always)]
    pub fn rest(self, at: u32) -> &'a [u8] {
        &self.0[LEAD + at as usize % BLOCK..]
    }
}

/// Classes of the bytes of a block: one bit for each byte, the first byte lowest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Classes {
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

/// Complete tokens of a block: `-1`, `2.5`, or something unusual. A point follows a digit; a sign
/// begins a token and is followed by a digit.
#[derive(Debug, Clone, Copy)]
pub struct Tokens {
    /// Digits of these tokens.
    pub digit: u64,
    /// Points in them.
    pub dot: u64,
    /// Signs before them.
    pub minus: u64,
    /// The byte after each token.
    pub ends: u64,
}

/// Fractions with this many digits are not plain; [`DIVISORS`] covers more.
const TOO_LONG: u32 = 24;
const _: () = assert!((TOO_LONG as usize) < DIVISORS.len());

/// The digits before the points of plain tokens, or all digits of tokens without a point.
#[derive(Debug, Clone, Copy)]
struct Wholes {
    /// The first digits.
    firsts: u64,
    /// The bytes after the last digits.
    ends: u64,
    /// Whether a fraction has more than 8 digits.
    has_long: bool,
}

impl Tokens {
    /// Returns the first digits of the tokens. `None` if a token has more than eight bytes without
    /// its sign, or two points.
    #[inline(always)]
    fn firsts_if_short(&self) -> Option<u64> {
        let Tokens { digit, dot, .. } = *self;
        let token = digit | dot;
        let firsts = token & !(token << 1);
        (not_short(digit, dot, firsts) == 0).then_some(firsts)
    }

    /// Returns the digits before the points. `None` if a token has more than 8 of them, or
    /// [`TOO_LONG`] after its point, or two points.
    #[inline(always)]
    fn wholes(&self) -> Option<Wholes> {
        let Tokens { digit, dot, .. } = *self;
        // Each token has one run of digits that does not follow a point.
        let firsts = digit & !(digit << 1) & !(dot << 1);
        let ends = run_ends(digit, firsts);
        // The last of 2, 4, 8 digits in a row and so on.
        let two = digit & (digit << 1);
        let four = two & (two << 2);
        let eight = four & (four << 4);
        let nine = eight & (digit << 8);
        let too_long = eight & (eight << 8) & (eight << 16);
        const _: () = assert!(TOO_LONG == 24);
        // A point must end a run.
        let wrong = (dot & !ends) | (nine & ends.wrapping_sub(firsts)) | too_long;
        (wrong == 0).then_some(Wholes { firsts, ends, has_long: nine != 0 })
    }
}

/// Complete entries `index:value` in a block, of numbers with at most 8 digits, or 8 bytes if a
/// value has a point. Each mask has one bit for each entry, and the bits of the three masks
/// alternate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entries {
    /// First digits of the indices.
    pub starts: u64,
    /// Colons, which end the indices; the next byte is the value's first digit, or a minus before
    /// it.
    pub colons: u64,
    /// The bytes after the values' last digits.
    pub ends: u64,
}

/// The entries of a block, and the signs of their values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SignedEntries {
    pub entries: Entries,
    /// A bit for each entry, set if its value is negative.
    pub negative: u64,
}

/// Numbers of a block that are multiplied by powers of ten, such as `-2.5e-3`, with at most eight
/// bytes between sign and letter. Each mask has one bit for each number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scaled {
    /// First digits.
    pub firsts: u64,
    /// The letters, which end the numbers.
    pub letters: u64,
    /// The bytes after the powers.
    pub ends: u64,
    /// Which numbers are negative, the first one lowest.
    pub negative: u64,
    /// Which numbers have negative powers, the first one lowest.
    pub negative_powers: u64,
}

/// Distance from a tie of two `f32` within which a double needs a closer look, in units in its last
/// place: more than the few by which conversions of [`Scaled`] numbers differ from CNTK's.
#[cfg(target_arch = "x86_64")]
const CLOSE: i64 = 64;

/// The bits of a double beyond those of an `f32`, and their value at a tie.
#[cfg(target_arch = "x86_64")]
const LAST_BITS: i64 = (1 << 29) - 1;
#[cfg(target_arch = "x86_64")]
const TIE: i64 = 1 << 28;

/// Expected text after each of up to eight places.
#[derive(Debug, Clone, Default)]
pub struct Pattern {
    /// The bytes right after the place, the first one lowest.
    pub words: [u64; LANES],
    /// Masks of the bytes of `words` that are compared.
    pub masks: [u64; LANES],
    /// Distances in bytes from the places to their marks.
    pub distances: [u8; LANES],
}

/// Operations of an instruction set on bytes, masks and numbers.
pub trait Simd: InstructionSet {
    /// Whether masks are cheap enough for [`super::uniform_lines`] to pay.
    const UNIFORM_LINES: bool;

    /// Maximum dimension of samples that are read value by value. Analysing a block costs more than
    /// a few values, but no branch depends on their lengths.
    const FEW: usize;

    /// Classifies the bytes of a block.
    fn classify(self, text: Window<'_>) -> Classes;

    /// Returns a mask of the bytes of a block that are `byte`.
    fn equal(self, text: Window<'_>, byte: u8) -> u64;

    /// Returns a mask of the printable bytes of a block, without blanks: `!` to `~`, and 0x7f.
    fn printable(self, text: Window<'_>) -> u64;

    /// Returns the lowest `count` bits, 0 to 64.
    #[inline(always)]
    fn lowest(self, bits: u64, count: u32) -> u64 {
        if count < 64 { bits & ((1 << count) - 1) } else { bits }
    }

    /// Returns the bits selected by `mask`, packed together.
    #[inline(always)]
    fn extract(self, bits: u64, mut mask: u64) -> u64 {
        let mut result = 0;
        for i in 0..mask.count_ones() {
            result |= (bits >> mask.trailing_zeros() & 1) << i;
            mask &= mask - 1;
        }
        result
    }

    /// Whether each of the first `count` bits of `at` (at most eight) is followed by its word of
    /// the pattern and by its mark: the bit of `marks` with the same number must be at the
    /// pattern's distance. Both masks must have the same number of bits. The result is unspecified
    /// if a word reaches beyond the block.
    #[inline(always)]
    fn follows(self, text: Window<'_>, mut at: u64, mut marks: u64, count: u32, pattern: &Pattern) -> bool {
        let mut differing = 0;
        let Pattern { words, masks, distances } = pattern;
        for ((word, mask), &distance) in words.iter().zip(masks).zip(distances).take(count as usize) {
            let (place, mark) = (at.trailing_zeros(), marks.trailing_zeros());
            at &= at.wrapping_sub(1);
            marks &= marks.wrapping_sub(1);
            differing |= (text.eight(place + 1) ^ word) & mask;
            differing |= u64::from((place + u32::from(distance)) ^ mark);
        }
        differing == 0
    }

    /// Converts the tokens of a block to the first values of `out`, if all of them are plain: at
    /// most 8 digits before the point and not too many after it. Otherwise, or if converting them
    /// one by one is as fast, returns false. The other values of `out` are unspecified.
    #[inline(always)]
    fn plain_numbers<T: Value>(self, text: Window<'_>, tokens: &Tokens, out: &mut [T; MAX_NUMBERS]) -> bool {
        let _ = (text, tokens, out);
        false
    }

    /// Converts the entries of a block; values lose their signs. Returns whether all indices are
    /// below `limit`. If not, and beyond the entries, `indices` and `values` are unspecified.
    fn entries<T: Value>(
        self,
        text: Window<'_>,
        entries: Entries,
        limit: u32,
        indices: &mut [i32; MAX_ENTRIES],
        values: &mut [T; MAX_ENTRIES],
    ) -> bool;

    /// Like [`Simd::entries`], for values with points, of at most eight bytes each; `None` if this
    /// instruction set has no implementation for values of this type.
    #[inline(always)]
    fn decimal_entries<T: Value>(
        self,
        text: Window<'_>,
        entries: Entries,
        limit: u32,
        indices: &mut [i32; MAX_ENTRIES],
        values: &mut [T; MAX_ENTRIES],
    ) -> Option<bool> {
        let _ = (text, entries, limit, indices, values);
        None
    }

    /// Converts numbers to the first values of `out`. Returns false if this instruction set has no
    /// implementation for values of this type, or if a number needs a closer look; `out` is then
    /// unspecified.
    #[inline(always)]
    fn scaled_numbers<T: Value>(
        self,
        text: Window<'_>,
        numbers: &Scaled,
        out: &mut [T; MAX_ENTRIES],
    ) -> bool {
        let _ = (text, numbers, out);
        false
    }

    /// Converts entries that have these numbers as values. Returns whether all indices are below
    /// `limit`; `None` where [`Simd::scaled_numbers`] returns false.
    #[inline(always)]
    fn scaled_entries<T: Value>(
        self,
        text: Window<'_>,
        entries: Entries,
        numbers: &Scaled,
        limit: u32,
        indices: &mut [i32; MAX_ENTRIES],
        values: &mut [T; MAX_ENTRIES],
    ) -> Option<bool> {
        let _ = (text, entries, numbers, limit, indices, values);
        None
    }

    /// Converts at most eight entries of a block, whose values have no signs, in another order:
    /// entry `order[i]` becomes number `i`, and a missing entry becomes zeros. Returns whether all
    /// indices are below their limits.
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
        let (mut unordered_indices, mut unordered_values) = ([0; MAX_ENTRIES], [T::default(); MAX_ENTRIES]);
        self.entries(text, entries, u32::MAX, &mut unordered_indices, &mut unordered_values);
        let mut are_below = true;
        for lane in 0..LANES {
            let entry = order[lane] as usize % LANES;
            indices[lane] = unordered_indices[entry];
            values[lane] = unordered_values[entry];
            are_below &= (indices[lane] as u32) < limits[lane];
        }
        are_below
    }
}

/// Returns the number from place `start` to place `end` of the block. `None` if it is not a number,
/// or needs a closer look. Removes its point from `dots`, which has the points of this and later
/// numbers; `minus` has all signs, of which one may be at `start`.
///
/// There is one branch for the point and one for the length, both predictable if numbers are
/// similar; the sign, leading zeros and the number of digits need none. Conversions of several
/// numbers overlap in the processor.
#[inline(always)]
pub fn number(text: Window<'_>, start: u32, end: u32, dots: &mut u64, minus: u64) -> Option<f64> {
    let negative = minus >> (start % 64) & 1;
    let first = start + negative as u32;
    let dot = dots.trailing_zeros();
    let magnitude = if dot < end {
        *dots &= *dots - 1;
        // A second point in the previous number makes `whole` huge, which the branch below rejects.
        let (whole, fraction) = (dot.wrapping_sub(first), end - dot - 1);
        if whole.wrapping_sub(1) < 8 && fraction <= 8 {
            let part = joined(text.eight(dot + 1) ^ ZEROS, fraction) as f64;
            joined(text.eight(first) ^ ZEROS, whole) as f64 + part / DIVISORS[fraction as usize]
        } else if dot > start {
            return long(text, start, end);
        } else {
            return None;
        }
    } else {
        let digits = end.wrapping_sub(first);
        if digits.wrapping_sub(1) >= 8 {
            return long(text, start, end);
        }
        joined(text.eight(first) ^ ZEROS, digits) as f64
    };
    Some(f64::from_bits(magnitude.to_bits() | negative << 63))
}

/// Returns a number with more than eight digits on one side of its point. Inlined, it would take
/// registers from loops that rarely need it.
#[cold]
#[inline(never)]
fn long(text: Window<'_>, start: u32, end: u32) -> Option<f64> {
    let (value, length) = quick(text.rest(start), 0)?;
    (length == end.wrapping_sub(start) as usize).then_some(value)
}

impl SignedEntries {
    /// Returns the entries of a block that has only digits, points, minus signs, colons and white
    /// space. An entry that is cut off by the block's end may have no value or no end; its bits are
    /// left out of `ends`. `None` if these are not entries, or if a number has more than 8 digits,
    /// counting its point.
    #[inline(always)]
    pub fn of<S: Simd>(simd: S, digit: u64, dot: u64, minus: u64, colons: u64) -> Option<SignedEntries> {
        let part = digit | dot;
        let runs = part & !(part << 1);
        let values = runs & ((colons | minus) << 1);
        let starts = runs & !values;
        let index_ends = run_ends(digit, starts);
        let ends = run_ends(part, values);
        let wrong = (index_ends ^ colons)
            | ((colons << 1) & !(digit | minus))
            | (minus & !(colons << 1))
            | ((minus << 1) & !digit)
            | not_short(digit, dot, values);
        if wrong != 0 {
            return None;
        }
        let entries = Entries { starts, colons, ends };
        Some(SignedEntries { entries, negative: simd.extract(minus << 1, values) })
    }
}

/// Returns the bytes after the runs of ones that begin at `firsts`: adding its first bit to a run
/// carries through the run and comes out at its end.
#[inline(always)]
pub fn run_ends(runs: u64, firsts: u64) -> u64 {
    runs.wrapping_add(firsts) & !runs
}

/// Returns nonzero if a number has more than eight digits and points, or a point that does not end
/// the digits with which the number begins, at one of `firsts`.
#[inline(always)]
pub fn not_short(digit: u64, dot: u64, firsts: u64) -> u64 {
    (dot & !run_ends(digit, firsts)) | long_runs(digit | dot)
}

/// Returns nonzero if a run of ones is longer than 4.
#[inline(always)]
pub fn has_five(mask: u64) -> u64 {
    let pairs = mask & (mask << 1);
    pairs & (pairs << 2) & (mask << 4)
}

/// Returns nonzero if a run of ones is longer than 8.
#[inline(always)]
pub fn long_runs(mask: u64) -> u64 {
    let twos = mask & (mask << 1);
    let fours = twos & (twos << 2);
    fours & (fours << 4) & (mask << 8)
}
