//! Bytes, masks and numbers: what the shapes of lines ask of an instruction set.
//!
//! Text is looked at through a [`Window`] of 64 bytes. [`Simd::classify`] turns the bytes into masks of one bit each: which
//! bytes are digits, points, signs, white space, colons. Where tokens begin and end then falls out of shifts and additions
//! of masks; the text itself is read again only to convert digits. Conversions get masks of the places where numbers begin
//! and end, and write into arrays whose lengths are those of the most numbers that 64 bytes can hold. How many of them
//! count is known from the masks. So the number of writes need not be predicted, and no check of a length is left inside.
//!
//! This module knows bytes, masks and numbers, and nothing of streams, samples or lines. There is one trait, [`Simd`], with
//! three implementations. The values that implement it prove that the processor has the instructions
//! ([`cntk_reader_core::cpu::processor`]), so all functions are safe to call.

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

/// Bytes of a window before its block: eight bytes can be read before any place. They are no part of a number that is converted:
/// where a block begins with a digit, the byte before it must be none.
pub const LEAD: usize = 8;

/// Bytes of a window after its block: eight bytes can be read from the block's end.
pub const TAIL: usize = 8;

/// Bytes of a window.
const WINDOW: usize = LEAD + BLOCK + TAIL;

/// The most numbers of a block: one byte each, and one between two.
pub const MOST_NUMBERS: usize = BLOCK / 2;

/// The most entries of a block: `1:2` and what ends it.
pub const MOST_ENTRIES: usize = BLOCK / 4;

/// Numbers that are converted together.
pub const LANES: usize = 8;

/// A block of 64 bytes of text, the [`LEAD`] bytes before and the [`TAIL`] bytes after it.
#[derive(Debug, Clone, Copy)]
pub struct Window<'a>(&'a [u8; WINDOW]);

impl<'a> Window<'a> {
    /// The window whose block begins at byte `at` of the text; `None` if the text has not all of its bytes.
    #[inline(always)]
    pub fn at(text: &'a [u8], at: usize) -> Option<Self> {
        text.get(at.checked_sub(LEAD)?..)?.first_chunk().map(Window)
    }

    /// The 64 bytes that begin `BACK` bytes before the block.
    #[inline(always)]
    pub fn back<const BACK: usize>(self) -> &'a [u8; BLOCK] {
        const { assert!(BACK <= LEAD) };
        // SAFETY: the window has LEAD - BACK bytes, then BLOCK bytes, which lie within its LEAD + BLOCK + TAIL bytes; the
        // result borrows what the window borrows.
        unsafe { &*self.0.as_ptr().add(LEAD - BACK).cast() }
    }

    /// The byte at place `at % 64` of the block.
    #[inline(always)]
    pub fn byte(self, at: u32) -> u8 {
        self.0[LEAD + at as usize % BLOCK]
    }

    /// The eight bytes from place `at % 64` of the block on, the first one lowest.
    #[inline(always)]
    pub fn eight(self, at: u32) -> u64 {
        // SAFETY: `at % 64` is at most 63, so the last byte that is read is number LEAD + 63 + 7 of WINDOW, which has
        // LEAD + 64 + 8. The read is unaligned.
        u64::from_le(unsafe {
            self.0.as_ptr().add(LEAD + at as usize % BLOCK).cast::<u64>().read_unaligned()
        })
    }

    /// The four bytes before place `at` of the block, 64 at most, the first one lowest.
    #[inline(always)]
    pub fn four_before(self, at: u32) -> u32 {
        (self.eight_before(at) >> 32) as u32
    }

    /// The eight bytes before place `at` of the block, 64 at most, the first one lowest.
    #[inline(always)]
    pub fn eight_before(self, at: u32) -> u64 {
        const { assert!(LEAD >= 8) };
        // SAFETY: the place is at most 64, so the bytes begin LEAD - 8 bytes after the window's start or later, and end LEAD + 64 bytes
        // after it or earlier. The read is unaligned.
        u64::from_le(unsafe {
            self.0.as_ptr().add(LEAD - 8 + at.min(BLOCK as u32) as usize).cast::<u64>().read_unaligned()
        })
    }

    /// All bytes from place `at % 64` of the block on.
    #[inline(always)]
    pub fn rest(self, at: u32) -> &'a [u8] {
        &self.0[LEAD + at as usize % BLOCK..]
    }
}

/// What the bytes of a block are: one bit for each byte, the first byte lowest.
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

/// Tokens of a block that are complete: `-1`, `2.5`, or something unusual. A point follows a digit, a sign begins a token and is
/// followed by a digit.
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

/// A fraction with this many digits is not plain; [`DIVISORS`] has more.
const TOO_LONG: u32 = 24;
const _: () = assert!((TOO_LONG as usize) < DIVISORS.len());

/// The digits before the points of plain tokens, or all digits of those without a point.
#[derive(Debug, Clone, Copy)]
struct Wholes {
    /// The first ones.
    firsts: u64,
    /// The byte after the last ones.
    ends: u64,
    /// Whether a fraction has more than 8 digits.
    has_long: bool,
}

