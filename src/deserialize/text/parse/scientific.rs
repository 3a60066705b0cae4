//! Dense samples with exponents: `1.25e-03`, `+7E2`.
//!
//! A power of ten is one more number: its letter ends the digits before it as white space would, and the token that follows
//! is a whole number. So all numbers of a block are converted together, as other tokens are, and each one with a power is then
//! multiplied by it, in the order of CNTK's steps. Number by number, such samples are read at a third of this speed.

use super::dense::one_by_one;
use super::number::{POWERS, power, scaled};
use super::rules::is_non_printable;
use super::simd::{BLOCK, MOST_NUMBERS, Simd, Tokens, Window, run_ends};
use crate::compact::Value;

/// What was read of a block.
pub struct Read {
    /// Bytes: the next block begins after them, with a number or white space.
    pub size: u32,
    /// Numbers.
    pub count: usize,
    /// The sample ends here.
    pub is_end: bool,
    /// Some of the numbers have powers.
    pub has_powers: bool,
}

/// Converts the numbers of a block that are complete to the first values of `out`. The block begins where a number may begin.
/// `None` if none is complete, if `out` has no room for them, or if anything is unusual.
#[inline(always)]
pub fn read<T: Value, S: Simd>(simd: S, window: Window<'_>, out: &mut [T]) -> Option<Read> {
    let found = simd.classify(window);
    let letter = simd.equal(window, b'e') | simd.equal(window, b'E');
    let plus = simd.equal(window, b'+');
    let part = found.digit | found.dot | found.minus;
    let sign = found.minus | plus;
    let number = part | plus | letter;
    let others = !(number | found.space);
    let (stop, is_end) = match others {
        0 => (BLOCK as u32, false),
        _ => {
            let stop = others.trailing_zeros();
            let ender = window.byte(stop);
            (stop, ender == b'|' || is_non_printable(ender))
        }
    };
    // All numbers before `size` are complete.
    let size = if is_end { stop } else { BLOCK as u32 - simd.lowest(!number, stop).leading_zeros() };
    if size == 0 {
        return is_end.then_some(Read { size, count: 0, is_end, has_powers: false });
    }
    // A letter follows a digit, a sign begins a number or its power, and both are followed by what belongs to them. The digits of
    // a power end the number.
    let powers = found.digit & (letter << 1 | (sign & letter << 1) << 1);
    let wrong = (found.dot & !(found.digit << 1))
        | (letter & !(found.digit << 1))
        | ((letter << 1) & !(found.digit | sign))
        | (sign & ((part | plus) << 1))
        | ((sign << 1) & !found.digit)
        | (run_ends(found.digit, powers) & (found.dot | letter));
    let limit = size + u32::from(is_end);
    if simd.lowest(wrong, limit) != 0 {
        return None;
    }
    let letter = simd.lowest(letter, size);
    let tokens = Tokens {
        digit: simd.lowest(found.digit, size),
        dot: simd.lowest(found.dot, size),
        minus: simd.lowest(found.minus, size),
        ends: simd.lowest(!part & (part << 1), limit),
    };
    let mut numbers = [0.0; MOST_NUMBERS];
    if !simd.plain_numbers(window, &tokens, &mut numbers) {
        one_by_one(simd, window, &tokens, part & !(part << 1), &mut numbers)?;
    }
    let total = tokens.ends.count_ones() as usize;
    let count = total - letter.count_ones() as usize;
    // The tokens that are followed by a power.
    let mut are_scaled = simd.extract(letter, tokens.ends);
    let powers_of_ten = &**POWERS;
    let mut numbers = numbers.get(..total)?.iter();
    for out in out.get_mut(..count)? {
        let mut number = *numbers.next()?;
        if are_scaled & 1 != 0 {
            number = scaled(number, power(powers_of_ten, *numbers.next()?)?);
            are_scaled >>= 1;
        }
        are_scaled >>= 1;
        *out = T::from_f64(number);
    }
    Some(Read { size, count, is_end, has_powers: letter != 0 })
}
