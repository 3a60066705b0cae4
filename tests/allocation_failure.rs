//! Out of memory: every large allocation of a run fails once, and the run is then continued to its
//! end.
//!
//! The allocator of this program counts allocations of at least [`LARGE`] bytes. A run opens a
//! reader, reads a sweep and takes a checkpoint on the way, or converts a file. An undisturbed run
//! counts the allocations; then one more run for each of them lets it fail. A call may fail with
//! the kind `Memory`, or continue without the memory if it can; the call is then retried, and all
//! minibatches and outputs have to equal those of the undisturbed run. In a second mode all large
//! allocations of one call fail.
//!
//! Blocks for chunks that come from the system instead of the allocator (`memory::pages`) do not
//! fail here.
//!
//! The short form lets only some of the allocations fail. With `SITES` in the environment the large
//! allocations of the undisturbed runs are printed with the functions that request them, and none
//! fails.

#![allow(unsafe_code, reason = "an allocator that fails")]

mod common;
#[path = "allocation_failure/data.rs"]
mod data;
#[path = "allocation_failure/image.rs"]
mod image;
#[path = "allocation_failure/runs.rs"]
mod runs;
#[path = "allocation_failure/user.rs"]
mod user;

use cntk_reader::{ErrorKind, Result};
use cntk_reader_core::runtime::pool;
use cntk_reader_core::testing::is_long;
use cntk_reader_engine::randomize::SIZE_UNLIMITED;
use cntk_reader_engine::reader::{Epoch, ReadConfig, Reader};
use common::seen::Seen;
use runs::{Conversion, Reading, Run, Work, runs};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Minimum size of a large allocation, in bytes. Smaller ones do not fail here.
const LARGE: usize = 64 << 10;

/// Large allocations since the count began.
static COUNT: AtomicUsize = AtomicUsize::new(0);
/// The number of the allocation that fails.
static FAILING: AtomicUsize = AtomicUsize::new(usize::MAX);
/// Whether all large allocations fail.
static NONE_LEFT: AtomicBool = AtomicBool::new(false);
/// Whether large allocations are printed.
static SHOWS: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// Set while the test itself allocates, which neither counts nor fails.
    static EXEMPT: Cell<bool> = const { Cell::new(false) };
}

/// Runs the test's own work, exempt from counting and failing.
fn exempt<T>(work: impl FnOnce() -> T) -> T {
    let before = EXEMPT.replace(true);
    let result = work();
    EXEMPT.set(before);
    result
}

/// An allocator that refuses memory on request.
struct Scarce;

impl Scarce {
    fn refuses(size: usize) -> bool {
        if size < LARGE || EXEMPT.try_with(Cell::get).unwrap_or(true) {
            return false;
        }
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        if SHOWS.load(Ordering::Relaxed) {
            exempt(|| eprintln!("{size} bytes:\n{}", std::backtrace::Backtrace::force_capture()));
        }
        number == FAILING.load(Ordering::Relaxed) || NONE_LEFT.load(Ordering::Relaxed)
    }
}

// SAFETY: all calls are forwarded to `System` with unchanged arguments, or return null, which
// reports a lack of memory. Counting neither allocates nor unwinds; printing allocates from
// `System` alone, because the thread is exempt meanwhile.
unsafe impl GlobalAlloc for Scarce {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if Scarce::refuses(layout.size()) {
            return null_mut();
        }
        // SAFETY: the caller's layout, whose size is not zero.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if Scarce::refuses(layout.size()) {
            return null_mut();
        }
        // SAFETY: the caller's layout, whose size is not zero.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, start: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // Shrinking never fails: the block may stay as it is.
        if size > layout.size() && Scarce::refuses(size) {
            return null_mut();
        }
        // SAFETY: `start` came from `System` with `layout`, and the caller's size is not zero.
        unsafe { System.realloc(start, layout, size) }
    }

    unsafe fn dealloc(&self, start: *mut u8, layout: Layout) {
        // SAFETY: `start` came from `System` with `layout`.
        unsafe { System.dealloc(start, layout) };
    }
}

#[global_allocator]
static ALLOCATOR: Scarce = Scarce;

/// Retries calls that fail for lack of memory. Errors of other kinds fail the test.
struct Patient<'a> {
    run: &'a Run,
    failing: usize,
    errors: usize,
    calls: usize,
    /// The number of the call during which there is no memory.
    starved: usize,
}

