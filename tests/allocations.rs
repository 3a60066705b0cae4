//! A warm reader allocates nothing for a minibatch, and a warm image reader nothing for an image.
//!
//! The allocator counts for the whole process, including the library's threads, so this file has a
//! single test.

#![allow(unsafe_code, reason = "an allocator that counts, and calls of the C ABI")]

use cntk_reader::language::from_text;
use cntk_reader_capi::epoch::{cntk_reader_epoch, cntk_reader_epoch_start};
use cntk_reader_capi::minibatch::{cntk_reader_minibatch_read, cntk_reader_minibatch_release};
use cntk_reader_capi::reader::cntk_reader_free;
use cntk_reader_capi::source::{cntk_reader_open, cntk_reader_source};
use cntk_reader_capi::status::cntk_reader_status::CNTK_READER_STATUS_OK;
use cntk_reader_engine::randomize::{SIZE_UNLIMITED, SWEEPS_UNLIMITED};
use cntk_reader_engine::reader::{Epoch, ReadConfig, Reader};
use std::alloc::{GlobalAlloc, Layout, System};
use std::mem::MaybeUninit;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// An allocator that counts its allocations.
struct Counting;

static ALLOCATIONS: AtomicUsize = AtomicUsize::new(0);

// SAFETY: `alloc` and `dealloc` forward their arguments unchanged to `System` and return its
// result. Counting in an atomic neither allocates nor unwinds.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller guarantees that the size of `layout` is not zero, as `System.alloc`
        // requires.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, start: *mut u8, layout: Layout) {
        // SAFETY: `start` was returned by `System.alloc` with this layout, in `alloc` above.
        unsafe { System.dealloc(start, layout) };
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Sequences in the file.
const SEQUENCES: u32 = 5_000;

/// A reader is warm once this many consecutive sweeps have allocated nothing.
const QUIET_SWEEPS: usize = 3;

/// Sweeps within which a reader must become warm.
///
/// The number needed depends on the machine. A minibatch's buffers grow when a larger minibatch
/// than ever before is packed into them, and which recycled minibatch that is depends on timing:
/// how many minibatches of a batch each thread packs, and how many the caller still holds while
/// others are read ahead. So a rarely used one may meet a large minibatch late. A reader that
/// allocates for each minibatch, window or sweep never becomes warm.
const MAX_SWEEPS: usize = 200;

