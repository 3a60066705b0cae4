//! Counts the allocations of the process. Reading must make none once it is warm.

#![allow(unsafe_code, reason = "an allocator that counts")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering};

/// The system's allocator, counted.
struct Counting;

static COUNT: AtomicU64 = AtomicU64::new(0);

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Number of allocations so far, in all threads. A reallocation counts as another allocation.
pub fn count() -> u64 {
    COUNT.load(Ordering::Relaxed)
}

// SAFETY: each function passes its arguments unchanged to the function of the same name of `System`, and returns its result.
// Incrementing an atomic neither allocates nor unwinds.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        COUNT.fetch_add(1, Ordering::Relaxed);
        // SAFETY: `GlobalAlloc::alloc` has the same requirement of `layout` on both sides: its size is not zero.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        COUNT.fetch_add(1, Ordering::Relaxed);
        // SAFETY: as in `alloc`, the size of `layout` is not zero.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        COUNT.fetch_add(1, Ordering::Relaxed);
        // SAFETY: every block of this allocator came from `System` with the layout that it was requested with, and `size` is
        // not zero and within the limits of `GlobalAlloc::realloc`.
        unsafe { System.realloc(block, layout, size) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: every block of this allocator came from `System` with the layout that it was requested with.
        unsafe { System.dealloc(block, layout) }
    }
}
