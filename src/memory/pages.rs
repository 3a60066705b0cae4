//! Large blocks of memory, which the system gives and takes back.
//!
//! The C library's allocator takes large blocks from the system too, at first. But with each that is freed it begins to keep
//! blocks of that size for later, in an arena for each thread, and then gives none of them back: of 40 readers that sixteen
//! threads served one after the other, 114 MB stayed resident in the end, and 63 MB if the memory of chunks is taken here.

use std::mem::MaybeUninit;
use std::ptr::NonNull;

/// Bytes from which on memory is taken from the system: the allocator's own limit, before it moves it.
pub(crate) const LEAST: usize = 128 << 10;

/// Zeroed memory that begins at a page.
#[derive(Debug)]
pub(crate) struct Pages {
    start: NonNull<MaybeUninit<u8>>,
    size: usize,
}

// SAFETY: the memory belongs to this object alone, as that of a box does.
unsafe impl Send for Pages {}
// SAFETY: through `&self` there is the address and the size; the memory is neither read nor written.
unsafe impl Sync for Pages {}

impl Pages {
    /// `size` bytes, or `None` if there is no memory for them. No page is there before it is written.
    pub(crate) fn new(size: usize) -> Option<Pages> {
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

    /// The first byte. All pages belong to this object.
    pub(crate) fn start(&self) -> NonNull<MaybeUninit<u8>> {
        self.start
    }

    /// Number of bytes.
    pub(crate) fn size(&self) -> usize {
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
    }
}
