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
    use std::panic::{AssertUnwindSafe, catch_unwind};

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
    fn pieces_stay_within_their_arena() {
        let panics = |access: &mut dyn FnMut()| catch_unwind(AssertUnwindSafe(access)).is_err();
        let bytes: Vec<u8> = (0..40).collect();
        let mut arena = Recycler::default().take(8).expect("memory");
        assert_eq!(arena.push(&bytes), 0);
        for (start, first, count, fits) in [
            (0, 0, 20, true),
            (0, 0, 21, false),
            (0, 20, 0, true),
            (0, 20, 1, false),
            (2, 5, 7, true),
            (2, 5, 8, false),
            (4, 1, 3, true),
            (4, 1, 4, false),
            (5, 0, 0, true),
            (5, 0, 1, false),
            (6, 0, 0, false),
        ] {
            let label = format!("{count} values from value {first} of word {start}");
            if fits {
                let expected = &bytes[start * 8 + first * 2..][..count * 2];
                let values = arena.get::<u16>(start, first, count);
                assert_eq!(bytemuck::cast_slice::<u16, u8>(values), expected, "{label}");
                assert_eq!(arena.bytes_of(start, first, count, 2), expected, "{label}");
            } else {
                assert!(panics(&mut || _ = arena.get::<u16>(start, first, count)), "{label}");
                assert!(panics(&mut || _ = arena.bytes_of(start, first, count, 2)), "{label}");
            }
        }
        assert!(panics(&mut || _ = arena.push(&[0u64; 4])));
        assert_eq!(arena.push(&[0u64; 3]), 5);
        assert_eq!(arena.push::<u8>(&[]), 8);
        assert!(panics(&mut || _ = arena.push(&[0u8])));
    }

    #[test]
    fn padding_is_zero_in_reused_words() {
        let recycler = Recycler::default();
        recycler.take(8).expect("memory").push(&[u64::MAX; 8]);
        let mut arena = recycler.take(8).expect("memory");
        arena.push(&[1u8; 9]);
        arena.push(&[2u16]);
        let bytes = [[1u8; 8], [1, 0, 0, 0, 0, 0, 0, 0]].concat();
        assert_eq!(arena.get::<u8>(0, 0, 16), bytes);
        assert_eq!(arena.get::<u16>(2, 0, 4), [2, 0, 0, 0]);
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

    /// Returns the words in use, the idle ones, and those in use of the shared region.
    fn words(recycler: &Recycler) -> (usize, usize, Option<usize>) {
        let list = recycler.free_list.lock();
        assert!(list.idle.iter().all(|block| !block.fresh));
        assert_eq!(list.idle_words, list.idle.iter().map(Block::words).sum::<usize>());
        (list.lent, list.idle_words, list.current.as_ref().map(|(_, used)| *used))
    }

    #[test]
    fn regions_are_shared_once_many_arenas_exist() {
        let recycler = Recycler::default();
        let take = |words| recycler.take(words).expect("memory");
        // Regions of their own: 1000 words, 3 % more, and whole cache lines.
        let own: Vec<Arena> = (0..16).map(|_| take(1000)).collect();
        assert_eq!(words(&recycler), (16 * 1032, 0, None));
        // An eighth of that is 2064, so the next region has 4096 words.
        let mut shared: Vec<Arena> = [1000, 997, 1000, 993].map(take).into();
        assert_eq!(words(&recycler), (16 * 1032 + 4096, 0, Some(4000)));
        shared.push(take(96));
        assert_eq!(words(&recycler), (16 * 1032 + 4096, 0, Some(4096)));
        let place = |arena: &Arena| (arena.start.as_ptr().addr() - shared[0].start.as_ptr().addr()) / 8;
        assert_eq!(shared.iter().map(place).collect::<Vec<_>>(), [0, 1000, 2000, 3000, 4000]);
        let _last = take(8);
        assert_eq!(words(&recycler), (16 * 1032 + 2 * 4096, 0, Some(8)));

        drop(own);
        assert_eq!(words(&recycler), (2 * 4096, 16 * 1032, Some(8)));
        assert_eq!(recycler.bytes(), 8 * (2 * 4096 + 16 * 1032));
        drop(shared);
        assert_eq!(words(&recycler), (4096, 16 * 1032 + 4096, Some(8)));
        let _large = take(4096);
        assert_eq!(words(&recycler), (2 * 4096, 16 * 1032, Some(8)));
    }

    /// Returns a list with `lent` words in use, idle blocks of these sizes, and a peak usage.
    fn free_list(lent: usize, idle: &[usize], peak: usize) -> FreeList {
        let idle: VecDeque<Block> = idle.iter().map(|&words| Block::new(words).expect("memory")).collect();
        FreeList { idle_words: idle.iter().map(Block::words).sum(), idle, current: None, lent, peak }
    }

    #[test]
    fn idle_regions_are_reused_if_about_as_large_or_twice_as_large() {
        for (idle, fits) in [
            (992, false),
            (1000, true),
            (1760, true),
            (1768, false),
            (1992, false),
            (2000, true),
            (4000, true),
        ] {
            let mut list = free_list(0, &[8, idle], usize::MAX);
            let region = list.region(1000, Weak::new()).expect("memory");
            let expected = if fits { (1, 8, idle) } else { (2, 8 + idle, 1032) };
            assert_eq!((list.idle.len(), list.idle_words, list.lent), expected, "{idle}");
            assert_eq!(arena_words(&region), list.lent, "{idle}");
        }
    }

    #[test]
    fn new_regions_are_as_large_as_usage_suggests() {
        for (lent, room, words) in [
            (0, 1000, 1032),
            (8 * 2048, 1000, 1032),
            (8 * 2049, 1000, 4096),
            (8 * 2049, 1024, 4096),
            (8 * 2049, 1032, 1064),
            (1 << 40, LARGEST / 4, LARGEST),
            (1 << 40, LARGEST / 4 + 8, 270_344),
        ] {
            let region = free_list(lent, &[], 0).region(room, Weak::new()).expect("memory");
            assert_eq!(arena_words(&region), words, "{room} words, {lent} in use");
        }
    }

    #[test]
    fn oldest_idle_regions_are_freed_at_peak_usage() {
        // 100 words are in use, 480 are idle, and 1031 are to be allocated.
        for (peak, left) in
            [(1611, &[80, 160, 240][..]), (1610, &[160, 240]), (1531, &[160, 240]), (1530, &[240]), (0, &[])]
        {
            let mut list = free_list(100, &[80, 160, 240], peak);
            let _region = list.region(1000, Weak::new()).expect("memory");
            assert_eq!(list.idle.iter().map(Block::words).collect::<Vec<_>>(), left, "{peak}");
            let expected = (left.iter().sum(), 1132, peak.max(1132));
            assert_eq!((list.idle_words, list.lent, list.peak), expected);
        }
    }

    #[test]
    fn large_blocks_consist_of_pages() {
        const LEAST: usize = pages::LEAST / 8;
        for (words, rounded, has_pages) in [
            (0, 8, false),
            (9, 16, false),
            (LEAST - 8, LEAST - 8, false),
            (LEAST - 7, LEAST, true),
            (LEAST + 8, LEAST + 8, true),
        ] {
            let block = Block::new(words).expect("memory");
            assert_eq!((block.words(), block.pages.is_some()), (rounded, has_pages), "{words}");
            assert!(block.pages.as_ref().is_none_or(|pages| pages.size() >= 8 * rounded), "{words}");
        }
    }

    #[test]
    fn huge_pages_are_asked_for_where_they_begin() {
        const HUGE: usize = HUGE_PAGE / 8;
        let mut memory: Vec<u8> = Vec::with_capacity(2 * HUGE_PAGE);
        let memory = memory.spare_capacity_mut();
        let first = memory.as_ptr().addr().next_multiple_of(HUGE_PAGE) - memory.as_ptr().addr();
        // The system, and the balance of this process, decide whether there are any.
        let mut are_available = || huge::ask(&mut memory[first..][..HUGE_PAGE]);
        let before = are_available();
        let mut block = Block::new(5 * HUGE / 2).expect("memory");
        let ranges = [0..1, 1..HUGE, 1..HUGE + 1, 0..2 * HUGE, 0..5 * HUGE / 2, 2 * HUGE..2 * HUGE + 1];
        let found = ranges.map(|words| block.ask_for_huge_pages(words));
        let (_, of_arena) = Recycler::default().cut(2 * HUGE).expect("memory");
        if before && are_available() {
            assert_eq!((found, of_arena), ([1, 0, 1, 2, 2, 0], 2));
        }
        block.fresh = false;
        let small = Block::new(8).expect("memory");
        assert_eq!((block.ask_for_huge_pages(0..HUGE), small.ask_for_huge_pages(0..8)), (0, 0));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn fresh_arenas_are_populated() {
        const SIZE: usize = 256 << 10;
        let resident = |start: *const u64| {
            let mut pages = vec![0u8; SIZE / 4096];
            // SAFETY: `start` is the address of a page, `SIZE` bytes from there on are mapped, and
            // `pages` has a byte for each of these pages, which have at least 4096 bytes.
            unsafe { libc::mincore(start.cast_mut().cast(), SIZE, pages.as_mut_ptr()) };
            pages.iter().filter(|&page| page & 1 == 1).count()
        };
        let pages = Pages::new(SIZE).expect("memory");
        // SAFETY: these are all bytes of `pages`, which nothing else refers to.
        memory::populate(unsafe { std::slice::from_raw_parts_mut(pages.start().as_ptr(), SIZE) });
        let arena = Recycler::default().take(SIZE / 8).expect("memory");
        // None are resident on systems that cannot populate memory.
        assert_eq!(resident(arena.start.as_ptr()), resident(pages.start().as_ptr().cast()));
    }
}
