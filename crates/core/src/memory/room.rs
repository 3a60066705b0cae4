//! Fallible allocation of memory whose size depends on data or on the caller.
//!
//! A `Vec` that fails to grow aborts the process, and this library lives in other people's
//! processes. So everything that grows with files, minibatches or settings is allocated here: at
//! once, before the loop that fills a line, a chunk or a minibatch, or with [`push`], whose growth
//! is out of line. Objects that are small for any data (names, messages, one object per stream or
//! file) use plain `Vec`.
//!
//! Shrinking, as in `Vec::shrink_to_fit`, is not covered: allocators keep the old block if they
//! cannot find a smaller one.

#![allow(unsafe_code, reason = "zeroed allocations")]

use crate::{Error, Result};
use bytemuck::Zeroable;
use std::alloc::{Layout, alloc_zeroed};
use std::collections::{HashMap, HashSet, TryReserveError, VecDeque};
use std::hash::{BuildHasher, Hash};

/// The purpose of an allocation, and advice for when it fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Use {
    /// Completes the sentence "There is no memory for 80 bytes of ...".
    pub of: &'static str,
    /// Complete sentences.
    pub advice: &'static str,
}

/// Data that were loaded, or are being loaded.
pub const CHUNK: Use = Use {
    of: "a chunk of data",
    advice: "Set smaller chunks (‹chunk_size›), fewer of them at once (‹window›), or fewer threads \
             (CNTK_READER_THREADS), and ‹keep_data_in_memory = false›.",
};

/// Locations, lengths and keys of the sequences in a file.
pub const INDEX: Use = Use {
    of: "the table of sequences",
    advice: "It grows with the number of sequences: read the data in several runs, or join short sequences to longer ones.",
};

/// The order of sequences, and bookkeeping for the chunks of a window.
pub const ORDER: Use = Use {
    of: "the order of sequences",
    advice: "Set a smaller ‹window›, or larger chunks (‹chunk_size›).",
};

/// Data to deliver.
pub const MINIBATCH: Use = Use {
    of: "a minibatch",
    advice: "Set a smaller minibatch size, a shorter ‹truncation_length›, or ‹prefetch = false›; all sequences of a minibatch \
             are extended to the length of its longest one.",
};

/// A truncated minibatch, and the sequences that wait for the next ones.
pub const TRUNCATED: Use = Use {
    of: "a truncated minibatch",
    advice: "It has as many parallel sequences of ‹truncation_length› steps as fit into the minibatch size: set a \
             shorter length, or a smaller size. To deliver sequences whole, remove ‹truncated›.",
};

/// The parallel sequences of truncated minibatches.
pub const SLOTS: Use = Use {
    of: "the parallel sequences of a minibatch",
    advice: "The number of parallel sequences is the minibatch size divided by the truncation length: set a smaller \
             size, or a longer ‹truncation_length›.",
};

/// Sequences in the form that the trainer asks for.
pub const FORM: Use = Use {
    of: "sequences in one form",
    advice: "Set a smaller minibatch size, or use the packed form: the padded form extends all sequences to the length of the \
             longest one.",
};

/// File content in transit.
pub const FILE: Use = Use {
    of: "the content of a file",
    advice: "Close other programs, or read with fewer threads (CNTK_READER_THREADS).",
};

/// Pixels.
pub const IMAGE: Use = Use {
    of: "an image",
    advice: "Make the image smaller, or read with fewer threads (CNTK_READER_THREADS) or a smaller minibatch size.",
};

/// Texts and numbers of keys.
pub const KEYS: Use = Use {
    of: "the keys of sequences",
    advice: "Numeric keys take less memory than text keys, and no keys take the least.",
};

/// The part of a conversion's input that is in memory.
pub const CONVERSION: Use =
    Use { of: "a conversion", advice: "Set smaller chunks, or convert the data in several parts." };

/// Returns the error for a failed allocation of `bytes` bytes.
#[cold]
pub fn missing(bytes: usize, purpose: Use) -> Error {
    Error::memory(bytes, purpose.of).with_detail(purpose.advice)
}

