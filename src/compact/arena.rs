//! Memory of segments: arenas, cut one after the other from large regions that are used again when their data are gone.
//!
//! The first write to a page that the system just handed out costs up to ten times a write to a used one, and chunks
//! come and go all the time. So regions go back to their deserializer. They are as large as the data in memory allow, and
//! those of a small window waste nothing.

use crate::memory;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::mem::MaybeUninit;
use std::ptr::NonNull;
use std::sync::{Arc, Weak};

/// Memory of one segment, filled piece by piece; pieces begin at multiples of 8 bytes.
#[derive(Debug)]
pub struct Arena {
    /// The first of `room` words of `region`, of which `length` are written. They are this arena's alone.
    start: NonNull<u64>,
    length: usize,
    room: usize,
    /// Keeps the memory.
    region: Arc<Region>,
}

// SAFETY: the words are the arena's own, and only `&mut` writes them.
unsafe impl Send for Arena {}
// SAFETY: as above; `&` only reads words that were written before.
unsafe impl Sync for Arena {}

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
// SAFETY: numbers.
unsafe impl Plain for u16 {}
// SAFETY: numbers.
unsafe impl Plain for u8 {}

impl Arena {
    /// Words that a piece of this many values takes.
    pub fn words_for<T: Plain>(values: usize) -> usize {
        (values * size_of::<T>()).div_ceil(8)
    }

    /// Gets its pages from the system.
    fn populate(&mut self) {
        let room = self.room * size_of::<u64>();
        // SAFETY: the words are the arena's own, and may be uninitialised.
        memory::populate(unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr().cast(), room) });
    }

    /// Appends a piece, for which there must be room, and says at which word it begins.
    pub fn push<T: Plain>(&mut self, values: &[T]) -> usize {
        let start = self.length;
        let words = Self::words_for::<T>(values.len());
        assert!(words <= self.room - self.length, "an arena has room for its pieces");
        // SAFETY: there is room for `words` words behind `start`; the source has `size_of_val` initialised bytes; what
        // is left of the last word is zeroed before.
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
    pub fn get<T: Plain>(&self, start: usize, first: usize, count: usize) -> &[T] {
        let end = start * 8 + (first + count) * size_of::<T>();
        assert!(end <= self.length * 8, "a piece ends inside its arena");
        // SAFETY: the bytes are within the arena and initialised, any bits are a `T`, and words are aligned for it.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr().add(start).cast::<T>().add(first), count) }
    }

    /// Asks the processor for value number `first` of the piece that begins at word `start`.
    #[inline]
    pub fn prefetch<T: Plain>(&self, start: usize, first: usize) {
        let address = self.start.as_ptr().wrapping_add(start).cast::<T>().wrapping_add(first);
        crate::prefetch::line(address.cast());
    }

    /// The same as [`Arena::get`], as bytes; `size` is that of one value.
    #[inline]
    pub fn bytes_of(&self, start: usize, first: usize, count: usize, size: usize) -> &[u8] {
        let from = start * 8 + first * size;
        assert!(from + count * size <= self.length * 8, "a piece ends inside its arena");
        // SAFETY: the bytes are within the arena and initialised.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr().cast::<u8>().add(from), count * size) }
    }
}

/// Words of a cache line, all of which begin one: a look-up then reads as few lines as can be.
#[repr(align(64))]
struct Line {
    _words: [u64; STEP],
}

/// Whole cache lines that nobody may have written yet. Only arenas write and read them, by their own pointers.
#[derive(Debug)]
struct Block {
    start: NonNull<MaybeUninit<Line>>,
    lines: usize,
    /// Nobody has used it yet.
    fresh: bool,
}

// SAFETY: the memory is the block's own.
unsafe impl Send for Block {}
// SAFETY: the block itself neither reads nor writes its memory.
unsafe impl Sync for Block {}

impl Block {
    /// At least so many words.
    fn new(words: usize) -> Block {
        let lines = Box::<[Line]>::new_uninit_slice(words.div_ceil(STEP).max(1));
        let count = lines.len();
        Block { start: NonNull::from(Box::leak(lines)).cast(), lines: count, fresh: true }
    }

    fn start(&self) -> *mut u64 {
        self.start.as_ptr().cast()
    }

    fn words(&self) -> usize {
        self.lines * STEP
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        // SAFETY: leaked in `new` with this length.
        drop(unsafe { Box::from_raw(NonNull::slice_from_raw_parts(self.start, self.lines).as_ptr()) });
    }
}

/// Memory for several arenas. Goes back to its recycler when the last of them is gone.
#[derive(Debug)]
struct Region {
    block: Option<Block>,
    home: Weak<Mutex<Shelf>>,
}

