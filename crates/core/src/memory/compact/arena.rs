//! Arenas: the memory of segments, carved from large regions that are reused once their data are
//! dropped.
//!
//! The first write to a fresh page costs up to ten times as much as a write to a used one, and
//! chunks come and go all the time. So a region returns to the deserializer that it came from.
//! Regions grow with the amount of data in memory, so that a small window wastes little.

#![allow(unsafe_code, reason = "memory that is cut into segments, and reused without being cleared")]

use crate::Result;
use crate::memory::huge::{self, HUGE_PAGE};
use crate::memory::pages::{self, Pages};
use crate::memory::{self, room};
use crate::runtime::lock::Mutex;
use bytemuck::Pod;
use std::collections::VecDeque;
use std::mem::MaybeUninit;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::{Arc, Weak};
use std::time::Instant;

/// The memory of one segment, filled piece by piece. Pieces begin at multiples of 8 bytes.
#[derive(Debug)]
pub struct Arena {
    /// The first of `room` words of `region`, of which `length` are written. No other arena has
    /// these words.
    start: NonNull<u64>,
    length: usize,
    room: usize,
    /// Keeps the memory alive.
    region: Arc<Region>,
}

// SAFETY: `cut` gave the words at `start` to this arena alone, and `region` keeps them alive; they
// are only written through `&mut self`.
unsafe impl Send for Arena {}
// SAFETY: through `&self` only words below `length` are read, which were written through `&mut
// self`.
unsafe impl Sync for Arena {}

impl Arena {
    /// Returns the number of words that `values` values occupy.
    pub fn words_for<T: Pod>(values: usize) -> usize {
        (values * size_of::<T>()).div_ceil(8)
    }

    /// Populates the arena's pages at once; `huge` is the number of huge pages among them.
    fn populate(&mut self, huge: u32) {
        let room = self.room * size_of::<u64>();
        let before = Instant::now();
        // SAFETY: the `room` words from `start` on belong to this arena alone, and `MaybeUninit`
        // may be uninitialized.
        memory::populate(unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr().cast(), room) });
        huge::report(huge, before.elapsed());
    }

    /// Appends a piece and returns the word at which it begins. Panics if there is no room for it.
    pub fn push<T: Pod>(&mut self, values: &[T]) -> usize {
        let start = self.length;
        let words = Self::words_for::<T>(values.len());
        assert!(words <= self.room - self.length, "an arena has room for its pieces");
        // SAFETY: the assertion leaves room for `words` words after the first `start` ones. The
        // bytes of `values` are initialized, because a `Pod` has no padding, and fit into `words`
        // words. The last word is zeroed first, so that all of it is initialized. `values` does not
        // overlap the memory, which belongs to the arena alone.
        unsafe {
            let target = self.start.as_ptr().add(start);
            if words > 0 {
                target.add(words - 1).write(0);
            }
            let bytes = size_of_val(values);
            std::ptr::copy_nonoverlapping(values.as_ptr().cast::<u8>(), target.cast::<u8>(), bytes);
        }
        self.length += words;
        start
    }

    /// Returns `count` values from value number `first` on of the piece that begins at word
    /// `start`.
    #[inline]
    pub fn get<T: Pod>(&self, start: usize, first: usize, count: usize) -> &[T] {
        const { assert!(align_of::<T>() <= align_of::<u64>(), "words hold the type") };
        let end = start * 8 + (first + count) * size_of::<T>();
        assert!(end <= self.length * 8, "a piece ends inside its arena");
        // SAFETY: by the assertion, the bytes lie within the first `length` words, which are
        // initialized. Any bits are a valid `T`, and words are sufficiently aligned by the constant
        // assertion.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr().add(start).cast::<T>().add(first), count) }
    }

    /// Prefetches the cache line of value number `first` of the piece that begins at word `start`.
    #[inline]
    pub fn prefetch<T: Pod>(&self, start: usize, first: usize) {
        let address = self.start.as_ptr().wrapping_add(start).cast::<T>().wrapping_add(first);
        crate::cpu::prefetch::line(address.cast());
    }

    /// Returns the bytes of `count` values of `size` bytes each, from value number `first` on of
    /// the piece that begins at word `start`.
    #[inline]
    pub fn bytes_of(&self, start: usize, first: usize, count: usize, size: usize) -> &[u8] {
        let from = start * 8 + first * size;
        assert!(from + count * size <= self.length * 8, "a piece ends inside its arena");
        // SAFETY: by the assertion, the bytes lie within the first `length` words, which are
        // initialized.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr().cast::<u8>().add(from), count * size) }
    }
}

/// The words of a cache line, aligned like one, so that a look-up touches as few cache lines as
/// possible.
#[repr(align(64))]
struct Line {
    _words: [u64; STEP],
}

