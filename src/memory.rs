//! Large blocks of memory, on huge pages where the system has them.
//!
//! Packing a randomized minibatch reads from all over the window. With pages of 4 KiB nearly every such read also misses
//! the processor's table of page addresses, and on a virtual machine the walk through two sets of page tables that
//! follows costs more than the read. Huge pages also take one fault where small ones take 512.

use std::alloc::{self, Layout};
use std::ptr::NonNull;

/// Size of a huge page.
pub(crate) const HUGE_PAGE: usize = 2 << 20;

/// A block of 8-byte words, not initialized.
#[derive(Debug)]
pub(crate) struct Block {
    start: NonNull<u64>,
    layout: Layout,
}

// SAFETY: the memory is the block's own.
unsafe impl Send for Block {}
// SAFETY: the block itself neither reads nor writes its memory.
unsafe impl Sync for Block {}

impl Block {
    /// A block of this many words, at least 1. What is left behind its last whole huge page stays on small ones.
    pub fn new(words: usize) -> Block {
        let bytes = words.max(1).saturating_mul(8);
        let align = if bytes >= HUGE_PAGE { HUGE_PAGE } else { 64 };
        let Ok(layout) = Layout::from_size_align(bytes, align) else {
            panic!("A block of {bytes} bytes is beyond all memory.")
        };
        // SAFETY: the layout's size is not 0.
        let start = unsafe { alloc::alloc(layout) };
        let Some(start) = NonNull::new(start.cast::<u64>()) else { alloc::handle_alloc_error(layout) };
        if align == HUGE_PAGE {
            advise(start.as_ptr().cast(), layout.size());
        }
        Block { start, layout }
    }

    /// Its first word.
    pub fn start(&self) -> *mut u64 {
        self.start.as_ptr()
    }

    /// Words that it has.
    pub fn words(&self) -> usize {
        self.layout.size() / 8
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        // SAFETY: allocated in `new` with this layout.
        unsafe { alloc::dealloc(self.start.as_ptr().cast(), self.layout) };
    }
}

/// Asks for huge pages under a list that was just allocated and not yet written; small ones stay as they are.
pub(crate) fn on_huge_pages<T>(list: &mut Vec<T>) {
    let bytes = list.capacity() * size_of::<T>();
    if bytes >= 2 * HUGE_PAGE {
        advise(list.as_mut_ptr().cast(), bytes);
    }
}

/// Asks for huge pages under the memory's inner pages. A hint: where it fails, pages stay small.
fn advise(start: *mut u8, bytes: usize) {
    #[cfg(target_os = "linux")]
    {
        let before = start.align_offset(HUGE_PAGE).min(bytes);
        let bytes = (bytes - before) / HUGE_PAGE * HUGE_PAGE;
        if bytes > 0 {
            // SAFETY: the range lies within one allocation of this program; the advice changes no content.
            unsafe { libc::madvise(start.add(before).cast(), bytes, libc::MADV_HUGEPAGE) };
        }
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (start, bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_writable_to_their_ends() {
        for words in [0, 1, 1000, HUGE_PAGE / 8, HUGE_PAGE / 8 + 1, 3 * HUGE_PAGE / 8] {
            let block = Block::new(words);
            assert_eq!(block.words(), words.max(1));
            if words * 8 >= HUGE_PAGE {
                assert_eq!(block.start() as usize % HUGE_PAGE, 0);
            }
            // SAFETY: both words are within the block.
            unsafe {
                block.start().write(1);
                block.start().add(block.words() - 1).write(2);
            }
        }
    }

    #[test]
    fn advice_about_lists_leaves_them_alone() {
        let mut list: Vec<u64> = vec![7; HUGE_PAGE];
        on_huge_pages(&mut list);
        assert!(list.iter().all(|&word| word == 7));
        on_huge_pages(&mut Vec::<u8>::new());
    }
}