impl Drop for Region {
    fn drop(&mut self) {
        let (Some(home), Some(mut block)) = (self.home.upgrade(), self.block.take()) else { return };
        block.fresh = false;
        let mut shelf = home.lock();
        shelf.lent -= block.words();
        shelf.idle_words += block.words();
        shelf.idle.push_back(block);
    }
}

/// Where arenas come from.
#[derive(Debug, Default)]
pub struct Recycler {
    shelf: Arc<Mutex<Shelf>>,
}

#[derive(Debug, Default)]
struct Shelf {
    /// Blocks that wait to be used again, those that came first at the front.
    idle: VecDeque<Block>,
    idle_words: usize,
    /// The region that arenas are cut from, and how many of its words are.
    current: Option<(Arc<Region>, usize)>,
    /// Words of all regions in use, and the most they ever were.
    lent: usize,
    peak: usize,
}

/// Words of the largest regions that are shared: 8 MiB.
const LARGEST: usize = 1 << 20;

/// Words that arenas begin at multiples of: a cache line.
const STEP: usize = 8;

impl Recycler {
    /// An empty arena with room for this many words, all of which will be written.
    pub fn take(&self, words: usize) -> Arena {
        let mut arena = self.cut(words);
        if arena.region.block.as_ref().is_some_and(|block| block.fresh) {
            arena.populate();
        }
        arena
    }

    /// Bytes of all regions, in use or idle.
    pub fn bytes(&self) -> u64 {
        let shelf = self.shelf.lock();
        ((shelf.lent + shelf.idle_words) * size_of::<u64>()) as u64
    }

    fn cut(&self, words: usize) -> Arena {
        let room = words.next_multiple_of(STEP);
        let mut shelf = self.shelf.lock();
        if let Some((region, used)) = &mut shelf.current
            && let Some(arena) = cut(region, *used, room)
        {
            *used += room;
            return arena;
        }
        let region = Arc::new(shelf.region(room, Arc::downgrade(&self.shelf)));
        let Some(arena) = cut(&region, 0, room) else {
            unreachable!("a region is as large as was asked for")
        };
        let left = arena_words(&region) - room;
        // Dropped without the lock, which its own drop takes.
        let before = if left >= room { shelf.current.replace((region, room)) } else { None };
        drop(shelf);
        drop(before);
        arena
    }
}

/// Words of a region.
fn arena_words(region: &Region) -> usize {
    region.block.as_ref().map_or(0, Block::words)
}

/// The words `used .. used + room` of a region, if it has as many.
fn cut(region: &Arc<Region>, used: usize, room: usize) -> Option<Arena> {
    let block = region.block.as_ref()?;
    if room > block.words() - used {
        return None;
    }
    // SAFETY: `used` words are within the block.
    let start = unsafe { block.start().add(used) };
    Some(Arena { start: NonNull::new(start)?, length: 0, room, region: Arc::clone(region) })
}

impl Shelf {
    /// A region with room for this many words: an idle one that was made for about as much or is to be shared, or a new
    /// one, shared as soon as there is so much data that an eighth of it holds a few arenas.
    fn region(&mut self, room: usize, home: Weak<Mutex<Shelf>>) -> Region {
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
                // A little room makes regions of nearly the same size interchangeable.
                let words = if shared / 4 >= room { shared } else { room + room / 32 };
                // Idle ones that do not fit make room for it: all together are no more than was ever in use.
                while self.lent + self.idle_words + words > self.peak {
                    let Some(block) = self.idle.pop_front() else { break };
                    self.idle_words -= block.words();
                }
                Block::new(words)
            }
        };
        self.lent += block.words();
        self.peak = self.peak.max(self.lent);
        Region { block: Some(block), home }
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
    fn regions_are_used_again() {
        let recycler = Recycler::default();
        let first = recycler.take(10_000);
        let address = first.start;
        drop(first);
        assert_eq!(recycler.take(10_100).start, address);
    }

    #[test]
    fn arenas_share_regions_and_never_words() {
        let recycler = Recycler::default();
        let mut arenas: VecDeque<(u64, Arena)> = VecDeque::new();
        for number in 0..2000 {
            let mut arena = recycler.take(700 + number as usize % 90);
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
        let shelf = recycler.shelf.lock();
        let used = 300 * 800;
        assert!(shelf.lent < 2 * used, "{} words are lent", shelf.lent);
        assert!(shelf.lent + shelf.idle_words <= shelf.peak);
        drop(shelf);
        drop(arenas);
        let shelf = recycler.shelf.lock();
        assert!(shelf.lent <= shelf.peak / 4 && shelf.lent + shelf.idle_words <= shelf.peak);
    }
}
