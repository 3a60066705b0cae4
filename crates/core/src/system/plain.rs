//! The way that works on every system.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::fs::{File, OpenOptions};
use std::io;
use std::mem::MaybeUninit;
use std::path::Path;
use std::ptr::NonNull;

/// Alignment of blocks of memory: a page of most systems.
const PAGE: usize = 4096;

/// Creates no file: the system has no files without names.
pub fn open_unnamed(_: &OpenOptions, _: &Path) -> io::Result<File> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Fails: the system has no files without names.
pub fn name_unnamed(_: &File, _: &Path) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Returns a path by which this process can read an open file, whatever its name; here there is
/// none.
pub fn path_of_open(_: &File) -> Option<String> {
    None
}

/// Returns whether a path is one of an open file of this process, which says nothing about the
/// file's type.
pub fn is_path_of_open(_: &[u8]) -> bool {
    false
}

/// Allocates `size` zeroed bytes, aligned to a page; `None` if memory is exhausted.
pub fn allocate_pages(size: usize) -> Option<NonNull<u8>> {
    let layout = Layout::from_size_align(size, PAGE).ok().filter(|layout| layout.size() > 0)?;
    // SAFETY: the size is not 0, as checked by the line above.
    NonNull::new(unsafe { alloc_zeroed(layout) })
}

/// Frees memory.
///
/// # Safety
/// `start` and `size` must be those of a block of [`allocate_pages`] or [`grow_pages`], which is
/// not used any more.
pub unsafe fn free_pages(start: NonNull<u8>, size: usize) {
    if let Ok(layout) = Layout::from_size_align(size, PAGE) {
        // SAFETY: by this function's contract, the block was allocated with this layout, which
        // depends on the size alone.
        unsafe { dealloc(start.as_ptr(), layout) };
    }
}

/// Grows a block to `new` bytes and returns its new address. The content is kept, and the rest is
/// zeroed. Returns `None`, without any change, if memory is exhausted.
///
/// # Safety
/// As for [`free_pages`], and `new` must be at least `size`. If the result is an address, the old
/// one must not be used any more.
pub unsafe fn grow_pages(start: NonNull<u8>, size: usize, new: usize) -> Option<NonNull<u8>> {
    let larger = allocate_pages(new)?;
    // SAFETY: both blocks have at least `size` bytes, and a new block overlaps no other. The old
    // one is not used afterwards.
    unsafe {
        larger.copy_from_nonoverlapping(start, size);
        free_pages(start, size);
    }
    Some(larger)
}

/// Populates the pages of memory that is about to be written completely for the first time; here,
/// the first write to a page creates it.
pub fn populate(_: &mut [MaybeUninit<u8>]) {}

/// Returns ten to the power of an integer, with the bits of glibc 2.28 and newer: the nearest
/// double, but for two powers.
pub fn power_of_ten(exponent: f64) -> f64 {
    let nearest = format!("1e{exponent}").parse().unwrap_or(if exponent < 0.0 { 0.0 } else { f64::INFINITY });
    match exponent {
        23.0 | 210.0 => f64::next_up(nearest),
        _ => nearest,
    }
}

/// Asks for a huge page, and returns whether there may be one; here there is none.
pub fn advise_huge(_: &mut [MaybeUninit<u8>]) -> bool {
    false
}

/// Calls `call`, after which the thread goes on: here, a thread that ends inside unwinds nothing.
pub fn stop_unwinding<R: Copy>(call: impl FnOnce() -> R, _: extern "C" fn(*mut std::ffi::c_void)) -> R {
    call()
}

/// Keeps other threads from ending this one; here, that unwinds nothing.
pub fn refuse_cancel() {}
