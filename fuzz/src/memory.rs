//! An allocator like that of a machine with little memory: large allocations fail, which the
//! library must handle.

use cntk_reader_core::fuzzing::MAX_MEMORY;
use std::alloc::{GlobalAlloc, Layout, System};
use std::ptr::null_mut;

/// The system's allocator, limited to [`MAX_MEMORY`] bytes per allocation.
pub struct Limited;

// SAFETY: every call passes its arguments unchanged to the system's allocator, or returns NULL,
// which reports that there is no memory.
unsafe impl GlobalAlloc for Limited {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's layout, under the same contract.
        if layout.size() > MAX_MEMORY { null_mut() } else { unsafe { System.alloc(layout) } }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's layout, under the same contract.
        if layout.size() > MAX_MEMORY { null_mut() } else { unsafe { System.alloc_zeroed(layout) } }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller's memory, layout and size, under the same contract.
        if size > MAX_MEMORY { null_mut() } else { unsafe { System.realloc(memory, layout, size) } }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller's memory and layout, under the same contract.
        unsafe { System.dealloc(memory, layout) }
    }
}