/// Whole cache lines, possibly uninitialized. Only arenas access them, through their own pointers.
#[derive(Debug)]
struct Block {
    start: NonNull<MaybeUninit<Line>>,
    lines: usize,
    /// The memory of a large block; a small block is a leaked box of lines.
    pages: Option<Pages>,
    /// Whether the block has not been used yet.
    fresh: bool,
}

// SAFETY: `start` points to memory that `Block::new` allocated for this block alone.
unsafe impl Send for Block {}
// SAFETY: through `&self` a block only returns its address and size; it never accesses its memory.
unsafe impl Sync for Block {}

impl Block {
    /// Allocates a block of at least `words` words.
    fn new(words: usize) -> Result<Block> {
        let lines = words.div_ceil(STEP).max(1);
        let size = lines * size_of::<Line>();
        // Pages are aligned to cache lines. Without pages, the allocator may still have memory.
        if let Some(pages) = Some(size).filter(|&size| size >= pages::LEAST).and_then(Pages::new) {
            return Ok(Block { start: pages.start().cast(), lines, pages: Some(pages), fresh: true });
        }
        let mut memory = room::with_capacity::<MaybeUninit<Line>>(lines, room::CHUNK)?;
        // SAFETY: the capacity is `lines`, and a `MaybeUninit` may be uninitialized.
        unsafe { memory.set_len(lines) };
        let memory = Box::leak(memory.into_boxed_slice());
        Ok(Block { start: NonNull::from(memory).cast(), lines, pages: None, fresh: true })
    }

    fn start(&self) -> *mut u64 {
        self.start.as_ptr().cast()
    }

    fn words(&self) -> usize {
        self.lines * STEP
    }

    /// Asks for the huge pages that begin in these words, if the block has never been used, and
    /// returns their number. The tail of such a page may belong to later arenas.
    fn ask_for_huge_pages(&self, words: Range<usize>) -> u32 {
        const HUGE: usize = HUGE_PAGE / size_of::<u64>();
        let Some(pages) = self.pages.as_ref().filter(|_| self.fresh) else { return 0 };
        let mut asked = 0;
        for first in (words.start.next_multiple_of(HUGE)..words.end).step_by(HUGE) {
            if first + HUGE <= self.words() {
                // SAFETY: by the check above, the block has HUGE words from word `first` on. Words
                // are handed out in order, so no other arena has any from `words.start` on yet.
                // `MaybeUninit` may be uninitialized.
                let page = unsafe {
                    let start = pages.start().as_ptr().add(first * size_of::<u64>());
                    std::slice::from_raw_parts_mut(start, HUGE_PAGE)
                };
                asked += u32::from(huge::ask(page));
            }
        }
        asked
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        if self.pages.is_some() {
            return;
        }
        // SAFETY: without pages, `Block::new` leaked a box of `lines` elements at `start`; only
        // this drop takes it back.
        drop(unsafe { Box::from_raw(NonNull::slice_from_raw_parts(self.start, self.lines).as_ptr()) });
    }
}

/// Memory for several arenas. Returns to its recycler when the last of them is dropped.
#[derive(Debug)]
struct Region {
    block: Option<Block>,
    free_list: Weak<Mutex<FreeList>>,
}

impl Drop for Region {
    fn drop(&mut self) {
        let (Some(free_list), Some(mut block)) = (self.free_list.upgrade(), self.block.take()) else {
            return;
        };
        block.fresh = false;
        let mut list = free_list.lock();
        list.lent -= block.words();
        list.idle_words += block.words();
        list.idle.push_back(block);
    }
}

/// Hands out arenas and recycles the regions of dropped ones.
#[derive(Debug, Default)]
pub struct Recycler {
    free_list: Arc<Mutex<FreeList>>,
}

#[derive(Debug, Default)]
struct FreeList {
    /// Blocks to reuse, the oldest one at the front.
    idle: VecDeque<Block>,
    idle_words: usize,
    /// The region that arenas are cut from, and the number of its words in use.
    current: Option<(Arc<Region>, usize)>,
    /// Words of all regions in use, and their maximum so far.
    lent: usize,
    peak: usize,
}

/// Maximum size of a region that arenas share, in words: 8 MiB.
const LARGEST: usize = 1 << 20;

/// Alignment of arenas in words: a cache line.
const STEP: usize = 8;

impl Recycler {
    /// Returns an empty arena with room for `words` words, all of which will be written.
    pub fn take(&self, words: usize) -> Result<Arena> {
        let (mut arena, huge) = self.cut(words)?;
        if arena.region.block.as_ref().is_some_and(|block| block.fresh) {
            arena.populate(huge);
        }
        Ok(arena)
    }

    /// Returns the bytes of all regions, in use or idle.
    pub fn bytes(&self) -> u64 {
        let list = self.free_list.lock();
        ((list.lent + list.idle_words) * size_of::<u64>()) as u64
    }