/// Refuses to allocate more than the machine's physical memory: a system that overcommits would
/// kill the process while the memory is being filled.
pub fn check(bytes: u128, purpose: Use) -> Result<()> {
    match bytes > u128::from(super::physical()) {
        true => Err(missing(usize::try_from(bytes).unwrap_or(usize::MAX), purpose)),
        false => Ok(()),
    }
}

/// Collections that can grow fallibly.
pub trait Grow {
    /// Bytes per element.
    const ELEMENT: usize;
    /// Makes room for `more` elements, with amortized growth.
    fn try_grow(&mut self, more: usize) -> std::result::Result<(), TryReserveError>;
    /// Returns the number of elements.
    fn count(&self) -> usize;
}

macro_rules! grow {
    ($($of:ty, $element:ty, [$($generics:tt)*];)*) => {$(
        impl<$($generics)*> Grow for $of {
            const ELEMENT: usize = size_of::<$element>();

            fn try_grow(&mut self, more: usize) -> std::result::Result<(), TryReserveError> {
                self.try_reserve(more)
            }

            fn count(&self) -> usize {
                self.len()
            }
        }
    )*};
}

grow! {
    Vec<T>, T, [T];
    VecDeque<T>, T, [T];
    String, u8, [];
    HashMap<K, V, S>, (K, V), [K: Eq + Hash, V, S: BuildHasher];
    HashSet<K, S>, K, [K: Eq + Hash, S: BuildHasher];
}

/// Makes room for `more` elements, with amortized growth, so frequent calls are cheap.
#[inline]
pub fn reserve<C: Grow>(collection: &mut C, more: usize, purpose: Use) -> Result<()> {
    collection.try_grow(more).map_err(|_| missing(bytes_of::<C>(collection, more), purpose))
}

fn bytes_of<C: Grow>(collection: &C, more: usize) -> usize {
    collection.count().saturating_add(more).saturating_mul(C::ELEMENT)
}

/// Makes room for exactly `more` elements, for vectors that do not grow further.
pub fn reserve_exact<T>(list: &mut Vec<T>, more: usize, purpose: Use) -> Result<()> {
    list.try_reserve_exact(more).map_err(|_| missing(bytes_of(list, more), purpose))
}

/// Returns an empty vector with room for `count` elements.
pub fn with_capacity<T>(count: usize, purpose: Use) -> Result<Vec<T>> {
    let mut list = Vec::new();
    reserve_exact(&mut list, count, purpose)?;
    Ok(list)
}

/// Returns a vector of `count` clones of `value`.
pub fn filled<T: Clone>(count: usize, value: T, purpose: Use) -> Result<Vec<T>> {
    let mut list = with_capacity(count, purpose)?;
    list.resize(count, value);
    Ok(list)
}

/// Resizes the vector to `count` elements; new ones are clones of `value`.
pub fn resize<T: Clone>(list: &mut Vec<T>, count: usize, value: T, purpose: Use) -> Result<()> {
    resize_with(list, count, || value.clone(), purpose)
}

/// Resizes the vector to `count` elements; new ones come from `value`.
pub fn resize_with<T>(list: &mut Vec<T>, count: usize, value: impl FnMut() -> T, purpose: Use) -> Result<()> {
    reserve(list, count.saturating_sub(list.len()), purpose)?;
    list.resize_with(count, value);
    Ok(())
}

/// Appends a value, at the cost of `Vec::push`.
#[inline]
pub fn push<T>(list: &mut Vec<T>, value: T, purpose: Use) -> Result<()> {
    if list.len() == list.capacity() {
        grow_by_one(list, purpose)?;
    }
    list.push(value);
    Ok(())
}

#[cold]
#[inline(never)]
fn grow_by_one<T>(list: &mut Vec<T>, purpose: Use) -> Result<()> {
    reserve(list, 1, purpose)
}

/// Appends values.
#[inline]
pub fn extend<T: Clone>(list: &mut Vec<T>, values: &[T], purpose: Use) -> Result<()> {
    reserve(list, values.len(), purpose)?;
    list.extend_from_slice(values);
    Ok(())
}

