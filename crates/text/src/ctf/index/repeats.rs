//! Search for keys that several sequences have, which deserve a warning: the lines of a sequence
//! must be consecutive.
//!
//! CNTK treats lines of one id in two places of a file as two sequences, and so does this reader.
//! That is hardly ever intended: lines were interleaved, or files whose ids restart were
//! concatenated.
//!
//! While keys ascend, which the table records, nothing has to be compared. Otherwise a pass over
//! the keys marks each one in a bit set.
//!
//! - Keys in a small range, as in a shuffled file, have a bit each. This takes 2 to 10 ns and
//!   temporarily at most 2 bytes per sequence; indexing takes 57 ns for a sequence of 25 bytes.
//! - Scattered keys, such as hashes, are marked by a hash, and keys whose bit was already set are
//!   compared. This takes 20 to 40 ns per sequence, so it is done for up to [`MAX_SCATTERED`]
//!   sequences, in 20 ms.

use super::SequenceSpan;
use super::table::IndexTable;
use cntk_reader_core::memory::room;
use cntk_reader_core::sequence::SequenceKey;

/// Maximum bits of a set: 128 MB.
const MAX_BITS: u64 = 1 << 30;

/// Bits for each sequence; 1 of 32 scattered keys is then compared needlessly.
const BITS_EACH: u64 = 16;

/// Maximum number of sequences whose scattered keys are compared.
const MAX_SCATTERED: u64 = 1 << 19;

/// The repeated keys of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Repeats {
    /// The first sequence in the order of the data with the key of an earlier one, and the number
    /// of its table ...
    pub again: (usize, SequenceSpan),
    /// ... and that earlier sequence.
    pub first: (usize, SequenceSpan),
    /// Number of sequences with the key of an earlier one.
    pub count: u64,
}

impl Repeats {
    /// Searches the tables, which are in the order of the data, for keys that several sequences
    /// have.
    pub fn find<'a, I: Iterator<Item = &'a IndexTable> + Clone>(tables: I) -> Option<Repeats> {
        if are_ascending(tables.clone()) {
            return None;
        }
        let (mut least, mut greatest, mut sequences) = (SequenceKey::MAX, SequenceKey::MIN, 0);
        for_each_key(tables.clone(), |key| {
            least = least.min(key);
            greatest = greatest.max(key);
            sequences += 1;
        });
        let bits = (BITS_EACH * sequences).clamp(1 << 16, MAX_BITS);
        let range = greatest.saturating_sub(least);
        if range < bits {
            return among_close(tables, least, range + 1);
        }
        if sequences > MAX_SCATTERED { None } else { among_scattered(tables, bits.next_power_of_two()) }
    }
}

/// Whether each key of some tables is greater than all keys before it.
fn are_ascending<'a>(tables: impl Iterator<Item = &'a IndexTable>) -> bool {
    let mut last = None;
    tables.filter(|table| table.len() > 0).all(|table| {
        let first = table.key_at(0);
        table.ascending && last.replace(table.key_at(table.len() - 1)).is_none_or(|last| last < first)
    })
}

/// Searches keys in a small range, which starts at `least`, with a bit for each key.
fn among_close<'a>(
    tables: impl Iterator<Item = &'a IndexTable> + Clone,
    least: SequenceKey,
    range: u64,
) -> Option<Repeats> {
    let mut seen = Bits::new(range)?;
    let mut repeated = None;
    let mut count = 0;
    for_each_key(tables.clone(), |key| {
        if seen.mark(key - least) {
            repeated.get_or_insert(key);
            count += 1;
        }
    });
    repeats_of(tables, repeated?, count)
}

