//! The end of the interpreter, while threads may still be in calls.
//!
//! CPython up to 3.13 ends a thread that wants the interpreter's lock once the interpreter ends, by
//! unwinding its stack; unwinding frames of Rust aborts the process. So a thread must neither run
//! Python code for the library then, nor come back to Python from the library. A function of
//! `atexit`, which runs while all threads still work, sees to both:
//!
//! - no callback begins any more, and those that run are waited for, as Python waits for threads
//!   that are no daemons ([`exit`]); Ctrl-C ends that wait, and the process;
//! - other threads, which can only be daemons, are waited for until they have left the extension's
//!   functions, and park where they enter one afterwards. Their calls are cancelled.

use crate::{callback, errors, forms, interrupt};
use cntk_reader_core::runtime::exit;
use pyo3::prelude::*;
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

/// The interpreter ends.
static IS_ENDING: AtomicBool = AtomicBool::new(false);
/// Sections that threads are in.
static SECTIONS: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// Sections that this thread is in.
    static DEPTH: Cell<usize> = const { Cell::new(0) };
}

/// How often the end looks whether it may go on.
const LOOK: Duration = Duration::from_millis(1);

/// Whether the interpreter ends.
pub fn is_ending() -> bool {
    IS_ENDING.load(Ordering::SeqCst)
}

/// This thread is in a function of the extension that releases the interpreter's lock, or that runs
/// Python code, which may release it.
pub struct Section {
    is_counted: bool,
}

impl Section {
    /// Enters. Once the interpreter ends, only the main thread and callbacks do.
    pub fn enter(py: Python<'_>) -> Section {
        // The interpreter waits for callbacks in any case.
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

/// Does some work without the interpreter's lock. If the interpreter ends meanwhile, a daemon
/// thread does not return.
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

/// In the child of a fork there is no other thread.
#[pyfunction]
fn after_fork_in_child() {
    SECTIONS.store(DEPTH.get(), Ordering::SeqCst);
}

/// From now on no callback begins, and threads other than the main one do not return from the
/// library.
#[pyfunction]
fn end_calls(py: Python<'_>) -> PyResult<()> {
    exit::refuse();
    IS_ENDING.store(true, Ordering::SeqCst);
    // Finalizers that run later may use minibatches, and get errors.
    errors::prepare(py)?;
    forms::prepare(py)
}

/// Waits until no other thread is in a callback, nor in a function of the extension. Raises
/// KeyboardInterrupt if Ctrl-C comes first.
#[pyfunction]
fn await_calls(py: Python<'_>) -> PyResult<()> {
    let are_running = || exit::others_inside() || SECTIONS.load(Ordering::SeqCst) > 0;
    while are_running() {
        py.detach(|| std::thread::sleep(LOOK));
        py.check_signals()?;
    }
    // The rest is quick, and part of the end of the process.
    py.detach(|| exit::close());
    Ok(())
}

/// Adds the functions to the module.
pub fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(after_fork_in_child, module)?)?;
    module.add_function(wrap_pyfunction!(end_calls, module)?)?;
    module.add_function(wrap_pyfunction!(await_calls, module)?)
}
