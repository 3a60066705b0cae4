//! Aligned memory for the data of minibatches.

#![allow(unsafe_code, reason = "memory that is filled without being cleared before")]

use super::memory::{Locked, PageLock};
use cntk_reader_core::Result;
use cntk_reader_core::memory::pages::{self, Pages};
use cntk_reader_core::memory::{self, room};
use std::cell::UnsafeCell;
use std::sync::Arc;

/// The unit of allocation. Its alignment is the buffers' alignment: a cache line, and the widest vector register. In a cell,
/// because those who hold a minibatch by the C ABI may write to it through [`AlignedBuffer::pointer`].
#[derive(Debug)]
#[repr(C, align(64))]
struct CacheLine(UnsafeCell<[u8; 64]>);

// SAFETY: this library only reads what is shared. Who writes through `AlignedBuffer::pointer` answers for it that nobody else
// uses the bytes meanwhile.
unsafe impl Sync for CacheLine {}

/// Where a buffer's bytes are.
#[derive(Debug)]
enum Memory {
    Lines(Vec<CacheLine>),
    /// Of large buffers. The system has cleared them, and what was never used takes no memory.
    Pages(Pages),
}

impl Memory {
    /// At least `size` zeros, of which the first `used` are about to be written.
    fn new(size: usize, used: usize) -> Result<Memory> {
        if let Some(pages) = Some(size).filter(|&size| size >= pages::LEAST).and_then(Pages::new) {
            // SAFETY: `used` is at most `size`; the memory is that of `pages` alone, and `MaybeUninit` may be uninitialized.
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

/// A growing run of bytes, aligned to 64 bytes.
///
/// All memory is zero when it is allocated. A buffer that is used again still has its old content: stale, but never
/// uninitialized.
#[derive(Debug)]
pub(super) struct AlignedBuffer {
    /// Declared before the memory, because it has to be unlocked before it is freed.
    locked: Option<Locked>,
    memory: Memory,
    /// At most `memory.capacity()`: only `resize` sets it.
    size: usize,
    /// The largest size that it had with this memory.
    used: usize,
}

impl Default for AlignedBuffer {
    fn default() -> AlignedBuffer {
        AlignedBuffer { locked: None, memory: Memory::Lines(Vec::new()), size: 0, used: 0 }
    }
}

impl AlignedBuffer {
    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: `memory` owns `memory.capacity()` bytes in one allocation from `memory.start()` on. All are initialized:
        // lines are filled with zeros and have no padding (their one member has their size), pages come cleared from the system.
        // `size` is at most that number: `resize` sets it after it has made sure. The result borrows `self`, and nobody writes
        // meanwhile: in this library that takes `&mut self`, and others have the contract of `pointer`.
        unsafe { std::slice::from_raw_parts(self.memory.start(), self.size) }
    }

    /// The bytes, for writing.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: the first `size` bytes of `memory` are allocated and initialized, for the reasons given in `bytes`. Any
        // bytes that the caller writes are valid, and `&mut self` keeps everyone else from `memory`.
        unsafe { std::slice::from_raw_parts_mut(self.memory.start(), self.size) }
    }

    /// The address of the bytes, for callers of the C ABI. Where the buffer is shared, they may write there as long as nobody
    /// else reads or writes.
    pub fn pointer(&self) -> *mut u8 {
        self.memory.start()
    }

    /// Sets the length to `size` bytes. The content is unspecified afterwards. Fails if there is not enough memory.
    pub fn resize(&mut self, size: usize) -> Result<()> {
        let capacity = self.memory.capacity();
        if size > capacity {
            // A buffer that was too small grows to half as much again, so that sizes settle after a few minibatches. A large one
            // has as much room from the start, which takes no memory before it is used: to get the pages of 18 MB anew, because the
            // second minibatch is a little larger than the first, takes 7 to 10 ms. The old memory is freed first: its content is of
            // no use.
            *self = AlignedBuffer::default();
            let has_room = capacity > 0 || size >= pages::LEAST;
            let grown = if has_room { size.saturating_add(size / 2) } else { size };
            self.memory = Memory::new(grown, size).or_else(|_| Memory::new(size, size))?;
        }
        self.size = size;
        self.used = self.used.max(size);
        Ok(())
    }

    /// Page-locks what was used of a large buffer. Small ones share their pages with other memory,
    /// and are quickly copied.
    pub fn lock_pages(&mut self, by: &Arc<dyn PageLock>) {
        let has_pages = matches!(self.memory, Memory::Pages(_));
        if has_pages && self.locked.as_ref().is_none_or(|locked| locked.size < self.used) {
            self.locked = None;
            // SAFETY: `used` is a former or present `size`, so these bytes are allocated and
            // initialized as in `bytes`; `&mut self` keeps everyone else from them.
            let used = unsafe { std::slice::from_raw_parts(self.memory.start(), self.used) };
            self.locked = Locked::new(by, used);
        }
    }

    /// Bytes of memory that the buffer holds, whether they are used now or not.
    pub fn held(&self) -> usize {
        match self.memory {
            Memory::Lines(_) => self.memory.capacity(),
            // The system has given no more.
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
}