/// Searches arbitrary keys: each marks one of `bits` bits (a power of two), chosen by a hash.
fn among_scattered<'a>(tables: impl Iterator<Item = &'a IndexTable> + Clone, bits: u64) -> Option<Repeats> {
    let shift = 64 - bits.ilog2();
    // The constant is 2^64 divided by the golden ratio: the upper bits of the product differ for
    // keys close to each other.
    let bit_of = |key: SequenceKey| key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> shift;
    let mut seen = Bits::new(bits)?;
    let (mut suspects, mut has_room) = (Vec::new(), true);
    for_each_key(tables.clone(), |key| {
        if seen.mark(bit_of(key)) {
            has_room = has_room && room::push(&mut suspects, key, room::INDEX).is_ok();
        }
    });
    if suspects.is_empty() || !has_room {
        return None;
    }
    suspects.sort_unstable();
    suspects.dedup();
    // A second set has only the suspects: most keys are in neither and need no search.
    let mut suspected = seen;
    suspected.clear();
    for &key in &suspects {
        suspected.mark(bit_of(key));
    }
    let mut is_known = room::filled(suspects.len(), false, room::INDEX).ok()?;
    let mut repeated = None;
    let mut count = 0;
    for_each_key(tables.clone(), |key| {
        if suspected.is_marked(bit_of(key))
            && let Ok(rank) = suspects.binary_search(&key)
            && std::mem::replace(&mut is_known[rank], true)
        {
            repeated.get_or_insert(key);
            count += 1;
        }
    });
    repeats_of(tables, repeated?, count)
}

/// Returns the first two sequences with a key.
fn repeats_of<'a>(
    tables: impl Iterator<Item = &'a IndexTable>,
    key: SequenceKey,
    count: u64,
) -> Option<Repeats> {
    let mut spans = tables.enumerate().flat_map(|(number, table)| {
        table.chunk_spans.iter().enumerate().flat_map(move |(chunk, chunk_span)| {
            let positions = table.positions(chunk);
            let end = positions.end;
            let of_key = positions.filter(move |&position| table.keys.get(position, chunk_span) == key);
            of_key.map(move |position| (number, table.span(position, chunk_span, end)))
        })
    });
    Some(Repeats { first: spans.next()?, again: spans.next()?, count })
}

fn for_each_key<'a>(tables: impl Iterator<Item = &'a IndexTable>, mut work: impl FnMut(SequenceKey)) {
    for table in tables {
        for (chunk, chunk_span) in table.chunk_spans.iter().enumerate() {
            table.positions(chunk).for_each(|position| work(table.keys.get(position, chunk_span)));
        }
    }
}

/// A set of bits.
struct Bits(Vec<u64>);

impl Bits {
    fn new(bits: u64) -> Option<Bits> {
        room::zeroed(bits.div_ceil(64) as usize, room::INDEX).ok().map(Bits)
    }

    /// Marks a bit and returns whether it was marked before.
    #[inline]
    fn mark(&mut self, bit: u64) -> bool {
        let (word, mask) = (&mut self.0[(bit / 64) as usize], 1 << (bit % 64));
        let was_marked = *word & mask != 0;
        *word |= mask;
        was_marked
    }

    #[inline]
    fn is_marked(&self, bit: u64) -> bool {
        self.0[(bit / 64) as usize] & 1 << (bit % 64) != 0
    }

    fn clear(&mut self) {
        self.0.fill(0);
    }
}

#[cfg(test)]
mod tests {
    use super::super::table::{Record, TableBuilder};
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    /// Tables of sequences with these keys, of 3 bytes each; the last table begins at position
    /// `cut`.
    fn tables(keys: &[SequenceKey], cut: usize, chunk_size: u64) -> Vec<IndexTable> {
        let mut builder = TableBuilder::new(chunk_size, false);
        let mut tables = Vec::new();
        for (&key, number) in keys.iter().zip(0..) {
            builder.add(Record { key, samples: 1, offset: 3 * number, size: 3 }).expect("a sequence");
            if number as usize == cut {
                tables.push(builder.take_complete().expect("memory"));
            }
        }
        tables.push(builder.finish());
        tables
    }