/// Writes sequences of up to `longest` samples, with a word, a bag of words and a dense vector
/// each.
fn write(file: &Path, longest: u32) {
    let mut text = String::new();
    for id in 0..SEQUENCES {
        for sample in 0..=id * 7 % longest {
            let (index, count) = ((id * 31 + sample) % 100, 2 + id % 7);
            text +=
                &format!("{id} |w {index}:1 |b {index}:{count} {}:1 |x {id} {sample}\n", (index + 1) % 100);
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

/// Reads sweeps until the reader is warm. Fails with the allocations of each sweep if it never is.
fn warm_up(mut read_sweep: impl FnMut()) -> Result<(), Vec<usize>> {
    let mut allocations = Vec::with_capacity(MAX_SWEEPS);
    for _ in 0..MAX_SWEEPS {
        let before = ALLOCATIONS.load(Ordering::Relaxed);
        read_sweep();
        allocations.push(ALLOCATIONS.load(Ordering::Relaxed) - before);
        if allocations.ends_with(&[0; QUIET_SWEEPS]) {
            return Ok(());
        }
    }
    Err(allocations)
}

/// Checks that a reader becomes warm if the caller pauses between two reads.
fn warms_up(mut reader: Reader, minibatch: u64, away: Duration) -> Result<(), Vec<usize>> {
    let read = ReadConfig::new(minibatch).cross_sweeps(false);
    let epoch = Epoch::from_numbers(read, SIZE_UNLIMITED, SWEEPS_UNLIMITED, 0);
    reader.start_epoch(&epoch).expect("an epoch");
    warm_up(|| {
        loop {
            let minibatch = reader.read().expect("a minibatch");
            assert!(!minibatch.end_of_epoch, "the data end too early");
            if !away.is_zero() {
                std::thread::sleep(away);
            }
            if minibatch.end_of_sweep {
                return;
            }
        }
    })
}

/// Checks that a reader becomes warm when read through the C ABI, where a sweep has this many
/// minibatches.
fn warms_up_in_c(config: &str, minibatch: u64, minibatches: usize) -> Result<(), Vec<usize>> {
    let mut reader = MaybeUninit::uninit();
    let source = cntk_reader_source {
        text: config.as_ptr().cast(),
        text_length: config.len(),
        ..cntk_reader_source::default()
    };
    let epoch = cntk_reader_epoch {
        struct_size: size_of::<cntk_reader_epoch>(),
        workers: 1,
        rank: 0,
        minibatch_size: minibatch,
        truncation_length: 0,
        right_splice: 0,
        cross_sweeps: 1,
        samples: SIZE_UNLIMITED,
        sweeps: SWEEPS_UNLIMITED,
        index: 0,
    };
    // SAFETY: `source` has its size from `default`, and `text` and `text_length` describe a string
    // that outlives the call. The handle is read only after the assertion that the call succeeded
    // and so has written it.
    let reader = unsafe {
        assert_eq!(cntk_reader_open(&raw const source, Some(&mut reader), None), CNTK_READER_STATUS_OK);
        reader.assume_init()
    };
    // SAFETY: `reader` is freed only at the end of this function, and `epoch.struct_size` is the
    // size of `epoch`.
    assert_eq!(unsafe { cntk_reader_epoch_start(reader, &epoch, None) }, CNTK_READER_STATUS_OK);
    let warm = warm_up(|| {
        for _ in 0..minibatches {
            let mut minibatch = MaybeUninit::uninit();
            // SAFETY: `reader` is freed only after this loop. The assertion ensures that the call
            // succeeded and so has written `minibatch` with one reference, which is released once.
            unsafe {
                let status = cntk_reader_minibatch_read(reader, Some(&mut minibatch), None);
                assert_eq!(status, CNTK_READER_STATUS_OK);
                cntk_reader_minibatch_release(minibatch.assume_init());
            }
        }
    });
    // SAFETY: the handle is freed only here.
    unsafe { cntk_reader_free(reader) };
    warm
}

/// Images of a map, and images of a minibatch.
const IMAGES: usize = 512;
const AT_ONCE: usize = 64;

/// Allocations of a minibatch of images: distributing its images to the pool's threads, and reading
/// ahead.
const OF_A_MINIBATCH: usize = 24;

/// Sweeps over images, enough for crops of all sizes on all kinds of threads.
const IMAGE_SWEEPS: usize = 40;

/// Returns the minimum number of allocations of a sweep over images.
fn image_allocations(folder: &Path) -> usize {
    let images = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/images/files/images");
    let names = ["s420.jpg", "s422.jpg", "s444.jpg", "sprog.jpg", "sgray.jpg"];
    let line = |i: usize| format!("{images}/{}\t{}\n", names[i % names.len()], i % 10);
    let map = folder.join("map.txt");
    std::fs::write(&map, (0..IMAGES).map(line).collect::<String>()).expect("writing the map");
    let config = format!(
        "deserializers = ([ type = \"ImageDeserializer\" ; module = \"ImageReader\" ; file = \"{}\"\ninput = [\n\
         features = [ transforms = ([ type = \"Crop\" ; cropType = \"RandomSide\" ; sideRatio = \"0.5:1\" ; \
         jitterType = \"UniRatio\" ]:[ type = \"Scale\" ; width = 20 ; height = 20 ; channels = 3 ]:\
         [ type = \"Transpose\" ]) ]\nlabels = [ labelDim = 10 ] ] ])\n",
        map.display()
    );
    let mut reader = Reader::open(&from_text(&config).expect("a configuration")).expect("a reader");
    let read = ReadConfig::new(AT_ONCE as u64).cross_sweeps(false);
    reader.start_epoch(&Epoch::from_numbers(read, SIZE_UNLIMITED, SWEEPS_UNLIMITED, 0)).expect("an epoch");
    let sweep = |_| {
        let before = ALLOCATIONS.load(Ordering::Relaxed);
        while !reader.read().expect("a minibatch").end_of_sweep {}
        ALLOCATIONS.load(Ordering::Relaxed) - before
    };
    (0..IMAGE_SWEEPS).map(sweep).min().unwrap_or(usize::MAX)
}

#[test]
fn warm_reader_allocates_nothing() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a temporary folder");
    let (long, single) = (folder.path().join("long.ctf"), folder.path().join("single.ctf"));
    write(&long, 9);
    write(&single, 1);
    let none = Duration::ZERO;
    assert_eq!(warms_up(open(&long, ""), 256, none), Ok(()), "sequences");
    assert_eq!(warms_up(open(&long, ""), 1, none), Ok(()), "single sequences");
    assert_eq!(warms_up(open(&single, "frameMode = true"), 64, none), Ok(()), "frames");
    assert_eq!(
        warms_up(open(&long, "truncated = true\ntruncationLength = 4"), 128, none),
        Ok(()),
        "truncated sequences"
    );
    let minibatches = SEQUENCES as usize / 50;
    assert_eq!(warms_up_in_c(&config(&single, "frameMode = true"), 50, minibatches), Ok(()), "C");
    // Long enough for a separate thread to pack ahead.
    let ahead = Duration::from_micros(200);
    assert_eq!(warms_up(open(&long, ""), 8_192, ahead), Ok(()), "sequences, read ahead");
    let (images, most) = (image_allocations(folder.path()), IMAGES / AT_ONCE * OF_A_MINIBATCH);
    assert!(images <= most, "{images} allocations for {IMAGES} images, {most} for their minibatches");
}