impl Tokens {
    /// The first digits of the tokens. `None` if one of them has more than eight bytes without its sign, or two points.
    #[inline(always)]
    fn firsts_if_short(&self) -> Option<u64> {
        let Tokens { digit, dot, .. } = *self;
        let token = digit | dot;
        let firsts = token & !(token << 1);
        (not_short(digit, dot, firsts) == 0).then_some(firsts)
    }

    /// The digits before the points. `None` if a token has more than 8 of them, or [`TOO_LONG`] after its point, or two points.
    #[inline(always)]
    fn wholes(&self) -> Option<Wholes> {
        let Tokens { digit, dot, .. } = *self;
        // Each token has one run of digits that does not follow a point: where these begin and end.
        let firsts = digit & !(digit << 1) & !(dot << 1);
        let ends = run_ends(digit, firsts);
        // The last of 2, 4, 8 digits and so on.
        let two = digit & (digit << 1);
        let four = two & (two << 2);
        let eight = four & (four << 4);
        let nine = eight & (digit << 8);
        let too_long = eight & (eight << 8) & (eight << 16);
        const _: () = assert!(TOO_LONG == 24);
        // A point ends a run.
        let wrong = (dot & !ends) | (nine & ends.wrapping_sub(firsts)) | too_long;
        (wrong == 0).then_some(Wholes { firsts, ends, has_long: nine != 0 })
    }
}

/// Entries `index:value` in a block, all complete, of numbers with at most 8 digits, or bytes if a value has a point. The masks have one
/// bit for each entry, in turns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entries {
    /// First digits of the indices.
    pub starts: u64,
    /// Colons, which end the indices; the next byte is the value's first digit, or a minus before it.
    pub colons: u64,
    /// The bytes after the values' last digits.
    pub ends: u64,
}

/// The entries of a block, and which of their values are negative.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SignedEntries {
    pub entries: Entries,
    /// A bit for each entry.
    pub negative: u64,
}

/// Numbers of a block that are multiplied by powers of ten: `-2.5e-3`. None has more than eight bytes between its sign and its letter. Each
/// mask has one bit for each number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scaled {
    /// First digits.
    pub firsts: u64,
    /// The letters, which end the numbers.
    pub letters: u64,
    /// The bytes after the powers.
    pub ends: u64,
    /// The numbers that are negative, the first one lowest.
    pub negative: u64,
    /// Those whose powers have a minus.
    pub negative_powers: u64,
}

/// How close a double may come to a tie of two `f32` before its number needs a closer look, in units in the last place of a double: more
/// than the few by which conversions of [`Scaled`] numbers differ from CNTK's.
#[cfg(target_arch = "x86_64")]
const CLOSE: i64 = 64;

/// The bits of a double beyond those of an `f32`, and what they are at a tie.
#[cfg(target_arch = "x86_64")]
const LAST_BITS: i64 = (1 << 29) - 1;
#[cfg(target_arch = "x86_64")]
const TIE: i64 = 1 << 28;

/// What follows each of up to eight places of a text.
#[derive(Debug, Clone, Default)]
pub struct Pattern {
    /// The bytes right after the place, the first one lowest.
    pub words: [u64; LANES],
    /// Ones in the bytes of `words` that count.
    pub masks: [u64; LANES],
    /// Bytes from the place to a mark.
    pub distances: [u8; LANES],
}

/// What the shapes of lines ask of an instruction set.
pub trait Simd: InstructionSet {
    /// Whether masks cost so little that [`super::uniform_lines`] pays.
    const UNIFORM_LINES: bool;

    /// Samples of this dimension and below are read value by value. What is known of a block at once costs more than that of few values,
    /// but no branch depends on their lengths.
    const FEW: usize;