/// Collects an iterator, reserving room at once if it knows its length.
pub fn collect<T>(values: impl IntoIterator<Item = T>, purpose: Use) -> Result<Vec<T>> {
    try_collect(values.into_iter().map(Ok), purpose)
}

/// Collects an iterator, or returns the first error.
pub fn try_collect<T>(values: impl IntoIterator<Item = Result<T>>, purpose: Use) -> Result<Vec<T>> {
    let values = values.into_iter();
    let mut list = with_capacity(values.size_hint().0, purpose)?;
    for value in values {
        push(&mut list, value?, purpose)?;
    }
    Ok(list)
}

/// Copies a slice.
pub fn copy<T: Clone>(values: &[T], purpose: Use) -> Result<Vec<T>> {
    let mut list = with_capacity(values.len(), purpose)?;
    list.extend_from_slice(values);
    Ok(list)
}

/// Concatenates all lists.
pub fn concat<T: Copy>(lists: &[Vec<T>], purpose: Use) -> Result<Vec<T>> {
    let mut all = with_capacity(lists.iter().map(Vec::len).sum(), purpose)?;
    lists.iter().for_each(|list| all.extend_from_slice(list));
    Ok(all)
}

/// Removes and returns the elements from `at` on.
pub fn split_off<T: Clone>(list: &mut Vec<T>, at: usize, purpose: Use) -> Result<Vec<T>> {
    let rest = copy(&list[at..], purpose)?;
    list.truncate(at);
    Ok(rest)
}

/// Returns `count` zeros; large allocations come from pages that the system has already cleared.
pub fn zeroed<T: Zeroable>(count: usize, purpose: Use) -> Result<Vec<T>> {
    let missing = || missing(count.saturating_mul(size_of::<T>()), purpose);
    let layout = Layout::array::<T>(count).map_err(|_| missing())?;
    if layout.size() == 0 {
        return Ok(Vec::new());
    }
    // SAFETY: the size of `layout` is not 0, as checked above.
    let start = unsafe { alloc_zeroed(layout) }.cast::<T>();
    if start.is_null() {
        return Err(missing());
    }
    // SAFETY: the global allocator returned memory for an array of `count` elements, which is the
    // layout of a `Vec` of that capacity. All of it is zero, so by the contract of `Zeroable` it
    // holds `count` valid values.
    Ok(unsafe { Vec::from_raw_parts(start, count, count) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;

    #[test]
    fn impossible_sizes_are_errors() {
        let huge = isize::MAX as usize;
        let errors = [
            with_capacity::<u64>(huge, CHUNK).expect_err("too much"),
            filled(huge, 1u64, CHUNK).expect_err("too much"),
            zeroed::<u64>(huge, CHUNK).expect_err("too much"),
            reserve(&mut vec![0u8], huge, CHUNK).expect_err("too much"),
            resize(&mut vec![0u8], usize::MAX, 0, CHUNK).expect_err("too much"),
        ];
        for error in errors {
            assert_eq!(error.kind(), ErrorKind::Memory);
            assert!(error.message().ends_with(" bytes of a chunk of data."), "{error}");
            assert!(error.detail().contains("'chunkSizeInBytes'"), "{error}");
        }
    }

    #[test]
    fn results_match_vec() {
        let mut list = collect(0..5u32, CHUNK).expect("memory");
        (5..1000).for_each(|value| push(&mut list, value, CHUNK).expect("memory"));
        extend(&mut list, &[1000, 1001], CHUNK).expect("memory");
        resize(&mut list, 1003, 1002, CHUNK).expect("memory");
        assert!(list.iter().copied().eq(0..1003));
        assert_eq!(copy(&list, CHUNK).expect("memory"), list);
        assert_eq!(zeroed::<f64>(1000, CHUNK).expect("memory"), vec![0.0; 1000]);
        assert_eq!(zeroed::<u8>(0, CHUNK).expect("memory"), Vec::<u8>::new());
        let failed = try_collect([Ok(1), Err(Error::data("no"))], CHUNK);
        assert_eq!(failed.expect_err("an error").message(), "no");
    }
}
