//! A host's runtime may end threads inside callbacks, as Python does once its interpreter ends:
//! `pthread_exit` must not unwind the library's frames, and nothing may wait for such a thread. And
//! no callback runs after a host has ended callbacks.
//!
//! Each run is a separate process, because it ends with lost threads.

#![allow(unsafe_code, reason = "calls of the C ABI")]
#![cfg(target_os = "linux")]

mod common;

use cntk_reader_capi::epoch::{cntk_reader_epoch, cntk_reader_epoch_start};
use cntk_reader_capi::error::{cntk_reader_error, cntk_reader_error_free, cntk_reader_error_get_text};
use cntk_reader_capi::failure::{cntk_reader_failure, cntk_reader_failure_set_message};
use cntk_reader_capi::minibatch::{cntk_reader_minibatch_read, cntk_reader_minibatch_release};
use cntk_reader_capi::process::cntk_reader_callbacks_end;
use cntk_reader_capi::reader::{cntk_reader as Handle, cntk_reader_free};
use cntk_reader_capi::source::{cntk_reader_open, cntk_reader_source};
use cntk_reader_capi::status::cntk_reader_status;
use cntk_reader_capi::user_chunk::cntk_reader_user_chunk;
use cntk_reader_capi::user_data::{
    cntk_reader_user_array, cntk_reader_user_stream, cntk_reader_user_stream_data,
};
use cntk_reader_capi::user_deserializer::cntk_reader_user_deserializer;
use common::child;
use std::ffi::{CStr, c_void};
use std::mem::MaybeUninit;
use std::ptr::null_mut;
use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// The environment variable that names the task of a child.
const CASE: &str = "CNTK_READER_TEST_CASE";

/// The first chunk at which the callback behaves as the case says.
const ODD_CHUNK: u32 = 1;
const CHUNKS: u32 = 8;
static VALUES: [f32; 4] = [1.0, 2.0, 3.0, 4.0];
static LOADS: AtomicUsize = AtomicUsize::new(0);
static BEHAVIOR: AtomicUsize = AtomicUsize::new(0);
const ENDS_ITS_THREAD: usize = 1;
const SAYS_WHY_AND_SUCCEEDS: usize = 2;
const TAKES_LONG: usize = 3;
const ENDS_CALLBACKS: usize = 4;

/// Two callbacks meet here.
static AT_THE_END: Barrier = Barrier::new(2);

unsafe extern "C-unwind" {
    /// Unwinds the stack, unlike its declaration in the crate `libc`.
    fn pthread_exit(value: *mut c_void) -> !;
}

/// A callback that can be unwound, as C++ or Python would compile it.
unsafe extern "C-unwind" fn load(
    userdata: *mut c_void,
    chunk: u32,
    loaded: *mut cntk_reader_user_chunk,
    failure: *mut cntk_reader_failure,
) -> i32 {
    LOADS.fetch_add(1, Ordering::SeqCst);
    if chunk >= ODD_CHUNK {
        match BEHAVIOR.load(Ordering::SeqCst) {
            // SAFETY: the frames between here and the library's have nothing to drop.
            ENDS_ITS_THREAD => unsafe { pthread_exit(null_mut()) },
            // SAFETY: `failure` is the library's, and the message is a static string.
            SAYS_WHY_AND_SUCCEEDS => unsafe {
                cntk_reader_failure_set_message(failure, c"given up".as_ptr(), usize::MAX);
            },
            TAKES_LONG => std::thread::sleep(Duration::from_millis(300)),
            ENDS_CALLBACKS => {
                AT_THE_END.wait();
                cntk_reader_callbacks_end();
            }
            _ => {}
        }
    }
    // SAFETY: the userdata points to the array's description, which lives until the process ends.
    unsafe {
        (*loaded).streams = userdata.cast();
        (*loaded).stream_count = 1;
    }
    0
}

/// Opens a reader of chunks of four samples, in order.
fn open() -> *mut Handle {
    // SAFETY: all-zero bytes are valid for structs of integers and pointers.
    let (mut array, mut data, mut stream, mut table) = unsafe {
        (
            MaybeUninit::<cntk_reader_user_array>::zeroed().assume_init(),
            MaybeUninit::<cntk_reader_user_stream_data>::zeroed().assume_init(),
            MaybeUninit::<cntk_reader_user_stream>::zeroed().assume_init(),
            MaybeUninit::<cntk_reader_user_deserializer>::zeroed().assume_init(),
        )
    };
    array.values = VALUES.as_ptr().cast();
    (array.values_size, array.samples, array.element) = (size_of_val(&VALUES), VALUES.len(), 1);
    (data.arrays, data.array_count) = (Box::leak(Box::new(array)), 1);
    static SHAPE: usize = 1;
    (stream.name, stream.name_length) = (c"x".as_ptr(), 1);
    (stream.shape, stream.shape_rank, stream.element) = (&raw const SHAPE, 1, 1);
    table.struct_size = size_of::<cntk_reader_user_deserializer>();
    table.userdata = (&raw mut *Box::leak(Box::new(data))).cast();
    (table.name, table.name_length) = (c"mine".as_ptr(), 4);
    (table.streams, table.stream_count, table.chunk_count) = (&raw const stream, 1, CHUNKS);
    table.load_chunk = Some(load);
    let tables = [&raw const table];
    let source = cntk_reader_source {
        text: c"randomize = false ; deserializers = ([ type = \"mine\" ; module = \"m\" ])".as_ptr(),
        text_length: usize::MAX,
        deserializers: tables.as_ptr(),
        deserializer_count: 1,
        ..cntk_reader_source::default()
    };
    let mut reader = MaybeUninit::uninit();
    let mut error = MaybeUninit::uninit();
    // SAFETY: everything that the source points to lives until the call returns.
    let status = unsafe { cntk_reader_open(&raw const source, Some(&mut reader), Some(&mut error)) };
    if status != cntk_reader_status::CNTK_READER_STATUS_OK {
        panic!("{}", text(error));
    }
    // SAFETY: the call succeeded, so it has written the handle.
    let reader = unsafe { reader.assume_init() };
    let epoch = cntk_reader_epoch { minibatch_size: 4, ..cntk_reader_epoch::default() };
    // SAFETY: the reader is open, and the epoch has its size.
    let status = unsafe { cntk_reader_epoch_start(reader, &raw const epoch, None) };
    assert_eq!(status, cntk_reader_status::CNTK_READER_STATUS_OK);
    reader
}

