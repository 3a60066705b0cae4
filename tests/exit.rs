//! User-defined deserializers are not running after the end of a reader, or at the end of a
//! process.
//!
//! Each run is a separate process that reads from two slow deserializers in frame mode, like HTK
//! features and labels. Once their module's objects are gone, anything that still runs in them ends
//! the process with a signal.

#![allow(unsafe_code, reason = "calls of the C library")]

mod common;

use cntk_reader::Result;
use cntk_reader::language::{self, UserType};
use cntk_reader_core::format::user::{
    Buffer, Registered, Sequences, StreamData, UserChunk, UserDeserializer,
};
use cntk_reader_core::stream::{ElementType, StreamInfo};
use cntk_reader_engine::reader::{Epoch, Extensions, ReadConfig, Reader};
use common::child;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

/// Runs for each way to end.
const RUNS: usize = 200;
/// The environment variable that tells the child how to end.
const END: &str = "CNTK_READER_TEST_END";

const CHUNKS: u32 = 40;
const SEQUENCES: u32 = 5;

/// Whether the objects that the deserializers' module uses are gone.
static GONE: AtomicBool = AtomicBool::new(false);
/// Number of calls of user code, by which the child sees whether more was loaded.
static LOADS: AtomicUsize = AtomicUsize::new(0);

/// Aborts the process if the module's objects are gone, like a crash in code that uses them.
fn crash_if_gone() {
    if GONE.load(Ordering::SeqCst) {
        std::process::abort();
    }
}

struct Slow {
    streams: [StreamInfo; 1],
    /// Whether a load ends the process, somewhat after the first window.
    exits: bool,
}

/// The user's memory, which user code frees.
struct Owned(Vec<f32>);

impl Drop for Owned {
    fn drop(&mut self) {
        crash_if_gone();
    }
}

impl UserDeserializer for Slow {
    fn streams(&self) -> &[StreamInfo] {
        &self.streams
    }

    fn chunk_count(&self) -> u32 {
        CHUNKS
    }

    fn sequences(&self, _chunk: u32) -> Result<Option<Sequences>> {
        Ok(Some(Sequences::of_one_sample(SEQUENCES)))
    }

    fn load(&self, chunk: u32) -> Result<UserChunk> {
        let loads = LOADS.fetch_add(1, Ordering::SeqCst);
        for _ in 0..8 {
            crash_if_gone();
            std::thread::sleep(Duration::from_micros(50));
        }
        crash_if_gone();
        if self.exits && loads > 12 {
            std::process::exit(0);
        }
        let owned = Arc::new(Owned(vec![chunk as f32; SEQUENCES as usize]));
        let (start, bytes) = (owned.0.as_ptr().cast(), size_of_val(owned.0.as_slice()));
        // SAFETY: `start` and `bytes` describe the vector in `owned`. The buffer keeps `owned`, and
        // until it drops it nothing changes or frees the vector.
        let values = unsafe { Buffer::from_raw(start, bytes, ElementType::Float, owned) };
        Ok(UserChunk::arrays(vec![StreamData::dense(values)]))
    }
}

/// Returns a reader of both deserializers that has loaded something, and loads ahead.
fn read_some(exits: bool) -> Reader {
    let types = [("Features", "x"), ("Labels", "y")];
    let sections = types.map(|(kind, _)| format!("[ type = \"{kind}\" ; module = \"m\" ]"));
    let text = format!(
        "randomize = true\nrandomizationWindow = 2\nsampleBasedRandomizationWindow = false\nframeMode = true\n\
         deserializers = ({})",
        sections.join(" : ")
    );
    let users = types.map(|(name, _)| UserType { name, composable: true });
    let options = language::from_text_with(&text, &users).expect("a configuration");
    let registered = types.map(|(kind, name)| {
        let streams = [StreamInfo::dense(name, &[1])];
        let slow = Slow { streams, exits: exits && name == "y" };
        Registered::new(kind, Arc::new(slow)).expect("a deserializer")
    });
    let mut reader =
        Reader::open_with(&options, &Extensions { registered: &registered, ..Extensions::default() })
            .expect("a reader");
    let read = ReadConfig::new(SEQUENCES.into());
    reader.start_epoch(&Epoch::sweeps(2).read_config(read)).expect("an epoch");
    for _ in 0..2 {
        let minibatch = reader.read().expect("a minibatch");
        assert_eq!(minibatch.streams.len(), 2);
    }
    reader
}

/// Registered first, so it runs last at the end of the process and gives anything still running
/// time to crash.
extern "C" fn linger() {
    std::thread::sleep(Duration::from_micros(600));
}

/// Runs before `linger`, like the destructors of the objects of the deserializers' module.
extern "C" fn destroy_objects() {
    GONE.store(true, Ordering::SeqCst);
}

/// The program of a child. Does nothing unless a test below started this process.
#[test]
fn child_ends() {
    let Ok(end) = std::env::var(END) else { return };
    // SAFETY: both functions have the signature that `atexit` requires, `extern "C" fn()`, and
    // belong to the program, which is never unloaded.
    unsafe {
        libc::atexit(linger);
        libc::atexit(destroy_objects);
    }
    let mut reader = read_some(end == "inside");
    if end == "destroyed" {
        drop(reader);
        let loads = LOADS.load(Ordering::SeqCst);
        destroy_objects();
        linger();
        assert_eq!(LOADS.load(Ordering::SeqCst), loads, "loads after the reader's end");
        return;
    }
    if end == "inside" {
        // One of the next chunks ends the process.
        loop {
            reader.read().expect("a minibatch");
        }
    }
    std::mem::forget(reader);
    assert_eq!(end, "exit");
    std::process::exit(0);
}

fn run(end: &str, runs: usize) {
    let mut failed = Vec::new();
    for run in 0..runs {
        let output = child::this_program()
            .args(["--exact", "child_ends", "--nocapture", "--test-threads=1"])
            .env(END, end)
            // A process that ends in the middle of its work leaks memory.
            .env("ASAN_OPTIONS", "detect_leaks=0")
            .output()
            .expect("a child process");
        if !output.status.success() {
            failed.push(format!("run {run}: {} {}", output.status, String::from_utf8_lossy(&output.stderr)));
        }
    }
    assert!(failed.is_empty(), "{} of {runs} runs failed, as {}", failed.len(), failed[0]);
}

#[test]
fn nothing_is_loaded_after_a_reader_is_destroyed() {
    run("destroyed", RUNS);
}

#[test]
fn nothing_is_loaded_during_process_exit() {
    run("exit", RUNS);
}

#[test]
fn deserializer_can_exit_the_process() {
    run("inside", 20);
}
