//! Arenas: the memory of segments, cut one after the other from large regions that are used again when their data are dropped.
//!
//! The first write to a page that the system just handed out costs up to ten times as much as a write to a used one, and chunks
//! come and go all the time. So regions go back to the deserializer that they came from. The more data are in memory, the larger
//! regions are, so that a small window wastes nothing.

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

/// Memory of one segment, filled piece by piece; pieces begin at multiples of 8 bytes.
#[derive(Debug)]
pub struct Arena {
    /// The first of `room` words of `region`, of which `length` are written. No other arena has them.
    start: NonNull<u64>,
    length: usize,
    room: usize,
    /// Keeps the memory.
    region: Arc<Region>,
}

// SAFETY: `start` points to words that `cut` gave to this arena alone, and that its `region` keeps alive; only `&mut self`
// writes them.
unsafe impl Send for Arena {}
// SAFETY: through `&self` only words below `length` are read, all of which were written through `&mut self` before.
unsafe impl Sync for Arena {}

impl Arena {
    /// The number of words that a piece of `values` values takes.
    pub fn words_for<T: Pod>(values: usize) -> usize {
        (values * size_of::<T>()).div_ceil(8)
    }

    /// Gets the arena's pages from the system at once, `huge` huge pages among them.
    fn populate(&mut self, huge: u32) {
        let room = self.room * size_of::<u64>();
        let before = Instant::now();
        // SAFETY: `room` words from `start` on are this arena's alone, and `MaybeUninit` may be uninitialised.
        memory::populate(unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr().cast(), room) });
        huge::report(huge, before.elapsed());
    }

    /// Appends a piece and returns the word at which it begins. Panics if there is no room for it.
    pub fn push<T: Pod>(&mut self, values: &[T]) -> usize {
        let start = self.length;
        let words = Self::words_for::<T>(values.len());
        assert!(words <= self.room - self.length, "an arena has room for its pieces");
        // SAFETY: the assertion leaves room for `words` words after the first `start` ones, and the
        // bytes of `values`, all of them initialised because a `Pod` has no padding, fit into
        // `words` words. The last word is zeroed before, so that it is initialised as a whole. The
        // memory is the arena's own, so that it does not overlap `values`.
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

    /// `count` values from value number `first` of the piece that begins at word `start`.
    #[inline]
    pub fn get<T: Pod>(&self, start: usize, first: usize, count: usize) -> &[T] {
        const { assert!(align_of::<T>() <= align_of::<u64>(), "words hold the type") };
        let end = start * 8 + (first + count) * size_of::<T>();
        assert!(end <= self.length * 8, "a piece ends inside its arena");
        // SAFETY: by the assertion the bytes lie within the first `length` words, which are initialised; any bits are a `T`, and
        // a word is aligned at least as `T` is, by the assertion in front.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr().add(start).cast::<T>().add(first), count) }
    }

    /// Asks the processor to load value number `first` of the piece that begins at word `start` into the cache.
    #[inline]
    pub fn prefetch<T: Pod>(&self, start: usize, first: usize) {
        let address = self.start.as_ptr().wrapping_add(start).cast::<T>().wrapping_add(first);
        crate::cpu::prefetch::line(address.cast());
    }

    /// The bytes of `count` values of `size` bytes each, from value number `first` of the piece that begins at word `start`.
    #[inline]
    pub fn bytes_of(&self, start: usize, first: usize, count: usize, size: usize) -> &[u8] {
        let from = start * 8 + first * size;
        assert!(from + count * size <= self.length * 8, "a piece ends inside its arena");
        // SAFETY: by the assertion the bytes lie within the first `length` words, which are initialised.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr().cast::<u8>().add(from), count * size) }
    }
}

/// The words of a cache line, aligned like one, so that a look-up reads as few lines as possible.
#[repr(align(64))]
struct Line {
    _words: [u64; STEP],
}

/// Whole cache lines, which may be uninitialised. Only arenas write and read them, by their own pointers.
#[derive(Debug)]
struct Block {
    start: NonNull<MaybeUninit<Line>>,
    lines: usize,
    /// The memory of a large block. That of a small one is a box of the lines.
    pages: Option<Pages>,
    /// It has not been used since it was allocated.
    fresh: bool,
}

// SAFETY: `start` points to memory that `Block::new` took for this block alone.
unsafe impl Send for Block {}
// SAFETY: through `&self` a block hands out its address and its size; it neither reads nor writes its memory.
unsafe impl Sync for Block {}

