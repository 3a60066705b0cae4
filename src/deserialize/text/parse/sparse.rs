//! Sparse samples: entries `index:value`, one by one where they are few, and by blocks of 64 bytes where they are many.
//!
//! One by one, each number has to be measured before the next can be found, which is some 30 cycles of waiting for an
//! entry. The masks of a block show all entries at once, as they do for dense samples (see [`super::dense`]). That they
//! alternate, index and value, needs no look at each: adding the first bit of a run of ones carries through the run
//! and comes out where it ends, so two additions give the ends of all indexes and all values, which must be colons
//! and must not be colons. Blocks of whole numbers, as counts are, need even less of a look, and are converted all at once
//! ([`super::simd`]): 2.4 times the speed with AVX-512, 1.4 times with AVX2.

use super::number::{DIVISORS, integer, joined, load8, quick};
use super::output::Column;
use super::rules::is_non_printable;
use super::simd::{Pairs, ZEROS, nth, whole_numbers};
use crate::compact::Value;

/// One sparse sample: its entries go to `column`, and the end of the sample.
///
/// # Safety
/// From `p` on there must be a line break and [`super::fast::PADDING`] bytes behind it, and [`super::fast::FRONT`] bytes
/// before; `column` must have room for as many entries and starts as the text can hold, and [`super::simd::SLACK`] more. The
/// processor must have what `I` names.
#[inline(always)]
pub unsafe fn sparse<T: Value, I: Pairs>(
    p: *const u8,
    dim: usize,
    column: &mut Column<T>,
) -> Option<*const u8> {
    let mut p = p;
    let values = column.values.as_mut_ptr();
    let rows = column.rows.as_mut_ptr();
    let mut length = column.values.len();
    let before = length;
    // A second entry makes more of them likely, and so do several in the sample before.
    let mut by_block = column.many;
    // SAFETY: `p` stays at or before the line break, as it ends indexes, numbers and samples. An entry takes at least 4
    // bytes of text, so that the room that was reserved for the text suffices. The same for starts.
    unsafe {
        loop {
            let byte = *p;
            if byte.is_ascii_digit() {
                if by_block {
                    by_block = false;
                    (p, length) = block::<T, I>(p, dim, values, rows, length)?;
                    continue;
                }
                let (index, colon) = integer(p)?;
                if *colon != b':' || index >= dim as u64 {
                    return None;
                }
                // Most values are short integers.
                let (number, end) = match integer(colon.add(1)) {
                    Some((number, end)) if !matches!(*end, b'.' | b'e' | b'E') => (number as f64, end),
                    _ => quick(colon.add(1))?,
                };
                values.add(length).write(T::from_f64(number));
                rows.add(length).write(index as i32);
                length += 1;
                by_block = true;
                p = end;
            } else if byte == b' ' || byte == b'\t' {
                p = p.add(1);
            } else if byte == b'|' || is_non_printable(byte) {
                break;
            } else {
                return None;
            }
        }
        column.many = length - before > 1;
        column.values.set_len(length);
        column.rows.set_len(length);
        let start = column.starts.len();
        column.starts.as_mut_ptr().add(start).write(length as u32);
        column.starts.set_len(start + 1);
    }
    Some(p)
}