impl Patient<'_> {
    fn call<T>(&mut self, what: &str, mut call: impl FnMut() -> Result<T>) -> T {
        NONE_LEFT.store(self.calls == self.starved, Ordering::Relaxed);
        self.calls += 1;
        let mut attempts = 0;
        loop {
            let outcome = call();
            NONE_LEFT.store(false, Ordering::Relaxed);
            match outcome {
                Ok(value) => return value,
                Err(error) => exempt(|| {
                    let place = format!("{}, allocation {}, {what}", self.run.name, self.failing);
                    assert_eq!(error.kind(), ErrorKind::Memory, "{place}: {error}");
                    assert!(error.to_string().contains("There is no memory for "), "{place}: {error}");
                    assert!(!error.detail().is_empty(), "{place}: {error}");
                    attempts += 1;
                    assert!(attempts < 4, "{place}: {attempts} times: {error}");
                    self.errors += 1;
                }),
            }
        }
    }

    /// Does the run's work. Returns the contents of the minibatches or the outputs.
    fn work(&mut self) -> Vec<String> {
        match &self.run.work {
            Work::Reading(reading) => self.sweep(reading),
            Work::Converting(conversion) => self.convert(conversion),
        }
    }

    /// Converts a file.
    fn convert(&mut self, conversion: &Conversion) -> Vec<String> {
        self.call("a conversion", || (conversion.convert)());
        exempt(|| {
            conversion.outputs.iter().map(|path| digest(&std::fs::read(path).expect("an output"))).collect()
        })
    }

    /// Opens, reads a sweep, takes a checkpoint after the second minibatch and restores it into
    /// another reader. Returns the contents of the minibatches.
    fn sweep(&mut self, reading: &Reading) -> Vec<String> {
        let mut reader = self.call("opening", || reading.open());
        let mut digests = exempt(Vec::new);
        let epoch = Epoch::from_numbers(ReadConfig::new(reading.minibatch), SIZE_UNLIMITED, 1, 0);
        self.call("an epoch", || reader.start_epoch(&epoch));
        loop {
            let minibatch = self.call("a read", || reader.read());
            let is_end = minibatch.end_of_epoch;
            exempt(|| digests.push(Seen::of(&minibatch, reader.streams()).digest()));
            drop(minibatch);
            if digests.len() == 2 && reading.restores {
                reader = self.continued(reading, &reader);
            }
            if is_end || digests.len() == reading.most {
                return digests;
            }
        }
    }

    /// Returns another reader that continues at this one's position.
    fn continued(&mut self, reading: &Reading, reader: &Reader) -> Reader {
        let bytes = self.call("a checkpoint", || reader.checkpoint());
        let mut other = self.call("opening again", || reading.open());
        self.call("restoring", || other.restore(&bytes));
        other
    }
}

/// Returns the number of bytes and their hash.
fn digest(bytes: &[u8]) -> String {
    format!("{} bytes, {:08x}", bytes.len(), crc32fast::hash(bytes))
}

/// The result of a run.
struct Outcome {
    digests: Vec<String>,
    errors: usize,
    calls: usize,
    allocations: usize,
}

fn outcome(run: &Run, failing: usize, starved: usize) -> Outcome {
    // Use another number of threads than the run before, so that their memory is new, too.
    pool::set_threads(5 - pool::threads());
    COUNT.store(0, Ordering::Relaxed);
    FAILING.store(failing, Ordering::Relaxed);
    let mut patient = Patient { run, failing, errors: 0, calls: 0, starved };
    let digests = patient.work();
    FAILING.store(usize::MAX, Ordering::Relaxed);
    let (errors, calls) = (patient.errors, patient.calls);
    Outcome { digests, errors, calls, allocations: COUNT.load(Ordering::Relaxed) }
}

#[test]
fn failed_allocations_are_errors_that_can_be_retried() {
    common::quiet();
    pool::set_threads(2);
    let folder = tempfile::tempdir().expect("a folder");
    let wanted = std::env::var("RUN").unwrap_or_default();
    let mut all = exempt(|| runs(folder.path()));
    all.retain(|run| run.name.contains(&wanted));
    let shows = std::env::var_os("SITES").is_some();
    let (mut all_failed, mut all_errors, mut all_starved) = (0, 0, 0);
    for run in &all {
        SHOWS.store(shows, Ordering::Relaxed);
        let clean = outcome(run, usize::MAX, usize::MAX);
        SHOWS.store(false, Ordering::Relaxed);
        if shows {
            continue;
        }
        let least = if matches!(run.work, Work::Reading(_)) { 4 } else { 0 };
        assert!(
            clean.errors == 0 && clean.digests.len() >= least && clean.allocations > 0,
            "{}: {:?}",
            run.name,
            clean.digests
        );
        let step = if is_long() { 1 } else { 20 * run.step };
        let (mut errors, mut failed) = (0, 0);
        let check = |outcome: &Outcome, what: usize| {
            assert_eq!(outcome.digests.len(), clean.digests.len(), "{}, {what}", run.name);
            for (number, pair) in outcome.digests.iter().zip(&clean.digests).enumerate() {
                assert_eq!(pair.0, pair.1, "{}, {what}, minibatch {number}", run.name);
            }
        };
        for failing in (0..clean.allocations).step_by(step) {
            let outcome = outcome(run, failing, usize::MAX);
            check(&outcome, failing);
            failed += 1;
            errors += outcome.errors;
        }
        let mut starved_errors = 0;
        for starved in (0..clean.calls).step_by(step) {
            let outcome = outcome(run, usize::MAX, starved);
            check(&outcome, starved);
            starved_errors += outcome.errors;
        }
        println!(
            "{}: {} large allocations in {} calls; {failed} failed, {errors} of them an error; \
             {starved_errors} errors of calls without any",
            run.name, clean.allocations, clean.calls
        );
        (all_failed, all_errors) = (all_failed + failed, all_errors + errors);
        all_starved += starved_errors;
    }
    println!(
        "figures: {all_failed} failed allocations in {} runs, {all_errors} errors and {all_starved} of calls without any memory; all data \
         delivered",
        all.len()
    );
}
