//! Interpreter finalization while threads may still be in calls.
//!
//! CPython up to 3.13 ends a thread that requests the GIL during finalization by unwinding its
//! stack, and unwinding Rust frames aborts the process. So by then no library thread may run Python
//! code, and no thread may return to Python from the library. An `atexit` function, which runs
//! while all threads still work, ensures both:
//!
//! - It refuses new callbacks and waits for the running ones, as Python waits for non-daemon
//!   threads ([`exit`]). Ctrl-C ends that wait, and the process.
//! - It waits until the other threads, which can only be daemons, have left the extension's
//!   functions, whose calls it cancels. Threads that enter one later are parked.

use crate::{callback, errors, forms, interrupt};
use cntk_reader_core::runtime::exit;
use pyo3::prelude::*;
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

/// Whether the interpreter is finalizing.
static IS_ENDING: AtomicBool = AtomicBool::new(false);
/// Number of sections that all threads are in.
static SECTIONS: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// Number of sections that this thread is in.
    static DEPTH: Cell<usize> = const { Cell::new(0) };
}

/// Interval at which finalization polls for running calls.
const POLL_INTERVAL: Duration = Duration::from_millis(1);

/// Returns whether the interpreter is finalizing.
pub fn is_ending() -> bool {
    IS_ENDING.load(Ordering::SeqCst)
}

/// A guard for the time that a thread spends in an extension function that releases the GIL or runs
/// Python code, which may release it.
pub struct Section {
    is_counted: bool,
}

impl Section {
    /// Enters a section. Once the interpreter is finalizing, all threads but the main one and those
    /// in callbacks are parked.
    pub fn enter(py: Python<'_>) -> Section {
        // Finalization waits for callbacks in any case.
        if interrupt::is_main_thread(py) || callback::is_inside() {
            return Section { is_counted: false };
        }
        if is_ending() && DEPTH.get() == 0 {
            py.detach(|| exit::park());
        }
        SECTIONS.fetch_add(1, Ordering::SeqCst);
        DEPTH.set(DEPTH.get() + 1);
        Section { is_counted: true }
    }
}

impl Drop for Section {
    fn drop(&mut self) {
        if self.is_counted {
            DEPTH.set(DEPTH.get() - 1);
            SECTIONS.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

/// Runs `work` without the GIL. If the interpreter finalizes meanwhile, a daemon thread does not
/// return.
pub fn detached<R: Send>(py: Python<'_>, work: impl FnOnce() -> R + Send) -> R {
    let _section = Section::enter(py);
    py.detach(|| {
        let result = work();
        if is_ending() && DEPTH.get() > 0 {
            SECTIONS.fetch_sub(DEPTH.get(), Ordering::SeqCst);
            exit::park();
        }
        result
    })
}

/// Resets the count of sections in a forked child, which has no other threads.
#[pyfunction]
fn after_fork_in_child() {
    SECTIONS.store(DEPTH.get(), Ordering::SeqCst);
}

/// Refuses new callbacks, and from now on parks threads other than the main one instead of letting
/// them return from the library.
#[pyfunction]
fn end_calls(py: Python<'_>) -> PyResult<()> {
    exit::refuse();
    IS_ENDING.store(true, Ordering::SeqCst);
    // Finalizers that run later may use minibatches and get errors.
    errors::prepare(py)?;
    forms::prepare(py)
}

/// Waits until no other thread is in a callback or in an extension function. Raises
/// KeyboardInterrupt if Ctrl-C comes first.
#[pyfunction]
fn await_calls(py: Python<'_>) -> PyResult<()> {
    let are_running = || exit::others_inside() || SECTIONS.load(Ordering::SeqCst) > 0;
    while are_running() {
        py.detach(|| std::thread::sleep(POLL_INTERVAL));
        py.check_signals()?;
    }
    // The remaining cleanup is quick, and part of process exit.
    py.detach(|| exit::close());
    Ok(())
}

/// Adds the functions to the module.
pub fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(after_fork_in_child, module)?)?;
    module.add_function(wrap_pyfunction!(end_calls, module)?)?;
    module.add_function(wrap_pyfunction!(await_calls, module)?)
}
