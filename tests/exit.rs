//! The end of a reader, and of a process: no user's deserializer is running any more.
//!
//! Each run is a process of its own, which reads from two slow deserializers in frame mode, as of HTK features and labels.
//! Once their module's objects are gone, anything that still runs in them ends the process with a signal.

#![allow(unsafe_code, reason = "calls of the C library")]

mod common;

use cntk_reader::Result;
use cntk_reader::language::{self, UserType};
use cntk_reader_core::format::user::{
    Buffer, Registered, Sequences, StreamData, UserChunk, UserDeserializer,
};
use cntk_reader_core::stream::{ElementType, StreamInfo};
use cntk_reader_engine::reader::{Epoch, Others, ReadConfig, Reader};
use common::child;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

/// Runs of each way to end.
const RUNS: usize = 200;
/// How the process ends, for the child.
const END: &str = "CNTK_READER_TEST_END";

const CHUNKS: u32 = 40;
const SEQUENCES: u32 = 5;

/// The objects that the deserializers' module uses are gone.
static GONE: AtomicBool = AtomicBool::new(false);
/// Number of calls of user code, by which the child sees whether more was loaded.
static LOADS: AtomicUsize = AtomicUsize::new(0);

/// Ends the process with a signal if the module's objects are gone, as code that uses them would.
fn crash_if_gone() {
    if GONE.load(Ordering::SeqCst) {
        std::process::abort();
    }
}

struct Slow {
    streams: [StreamInfo; 1],
    /// Ends the process from within a load, somewhat after the first window.
    exits: bool,
}

/// Memory of the user, which user code frees.
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
        // SAFETY: `start` and `bytes` are the vector's in `owned`, which the buffer keeps and nothing changes or frees before.
        let values = unsafe { Buffer::from_raw(start, bytes, ElementType::Float, owned) };
        Ok(UserChunk::arrays(vec![StreamData::dense(values)]))
    }
}

/// A reader of both deserializers that has loaded something, and loads ahead.
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
    let mut reader = Reader::open_with(&options, &Others { registered: &registered, ..Others::default() })
        .expect("a reader");
    let read = ReadConfig::new(SEQUENCES.into());
    reader.start_epoch(&Epoch::sweeps(2).read_config(read)).expect("an epoch");
    for _ in 0..2 {
        let minibatch = reader.read().expect("a minibatch");
        assert_eq!(minibatch.streams.len(), 2);
    }
    reader
}

/// Registered before anything else, so it runs last at the end of the process: what is still running then has time to crash.
extern "C" fn linger() {
    std::thread::sleep(Duration::from_micros(600));
}

/// Runs before `linger`, as the destructors of the objects of the deserializers' module do.
extern "C" fn destroy_objects() {
    GONE.store(true, Ordering::SeqCst);
}

/// The program of a child. Does nothing unless a test below has started this process.
#[test]
fn child_ends() {
    let Ok(end) = std::env::var(END) else { return };
    // SAFETY: both have the signature that `atexit` requires, `extern "C" fn()`, and are part of the program, which is never
    // unloaded.
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
            // A process that ends in the middle of its work leaves memory that nobody frees.
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
fn nothing_is_loaded_for_a_reader_that_was_destroyed() {
    run("destroyed", RUNS);
}

#[test]
fn nothing_is_loaded_while_the_process_ends() {
    run("exit", RUNS);
}

#[test]
fn a_deserializer_may_end_the_process_itself() {
    run("inside", 20);
}
