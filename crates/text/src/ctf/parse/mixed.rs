//! Numbers in any notation, a block at a time: integers, decimals, signs and exponents, alone or as
//! entries `index:value`.
//!
//! Indices and powers of ten are numbers too: a colon ends the digits before it just as white space
//! does, and so does the letter of an exponent. So all tokens of a block are converted together,
//! whatever their meaning, and combined afterwards: each number with a power is multiplied by it,
//! in the order of CNTK's steps, and numbers are taken in pairs if they are entries.
//!
//! If all values of a block have a power, as `%e` writes them, the instruction set may have a
//! special path ([`Simd::scaled_numbers`]).

use super::dense::one_by_one;
use super::number::{POWERS, power, scaled};
use super::rules::is_non_printable;
use super::simd::{
    BLOCK, Classes, Entries, MAX_ENTRIES, MAX_NUMBERS, Scaled, Simd, Tokens, Window, not_short, run_ends,
};
use cntk_reader_core::memory::compact::Value;
use std::slice::Iter;

/// Result of reading a block.
pub struct Block {
    /// Number of bytes read. The next block begins after them, with a number, an entry or white
    /// space.
    pub size: usize,
    /// Whether the sample ends here.
    pub is_end: bool,
    /// Number of values or entries.
    pub count: usize,
    /// Whether some of them have a power of ten.
    pub has_powers: bool,
}

/// The complete tokens of a block.
struct BlockTokens {
    /// As in [`Block`].
    size: u32,
    is_end: bool,
    tokens: Tokens,
    /// Bytes that are part of a token.
    part: u64,
    /// First digits of indices.
    indices: u64,
    colon: u64,
    /// `-` and `+`.
    sign: u64,
    /// The letters of exponents.
    letter: u64,
    /// First digits of powers.
    powers: u64,
}

/// Reads the complete numbers of a block into the first of `out`. The block begins where a number
/// or white space may begin. Returns `Some(None)` if nothing is complete or the notation is another
/// one, so that another path has to read the block, and `None` if a number is unusual, so that the
/// exact parser has to read the whole sequence.
#[inline(always)]
pub fn numbers<T: Value, S: Simd>(
    simd: S,
    window: Window<'_>,
    out: &mut [T; MAX_NUMBERS],
) -> Option<Option<Block>> {
    let Some(found) = find::<false, S>(simd, window) else { return Some(None) };
    let count = found.tokens.ends.count_ones() - found.letter.count_ones();
    if found.letter.count_ones() == count
        && let Some(scaled) = found.scaled(simd, found.tokens.digit | found.tokens.dot)
        && simd.scaled_numbers(window, &scaled, out.first_chunk_mut()?)
    {
        return Some(Some(found.block(count)));
    }
    let mut tokens = [0.0; MAX_NUMBERS];
    let Some(mut tokens) = found.convert(simd, window, &mut tokens) else { return Some(None) };
    let mut are_scaled = found.are_scaled(simd);
    let powers = found.table();
    for out in out.iter_mut().take(count as usize) {
        *out = T::from_f64(next(&mut tokens, &mut are_scaled, powers)?);
    }
    Some(Some(found.block(count)))
}

/// Like [`numbers`], for entries, whose indices must be less than `dim`.
#[inline(always)]
pub fn entries<T: Value, S: Simd>(
    simd: S,
    window: Window<'_>,
    dim: usize,
    indices: &mut [i32; MAX_ENTRIES],
    values: &mut [T; MAX_ENTRIES],
) -> Option<Option<Block>> {
    let Some(found) = find::<true, S>(simd, window) else { return Some(None) };
    let count = (found.tokens.ends.count_ones() - found.letter.count_ones()) / 2;
    if found.letter.count_ones() == count
        && let Some(scaled) = found.scaled(simd, (found.colon | found.sign) << 1)
        && let Some(are_below) =
            simd.scaled_entries(window, found.entries(&scaled), &scaled, dim as u32, indices, values)
    {
        return are_below.then_some(Some(found.block(count)));
    }
    let mut tokens = [0.0; MAX_NUMBERS];
    let Some(mut tokens) = found.convert(simd, window, &mut tokens) else { return Some(None) };
    let mut are_scaled = found.are_scaled(simd);
    let powers = found.table();
    for (index, value) in indices.iter_mut().zip(values).take(count as usize) {
        let found_index = next(&mut tokens, &mut are_scaled, &[])? as i64;
        if found_index >= dim as i64 {
            return None;
        }
        *index = found_index as i32;
        *value = T::from_f64(next(&mut tokens, &mut are_scaled, powers)?);
    }
    Some(Some(found.block(count)))
}

/// Returns the next number: a token, or its product with its power if the lowest bit of
/// `are_scaled` is set. `None` after the last token, or if the power is unusual.
#[inline(always)]
fn next(tokens: &mut Iter<'_, f64>, are_scaled: &mut u64, powers: &[f64]) -> Option<f64> {
    let mut number = *tokens.next()?;
    if *are_scaled & 1 != 0 {
        number = scaled(number, power(powers, *tokens.next()?)?);
        *are_scaled >>= 1;
    }
    *are_scaled >>= 1;
    Some(number)
}

