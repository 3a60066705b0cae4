//! Large blocks of memory, which the system gives and takes back.
//!
//! The C library's allocator takes large blocks from the system too, at first. But with each that is freed it begins to keep
//! blocks of that size for later, in an arena for each thread, and then gives none of them back: of 40 readers that sixteen
//! threads served one after the other, 114 MB stayed resident in the end, and 63 MB if the memory of chunks is taken here.

#![allow(unsafe_code, reason = "mmap, mremap")]

use super::huge::HUGE_PAGE;
use std::mem::{ManuallyDrop, MaybeUninit};
use std::ptr::NonNull;

/// The largest page of the processors that the library runs on.
const LARGEST_PAGE: usize = 64 << 10;

/// Bytes from which on memory is taken from the system: the allocator's own limit, before it moves it.
pub const LEAST: usize = 128 << 10;

/// Bytes that fuzz targets get at most, at once. Their inputs are small, and so is what is made of them, unless a few bytes ask for
/// more: a line of labels claims a week of speech. Several such blocks fit into what libFuzzer lets the process take.
#[cfg(fuzzing)]
pub const MOST_MEMORY: usize = 256 << 20;

/// Zeroed memory that begins at a page, and at the place of a huge page if it is as large.
#[derive(Debug)]
pub struct Pages {
    start: NonNull<MaybeUninit<u8>>,
    size: usize,
}

// SAFETY: the memory belongs to this object alone, as that of a box does.
unsafe impl Send for Pages {}
// SAFETY: through `&self` there is the address and the size; the memory is neither read nor written.
unsafe impl Sync for Pages {}

impl Pages {
    /// `size` bytes, or `None` if there is no memory for them. No page is there before it is written.
    pub fn new(size: usize) -> Option<Pages> {
        // Fuzz targets run as on a machine that has little memory.
        #[cfg(fuzzing)]
        if size > MOST_MEMORY {
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
                // SAFETY: the range lies within the mapping, outside of the `size` bytes that are kept, and begins and ends at a
                // page: `before` and `size` are multiples of a page's size. Nobody has its address.
                unsafe { libc::munmap(start.add(from).cast(), size) };
            }
        };
        unmap(0, before);
        unmap(before + size, HUGE_PAGE - before);
        // SAFETY: `before` is less than HUGE_PAGE, and the mapping has `size + HUGE_PAGE` bytes.
        let start = unsafe { start.add(before) };
        Some(Pages { start: NonNull::new(start)?, size })
    }

    /// A mapping of this size.
    fn mapped(size: usize) -> Option<Pages> {
        let (protection, kind) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a new mapping at an address that the system chooses overlaps nothing; a size of 0 or one that is too large is
        // an error, which is checked below.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), size, protection, kind, -1, 0) };
        if start == libc::MAP_FAILED {
            return None;
        }
        Some(Pages { start: NonNull::new(start.cast())?, size })
    }

    /// Makes it `size` bytes long, which is more than before, perhaps at another place, which need not be that of a huge page. What was
    /// there stays, the rest is zeroed. `None`, and nothing has changed, if there is no memory for it.
    pub(crate) fn grow(&mut self, size: usize) -> Option<()> {
        #[cfg(fuzzing)]
        if size > MOST_MEMORY {
            return None;
        }
        // SAFETY: the range is the whole mapping of this object, which nobody else uses during the exclusive borrow. If it has moved, the
        // old address is forgotten below; if the call fails, nothing has changed.
        let start =
            unsafe { libc::mremap(self.start.as_ptr().cast(), self.size, size, libc::MREMAP_MAYMOVE) };
        if start == libc::MAP_FAILED {
            return None;
        }
        (self.start, self.size) = (NonNull::new(start.cast())?, size);
        Some(())
    }

    /// The first byte. All pages belong to this object.
    pub fn start(&self) -> NonNull<MaybeUninit<u8>> {
        self.start
    }

    /// Number of bytes.
    pub fn size(&self) -> usize {
        self.size
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: `new` has mapped `size` bytes at `start` for this object alone, and whoever has the address from `start` keeps the
        // object for as long as it uses the memory.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.size) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_zeroed_and_can_be_written() {
        let pages = Pages::new(LEAST).expect("memory");
        // SAFETY: the memory has `LEAST` bytes, which the system has zeroed, and nothing else refers to it.
        let bytes = unsafe { std::slice::from_raw_parts_mut(pages.start().as_ptr().cast::<u8>(), LEAST) };
        assert!(bytes.iter().all(|&byte| byte == 0));
        bytes.fill(7);
        assert!(Pages::new(0).is_none() && Pages::new(usize::MAX).is_none());
        for size in [HUGE_PAGE, HUGE_PAGE + 1, 5 * HUGE_PAGE - 1] {
            let pages = Pages::new(size).expect("memory");
            assert!(pages.size() >= size && pages.start().as_ptr().addr().is_multiple_of(HUGE_PAGE));
            // SAFETY: as above, of a block with `size` bytes.
            let bytes = unsafe { std::slice::from_raw_parts_mut(pages.start().as_ptr().cast::<u8>(), size) };
            assert!(bytes[0] == 0 && bytes[size - 1] == 0);
            bytes.fill(7);
        }
    }
}
