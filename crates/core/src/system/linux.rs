//! Linux.

#[cfg(miri)]
pub use super::plain::{refuse_cancel, stop_unwinding};
// musl's `pow` differs from glibc's.
#[cfg(not(target_env = "gnu"))]
pub use super::plain::power_of_ten;
pub use super::unix::*;

use super::HUGE_PAGE;
use std::ffi::CString;
use std::fs::{File, OpenOptions};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::ptr::NonNull;
#[cfg(not(miri))]
pub use unwinding::{refuse_cancel, stop_unwinding};

/// The folder of this process's open files.
const DESCRIPTORS: &str = "/proc/self/fd";

/// The largest page size of the supported processors.
const LARGEST_PAGE: usize = 64 << 10;

/// Creates a file without a name in a folder: the system removes it whenever the process ends,
/// unless [`name_unnamed`] has named it.
pub fn open_unnamed(options: &OpenOptions, folder: &Path) -> io::Result<File> {
    // The file will get its name through the folder of descriptors.
    if !Path::new(DESCRIPTORS).exists() {
        return Err(io::ErrorKind::Unsupported.into());
    }
    open_new(options.clone().custom_flags(libc::O_TMPFILE), folder)
}

/// Gives a file without a name this one. Fails if there is such a file.
pub fn name_unnamed(file: &File, name: &Path) -> io::Result<()> {
    let from = CString::new(format!("{DESCRIPTORS}/{}", file.as_raw_fd()))?;
    let to = CString::new(name.as_os_str().as_bytes())?;
    let (here, flags) = (libc::AT_FDCWD, libc::AT_SYMLINK_FOLLOW);
    // SAFETY: `from` and `to` are `CString`s, so NUL-terminated, and live until the end of this
    // function; the call only reads them and keeps no pointer to them.
    match unsafe { libc::linkat(here, from.as_ptr(), here, to.as_ptr(), flags) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Returns a path by which this process can read an open file, whatever its name.
pub fn path_of_open(file: &File) -> Option<String> {
    Path::new(DESCRIPTORS).exists().then(|| format!("{DESCRIPTORS}/{}", file.as_raw_fd()))
}

/// Returns whether a path is one of an open file of this process, which says nothing about the
/// file's type.
pub fn is_path_of_open(path: &[u8]) -> bool {
    path.strip_prefix(DESCRIPTORS.as_bytes()).is_some_and(|rest| rest.starts_with(b"/"))
}

/// Maps `size` zeroed bytes, aligned to a page, or to a huge page if they are that many and a
/// multiple of a page's size; `None` if memory is exhausted. Pages are created when they are first
/// written.
///
/// The C library's allocator also maps large blocks at first. But whenever one is freed, it raises
/// its limit and begins to keep blocks of that size in per-thread arenas, without returning them:
/// after 40 readers served by sixteen threads in turn, 114 MB stayed resident, and 63 MB with
/// chunks allocated here.
pub fn allocate_pages(size: usize) -> Option<NonNull<u8>> {
    if size < HUGE_PAGE || !size.is_multiple_of(LARGEST_PAGE) {
        return map(size);
    }
    let larger = map(size.checked_add(HUGE_PAGE)?)?;
    let before = larger.addr().get().next_multiple_of(HUGE_PAGE) - larger.addr().get();
    let unmap = |from: usize, size: usize| {
        if size > 0 {
            // SAFETY: the range lies within the mapping, outside the `size` bytes that are kept,
            // and consists of whole pages: `before` and `size` are multiples of a page's size. Its
            // address has not been given to anyone.
            unsafe { libc::munmap(larger.as_ptr().add(from).cast(), size) };
        }
    };
    unmap(0, before);
    unmap(before + size, HUGE_PAGE - before);
    // SAFETY: `before` is less than HUGE_PAGE, and the mapping has `size + HUGE_PAGE` bytes.
    Some(unsafe { larger.add(before) })
}

/// Creates a mapping of this size.
fn map(size: usize) -> Option<NonNull<u8>> {
    let (protection, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: a new mapping at an address chosen by the system overlaps nothing; a size of 0 or one
    // that is too large is an error, which is checked below.
    let start = unsafe { libc::mmap(std::ptr::null_mut(), size, protection, kind, -1, 0) };
    if start == libc::MAP_FAILED { None } else { NonNull::new(start.cast()) }
}

/// Unmaps memory.
///
/// # Safety
/// `start` and `size` must be those of a block of [`allocate_pages`] or [`grow_pages`], which is
/// not used any more.
pub unsafe fn free_pages(start: NonNull<u8>, size: usize) {
    // SAFETY: by this function's contract, the range is a mapping of its own.
    unsafe { libc::munmap(start.as_ptr().cast(), size) };
}

/// Grows a block to `new` bytes and returns its new address, which need not be aligned to a huge
/// page. The content is kept, and the rest is zeroed. Returns `None`, without any change, if memory
/// is exhausted.
///
/// # Safety
/// As for [`free_pages`], and `new` must be at least `size`. If the result is an address, the old
/// one must not be used any more.
pub unsafe fn grow_pages(start: NonNull<u8>, size: usize, new: usize) -> Option<NonNull<u8>> {
    // SAFETY: by this function's contract, the range is a mapping of its own. If the mapping moves,
    // the caller stops using the old address; if the call fails, nothing has changed.
    let start = unsafe { libc::mremap(start.as_ptr().cast(), size, new, libc::MREMAP_MAYMOVE) };
    if start == libc::MAP_FAILED { None } else { NonNull::new(start.cast()) }
}

/// Populates the pages of memory that is about to be written completely for the first time. Pages
/// that exist already are not changed. Before Linux 5.14, each page is created by the first write
/// to it.
pub fn populate(memory: &mut [MaybeUninit<u8>]) {
    /// Page size in bytes. The page size of every supported system is this or a multiple of it.
    const PAGE: usize = 4096;
    let start = memory.as_mut_ptr();
    let before = start.addr() % PAGE;
    // Exclude a partially covered last page, which may never be written.
    let size = (before + memory.len()) / PAGE * PAGE;
    if size > PAGE {
        // SAFETY: the range begins `before` bytes before `memory`, at the start of the page that
        // contains its first byte, and ends within `memory`, because `size` is rounded down to
        // whole pages. So it consists of pages that `memory` occupies, which are mapped.
        // `MADV_POPULATE_WRITE` does not change any content, whether it succeeds or fails.
        unsafe { libc::madvise(start.wrapping_sub(before).cast(), size, libc::MADV_POPULATE_WRITE) };
    }
}

/// Returns glibc's `pow(10, exponent)`, as CNTK does. It is not always the double nearest to the
/// power.
#[cfg(target_env = "gnu")]
pub fn power_of_ten(exponent: f64) -> f64 {
    // SAFETY: `pow` has the C signature `double pow(double, double)`, accesses no memory of the
    // caller, and is defined for all arguments.
    unsafe { pow(10.0, exponent) }
}

// Declared here instead of calling `f64::powf`, which the compiler may evaluate with its own `pow`.
#[cfg(target_env = "gnu")]
unsafe extern "C" {
    fn pow(base: f64, exponent: f64) -> f64;
}

/// Asks for a huge page for memory of its size and alignment, and returns whether there may be one.
pub fn advise_huge(memory: &mut [MaybeUninit<u8>]) -> bool {
    // SAFETY: the range is `memory`, which is borrowed and thus mapped. The advice does not change
    // the content, whether it succeeds or fails.
    unsafe { libc::madvise(memory.as_mut_ptr().cast(), memory.len(), libc::MADV_HUGEPAGE) == 0 }
}

#[cfg(not(miri))]
mod unwinding {
    use std::ffi::{c_int, c_void};
    use std::mem::MaybeUninit;
    use std::ptr::null_mut;

    /// `struct _pthread_cleanup_buffer` of glibc, and the smaller `struct __ptcb` of musl.
    type Buffer = [*mut c_void; 4];

    unsafe extern "C" {
        fn _pthread_cleanup_push(
            buffer: *mut Buffer,
            routine: extern "C" fn(*mut c_void),
            argument: *mut c_void,
        );
        fn _pthread_cleanup_pop(buffer: *mut Buffer, execute: i32);
        fn pthread_setcancelstate(state: c_int, old: *mut c_int) -> c_int;
    }

    /// `PTHREAD_CANCEL_DISABLE` of glibc and musl.
    const DISABLE: c_int = 1;

    /// Keeps `pthread_cancel` from acting on this thread.
    pub fn refuse_cancel() {
        let mut old = 0;
        // SAFETY: `DISABLE` is a valid state, and `old` is a live variable for the previous one.
        unsafe { pthread_setcancelstate(DISABLE, &raw mut old) };
    }

    /// Calls `call`. If that ends the thread, `park`, which must not return, is called after the
    /// frame of this function has been unwound, and before that of its caller is.
    ///
    /// The C library runs the handler of an unwound frame before it proceeds to the next frame. So
    /// this function must have a frame of its own. Its frame and that of `call`, which may be
    /// inlined, are unwound: they have nothing to drop, and the call in them may unwind.
    #[inline(never)]
    pub fn stop_unwinding<R: Copy>(call: impl FnOnce() -> R, park: extern "C" fn(*mut c_void)) -> R {
        let mut buffer = MaybeUninit::<Buffer>::uninit();
        // SAFETY: the buffer is at least as large as the C library's, and does not move until it is
        // popped below, or until `park` has run, which never returns. Between the two calls there
        // is only the foreign call. If it unwinds, control passes to `park`, so the buffer is not
        // used again.
        unsafe { _pthread_cleanup_push(buffer.as_mut_ptr(), park, null_mut()) };
        let result = call();
        // SAFETY: this buffer was pushed last.
        unsafe { _pthread_cleanup_pop(buffer.as_mut_ptr(), 0) };
        result
    }
}