impl BlockTokens {
    /// Converts all tokens. `None` if one of them is too long for a window, or is not a number.
    #[inline(always)]
    fn convert<'a, S: Simd>(
        &self,
        simd: S,
        window: Window<'_>,
        values: &'a mut [f64; MAX_NUMBERS],
    ) -> Option<Iter<'a, f64>> {
        if !simd.plain_numbers(window, &self.tokens, values) {
            one_by_one(window, &self.tokens, self.part & !(self.part << 1), values)?;
        }
        Some(values.get(..self.tokens.ends.count_ones() as usize)?.iter())
    }

    /// Returns a bit for each token, set if its power follows.
    #[inline(always)]
    fn are_scaled<S: Simd>(&self, simd: S) -> u64 {
        simd.extract(self.letter, self.tokens.ends)
    }

    /// Returns the table of powers; empty if the block has none, which avoids waiting for the
    /// table.
    #[inline(always)]
    fn table(&self) -> &'static [f64] {
        if self.letter == 0 { &[] } else { &POWERS }
    }

    /// Returns the values, all of which have a power and begin at bytes in `may_begin`. `None` if
    /// one of them has more than eight bytes before its letter, or two points.
    #[inline(always)]
    fn scaled<S: Simd>(&self, simd: S, may_begin: u64) -> Option<Scaled> {
        let Tokens { digit, dot, minus, ends } = self.tokens;
        let part = digit | dot;
        let firsts = part & !(part << 1) & !self.powers & may_begin;
        if not_short(digit, dot, firsts) != 0 {
            return None;
        }
        Some(Scaled {
            firsts,
            letters: self.letter,
            ends: ends & !(self.letter | self.colon),
            negative: simd.extract(minus << 1, firsts),
            negative_powers: simd.extract(minus << 1, self.powers & digit),
        })
    }

    /// Returns the entries with these values.
    #[inline(always)]
    fn entries(&self, values: &Scaled) -> Entries {
        Entries { starts: self.indices, colons: self.colon, ends: values.ends }
    }

    fn block(&self, count: u32) -> Block {
        Block {
            size: self.size as usize,
            is_end: self.is_end,
            count: count as usize,
            has_powers: self.letter != 0,
        }
    }
}

