//! Numbers of all notations, a block at a time: whole ones, decimals, signs, exponents, alone or as entries `index:value`.
//!
//! An index is a number, and so is a power of ten: a colon ends the digits before it as white space does, and so does the letter
//! of an exponent. So all tokens of a block are converted together, whatever they stand for, and what they stand for is asked
//! afterwards: each number with a power is multiplied by it, in the order of CNTK's steps, and numbers are taken in pairs where
//! they are entries. With AVX-512, entries with decimals take a fifth less time than one after the other.

use super::dense::one_by_one;
use super::number::{power, scaled};
use super::rules::is_non_printable;
use super::simd::{BLOCK, Classes, MOST_NUMBERS, Simd, Tokens, Window, run_ends};
use std::slice::Iter;

/// The tokens of a block.
pub type Values = [f64; MOST_NUMBERS];

/// What was read of a block.
pub struct Block {
    /// Bytes: the next block begins after them, with a number, an entry or white space.
    pub size: usize,
    /// The sample ends here.
    pub is_end: bool,
    /// Tokens.
    pub total: usize,
    /// A bit for each token that is followed by its power.
    pub are_scaled: u64,
}

impl Block {
    /// Numbers, or indices and values: powers do not count.
    #[inline(always)]
    pub fn count(&self) -> usize {
        self.total - self.are_scaled.count_ones() as usize
    }
}

/// The next number: a token, or the product of it and its power, as the lowest bit of `are_scaled` says. `None` after the last token,
/// or if the power is unusual.
#[inline(always)]
pub fn next(tokens: &mut Iter<'_, f64>, are_scaled: &mut u64, powers: &[f64]) -> Option<f64> {
    let mut number = *tokens.next()?;
    if *are_scaled & 1 != 0 {
        number = scaled(number, power(powers, *tokens.next()?)?);
        *are_scaled >>= 1;
    }
    *are_scaled >>= 1;
    Some(number)
}

/// Converts what is complete in a block to the first of `values`. The block begins where a number, an entry or white space may begin; with `ENTRIES`
/// the numbers are entries. `None` if nothing is complete, or if anything is unusual.
#[inline(always)]
pub fn read<const ENTRIES: bool, S: Simd>(simd: S, window: Window<'_>, values: &mut Values) -> Option<Block> {
    let Classes { space, digit, dot, minus, colon } = simd.classify(window);
    let letter = simd.equal(window, b'e') | simd.equal(window, b'E');
    let plus = simd.equal(window, b'+');
    let part = digit | dot | minus;
    let sign = minus | plus;
    let number = part | plus | letter;
    let others = !(number | space | if ENTRIES { colon } else { 0 });
    let (mut stop, mut is_end) = (BLOCK as u32, false);
    if others != 0 {
        stop = others.trailing_zeros();
        let ender = window.byte(stop);
        is_end = ender == b'|' || is_non_printable(ender);
    }
    // All numbers and entries before `size` are complete.
    let size = if is_end { stop } else { BLOCK as u32 - simd.lowest(space, stop).leading_zeros() };
    if size == 0 && !is_end {
        return None;
    }
    // A letter follows a digit, a sign begins a number or its power, and both are followed by what belongs to them. The digits of
    // a power end the number.
    let powers = digit & (letter << 1 | (sign & letter << 1) << 1);
    let mut wrong = (dot & !(digit << 1))
        | (letter & !(digit << 1))
        | ((letter << 1) & !(digit | sign))
        | (sign & ((part | plus) << 1))
        | ((sign << 1) & !digit)
        | (run_ends(digit, powers) & (dot | letter));
    if ENTRIES {
        // A colon ends the digits of each index, and a value follows it.
        let starts = number & !(number << 1);
        let indices = starts & !(colon << 1);
        wrong |= (run_ends(digit, indices) ^ colon) | ((colon << 1) & !number);
    }
    let limit = size + u32::from(is_end);
    if simd.lowest(wrong, limit) != 0 {
        return None;
    }
    let letter = simd.lowest(letter, size);
    let tokens = Tokens {
        digit: simd.lowest(digit, size),
        dot: simd.lowest(dot, size),
        minus: simd.lowest(minus, size),
        ends: simd.lowest(!part & (part << 1), limit),
    };
    if !simd.plain_numbers(window, &tokens, values) {
        one_by_one(window, &tokens, part & !(part << 1), values)?;
    }
    let total = tokens.ends.count_ones() as usize;
    Some(Block { size: size as usize, is_end, total, are_scaled: simd.extract(letter, tokens.ends) })
}
