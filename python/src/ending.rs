//! The end of the interpreter, while threads may still be in calls.
//!
//! CPython up to 3.13 ends a thread that wants the interpreter's lock once the interpreter ends, by
//! unwinding its stack; unwinding frames of Rust aborts the process. So a thread must neither run
//! Python code for the library then, nor come back to Python from the library. A function of
//! `atexit`, which runs while all threads still work, sees to both:
//!
//! - no callback begins any more, and those that run are waited for, as Python waits for threads
//!   that are no daemons ([`exit`]); Ctrl-C ends that wait, and the process;
//! - calls of other threads, which can only be daemons, are cancelled, and park when they end.

use crate::interrupt;
use cntk_reader_core::runtime::exit;
use pyo3::prelude::*;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

/// The interpreter ends.
static IS_ENDING: AtomicBool = AtomicBool::new(false);
/// Threads, apart from the main one, in calls that have released the interpreter's lock.
static DETACHED: AtomicUsize = AtomicUsize::new(0);

/// How often the end looks whether it may go on.
const LOOK: Duration = Duration::from_millis(1);

/// Whether the interpreter ends.
pub fn is_ending() -> bool {
    IS_ENDING.load(Ordering::SeqCst)
}

/// Does some work without the interpreter's lock. If the interpreter ends meanwhile, a thread other
/// than the main one does not return.
pub fn detached<R: Send>(py: Python<'_>, work: impl FnOnce() -> R + Send) -> R {
    if interrupt::is_main_thread(py).unwrap_or(true) {
        return py.detach(work);
    }
    DETACHED.fetch_add(1, Ordering::SeqCst);
    let result = py.detach(|| {
        let result = work();
        if is_ending() {
            DETACHED.fetch_sub(1, Ordering::SeqCst);
            exit::park();
        }
        result
    });
    DETACHED.fetch_sub(1, Ordering::SeqCst);
    result
}

/// From now on no callback begins, and threads other than the main one do not return from the
/// library.
#[pyfunction]
fn end_calls() {
    exit::refuse();
    IS_ENDING.store(true, Ordering::SeqCst);
}

/// Waits until no other thread is in a callback, nor in a call that it would return from. Raises
/// KeyboardInterrupt if Ctrl-C comes first.
#[pyfunction]
fn await_calls(py: Python<'_>) -> PyResult<()> {
    let are_running = || exit::others_inside() || DETACHED.load(Ordering::SeqCst) > 0;
    while are_running() {
        py.detach(|| std::thread::sleep(LOOK));
        py.check_signals()?;
    }
    // What is left to do is quick, and part of the end of the process.
    py.detach(|| exit::close());
    Ok(())
}

/// Adds the functions to the module.
pub fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(end_calls, module)?)?;
    module.add_function(wrap_pyfunction!(await_calls, module)?)
}