/// Finds the tokens of a block; with `ENTRIES`, the numbers are entries. `None` if nothing is
/// complete, or if anything is unusual.
#[inline(always)]
fn find<const ENTRIES: bool, S: Simd>(simd: S, window: Window<'_>) -> Option<BlockTokens> {
    let Classes { space, digit, dot, minus, colon } = simd.classify(window);
    let colon = if ENTRIES { colon } else { 0 };
    let letter = simd.equal(window, b'e') | simd.equal(window, b'E');
    let plus = simd.equal(window, b'+');
    let part = digit | dot | minus;
    let sign = minus | plus;
    let number = part | plus | letter;
    let others = !(number | space | colon);
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
    // A letter must follow a digit, a sign must begin a number or its power, and the rest of the
    // number must follow both. The digits of a power end the number.
    let powers = digit & (letter << 1 | (sign & letter << 1) << 1);
    let mut wrong = (dot & !(digit << 1))
        | (letter & !(digit << 1))
        | ((letter << 1) & !(digit | sign))
        | (sign & ((part | plus) << 1))
        | ((sign << 1) & !digit)
        | (run_ends(digit, powers) & (dot | letter));
    let indices = if ENTRIES { number & !(number << 1) & !(colon << 1) } else { 0 };
    if ENTRIES {
        // A colon must end the digits of each index, and a value must follow it.
        wrong |= (run_ends(digit, indices) ^ colon) | ((colon << 1) & !number);
    }
    let limit = size + u32::from(is_end);
    if simd.lowest(wrong, limit) != 0 {
        return None;
    }
    let tokens = Tokens {
        digit: simd.lowest(digit, size),
        dot: simd.lowest(dot, size),
        minus: simd.lowest(minus, size),
        ends: simd.lowest(!part & (part << 1), limit),
    };
    let (indices, colon, letter) =
        (simd.lowest(indices, size), simd.lowest(colon, size), simd.lowest(letter, size));
    Some(BlockTokens { size, is_end, tokens, part, indices, colon, sign, letter, powers })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ctf::parse::number::read;
    use crate::ctf::parse::simd::{LEAD, TAIL};
    use cntk_reader_core::cpu::processor::for_each_instruction_set;
    use cntk_reader_core::testing::cases;
    use proptest::prelude::*;

    /// Returns a block with the text, surrounded by digits that are part of a window but not of its
    /// numbers.
    fn padded(text: &str) -> Vec<u8> {
        let mut padded = vec![b'7'; LEAD - 1];
        padded.push(b' ');
        padded.extend(text.bytes());
        padded.resize(LEAD + BLOCK, b'\n');
        padded.extend([b'7'; TAIL]);
        padded
    }

    /// Returns the words that fit into a block before the end of the sample.
    fn fitting<'a>(words: impl IntoIterator<Item = &'a String>) -> String {
        words.into_iter().fold(String::new(), |text, word| {
            if text.len() + word.len() < BLOCK { text + word } else { text }
        })
    }

    /// Returns the values as the exact parser reads them, as text.
    fn expected<T: Value>(words: &[&str]) -> Vec<String> {
        let value = |word: &&str| T::from_f64(read(word.as_bytes()).value.expect("a number"));
        words.iter().map(value).map(|value| format!("{value:?}")).collect()
    }

    /// Reads numbers and compares them with the exact parser's.
    fn check_numbers<T: Value, S: Simd>(simd: S, text: &str) {
        let words: Vec<&str> = text.split_ascii_whitespace().collect();
        let padded = padded(text);
        let mut out = [T::default(); MAX_NUMBERS];
        let window = Window::at(&padded, LEAD).expect("a window");
        let block = numbers(simd, window, &mut out).expect("usual powers").expect("numbers");
        assert!(block.is_end && block.size == text.len() && block.count == words.len(), "{text}");
        let found: Vec<_> = out[..block.count].iter().map(|value| format!("{value:?}")).collect();
        assert_eq!(found, expected::<T>(&words), "{text}");
    }

    /// Reads entries and compares them with the exact parser's; returns false if an index is too
    /// large.
    fn check_entries<T: Value, S: Simd>(simd: S, text: &str, dim: usize) -> bool {
        let pairs = text.split_ascii_whitespace().map(|word| word.split_once(':').expect("a colon"));
        let (indices, words): (Vec<&str>, Vec<&str>) = pairs.unzip();
        let indices: Vec<i32> = indices.iter().map(|index| index.parse().expect("an index")).collect();
        let padded = padded(text);
        let (mut to_indices, mut values) = ([0; MAX_ENTRIES], [T::default(); MAX_ENTRIES]);
        let window = Window::at(&padded, LEAD).expect("a window");
        let Some(block) = entries(simd, window, dim, &mut to_indices, &mut values) else {
            assert!(indices.iter().any(|&index| index as usize >= dim), "{text}");
            return false;
        };
        let block = block.expect("entries");
        assert!(block.is_end && block.size == text.len() && block.count == words.len(), "{text}");
        assert_eq!(to_indices[..block.count], indices, "{text}");
        assert!(indices.iter().all(|&index| (index as usize) < dim), "{text}");
        let found: Vec<_> = values[..block.count].iter().map(|value| format!("{value:?}")).collect();
        assert_eq!(found, expected::<T>(&words), "{text}");
        true
    }

    /// Numbers as `%e` writes them, and others.
    const NUMBER: &str =
        "-?[0-9]\\.[0-9]{6}e[-+][0-4][0-9] |[-+]?[0-9]{1,8}(\\.[0-9]{1,7})?[eE][-+]?[0-9]{1,2} {1,2}";

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(cases(10_000)) })]

        #[test]
        fn numbers_match_the_exact_parser(
            scaled in proptest::collection::vec(NUMBER, 0..17),
            others in proptest::collection::vec("-?[0-9]{1,3}(\\.[0-9]{1,3})?(e[0-9])? ", 0..17),
        ) {
            for words in [scaled, others] {
                let text = fitting(&words);
                for_each_instruction_set!(simd => {
                    check_numbers::<f32, _>(simd, &text);
                    check_numbers::<f64, _>(simd, &text);
                });
            }
        }

        #[test]
        fn entries_match_the_exact_parser(
            scaled in proptest::collection::vec(("[0-9]{1,8}", NUMBER), 0..11),
            others in proptest::collection::vec(("[0-9]{1,3}", "-?[0-9]{1,3}(\\.[0-9]{1,3})?(e[0-9])? "), 0..17),
            dim in prop_oneof![Just(100_000_000usize), 0usize..100_000_000],
        ) {
            for entries in [scaled, others] {
                let words: Vec<String> = entries.iter().map(|(index, value)| format!("{index}:{value}")).collect();
                let text = fitting(&words);
                for_each_instruction_set!(simd => {
                    let are_below = check_entries::<f32, _>(simd, &text, dim);
                    prop_assert_eq!(check_entries::<f64, _>(simd, &text, dim), are_below);
                });
            }
        }
    }

    #[test]
    fn edge_cases_match_the_exact_parser() {
        // Ties between two floats, the smallest floats, zeros, and powers at the edges of the table
        // and beyond.
        for text in [
            "16777217e0 16777219e0 33554434e0 16777216e0 16777217e-1 ",
            "1e-38 1.175494e-38 1.175495e-38 1.4e-45 7e-46 7.1e-46 1e-60 ",
            "0e0 -0e0 0.0e-5 -0.000e300 0e-300 0e308 ",
            "0e309 0e400 -0e309 ",
            "3.402823e38 3.402824e38 3.5e38 1e39 1e300 -1e308 1e309 ",
            "1e-300 1.0e-300 1e-307 1e-308 1e-323 1e-400 -1e-399 ",
            "99999999e300 9999999e-7 12345678e-8 ",
        ] {
            for_each_instruction_set!(simd => {
                check_numbers::<f32, _>(simd, text);
                check_numbers::<f64, _>(simd, text);
            });
        }
    }
}
