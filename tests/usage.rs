//! The memory that a reader reports, compared with a counting allocator and with mapped memory.
//!
//! Both count for the whole process, so this file has a single test. It is for glibc only, because
//! musl's allocator calls these functions, too.

#![cfg(all(target_os = "linux", target_env = "gnu"))]
#![allow(unsafe_code, reason = "an allocator that counts, and functions that stand before mmap and munmap")]

use cntk_reader::language::from_text;
use cntk_reader_engine::reader::{Epoch, MemoryUse, ReadConfig, Reader};
use std::alloc::{GlobalAlloc, Layout, System};
use std::fmt::Write as _;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

/// An allocator that counts the currently allocated bytes.
struct Counting;

static ALLOCATED: AtomicUsize = AtomicUsize::new(0);

// SAFETY: `alloc` and `dealloc` forward their arguments unchanged to `System` and return its
// result. Counting in an atomic neither allocates nor unwinds.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATED.fetch_add(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller guarantees that the size of `layout` is not zero, as `System.alloc`
        // requires.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, start: *mut u8, layout: Layout) {
        ALLOCATED.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: `start` was returned by `System.alloc` with this layout, in `alloc` above.
        unsafe { System.dealloc(start, layout) };
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Counts large blocks, which the library maps with these functions. The definitions here replace
/// the C library's for the program; the C library's own memory does not pass through them.
mod system {
    use super::{ALLOCATED, Ordering};
    use libc::{c_int, c_void, off_t, size_t};

    #[unsafe(no_mangle)]
    unsafe extern "C" fn mmap(
        address: *mut c_void,
        size: size_t,
        protection: c_int,
        flags: c_int,
        file: c_int,
        offset: off_t,
    ) -> *mut c_void {
        ALLOCATED.fetch_add(size, Ordering::Relaxed);
        // SAFETY: the system call has the same arguments and requirements as this function.
        unsafe {
            libc::syscall(libc::SYS_mmap, address, size, protection, flags, file, offset) as *mut c_void
        }
    }

    #[unsafe(no_mangle)]
    unsafe extern "C" fn munmap(address: *mut c_void, size: size_t) -> c_int {
        ALLOCATED.fetch_sub(size, Ordering::Relaxed);
        // SAFETY: the system call has the same arguments and requirements as this function.
        unsafe { libc::syscall(libc::SYS_munmap, address, size) as c_int }
    }
}

/// Bytes that may be allocated beyond the reported number: memory with which threads parse and pack
/// (up to 2 MB per thread, two of them here), queues, and the small objects around the arrays.
const UNCOUNTED: u64 = 5 << 20;

/// Reads two sweeps while the caller holds 4 minibatches, and compares at several points the bytes
/// allocated since the reader was opened with the reported number. Returns the maximum reported.
fn compare(config: &str, minibatch_size: u64) -> MemoryUse {
    let settings = from_text(config).expect("a configuration");
    let before = ALLOCATED.load(Ordering::Relaxed) as u64;
    let mut reader = Reader::open(&settings).expect("a reader");
    let index = reader.memory();
    assert_eq!((index.window, index.buffers), (0, 0), "nothing is loaded yet");
    assert!(index.index > 0);
    let read = ReadConfig::new(minibatch_size);
    reader.start_epoch(&Epoch::sweeps(2).read_config(read)).expect("an epoch");
    let mut held = std::collections::VecDeque::new();
    let mut most = MemoryUse::default();
    let mut comparisons = 0;
    for number in 0.. {
        let minibatch = reader.read().expect("a minibatch");
        if minibatch.end_of_epoch {
            break;
        }
        held.push_back(minibatch);
        if held.len() > 4 {
            held.pop_front();
        }
        if number % 5 == 4 {
            let memory = reader.memory();
            let allocated = ALLOCATED.load(Ordering::Relaxed) as u64 - before;
            // Chunks are loaded ahead during the comparison, so their memory may be in only one of
            // the numbers.
            let tolerance = UNCOUNTED + memory.window / 4;
            assert!(
                memory.total() <= allocated + tolerance && allocated <= memory.total() + tolerance,
                "{memory:?}: {} in all, {allocated} allocated",
                memory.total()
            );
            comparisons += 1;
            if memory.total() > most.total() {
                most = memory;
            }
        }
    }
    assert!(comparisons > 1);
    drop(reader);
    most
}

fn config(file: &Path, options: &str) -> String {
    format!(
        "traceLevel = 0\nrandomize = true\n{options}\ndeserializers = ([\ntype = \"CNTKTextFormatDeserializer\"\n\
         module = \"CNTKTextFormatReader\"\nchunkSizeInBytes = 2000000\nfile = \"{}\"\n\
         input = [ x = [ dim = 40 ; format = \"dense\" ] ; y = [ dim = 1000 ; format = \"sparse\" ] ]\n])\n",
        file.display()
    )
}

#[test]
fn reported_memory_matches_allocated_memory() {
    cntk_reader_core::runtime::pool::set_threads(2);
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a temporary folder");
    let file = folder.path().join("data.ctf");
    let mut text = String::new();
    for id in 0..60_000_u32 {
        write!(text, "{id} |y {}:1 |x", id % 1000).expect("a string");
        for value in 0..40 {
            // Values of six digits are stored as plain floats.
            write!(text, " 0.{:06}", (id * 7919 + value * 104_729) % 1_000_000).expect("a string");
        }
        text.push('\n');
    }
    std::fs::write(&file, text).expect("writing the data");

    // The window holds all data, and takes most of the memory.
    let all = compare(&config(&file, ""), 256);
    assert!(all.window > 6 << 20, "{all:?}");
    // A window of two chunks and large minibatches, whose buffers take most of the memory.
    let few = "randomizationWindow = 2\nsampleBasedRandomizationWindow = false";
    let buffers = compare(&config(&file, few), 8_192);
    assert!(buffers.window < all.window, "{buffers:?}, {all:?}");
    assert!(buffers.buffers > 4 * 8_192 * 40 * 4, "{buffers:?}");
}
