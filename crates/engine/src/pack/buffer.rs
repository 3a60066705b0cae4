//! Aligned memory for the data of minibatches.

#![allow(unsafe_code, reason = "memory that is filled without being cleared before")]

use super::memory::{Locked, PageLock};
use cntk_reader_core::Result;
use cntk_reader_core::memory::pages::{self, Pages};
use cntk_reader_core::memory::{self, room};
use std::cell::UnsafeCell;
use std::sync::Arc;

/// The unit of allocation. Its alignment is the buffers' alignment: a cache line, and the widest
/// vector register. Holds a cell because users of the C ABI may write to a minibatch through
/// [`AlignedBuffer::pointer`].
#[derive(Debug)]
#[repr(C, align(64))]
struct CacheLine(UnsafeCell<[u8; 64]>);

// SAFETY: this library only reads shared lines. Writers through `AlignedBuffer::pointer` must
// ensure exclusive access.
unsafe impl Sync for CacheLine {}

/// The memory of a buffer.
#[derive(Debug)]
enum Memory {
    Lines(Vec<CacheLine>),
    /// Large buffers. The system clears the pages, and unused ones take no memory.
    Pages(Pages),
}

impl Memory {
    /// Allocates at least `size` zeros, of which the first `used` are about to be written.
    fn new(size: usize, used: usize) -> Result<Memory> {
        if let Some(pages) = Some(size).filter(|&size| size >= pages::LEAST).and_then(Pages::new) {
            // SAFETY: `used` is at most `size`, so the range lies within `pages`. Nothing else
            // refers to that memory yet, and `MaybeUninit` may be uninitialized.
            memory::populate(unsafe { std::slice::from_raw_parts_mut(pages.start().as_ptr(), used) });
            return Ok(Memory::Pages(pages));
        }
        let count = size.div_ceil(size_of::<CacheLine>());
        let mut lines = Vec::new();
        room::reserve_exact(&mut lines, count, room::MINIBATCH)?;
        lines.resize_with(count, || CacheLine(UnsafeCell::new([0; 64])));
        Ok(Memory::Lines(lines))
    }

    fn start(&self) -> *mut u8 {
        match self {
            Memory::Lines(lines) => UnsafeCell::raw_get(lines.as_ptr().cast()),
            Memory::Pages(pages) => pages.start().as_ptr().cast(),
        }
    }

    fn capacity(&self) -> usize {
        match self {
            Memory::Lines(lines) => lines.len() * size_of::<CacheLine>(),
            Memory::Pages(pages) => pages.size(),
        }
    }
}

/// A growable byte buffer, aligned to 64 bytes.
///
/// Memory is zeroed when it is allocated. A reused buffer keeps its old content: stale, but never
/// uninitialized.
#[derive(Debug)]
pub(super) struct AlignedBuffer {
    /// Declared before `memory`, so that pages are unlocked before they are freed.
    locked: Option<Locked>,
    memory: Memory,
    /// At most `memory.capacity()`: only `resize` sets it.
    size: usize,
    /// The largest size so far with this memory.
    used: usize,
}

impl Default for AlignedBuffer {
    fn default() -> AlignedBuffer {
        AlignedBuffer { locked: None, memory: Memory::Lines(Vec::new()), size: 0, used: 0 }
    }
}

