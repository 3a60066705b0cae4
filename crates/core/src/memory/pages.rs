//! Large blocks of memory that return to the system as soon as they are freed.

#![allow(unsafe_code, reason = "blocks of memory with one owner")]

use super::huge::HUGE_PAGE;
use crate::system;
use std::mem::MaybeUninit;
use std::ptr::NonNull;

/// The largest page size of the supported processors.
const LARGEST_PAGE: usize = 64 << 10;

/// Size in bytes from which memory is allocated here: the initial limit from which the C library's
/// allocator maps memory.
pub const LEAST: usize = 128 << 10;

/// Maximum size of one block in fuzz targets. Their inputs are small, but a few bytes may ask for
/// much: a line of labels can claim a week of speech. Several such blocks fit within libFuzzer's
/// memory limit.
#[cfg(fuzzing)]
pub const MAX_MEMORY: usize = 256 << 20;

/// Zeroed memory that is page-aligned; on Linux, aligned to a huge page if it is that large.
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
    /// Allocates `size` bytes; `None` if memory is exhausted. The system creates pages when they are
    /// first written.
    pub fn new(size: usize) -> Option<Pages> {
        // Fuzz targets run as if on a machine with little memory.
        #[cfg(fuzzing)]
        if size > MAX_MEMORY {
            return None;
        }
        let size = if size < HUGE_PAGE { size } else { size.checked_next_multiple_of(LARGEST_PAGE)? };
        Some(Pages { start: system::allocate_pages(size)?.cast(), size })
    }

    /// Grows the block to `size` bytes, possibly moving it to an address that is not aligned to a
    /// huge page. The content is kept, and the rest is zeroed. Returns `None`, without any change,
    /// if memory is exhausted.
    pub(crate) fn grow(&mut self, size: usize) -> Option<()> {
        #[cfg(fuzzing)]
        if size > MAX_MEMORY {
            return None;
        }
        let size = size.max(self.size);
        // SAFETY: this object owns the block and is borrowed exclusively, and the size is not less
        // than before. The old address is replaced at once.
        let start = unsafe { system::grow_pages(self.start.cast(), self.size, size) };
        (self.start, self.size) = (start?.cast(), size);
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
        // SAFETY: `new` and `grow` have allocated `size` bytes at `start` for this object alone, and
        // users of `start` keep the object alive while they access the memory.
        unsafe { system::free_pages(self.start.cast(), self.size) };
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
            assert!(pages.size() >= size);
            let is_aligned = pages.start().as_ptr().addr().is_multiple_of(HUGE_PAGE);
            assert!(is_aligned || !cfg!(target_os = "linux"));
            // SAFETY: as above, for a block of at least `size` bytes.
            let bytes = unsafe { std::slice::from_raw_parts_mut(pages.start().as_ptr().cast::<u8>(), size) };
            assert!(bytes[0] == 0 && bytes[size - 1] == 0);
            bytes.fill(7);
        }
    }
}
