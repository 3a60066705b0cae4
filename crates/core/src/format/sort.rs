//! CNTK's order of sequences with equal keys.
//!
//! If several sequences of a secondary deserializer have the key in question, CNTK 2.7 takes the
//! first of them in a list that it has sorted by key alone, with `std::sort` of the GNU library.
//! That sort is not stable: beyond [`THRESHOLD`] elements it may reorder equal ones, in a way that
//! only the same steps reproduce. So this module repeats the steps of that library's introsort,
//! including its heap sort. Only equal keys need this.

use crate::sequence::SequenceKey;

/// Ranges up to this size are left to insertion sort, which is stable.
const THRESHOLD: usize = 16;

/// A key, and the position of its sequence in the file.
pub(crate) type Entry = (SequenceKey, u64);

/// Sorts by key like `std::sort` of the GNU library; `entries` must be in file order.
pub fn sort_like_std(entries: &mut [Entry]) {
    if entries.len() < 2 {
        return;
    }
    introsort(entries, 2 * entries.len().ilog2());
    let (sorted, rest) = (entries.len().min(THRESHOLD), entries.len());
    for i in 1..sorted {
        insert(entries, i);
    }
    for i in sorted..rest {
        insert(entries, i);
    }
}

fn less(a: Entry, b: Entry) -> bool {
    a.0 < b.0
}

fn introsort(mut entries: &mut [Entry], mut depth: u32) {
    while entries.len() > THRESHOLD {
        if depth == 0 {
            return heap_sort(entries);
        }
        depth -= 1;
        let cut = partition(entries);
        let (left, right) = entries.split_at_mut(cut);
        introsort(right, depth);
        entries = left;
    }
}

/// Partitions around the median of the second, the middle and the last element.
fn partition(entries: &mut [Entry]) -> usize {
    let (second, middle, last) = (1, entries.len() / 2, entries.len() - 1);
    let (a, b, c) = (entries[second], entries[middle], entries[last]);
    let median = if less(a, b) {
        if less(b, c) {
            middle
        } else if less(a, c) {
            last
        } else {
            second
        }
    } else if less(a, c) {
        second
    } else if less(b, c) {
        last
    } else {
        middle
    };
    entries.swap(0, median);
    let pivot = entries[0];
    let (mut low, mut high) = (1, entries.len());
    loop {
        while less(entries[low], pivot) {
            low += 1;
        }
        high -= 1;
        while less(pivot, entries[high]) {
            high -= 1;
        }
        if low >= high {
            return low;
        }
        entries.swap(low, high);
        low += 1;
    }
}

/// Inserts the element at `i` before all greater ones to its left.
fn insert(entries: &mut [Entry], i: usize) {
    let value = entries[i];
    let mut hole = i;
    while hole > 0 && less(value, entries[hole - 1]) {
        entries[hole] = entries[hole - 1];
        hole -= 1;
    }
    entries[hole] = value;
}

fn heap_sort(entries: &mut [Entry]) {
    for parent in (0..entries.len() / 2).rev() {
        let value = entries[parent];
        sift(entries, parent, value);
    }
    for last in (1..entries.len()).rev() {
        let value = entries[last];
        entries[last] = entries[0];
        sift(&mut entries[..last], 0, value);
    }
}

/// Moves the hole at `top` down to a leaf along the greater children, then `value` up from there.
fn sift(entries: &mut [Entry], top: usize, value: Entry) {
    let len = entries.len();
    let mut hole = top;
    let mut child = hole;
    while child < (len - 1) / 2 {
        child = 2 * (child + 1);
        if less(entries[child], entries[child - 1]) {
            child -= 1;
        }
        entries[hole] = entries[child];
        hole = child;
    }
    if len.is_multiple_of(2) && child == (len - 2) / 2 {
        child = 2 * child + 1;
        entries[hole] = entries[child];
        hole = child;
    }
    while hole > top && less(entries[(hole - 1) / 2], value) {
        entries[hole] = entries[(hole - 1) / 2];
        hole = (hole - 1) / 2;
    }
    entries[hole] = value;
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn firsts(keys: impl Iterator<Item = u64>) -> Vec<u64> {
        let mut entries: Vec<Entry> = keys.zip(0..).collect();
        sort_like_std(&mut entries);
        entries.chunk_by(|a, b| a.0 == b.0).map(|equal| equal[0].1).collect()
    }

    #[test]
    fn picks_the_same_sequences_as_cntk() {
        assert_eq!(firsts((0..16).map(|i| i % 3)), [0, 1, 2]);
        assert_eq!(firsts((0..60).map(|i| i % 3)), [15, 52, 56]);
        assert_eq!(firsts((0..100).map(|i| i % 3)), [36, 97, 83]);
        let of_eleven = firsts((0..200).map(|i| 7 * i % 11));
        assert_eq!(of_eleven, [11, 85, 5, 90, 43, 84, 103, 166, 185, 138, 135]);
    }

    #[test]
    fn heap_sort_sorts() {
        for count in 0..50u64 {
            let mut entries: Vec<Entry> = (0..count).map(|i| (i * 7919 % 31, i)).collect();
            heap_sort(&mut entries);
            assert!(entries.is_sorted_by_key(|entry| entry.0), "{entries:?}");
        }
    }

    proptest! {
        #[test]
        fn sorts_and_keeps_everything(keys in proptest::collection::vec(0u64..50, 0..400)) {
            let mut entries: Vec<Entry> = keys.iter().copied().zip(0..).collect();
            sort_like_std(&mut entries);
            prop_assert!(entries.is_sorted_by_key(|entry| entry.0));
            let mut places: Vec<u64> = entries.iter().map(|entry| entry.1).collect();
            places.sort_unstable();
            prop_assert!(places.into_iter().eq(0..keys.len() as u64));
        }
    }
}
