//! Dense samples, 64 bytes at a time.
//!
//! A parser that walks a line byte by byte, or token by token, is bound by latency: the start of a
//! token is known only after the previous token has been loaded, classified and measured, in 20 to
//! 35 cycles. Here, 64 bytes are classified at once. Shifting the masks gives the starts and ends
//! of all tokens, taking the next token off a mask costs one cycle, and the conversions of several
//! tokens overlap. AVX2 converts four or eight numbers together, AVX-512 all numbers of a block.
//! [`super`] lists the speeds.
//!
//! The next block depends only on the place where this one ends. So that place is computed first,
//! from the last white space: this makes AVX-512 25 to 50 % faster and AVX2 7 % (25 % for pixels).

use super::blocks::{self, Blocks, Place};
use super::mixed;
use super::number::{quick, value};
use super::rules::{is_non_printable, is_value_delimiter};
use super::simd::{MAX_NUMBERS, Simd, Tokens, Window, number};
use cntk_reader_core::cpu::processor::dispatch;
use cntk_reader_core::memory::compact::Value;

/// Number of values after a sample that may be overwritten.
pub const SLACK: usize = MAX_NUMBERS;

/// Reads the values of one dense sample from byte `at` of the text into `out`, which needs room for
/// `dim` and [`SLACK`] values. Returns the place after the sample, or `None` if there are more than
/// `dim` values or anything is unusual.
#[inline(always)]
pub fn read<T: Value, S: Simd>(simd: S, text: &[u8], at: usize, out: &mut [T], dim: usize) -> Option<Place> {
    if dim <= S::FEW {
        return few(text, at, out, dim);
    }
    let mut place = Place { at, count: 0 };
    blocks::read(simd, &mut ValueBlocks { out, dim }, text, &mut place)?;
    Some(place)
}

/// Destination of a sample's values.
struct ValueBlocks<'a, T> {
    out: &'a mut [T],
    dim: usize,
}

impl<T: Value> Blocks for ValueBlocks<'_, T> {
    #[inline(always)]
    fn block<S: Simd>(&mut self, simd: S, text: &[u8], place: &mut Place) -> Option<bool> {
        let window = Window::at(text, place.at)?;
        let found = simd.classify(window);
        let token = found.digit | found.dot | found.minus;
        let starts = token & !(token << 1);
        let mut ends = !token & (token << 1);
        // The bytes before `stop` are tokens or white space, and all tokens before `rest` are
        // complete.
        let (mut stop, mut rest, mut is_end) = (64, 64 - found.space.leading_zeros(), false);
        let known = token | found.space;
        if known != u64::MAX {
            stop = (!known).trailing_zeros();
            // A byte that ends the sample, or one that needs a closer look ('e', '+', junk).
            let ender = window.byte(stop);
            is_end = ender == b'|' || is_non_printable(ender);
            rest = if is_end { stop } else { 64 - simd.lowest(!token, stop).leading_zeros() };
            ends = simd.lowest(ends, stop + u32::from(is_end));
        }
        // A point must follow a digit, a sign must begin a token, and a digit must follow the sign.
        let wrong =
            (found.dot & !(found.digit << 1)) | (found.minus & !starts) | ((found.minus << 1) & !found.digit);
        if simd.lowest(wrong, stop + u32::from(is_end)) != 0 {
            return None;
        }
        let tokens = Tokens {
            digit: simd.lowest(found.digit, rest),
            dot: simd.lowest(found.dot, rest),
            minus: simd.lowest(found.minus, rest),
            ends,
        };
        let total = ends.count_ones() as usize;
        if place.count + total > self.dim {
            return None;
        }
        let room = self.out.get_mut(place.count..)?.first_chunk_mut()?;
        if !simd.plain_numbers(window, &tokens, room) {
            one_by_one(window, &tokens, starts, room)?;
        }
        place.count += total;
        place.at += rest as usize;
        if !is_end && (stop < 64 || rest == 0) {
            return unusual(simd, text, self.out, self.dim, place);
        }
        Some(is_end)
    }
}

dispatch! {
    /// Reads numbers, from one that has an exponent or a plus or is longer than a block, and
    /// continues while numbers have exponents. Returns whether the sample ends there.
    #[inline(never)]
    fn unusual<T: Value>(text: &[u8], out: &mut [T], dim: usize, place: &mut Place) -> Option<bool> = unusual_with;
}

/// See [`unusual`].
#[inline(always)]
fn unusual_with<T: Value, S: Simd>(
    simd: S,
    text: &[u8],
    out: &mut [T],
    dim: usize,
    place: &mut Place,
) -> Option<bool> {
    while let Some(block) =
        mixed::numbers(simd, Window::at(text, place.at)?, out.get_mut(place.count..)?.first_chunk_mut()?)?
    {
        place.at += block.size;
        place.count += block.count;
        if place.count > dim {
            return None;
        }
        if block.is_end || !block.has_powers {
            return Some(block.is_end);
        }
    }
    let blanks = text.get(place.at..)?.iter().take_while(|byte| is_value_delimiter(**byte)).count();
    let (value, end) = quick(text, place.at + blanks)?;
    *out.get_mut(place.count..dim)?.first_mut()? = T::from_f64(value);
    *place = Place { at: end, count: place.count + 1 };
    Some(false)
}

/// Converts the tokens of a block one after the other.
#[inline(always)]
pub fn one_by_one<T: Value>(
    window: Window<'_>,
    tokens: &Tokens,
    mut starts: u64,
    out: &mut [T; MAX_NUMBERS],
) -> Option<()> {
    let Tokens { mut dot, minus, mut ends, .. } = *tokens;
    for out in out {
        if ends == 0 {
            break;
        }
        let (start, end) = (starts.trailing_zeros(), ends.trailing_zeros());
        starts &= starts.wrapping_sub(1);
        ends &= ends - 1;
        *out = T::from_f64(number(window, start, end, &mut dot, minus)?);
    }
    (dot == 0).then_some(())
}

/// Like [`read`], for samples of a few values, for which classifying 64 bytes does not pay.
#[inline(always)]
fn few<T: Value>(text: &[u8], mut at: usize, out: &mut [T], dim: usize) -> Option<Place> {
    let mut count = 0;
    loop {
        let byte = *text.get(at)?;
        if byte == b' ' || byte == b'\t' {
            at += 1;
        } else if byte == b'|' || is_non_printable(byte) {
            return Some(Place { at, count });
        } else if count < dim {
            (*out.get_mut(count)?, at) = value(text, at)?;
            count += 1;
        } else {
            return None;
        }
    }
}