    /// Returns an arena and the number of huge pages that begin in it.
    fn cut(&self, words: usize) -> Result<(Arena, u32)> {
        let room = words.next_multiple_of(STEP);
        let mut list = self.free_list.lock();
        if let Some((region, used)) = &mut list.current
            && let Some(cut) = cut(region, *used, room)
        {
            *used += room;
            return Ok(cut);
        }
        let region = Arc::new(list.region(room, Arc::downgrade(&self.free_list))?);
        let Some(cut) = cut(&region, 0, room) else { unreachable!("a region is as large as was asked for") };
        let left = arena_words(&region) - room;
        // Dropped after the lock is released, because dropping a region takes the lock.
        let before = if left >= room { list.current.replace((region, room)) } else { None };
        drop(list);
        drop(before);
        Ok(cut)
    }
}

/// Returns the number of words of a region.
fn arena_words(region: &Region) -> usize {
    region.block.as_ref().map_or(0, Block::words)
}

/// Cuts the words `used .. used + room` from a region, if it has them, and returns the number of
/// huge pages that begin in them. The caller holds the lock of the free list, so the huge pages are
/// requested before another thread writes to a later part of them.
fn cut(region: &Arc<Region>, used: usize, room: usize) -> Option<(Arena, u32)> {
    let block = region.block.as_ref()?;
    if room > block.words() - used {
        return None;
    }
    // SAFETY: `room <= words - used` was checked above. The subtraction cannot underflow, because a
    // region never hands out more words than it has, so `used` words lie within the block.
    let start = unsafe { block.start().add(used) };
    let arena = Arena { start: NonNull::new(start)?, length: 0, room, region: Arc::clone(region) };
    Some((arena, block.ask_for_huge_pages(used..used + room)))
}

impl FreeList {
    /// Returns a region with room for `room` words: an idle one of about that size or large enough
    /// to share, or a new one. A new region is shared if an eighth of the data in memory could hold
    /// several such arenas.
    fn region(&mut self, room: usize, free_list: Weak<Mutex<FreeList>>) -> Result<Region> {
        let fits = |block: &Block| {
            let words = block.words();
            (room..=room + room / 4 + 512).contains(&words) || words / 2 >= room
        };
        let block = match self.idle.iter().position(fits).and_then(|i| self.idle.remove(i)) {
            Some(block) => {
                self.idle_words -= block.words();
                block
            }
            None => {
                let shared = (self.lent / 8).clamp(1, LARGEST).next_power_of_two();
                // Some spare words make regions of nearly equal sizes interchangeable.
                let words = if shared / 4 >= room { shared } else { room + room / 32 };
                // Free idle blocks that do not fit, so that all blocks together never exceed the
                // peak usage.
                while self.lent + self.idle_words + words > self.peak {
                    let Some(block) = self.idle.pop_front() else { break };
                    self.idle_words -= block.words();
                }
                Block::new(words)?
            }
        };
        self.lent += block.words();
        self.peak = self.peak.max(self.lent);
        Ok(Region { block: Some(block), free_list })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_round_trip() {
        let mut arena = Recycler::default().take(8).expect("memory");
        let floats = arena.push(&[1.0f32, 2.0, 3.0]);
        let none = arena.push::<f64>(&[]);
        let indices = arena.push(&[7i32]);
        let offsets = arena.push(&[1u32, 2]);
        assert_eq!((floats, none, indices, offsets), (0, 2, 2, 3));
        assert_eq!(arena.get::<f32>(floats, 1, 2), [2.0, 3.0]);
        assert_eq!(arena.bytes_of(indices, 0, 1, 4), 7i32.to_ne_bytes());
        assert_eq!(arena.get::<u32>(offsets, 1, 1), [2]);
        assert!(arena.get::<f64>(none, 0, 0).is_empty());
    }

    #[test]
    fn regions_are_reused() {
        let recycler = Recycler::default();
        let first = recycler.take(10_000).expect("memory");
        let address = first.start;
        drop(first);
        assert_eq!(recycler.take(10_100).expect("memory").start, address);
    }

    #[test]
    fn arenas_share_regions_but_not_words() {
        let recycler = Recycler::default();
        let mut arenas: VecDeque<(u64, Arena)> = VecDeque::new();
        for number in 0..2000 {
            let mut arena = recycler.take(700 + number as usize % 90).expect("memory");
            arena.push(&vec![number as f64; 700]);
            arenas.push_back((number, arena));
            if arenas.len() > 300 {
                arenas.pop_front();
            }
            if number % 100 == 0 {
                for (number, arena) in &arenas {
                    assert!(arena.get::<f64>(0, 0, 700).iter().all(|&value| value == *number as f64));
                }
            }
        }
        let list = recycler.free_list.lock();
        let used = 300 * 800;
        assert!(list.lent < 2 * used, "{} words are lent", list.lent);
        assert!(list.lent + list.idle_words <= list.peak);
        drop(list);
        drop(arenas);
        let list = recycler.free_list.lock();
        assert!(list.lent <= list.peak / 4 && list.lent + list.idle_words <= list.peak);
    }
}