/// The entries of whole blocks, from an index at `p` on: the place and the number of entries where blocks are of no
/// more use: at the end of the sample, or at an entry that takes a closer look.
///
/// # Safety
/// As for [`sparse`].
#[inline(always)]
unsafe fn block<T: Value, I: Pairs>(
    mut p: *const u8,
    dim: usize,
    values: *mut T,
    rows: *mut i32,
    mut length: usize,
) -> Option<(*const u8, usize)> {
    // SAFETY: as in `sparse`; all masks are cut at the first byte that is no part of an entry, and the line break is
    // one.
    unsafe {
        loop {
            let block = I::classify(p);
            let token = block.digit | block.dot | block.minus;
            let others = !(token | block.space | block.colon);
            // What comes before the first of them.
            let known = !others & others.wrapping_sub(1);
            let stop = others.trailing_zeros();
            let ender = if others == 0 { b' ' } else { *p.add(stop as usize) };
            // If not, a value goes on behind `stop`, with an exponent.
            let is_ended = others == 0 || ender == b'|' || is_non_printable(ender);
            if is_ended
                && (block.dot | block.minus) & known == 0
                && let Some(found) = whole_numbers(block.digit & known, block.colon & known)
            {
                let count = found.ends.count_ones();
                let taken = count.min(I::AT_ONCE);
                if !I::convert(p, found, taken, dim, values.add(length), rows.add(length)) {
                    return None;
                }
                length += taken as usize;
                if count > taken {
                    p = p.add(nth(found.starts, taken) as usize);
                    continue;
                }
                if others != 0 {
                    return Some((p.add(stop as usize), length));
                }
                // White space is behind all entries but one that is cut off.
                let rest = 64 - block.space.leading_zeros();
                if rest == 0 {
                    return Some((p, length));
                }
                p = p.add(rest as usize);
                continue;
            }
            let token = token & known;
            let mut colons = block.colon & known;
            let mut dots = block.dot & known;
            let starts = token & !(token << 1);
            let value_starts = starts & (colons << 1);
            let mut index_starts = starts & !(colons << 1);
            let index_ends = token.wrapping_add(index_starts) & !token;
            let mut value_ends = token.wrapping_add(value_starts) & !token;
            let bad_shape = (index_ends & !colons)
                | (value_ends & colons)
                | (colons & !(block.digit << 1))
                | ((colons << 1) & known & !token)
                | (dots & !(block.digit << 1))
                | (block.minus & known & !value_starts);
            if bad_shape != 0 {
                return None;
            }
            if !is_ended {
                value_ends &= !(1 << stop);
            }
            while value_ends != 0 {
                let index_start = index_starts.trailing_zeros();
                let colon = colons.trailing_zeros();
                let end = value_ends.trailing_zeros();
                index_starts &= index_starts.wrapping_sub(1);
                colons &= colons.wrapping_sub(1);
                value_ends &= value_ends - 1;
                let width = colon - index_start;
                let index = if width <= 8 {
                    joined(load8(p.add(index_start as usize)) ^ ZEROS, width)
                } else {
                    integer(p.add(index_start as usize))?.0
                };
                if index >= dim as u64 {
                    return None;
                }
                let start = colon + 1;
                let negative = block.minus >> (start & 63) & 1;
                let first = start + negative as u32;
                let dot = dots.trailing_zeros();
                let whole = dot.min(end).wrapping_sub(first);
                let number = if dot > end && whole.wrapping_sub(1) < 8 {
                    joined(load8(p.add(first as usize)) ^ ZEROS, whole) as f64
                } else if dot < end && dot > start && whole.wrapping_sub(1) < 8 && end - dot <= 9 {
                    dots &= dots - 1;
                    let fraction = end - dot - 1;
                    let a = load8(p.add(first as usize)) ^ ZEROS;
                    let b = load8(p.add(dot as usize + 1)) ^ ZEROS;
                    let (a, b) = I::joined_pair(a, whole, b, fraction);
                    a + b / DIVISORS[fraction as usize]
                } else {
                    if dot < end {
                        dots &= dots - 1;
                    }
                    let (number, stop) = quick(p.add(first as usize))?;
                    if stop != p.add(end as usize) || (dot < start) {
                        return None;
                    }
                    number
                };
                let number = f64::from_bits(number.to_bits() | negative << 63);
                values.add(length).write(T::from_f64(number));
                rows.add(length).write(index as i32);
                length += 1;
            }
            // What is left begins with an entry that is cut off, or there is none.
            let rest = if index_starts != 0 { index_starts.trailing_zeros() } else { stop };
            if dots & (if rest == 64 { u64::MAX } else { (1 << rest) - 1 }) != 0 {
                return None;
            }
            p = p.add(rest as usize);
            if stop < 64 || rest == 0 {
                return Some((p, length));
            }
        }
    }
}