fn text(error: MaybeUninit<*mut cntk_reader_error>) -> String {
    // SAFETY: the call failed, so it has written an error, whose text lives until it is freed.
    unsafe {
        let error = error.assume_init();
        let text = CStr::from_ptr(cntk_reader_error_get_text(error.as_ref())).to_string_lossy().into_owned();
        cntk_reader_error_free(error);
        text
    }
}

/// Reads until the first error.
fn read(reader: *mut Handle) -> String {
    for _ in 0..100 {
        let mut minibatch = MaybeUninit::uninit();
        let mut error = MaybeUninit::uninit();
        // SAFETY: the reader is open.
        let status = unsafe { cntk_reader_minibatch_read(reader, Some(&mut minibatch), Some(&mut error)) };
        if status != cntk_reader_status::CNTK_READER_STATUS_OK {
            return text(error);
        }
        // SAFETY: the call succeeded, so it has written a minibatch, which is released once.
        unsafe { cntk_reader_minibatch_release(minibatch.assume_init()) };
    }
    "no error".to_owned()
}

/// The program of a child. Does nothing unless a test below started this process.
#[test]
fn child() {
    let Ok(case) = std::env::var(CASE) else { return };
    let reader = open();
    match case.as_str() {
        "ends its thread" => {
            BEHAVIOR.store(ENDS_ITS_THREAD, Ordering::SeqCst);
            child::say(&read(reader));
            // Another reader still works, and is freed without its threads.
            BEHAVIOR.store(0, Ordering::SeqCst);
            child::say(&read(open()));
        }
        "says why" => {
            BEHAVIOR.store(SAYS_WHY_AND_SUCCEEDS, Ordering::SeqCst);
            child::say(&read(reader));
        }
        "callbacks end" => {
            BEHAVIOR.store(TAKES_LONG, Ordering::SeqCst);
            let thread = std::thread::spawn(|| {
                let other = open();
                child::say(&read(other));
            });
            while LOADS.load(Ordering::SeqCst) < 2 {
                std::thread::yield_now();
            }
            cntk_reader_callbacks_end();
            let loads = LOADS.load(Ordering::SeqCst);
            thread.join().expect("no panic");
            assert_eq!(LOADS.load(Ordering::SeqCst), loads, "loads after the end of callbacks");
        }
        "two callbacks end callbacks" => {
            BEHAVIOR.store(ENDS_CALLBACKS, Ordering::SeqCst);
            let thread = std::thread::spawn(|| child::say(&read(open())));
            child::say(&read(reader));
            thread.join().expect("no panic");
        }
        _ => unreachable!(),
    }
    // SAFETY: the handle is freed once.
    unsafe { cntk_reader_free(reader) };
}

fn run(case: &str) -> Vec<String> {
    let began = Instant::now();
    let output = child::this_program()
        .args(["--exact", "child", "--nocapture", "--test-threads=1"])
        .env(CASE, case)
        // A process whose threads never end leaks memory.
        .env("ASAN_OPTIONS", "detect_leaks=0")
        .output()
        .expect("a child process");
    assert!(output.status.success(), "{} {}", output.status, String::from_utf8_lossy(&output.stderr));
    assert!(began.elapsed() < Duration::from_secs(9), "the lost thread was waited for");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines().filter_map(|line| line.strip_prefix("child says: ")).map(str::to_owned).collect()
}

#[test]
fn thread_ended_in_a_callback_is_not_waited_for() {
    let said = run("ends its thread");
    assert!(said.iter().all(|line| line.contains("ended inside a callback")), "{said:?}");
    assert_eq!(said.len(), 2);
}

#[test]
fn callback_with_a_failure_message_fails_despite_success_status() {
    let said = run("says why");
    assert!(said[0].contains("given up"), "{said:?}");
}

#[test]
fn no_callback_runs_after_callbacks_have_ended() {
    let said = run("callbacks end");
    assert!(said[0].contains("The process ends"), "{said:?}");
}

#[test]
fn two_callbacks_may_end_callbacks_at_once() {
    let said = run("two callbacks end callbacks");
    assert!(said.iter().all(|line| line.contains("The process ends")), "{said:?}");
    assert_eq!(said.len(), 2);
}
