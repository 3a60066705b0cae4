//! Counts the allocations of the process. Once warm, reading must not allocate.

#![allow(unsafe_code, reason = "an allocator that counts")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering};

/// The system's allocator, with a counter.
struct Counting;

static COUNT: AtomicU64 = AtomicU64::new(0);

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Returns the number of allocations so far, in all threads. A reallocation counts as one.
pub fn count() -> u64 {
    COUNT.load(Ordering::Relaxed)
}

// SAFETY: each method passes its arguments unchanged to the same method of `System`, and returns
// its result. Incrementing an atomic neither allocates nor unwinds.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        COUNT.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller guarantees, as `GlobalAlloc::alloc` requires, that `layout` has a
        // nonzero size; `System.alloc` requires the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        COUNT.fetch_add(1, Ordering::Relaxed);
        // SAFETY: as in `alloc`, the size of `layout` is not zero.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        COUNT.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller guarantees that `block` came from this allocator with `layout`, hence
        // from `System`, and that `size` is not zero and, rounded up to the alignment, at most
        // `isize::MAX`.
        unsafe { System.realloc(block, layout, size) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the caller guarantees that `block` came from this allocator with `layout`, hence
        // from `System`.
        unsafe { System.dealloc(block, layout) }
    }
}
