//! Counts the bytes that the process has allocated and not freed.

#![allow(unsafe_code, reason = "an allocator that counts")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

/// The system's allocator, counted.
struct Counting;

static BYTES: AtomicUsize = AtomicUsize::new(0);

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Bytes that are allocated now, by all threads.
pub fn bytes() -> usize {
    BYTES.load(Ordering::Relaxed)
}

// SAFETY: each function passes its arguments unchanged to the function of the same name of `System`, and returns its result.
// Changing an atomic neither allocates nor unwinds.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        BYTES.fetch_add(layout.size(), Ordering::Relaxed);
        // SAFETY: `GlobalAlloc::alloc` has the same requirement of `layout` on both sides: its size is not zero.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        BYTES.fetch_add(layout.size(), Ordering::Relaxed);
        // SAFETY: as in `alloc`, the size of `layout` is not zero.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // The difference is added modulo 2^64, which is right whether it is positive or negative.
        BYTES.fetch_add(size.wrapping_sub(layout.size()), Ordering::Relaxed);
        // SAFETY: every block of this allocator came from `System` with the layout that it was requested with, and `size` is
        // not zero and within the limits of `GlobalAlloc::realloc`.
        unsafe { System.realloc(block, layout, size) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        BYTES.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: every block of this allocator came from `System` with the layout that it was requested with.
        unsafe { System.dealloc(block, layout) }
    }
}
