//! Memory as on a machine that has little: what asks for too much at once gets none, as the library must expect.

use cntk_reader_core::fuzzing::MOST_MEMORY;
use std::alloc::{GlobalAlloc, Layout, System};
use std::ptr::null_mut;

/// The system's memory, [`MOST_MEMORY`] bytes at a time.
pub struct Limited;

// SAFETY: every call goes on to the system's allocator with the same arguments, or returns NULL, which says that there is no memory.
unsafe impl GlobalAlloc for Limited {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's layout, under the same contract.
        if layout.size() > MOST_MEMORY { null_mut() } else { unsafe { System.alloc(layout) } }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's layout, under the same contract.
        if layout.size() > MOST_MEMORY { null_mut() } else { unsafe { System.alloc_zeroed(layout) } }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller's memory, layout and size, under the same contract.
        if size > MOST_MEMORY { null_mut() } else { unsafe { System.realloc(memory, layout, size) } }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller's memory and layout, under the same contract.
        unsafe { System.dealloc(memory, layout) }
    }
}