impl AlignedBuffer {
    /// Returns the bytes.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: `memory` owns `memory.capacity()` bytes in one allocation that begins at
        // `memory.start()`. All are initialized: lines are filled with zeros and have no padding
        // (their only member has their size), and the system clears pages. `size` is at most the
        // capacity, as `resize` ensures. The result borrows `self`, and there are no writes
        // meanwhile: this library needs `&mut self` to write, and others are bound by the contract
        // of `pointer`.
        unsafe { std::slice::from_raw_parts(self.memory.start(), self.size) }
    }

    /// Returns the bytes for writing.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: the first `size` bytes of `memory` are allocated and initialized, for the reasons
        // given in `bytes`. The caller may write any bytes, and `&mut self` gives exclusive access
        // to `memory`.
        unsafe { std::slice::from_raw_parts_mut(self.memory.start(), self.size) }
    }

    /// Returns the address of the bytes, for callers of the C ABI. If the buffer is shared, they
    /// may write only while there is no other access.
    pub fn pointer(&self) -> *mut u8 {
        self.memory.start()
    }

    /// Sets the length to `size` bytes. The content is unspecified afterwards. Fails if there is
    /// not enough memory.
    pub fn resize(&mut self, size: usize) -> Result<()> {
        let capacity = self.memory.capacity();
        if size > capacity {
            // Grow by half, so that sizes settle after a few minibatches. Large buffers get the
            // spare room from the start, which costs no memory until used: reallocating 18 MB
            // because the second minibatch is slightly larger takes 7 to 10 ms. Free the old memory
            // first, because its content is not needed.
            *self = AlignedBuffer::default();
            let has_room = capacity > 0 || size >= pages::LEAST;
            let grown = if has_room { size.saturating_add(size / 2) } else { size };
            self.memory = Memory::new(grown, size).or_else(|_| Memory::new(size, size))?;
        }
        self.size = size;
        self.used = self.used.max(size);
        Ok(())
    }

    /// Page-locks the used part of a large buffer. Small ones share their pages with other memory,
    /// and are fast to copy anyway.
    pub fn lock_pages(&mut self, by: &Arc<dyn PageLock>) {
        let has_pages = matches!(self.memory, Memory::Pages(_));
        if has_pages && self.locked.as_ref().is_none_or(|locked| locked.size < self.used) {
            self.locked = None;
            // SAFETY: `used` is a former or current `size`, so these bytes are allocated and
            // initialized as in `bytes`; `&mut self` gives exclusive access to them.
            let used = unsafe { std::slice::from_raw_parts(self.memory.start(), self.used) };
            self.locked = Locked::new(by, used);
        }
    }

    /// Returns the memory held by the buffer in bytes, including unused parts.
    pub fn held(&self) -> usize {
        match self.memory {
            Memory::Lines(_) => self.memory.capacity(),
            // The system has not provided the remaining pages yet.
            Memory::Pages(_) => self.used,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_aligned_zeroed_and_grow() {
        let mut buffer = AlignedBuffer::default();
        assert!(buffer.bytes().is_empty());
        for size in [1, 63, 64, 65, 1000, 10, 100_000] {
            buffer.resize(size).expect("memory");
            assert_eq!(buffer.bytes().len(), size);
            assert_eq!(buffer.bytes().as_ptr() as usize % 64, 0);
        }
        assert!(buffer.resize(isize::MAX as usize).is_err());
        assert!(buffer.bytes().is_empty());
        buffer.resize(100_000).expect("memory");
        assert!(buffer.bytes().iter().all(|&byte| byte == 0));
        buffer.bytes_mut().fill(7);
        buffer.resize(50_000).expect("memory");
        buffer.resize(100_000).expect("memory");
        assert!(buffer.bytes().iter().all(|&byte| byte == 7));
    }

    /// Large buffers get spare room at once, which takes no memory until it is used; small ones
    /// when they grow.
    #[test]
    fn buffers_grow_by_half() {
        let mut buffer = AlignedBuffer::default();
        for (size, held) in [(100, 128), (128, 128), (200, 320), (320, 320), (30, 320), (1000, 1536)] {
            buffer.resize(size).expect("memory");
            assert_eq!(buffer.held(), held, "{size}");
        }
        let mut buffer = AlignedBuffer::default();
        buffer.resize(pages::LEAST - 64).expect("memory");
        assert!(matches!(buffer.memory, Memory::Lines(_)));
        assert_eq!(buffer.held(), pages::LEAST - 64);
        let mut buffer = AlignedBuffer::default();
        let more = pages::LEAST * 3 / 2;
        for (size, held) in [(pages::LEAST, pages::LEAST), (more, more), (pages::LEAST, more)] {
            buffer.resize(size).expect("memory");
            assert!(matches!(buffer.memory, Memory::Pages(_)));
            assert_eq!((buffer.bytes().len(), buffer.held()), (size, held));
            assert!((more..pages::LEAST * 2).contains(&buffer.memory.capacity()));
        }
    }

    #[test]
    fn content_stays_while_there_is_room() {
        for size in [64, pages::LEAST] {
            let mut buffer = AlignedBuffer::default();
            buffer.resize(size).expect("memory");
            buffer.bytes_mut().fill(7);
            let address = buffer.pointer();
            for size in [size, 10, size] {
                buffer.resize(size).expect("memory");
                assert!(buffer.bytes().iter().all(|&byte| byte == 7));
                assert_eq!((buffer.pointer(), buffer.bytes().as_ptr()), (address, address.cast_const()));
            }
        }
    }
}
