//! Sparse samples: entries `index:value`, read one by one if there are few, and by blocks of 64
//! bytes if there are many.
//!
//! One by one, each number has to be measured before the next one can be found: a latency of some
//! 30 cycles per entry. The masks of a block show all entries at once. Checking that indices and
//! values alternate does not need a look at each: adding the first bit of a run of ones carries
//! through the run and comes out at its end, so two additions give the ends of all indices and of
//! all values; the former must be colons and the latter must not. Blocks of whole numbers, such as
//! counts, need even fewer checks, and all their entries are converted together.

use super::blocks::{self, Blocks, Place};
use super::mixed;
use super::number::{integer, value};
use super::output::Column;
use super::rules::is_non_printable;
use super::simd::{BLOCK, Classes, MAX_ENTRIES, SignedEntries, Simd, Window};
use cntk_reader_core::memory::compact::Value;

/// Number of entries after the last one that may be overwritten.
pub const SLACK: usize = MAX_ENTRIES;

/// Number of entries that are read one by one after a block that yielded none.
const ALIKE: u32 = 8;

/// Reads one sparse sample from byte `at` of the text into `column`, and returns the place after
/// it. The sequence ends at byte `end`, which bounds the number of entries. `None` if anything is
/// unusual.
#[inline(always)]
pub fn read<T: Value, S: Simd>(
    simd: S,
    text: &[u8],
    mut at: usize,
    end: usize,
    dim: usize,
    column: &mut Column<T>,
) -> Option<usize> {
    let before = column.values.len();
    // An entry takes at least 4 bytes: `1:2` and the byte that ends it. The first sample of a
    // sequence makes room for all entries of the sequence.
    let most = end.checked_sub(at)? / 4 + SLACK;
    let values = column.values.spare(most)?;
    let indices = column.indices.spare(most)?;
    let mut count = 0;
    // Number of entries to read one by one before a block is tried. A second entry makes more of
    // them likely, and so do several in the previous sample; after a block that yielded none (for
    // example, of values with exponents), the next ones are probably alike.
    let mut alone = u32::from(!column.many);
    loop {
        let byte = *text.get(at)?;
        if byte.is_ascii_digit() {
            if alone == 0 {
                let mut place = Place { at, count };
                blocks::read(simd, &mut EntryBlocks { dim, indices, values }, text, &mut place)?;
                alone = if place.count > count { 1 } else { ALIKE };
                Place { at, count } = place;
                continue;
            }
            alone -= 1;
            // One bounds check, not one for each access: the compiler knows how far an index and a
            // value reach.
            let near: &[u8; BLOCK] = text.get(at..)?.first_chunk()?;
            let (index, colon) = integer(near, 0)?;
            if near.get(colon) != Some(&b':') || index >= dim as u64 {
                return None;
            }
            let (number, length) = value(near, colon + 1)?;
            *values.get_mut(count)? = number;
            *indices.get_mut(count)? = index as i32;
            count += 1;
            at += length;
        } else if byte == b' ' || byte == b'\t' {
            at += 1;
        } else if byte == b'|' || is_non_printable(byte) {
            break;
        } else {
            return None;
        }
    }
    column.many = count > 1;
    column.values.advance(count);
    column.indices.advance(count);
    *column.offsets.spare(1)?.first_mut()? = (before + count) as u32;
    column.offsets.advance(1);
    Some(at)
}

/// Destination of a sample's entries. Each block begins with an index; blocks are of no more use
/// when the sample ends, or when an entry needs a closer look.
struct EntryBlocks<'a, T> {
    dim: usize,
    indices: &'a mut [i32],
    values: &'a mut [T],
}

impl<T: Value> Blocks for EntryBlocks<'_, T> {
    #[inline(always)]
    fn block<S: Simd>(&mut self, simd: S, text: &[u8], place: &mut Place) -> Option<bool> {
        let window = Window::at(text, place.at)?;
        let found = simd.classify(window);
        let token = found.digit | found.dot | found.minus;
        let others = !(token | found.space | found.colon);
        // The bytes before the first of the others.
        let known = !others & others.wrapping_sub(1);
        let stop = others.trailing_zeros();
        let ender = if others == 0 { b' ' } else { window.byte(stop) };
        // Otherwise a value continues after `stop`, with an exponent.
        let is_ended = others == 0 || ender == b'|' || is_non_printable(ender);
        let indices = self.indices.get_mut(place.count..)?.first_chunk_mut::<MAX_ENTRIES>()?;
        let values = self.values.get_mut(place.count..)?.first_chunk_mut::<MAX_ENTRIES>()?;
        let read = match (is_ended, found.dot & known) {
            (false, _) => None,
            (true, 0) => plain::<false, T, S>(simd, window, found, known, self.dim, indices, values),
            (true, _) => plain::<true, T, S>(simd, window, found, known, self.dim, indices, values),
        };
        if let Some(read) = read {
            place.count += read?;
            if others != 0 {
                place.at += stop as usize;
                return Some(true);
            }
            // White space follows all entries except one that is cut off.
            let rest = 64 - found.space.leading_zeros();
            place.at += rest as usize;
            return Some(rest == 0);
        }
        let Some(block) = mixed::entries(simd, window, self.dim, indices, values)? else {
            return Some(true);
        };
        place.count += block.count;
        place.at += block.size;
        Some(block.is_end)
    }
}

/// Converts the entries of a block whose values have no exponents, and points only with `POINTS`.
/// Returns their number, or `Some(None)` if an index is too large. `None` if the entries are of
/// another kind, or if the instruction set has no operation for them.
#[inline(always)]
fn plain<const POINTS: bool, T: Value, S: Simd>(
    simd: S,
    window: Window<'_>,
    found: Classes,
    known: u64,
    dim: usize,
    indices: &mut [i32; MAX_ENTRIES],
    values: &mut [T; MAX_ENTRIES],
) -> Option<Option<usize>> {
    let dot = if POINTS { found.dot & known } else { 0 };
    let SignedEntries { entries, negative } =
        SignedEntries::of(simd, found.digit & known, dot, found.minus & known, found.colon & known)?;
    let are_below = if POINTS {
        simd.decimal_entries(window, entries, dim as u32, indices, values)?
    } else {
        simd.entries(window, entries, dim as u32, indices, values)
    };
    if negative != 0 {
        for (number, value) in values.iter_mut().enumerate() {
            *value = value.negated_if(negative >> number);
        }
    }
    Some(are_below.then_some(entries.ends.count_ones() as usize))
}
