//! Memory of segments: one block of exactly a segment's size each, used again when its chunk is gone.
//!
//! The first write to a page that the system just handed out costs up to ten times a write to a used one, and chunks
//! come and go all the time. So blocks go back to their deserializer, which keeps about as much as two chunks need.

use parking_lot::Mutex;
use std::collections::VecDeque;

/// A block of memory that is filled piece by piece; pieces begin at multiples of 8 bytes.
#[derive(Debug, Default)]
pub struct Arena {
    words: Vec<u64>,
}

/// Types whose values are plain bits, without padding between or inside them.
///
/// # Safety
/// Every byte of a value is initialised, and the alignment is at most 8.
pub unsafe trait Plain: Copy {}
// SAFETY: numbers.
unsafe impl Plain for f32 {}
// SAFETY: numbers.
unsafe impl Plain for f64 {}
// SAFETY: numbers.
unsafe impl Plain for i32 {}
// SAFETY: numbers.
unsafe impl Plain for u32 {}

impl Arena {
    /// Words that a piece of this many values takes.
    pub fn words_for<T: Plain>(values: usize) -> usize {
        (values * size_of::<T>()).div_ceil(8)
    }

    /// Bytes that it occupies.
    pub fn bytes(&self) -> usize {
        self.words.capacity() * 8
    }

    /// Appends a piece, and says at which word it begins.
    pub fn push<T: Plain>(&mut self, values: &[T]) -> usize {
        let start = self.words.len();
        let words = Self::words_for::<T>(values.len());
        self.words.reserve(words);
        // SAFETY: there is room for `words` words behind `start`; the source has `size_of_val` initialised bytes; what
        // is left of the last word is zeroed before.
        unsafe {
            let target = self.words.as_mut_ptr().add(start);
            if words > 0 {
                target.add(words - 1).write(0);
            }
            let bytes = size_of_val(values);
            std::ptr::copy_nonoverlapping(values.as_ptr().cast::<u8>(), target.cast::<u8>(), bytes);
            self.words.set_len(start + words);
        }
        start
    }

    /// `count` values from value number `first` of the piece that begins at word `start`.
    #[inline]
    pub fn get<T: Plain>(&self, start: usize, first: usize, count: usize) -> &[T] {
        let end = start * 8 + (first + count) * size_of::<T>();
        assert!(end <= self.words.len() * 8, "a piece ends inside its block");
        // SAFETY: the bytes are within the block and initialised, any bits are a `T`, and words are aligned for it.
        unsafe { std::slice::from_raw_parts(self.words.as_ptr().add(start).cast::<T>().add(first), count) }
    }

    /// Asks the processor for value number `first` of the piece that begins at word `start`.
    #[inline]
    pub fn prefetch<T: Plain>(&self, start: usize, first: usize) {
        if let Some(word) = self.words.get(start + first * size_of::<T>() / 8) {
            crate::prefetch::line(std::ptr::from_ref(word).cast());
        }
    }

    /// The same as bytes; `size` is that of one value.
    #[inline]
    pub fn bytes_of(&self, start: usize, first: usize, count: usize, size: usize) -> &[u8] {
        let from = start * 8 + first * size;
        assert!(from + count * size <= self.words.len() * 8, "a piece ends inside its block");
        // SAFETY: the bytes are within the block and initialised.
        unsafe { std::slice::from_raw_parts(self.words.as_ptr().cast::<u8>().add(from), count * size) }
    }
}

/// Blocks that wait to be used again.
#[derive(Debug, Default)]
pub struct Recycler {
    waiting: Mutex<Waiting>,
}

#[derive(Debug, Default)]
struct Waiting {
    blocks: VecDeque<Arena>,
    bytes: usize,
    /// Bytes of the largest chunk so far.
    largest_chunk: usize,
}

/// Chunks whose memory may wait.
const CHUNKS_KEPT: usize = 2;

impl Recycler {
    /// An empty block with room for this many words.
    pub fn take(&self, words: usize) -> Arena {
        // A little room makes blocks of segments of nearly the same size interchangeable.
        let room = words + words / 32;
        let mut waiting = self.waiting.lock();
        let fits = |block: &Arena| (words..=words + words / 4 + 512).contains(&block.words.capacity());
        let best = waiting
            .blocks
            .iter()
            .enumerate()
            .filter(|(_, block)| fits(block))
            .min_by_key(|(_, block)| block.words.capacity())
            .map(|(i, _)| i);
        match best.and_then(|i| waiting.blocks.swap_remove_back(i)) {
            Some(mut block) => {
                waiting.bytes -= block.bytes();
                block.words.clear();
                block
            }
            None => {
                drop(waiting);
                Arena { words: Vec::with_capacity(room) }
            }
        }
    }

    /// Takes the blocks of a chunk back.
    pub fn give_back(&self, blocks: impl Iterator<Item = Arena>) {
        let mut dropped = Vec::new();
        let mut waiting = self.waiting.lock();
        let before = waiting.bytes;
        for block in blocks {
            waiting.bytes += block.bytes();
            waiting.blocks.push_back(block);
        }
        waiting.largest_chunk = waiting.largest_chunk.max(waiting.bytes - before);
        while waiting.bytes > CHUNKS_KEPT * waiting.largest_chunk {
            let Some(block) = waiting.blocks.pop_front() else { break };
            waiting.bytes -= block.bytes();
            dropped.push(block);
        }
        // Memory is freed without the lock.
        drop(waiting);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_come_back_as_they_went_in() {
        let mut arena = Recycler::default().take(8);
        let floats = arena.push(&[1.0f32, 2.0, 3.0]);
        let none = arena.push::<f64>(&[]);
        let rows = arena.push(&[7i32]);
        let starts = arena.push(&[1u32, 2]);
        assert_eq!((floats, none, rows, starts), (0, 2, 2, 3));
        assert_eq!(arena.get::<f32>(floats, 1, 2), [2.0, 3.0]);
        assert_eq!(arena.bytes_of(rows, 0, 1, 4), 7i32.to_ne_bytes());
        assert_eq!(arena.get::<u32>(starts, 1, 1), [2]);
        assert!(arena.get::<f64>(none, 0, 0).is_empty());
    }

    #[test]
    fn blocks_are_used_again_and_bounded() {
        let recycler = Recycler::default();
        let first = recycler.take(10_000);
        let address = first.words.as_ptr();
        recycler.give_back([first].into_iter());
        assert_eq!(recycler.take(10_100).words.as_ptr(), address);
        for _ in 0..10 {
            let block = Arena { words: Vec::with_capacity(10_000) };
            recycler.give_back([block].into_iter());
        }
        let waiting = recycler.waiting.lock();
        assert!(waiting.bytes <= CHUNKS_KEPT * waiting.largest_chunk);
        assert!(!waiting.blocks.is_empty());
    }
}
