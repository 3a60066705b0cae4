//! Large blocks of memory, mapped and unmapped directly.
//!
//! The C library's allocator also maps large blocks at first. But whenever one is freed, it raises
//! its limit and begins to keep blocks of that size in per-thread arenas, without returning them:
//! after 40 readers served by sixteen threads in turn, 114 MB stayed resident, and 63 MB with
//! chunks allocated here.

#![allow(unsafe_code, reason = "mmap, mremap")]

use super::huge::HUGE_PAGE;
use std::mem::{ManuallyDrop, MaybeUninit};
use std::ptr::NonNull;

/// The largest page size of the supported processors.
const LARGEST_PAGE: usize = 64 << 10;

/// Size in bytes from which memory is mapped here: the allocator's initial limit.
pub const LEAST: usize = 128 << 10;

/// Maximum size of one block in fuzz targets. Their inputs are small, but a few bytes may ask for
/// much: a line of labels can claim a week of speech. Several such blocks fit within libFuzzer's
/// memory limit.
#[cfg(fuzzing)]
pub const MAX_MEMORY: usize = 256 << 20;

/// Zeroed memory that is page-aligned, and aligned to a huge page if it is that large.
#[derive(Debug)]
pub struct Pages {
    start: NonNull<MaybeUninit<u8>>,
    size: usize,
}

// SAFETY: this object alone owns the memory, as a box does.
unsafe impl Send for Pages {}
// SAFETY: `&self` only gives access to the address and the size; the memory is neither read nor
// written.
unsafe impl Sync for Pages {}

impl Pages {
    /// Maps `size` bytes; `None` if memory is exhausted. Pages are allocated when they are first
    /// written.
    pub fn new(size: usize) -> Option<Pages> {
        // Fuzz targets run as if on a machine with little memory.
        #[cfg(fuzzing)]
        if size > MAX_MEMORY {
            return None;
        }
        if size < HUGE_PAGE {
            return Self::mapped(size);
        }
        let size = size.checked_next_multiple_of(LARGEST_PAGE)?;
        let larger = ManuallyDrop::new(Self::mapped(size.checked_add(HUGE_PAGE)?)?);
        let start = larger.start.as_ptr();
        let before = start.addr().next_multiple_of(HUGE_PAGE) - start.addr();
        let unmap = |from: usize, size: usize| {
            if size > 0 {
                // SAFETY: the range lies within the mapping, outside the `size` bytes that are
                // kept, and consists of whole pages: `before` and `size` are multiples of a page's
                // size. Its address has not been given to anyone.
                unsafe { libc::munmap(start.add(from).cast(), size) };
            }
        };
        unmap(0, before);
        unmap(before + size, HUGE_PAGE - before);
        // SAFETY: `before` is less than HUGE_PAGE, and the mapping has `size + HUGE_PAGE` bytes.
        let start = unsafe { start.add(before) };
        Some(Pages { start: NonNull::new(start)?, size })
    }

    /// Creates a mapping of this size.
    fn mapped(size: usize) -> Option<Pages> {
        let (protection, kind) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a new mapping at an address chosen by the system overlaps nothing; a size of 0 or
        // one that is too large is an error, which is checked below.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), size, protection, kind, -1, 0) };
        if start == libc::MAP_FAILED {
            return None;
        }
        Some(Pages { start: NonNull::new(start.cast())?, size })
    }

    /// Grows the block to `size` bytes, possibly moving it to an address that is not aligned to a
    /// huge page. The content is kept, and the rest is zeroed. Returns `None`, without any change,
    /// if memory is exhausted.
    pub(crate) fn grow(&mut self, size: usize) -> Option<()> {
        #[cfg(fuzzing)]
        if size > MAX_MEMORY {
            return None;
        }
        // SAFETY: the range is the whole mapping of this object, which is borrowed exclusively. If
        // the mapping moves, the old address is replaced below; if the call fails, nothing has
        // changed.
        let start =
            unsafe { libc::mremap(self.start.as_ptr().cast(), self.size, size, libc::MREMAP_MAYMOVE) };
        if start == libc::MAP_FAILED {
            return None;
        }
        (self.start, self.size) = (NonNull::new(start.cast())?, size);
        Some(())
    }

    /// Returns the address of the first byte. All pages belong to this object.
    pub fn start(&self) -> NonNull<MaybeUninit<u8>> {
        self.start
    }

    /// Returns the size in bytes.
    pub fn size(&self) -> usize {
        self.size
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: `new` has mapped `size` bytes at `start` for this object alone, and users of
        // `start` keep the object alive while they access the memory.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.size) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_zeroed_and_can_be_written() {
        let pages = Pages::new(LEAST).expect("memory");
        // SAFETY: the memory has `LEAST` zeroed bytes, and nothing else refers to it.
        let bytes = unsafe { std::slice::from_raw_parts_mut(pages.start().as_ptr().cast::<u8>(), LEAST) };
        assert!(bytes.iter().all(|&byte| byte == 0));
        bytes.fill(7);
        assert!(Pages::new(0).is_none() && Pages::new(usize::MAX).is_none());
        for size in [HUGE_PAGE, HUGE_PAGE + 1, 5 * HUGE_PAGE - 1] {
            let pages = Pages::new(size).expect("memory");
            assert!(pages.size() >= size && pages.start().as_ptr().addr().is_multiple_of(HUGE_PAGE));
            // SAFETY: as above, for a block of at least `size` bytes.
            let bytes = unsafe { std::slice::from_raw_parts_mut(pages.start().as_ptr().cast::<u8>(), size) };
            assert!(bytes[0] == 0 && bytes[size - 1] == 0);
            bytes.fill(7);
        }
    }
}