impl Block {
    /// A block of at least `words` words.
    fn new(words: usize) -> Result<Block> {
        let lines = words.div_ceil(STEP).max(1);
        let size = lines * size_of::<Line>();
        // A page begins where a cache line does. Without pages, the allocator may still have memory.
        if let Some(pages) = Some(size).filter(|&size| size >= pages::LEAST).and_then(Pages::new) {
            return Ok(Block { start: pages.start().cast(), lines, pages: Some(pages), fresh: true });
        }
        let mut memory = room::with_capacity::<MaybeUninit<Line>>(lines, room::CHUNK)?;
        // SAFETY: there is room for `lines` lines, and a `MaybeUninit` may be uninitialised.
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

    /// Asks for huge pages where they begin in these words, if the block has never been used. Returns their number. The other words
    /// of such a page may belong to later arenas.
    fn ask_for_huge_pages(&self, words: Range<usize>) -> u32 {
        const HUGE: usize = HUGE_PAGE / size_of::<u64>();
        let Some(pages) = self.pages.as_ref().filter(|_| self.fresh) else { return 0 };
        let mut asked = 0;
        for first in (words.start.next_multiple_of(HUGE)..words.end).step_by(HUGE) {
            if first + HUGE <= self.words() {
                // SAFETY: the block has HUGE words from word `first` on, by the check above. Words are given out in order, and
                // none after `words.start` has been given to another arena yet. `MaybeUninit` may be uninitialised.
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
        // SAFETY: `Block::new` leaked a box of `lines` elements at `start`, as there are no pages, and this is the only place that
        // takes it back.
        drop(unsafe { Box::from_raw(NonNull::slice_from_raw_parts(self.start, self.lines).as_ptr()) });
    }
}

/// Memory for several arenas. Goes back to its recycler when the last of them is dropped.
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

/// Hands out arenas, and takes back the regions of those that were dropped.
#[derive(Debug, Default)]
pub struct Recycler {
    free_list: Arc<Mutex<FreeList>>,
}

#[derive(Debug, Default)]
struct FreeList {
    /// Blocks that wait to be used again, the oldest one at the front.
    idle: VecDeque<Block>,
    idle_words: usize,
    /// The region that arenas are cut from, and the number of its words that are in use.
    current: Option<(Arc<Region>, usize)>,
    /// Words of all regions in use, and the largest number they ever had.
    lent: usize,
    peak: usize,
}

/// The size of the largest regions that arenas share, in words: 8 MiB.
const LARGEST: usize = 1 << 20;

/// Arenas begin at multiples of this number of words: a cache line.
const STEP: usize = 8;

impl Recycler {
    /// An empty arena with room for `words` words, all of which are going to be written.
    pub fn take(&self, words: usize) -> Result<Arena> {
        let (mut arena, huge) = self.cut(words)?;
        if arena.region.block.as_ref().is_some_and(|block| block.fresh) {
            arena.populate(huge);
        }
        Ok(arena)
    }

    /// Bytes of all regions, in use or idle.
    pub fn bytes(&self) -> u64 {
        let list = self.free_list.lock();
        ((list.lent + list.idle_words) * size_of::<u64>()) as u64
    }

    /// An arena, and the number of huge pages that begin in it.
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

/// The number of words of a region.
fn arena_words(region: &Region) -> usize {
    region.block.as_ref().map_or(0, Block::words)
}

/// The words `used .. used + room` of a region, if it has them, and the number of huge pages that begin in them. These are asked for
/// while the free list is locked, so before another thread writes to a later part of such a page.
fn cut(region: &Arc<Region>, used: usize, room: usize) -> Option<(Arena, u32)> {
    let block = region.block.as_ref()?;
    if room > block.words() - used {
        return None;
    }
    // SAFETY: `room <= words - used` was checked without underflow, because a region never gives out more words than it has; so
    // `used` words lie within the block.
    let start = unsafe { block.start().add(used) };
    let arena = Arena { start: NonNull::new(start)?, length: 0, room, region: Arc::clone(region) };
    Some((arena, block.ask_for_huge_pages(used..used + room)))
}

impl FreeList {
    /// A region with room for `room` words: an idle one that has about as many or can be shared, or a new one. A new one is
    /// shared as soon as an eighth of the data in memory holds several arenas.
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
                // Idle blocks that do not fit are freed: all blocks together take no more than was ever in use.
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
    fn pieces_come_back_as_they_went_in() {
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
    fn regions_are_used_again() {
        let recycler = Recycler::default();
        let first = recycler.take(10_000).expect("memory");
        let address = first.start;
        drop(first);
        assert_eq!(recycler.take(10_100).expect("memory").start, address);
    }

    #[test]
    fn arenas_share_regions_and_never_words() {
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
