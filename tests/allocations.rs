//! Once it is warm, a reader allocates nothing for a minibatch.
//!
//! The allocator counts for the whole process, threads of the library included; so there is one test here.

use cntk_reader::capi::configuration::cntk_reader_epoch;
use cntk_reader::capi::minibatch::cntk_reader_minibatch_release;
use cntk_reader::capi::reader::{
    cntk_reader_destroy, cntk_reader_open_text, cntk_reader_read_minibatch, cntk_reader_start_epoch,
};
use cntk_reader::capi::status::cntk_reader_status::CNTK_READER_OK;
use cntk_reader::config::from_text;
use cntk_reader::randomize::SIZE_UNLIMITED;
use cntk_reader::reader::{Epoch, ReadConfig, Reader};
use std::alloc::{GlobalAlloc, Layout, System};
use std::path::Path;
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Counts what it is asked for.
struct Counting;

static ALLOCATIONS: AtomicUsize = AtomicUsize::new(0);

// SAFETY: hands everything on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, start: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(start, layout) };
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Sequences in the file.
const SEQUENCES: u32 = 5_000;

/// Sweeps after which nothing is to be allocated any more. The order is another one in each, and so the largest
/// minibatch comes late.
const WARM_UP: usize = 20;

/// Writes sequences of up to `longest` samples, with a word, a bag of words and a dense vector each.
fn write(file: &Path, longest: u32) {
    let mut text = String::new();
    for id in 0..SEQUENCES {
        for sample in 0..=id * 7 % longest {
            let (row, count) = ((id * 31 + sample) % 100, 2 + id % 7);
            text += &format!("{id} |w {row}:1 |b {row}:{count} {}:1 |x {id} {sample}\n", (row + 1) % 100);
        }
    }
    std::fs::write(file, text).expect("writing the data");
}

fn config(file: &Path, mode: &str) -> String {
    format!(
        "randomize = true\n{mode}\ndeserializers = ([\n\
         type = \"CNTKTextFormatDeserializer\"\nmodule = \"CNTKTextFormatReader\"\nfile = \"{}\"\ninput = [\n\
         w = [ dim = 100 ; format = \"sparse\" ]\nb = [ dim = 100 ; format = \"sparse\" ]\n\
         x = [ dim = 2 ; format = \"dense\" ]\n]\n])\n",
        file.display()
    )
}

fn open(file: &Path, mode: &str) -> Reader {
    Reader::open(&from_text(&config(file, mode)).expect("a configuration")).expect("a reader")
}

/// Allocations of one sweep after the warm-up; between two reads the caller is away for a while.
fn allocations(mut reader: Reader, minibatch: u64, away: Duration) -> usize {
    let read = ReadConfig::new(minibatch).cross_sweeps(false);
    let epoch = Epoch::from_numbers(read, SIZE_UNLIMITED, WARM_UP as u64 + 2, 0);
    reader.start_epoch(&epoch).expect("an epoch");
    let mut sweeps = 0;
    let mut before = 0;
    while sweeps <= WARM_UP {
        let minibatch = reader.read().expect("a minibatch");
        assert!(!minibatch.end_of_epoch, "the data end too early");
        sweeps += usize::from(minibatch.end_of_sweep);
        if sweeps < WARM_UP {
            before = ALLOCATIONS.load(Ordering::Relaxed);
        }
        if !away.is_zero() {
            std::thread::sleep(away);
        }
    }
    ALLOCATIONS.load(Ordering::Relaxed) - before
}

/// The same through the C ABI, where a sweep has this many minibatches.
fn allocations_in_c(config: &str, minibatch: u64, minibatches: usize) -> usize {
    let mut reader = null_mut();
    let epoch = cntk_reader_epoch {
        struct_size: size_of::<cntk_reader_epoch>(),
        workers: 1,
        rank: 0,
        minibatch,
        truncation: 0,
        right_splice: 0,
        cross_sweeps: 1,
        samples: SIZE_UNLIMITED,
        sweeps: WARM_UP as u64 + 2,
        index: 0,
    };
    let mut before = 0;
    // SAFETY: the text has this length; each minibatch is released once, before the reader is destroyed.
    unsafe {
        let opened = cntk_reader_open_text(config.as_ptr().cast(), config.len(), &mut reader, null_mut());
        assert_eq!(opened, CNTK_READER_OK);
        assert_eq!(cntk_reader_start_epoch(reader, &epoch, null_mut()), CNTK_READER_OK);
        for number in 0..(WARM_UP + 1) * minibatches {
            if number == WARM_UP * minibatches {
                before = ALLOCATIONS.load(Ordering::Relaxed);
            }
            let mut minibatch = null();
            assert_eq!(cntk_reader_read_minibatch(reader, &mut minibatch, null_mut()), CNTK_READER_OK);
            cntk_reader_minibatch_release(minibatch);
        }
        let allocations = ALLOCATIONS.load(Ordering::Relaxed) - before;
        cntk_reader_destroy(reader);
        allocations
    }
}

#[test]
fn a_warm_reader_allocates_nothing() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a temporary folder");
    let (long, single) = (folder.path().join("long.ctf"), folder.path().join("single.ctf"));
    write(&long, 9);
    write(&single, 1);
    let none = Duration::ZERO;
    assert_eq!(allocations(open(&long, ""), 256, none), 0, "sequences");
    assert_eq!(allocations(open(&long, ""), 1, none), 0, "single sequences");
    assert_eq!(allocations(open(&single, "frameMode = true"), 64, none), 0, "frames");
    assert_eq!(
        allocations(open(&long, "truncated = true\ntruncationLength = 4"), 128, none),
        0,
        "truncated sequences"
    );
    let minibatches = SEQUENCES as usize / 50;
    assert_eq!(allocations_in_c(&config(&single, "frameMode = true"), 50, minibatches), 0, "C");
    // Long enough to be assembled ahead, by a thread of its own.
    let ahead = Duration::from_micros(200);
    assert_eq!(allocations(open(&long, ""), 8_192, ahead), 0, "sequences, read ahead");
}