    /// Classifies the bytes of a block.
    fn classify(self, text: Window<'_>) -> Classes;

    /// Which bytes of a block are `byte`.
    fn equal(self, text: Window<'_>, byte: u8) -> u64;

    /// Which bytes of a block are printable, and no blanks: `!` to `~`, and 0x7f.
    fn printable(self, text: Window<'_>) -> u64;

    /// The lowest `count` bits, 0 to 64.
    #[inline(always)]
    fn lowest(self, bits: u64, count: u32) -> u64 {
        if count < 64 { bits & ((1 << count) - 1) } else { bits }
    }

    /// The bits that `mask` picks, side by side.
    #[inline(always)]
    fn extract(self, bits: u64, mut mask: u64) -> u64 {
        let mut result = 0;
        for i in 0..mask.count_ones() {
            result |= (bits >> mask.trailing_zeros() & 1) << i;
            mask &= mask - 1;
        }
        result
    }

    /// Whether each of the first `count` bits of `at`, eight at most, is followed by its word of the pattern and by its mark:
    /// the bit of `marks` with the same number has to be at its distance. There must be as many bits in both masks. What is
    /// found is not specified where a word reaches beyond the block.
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

    /// Converts the tokens of a block to the first values of `out`, if all of them are plain: at most 8 digits before the
    /// point and not too many after it. Otherwise, and where one after the other is as fast, it returns false. What the
    /// other values become is not specified.
    #[inline(always)]
    fn plain_numbers<T: Value>(self, text: Window<'_>, tokens: &Tokens, out: &mut [T; MOST_NUMBERS]) -> bool {
        let _ = (text, tokens, out);
        false
    }

    /// Converts the entries of a block; values lose their signs. Returns whether all indices are below `limit`; if not, or beyond the
    /// entries, what is in `indices` and `values` is not specified.
    fn entries<T: Value>(
        self,
        text: Window<'_>,
        entries: Entries,
        limit: u32,
        indices: &mut [i32; MOST_ENTRIES],
        values: &mut [T; MOST_ENTRIES],
    ) -> bool;

    /// [`Simd::entries`] for values with points, of at most eight bytes each; `None` if this instruction set has no way of its own
    /// for values of this type.
    #[inline(always)]
    fn decimal_entries<T: Value>(
        self,
        text: Window<'_>,
        entries: Entries,
        limit: u32,
        indices: &mut [i32; MOST_ENTRIES],
        values: &mut [T; MOST_ENTRIES],
    ) -> Option<bool> {
        let _ = (text, entries, limit, indices, values);
        None
    }

    /// Converts numbers to the first values of `out`. Returns false if this instruction set has no way of its own for values of this type,
    /// or if a number needs a closer look; then what is in `out` is not specified.
    #[inline(always)]
    fn scaled_numbers<T: Value>(
        self,
        text: Window<'_>,
        numbers: &Scaled,
        out: &mut [T; MOST_ENTRIES],
    ) -> bool {
        let _ = (text, numbers, out);
        false
    }

    /// Converts entries whose values are these numbers: whether all indices are below `limit`, or `None` as [`Simd::scaled_numbers`]
    /// returns false.
    #[inline(always)]
    fn scaled_entries<T: Value>(
        self,
        text: Window<'_>,
        entries: Entries,
        numbers: &Scaled,
        limit: u32,
        indices: &mut [i32; MOST_ENTRIES],
        values: &mut [T; MOST_ENTRIES],
    ) -> Option<bool> {
        let _ = (text, entries, numbers, limit, indices, values);
        None
    }

    /// Converts at most eight entries of a block, whose values have no signs, in another order: entry `order[i]` becomes number `i`, zeros if it is missing.
    /// Returns whether all indices are below their limits.
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
        let (mut unordered_indices, mut unordered_values) = ([0; MOST_ENTRIES], [T::default(); MOST_ENTRIES]);
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

/// The number from place `start` to place `end` of the block: `None` if it is none, or needs a closer look. Takes its point
/// off `dots`, which has those of this and later numbers; `minus` has all signs, of which one may be at `start`.
///
/// One branch for the point and one for the length, which go alike for numbers that look alike; sign, leading zeros and the
/// number of digits are no branches. Conversions of several numbers overlap in the processor.
#[inline(always)]
pub fn number(text: Window<'_>, start: u32, end: u32, dots: &mut u64, minus: u64) -> Option<f64> {
    let negative = minus >> (start % 64) & 1;
    let first = start + negative as u32;
    let dot = dots.trailing_zeros();
    let magnitude = if dot < end {
        *dots &= *dots - 1;
        // A second point in the number before makes `whole` huge, and the branch below refuses it.
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

/// A number with more than eight digits on one side of its point. Inlined, it would take registers from the loops that need
/// it rarely.
#[cold]
#[inline(never)]
fn long(text: Window<'_>, start: u32, end: u32) -> Option<f64> {
    let (value, length) = quick(text.rest(start), 0)?;
    (length == end.wrapping_sub(start) as usize).then_some(value)
}

impl SignedEntries {
    /// The entries of a block in which there is nothing but digits, points, minus signs, colons and white space. An entry that the block's
    /// end cuts off may have no value or no end; its bits are left out of `ends`. `None` if these are no entries, or if a number has more
    /// than 8 digits, its point being one of them.
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

/// The bytes after those runs of ones that begin at `firsts`: adding its first bit to a run carries through the run and comes
/// out where it ends.
#[inline(always)]
pub fn run_ends(runs: u64, firsts: u64) -> u64 {
    runs.wrapping_add(firsts) & !runs
}

/// Not 0 if one of the numbers of digits and points has more than eight bytes, or a point that does not end the digits with which it
/// begins, at one of `firsts`.
#[inline(always)]
pub fn not_short(digit: u64, dot: u64, firsts: u64) -> u64 {
    (dot & !run_ends(digit, firsts)) | long_runs(digit | dot)
}

/// Not 0 if one of the runs of ones has more than 4.
#[inline(always)]
pub fn has_five(mask: u64) -> u64 {
    let pairs = mask & (mask << 1);
    pairs & (pairs << 2) & (mask << 4)
}

/// Not 0 if one of the runs of ones has more than 8.
#[inline(always)]
pub fn long_runs(mask: u64) -> u64 {
    let twos = mask & (mask << 1);
    let fours = twos & (twos << 2);
    fours & (fours << 4) & (mask << 8)
}