    /// Compares one key after the other.
    fn reference(keys: &[SequenceKey]) -> Option<(u64, u64, u64)> {
        let (mut seen, mut found, mut count) = (HashMap::new(), None, 0);
        for (&key, number) in keys.iter().zip(0u64..) {
            if let Some(&first) = seen.get(&key) {
                found.get_or_insert((3 * first, 3 * number));
                count += 1;
            } else {
                seen.insert(key, number);
            }
        }
        found.map(|(first, again)| (first, again, count))
    }

    fn check(keys: &[SequenceKey], cut: usize, chunk_size: u64) {
        let found = Repeats::find(tables(keys, cut, chunk_size).iter());
        let found = found.map(|found| {
            assert_eq!(found.first.1.key, found.again.1.key);
            (found.first.1.offset, found.again.1.offset, found.count)
        });
        assert_eq!(found, reference(keys));
    }

    #[test]
    fn both_sequences_are_found() {
        check(&[100, 200, 100], 9, 1 << 20);
        check(&[u64::MAX, 0, 5, u64::MAX, 0], 2, 3);
        check(&[3, 2, 1, 0], 1, 6);
        check(&[], 0, 6);
    }

    #[test]
    fn sets_have_a_bit_for_each_key() {
        check(&[64, 0, 64, 0, 64], 9, 1 << 20);
        check(&[5, 5], 9, 1 << 20);
        check(&[7, 7, 7, 7], 9, 1 << 20);
        let far = u64::MAX / 2;
        check(&[far, 1, far, 1, far, 2], 9, 1 << 20);
    }

    #[test]
    fn tables_are_compared_with_each_other() {
        let table = |keys: &[SequenceKey]| tables(keys, usize::MAX, 1 << 20).remove(0);
        let find = |tables: &[IndexTable]| {
            let found = Repeats::find(tables.iter())?;
            let place = |(table, span): (usize, SequenceSpan)| (table, span.key, span.offset);
            Some((place(found.first), place(found.again), found.count))
        };
        assert_eq!(find(&[table(&[1, 2]), table(&[]), table(&[3, 4])]), None);
        assert_eq!(find(&[table(&[3, 4]), table(&[1, 2])]), None);
        assert_eq!(find(&[table(&[1, 2]), table(&[2, 3])]), Some(((0, 2, 3), (1, 2, 0), 1)));
        assert_eq!(find(&[table(&[1]), table(&[5, 4]), table(&[4, 1])]), Some(((1, 4, 3), (2, 4, 0), 2)));
    }

    /// Only close keys are compared in a file of very many sequences.
    #[test]
    fn many_sequences_are_compared_if_their_keys_are_close() {
        let count = |keys: &mut dyn Iterator<Item = SequenceKey>| {
            let keys: Vec<_> = keys.collect();
            Repeats::find(tables(&keys, usize::MAX, u64::MAX).iter()).map(|found| found.count)
        };
        let scattered = |n: u64| n.wrapping_mul(0x2545_f491_4f6c_dd1d);
        assert_eq!(count(&mut (1..MAX_SCATTERED).chain([3]).map(scattered)), Some(1));
        assert_eq!(count(&mut (1..=MAX_SCATTERED).chain([3]).map(scattered)), None);
        assert_eq!(count(&mut (1..=MAX_SCATTERED).rev().chain([3]).map(|n| 15 * n)), Some(1));
        assert_eq!(count(&mut (1..=MAX_SCATTERED).rev().chain([3]).map(|n| 17 * n)), None);
    }

    #[test]
    fn many_scattered_keys_are_told_apart() {
        let key = |n: u64| n.wrapping_mul(0x2545_f491_4f6c_dd1d) ^ n << 32;
        let mut keys: Vec<u64> = (0..50_000).map(key).collect();
        check(&keys, 10_000, 1000);
        keys.extend([key(777), key(40_000), key(777)]);
        check(&keys, 10_000, 1000);
    }

    proptest! {
        #[test]
        fn matches_the_reference(
            keys in proptest::collection::vec(prop_oneof![0u64..40, any::<u64>()], 0..30), cut in 0usize..30, size in 1u64..40,
        ) {
            check(&keys, cut, size);
        }
    }
}
