//! Ctrl-C: calls that may take long end when it is pressed.
//!
//! Python delivers signals to its main thread, and only while that runs Python code. So a call that
//! may take long runs on a thread of its own while the main thread waits in pieces, and looks for
//! signals between them. Other threads get no signals, and make such calls themselves.

#![allow(unsafe_code, reason = "a function of Python's")]

use crate::ending;
use crate::errors::{self, IntoPython};
use cntk_reader::Result;
use cntk_reader_core::runtime::cancel::Canceller;
use cntk_reader_core::runtime::fork::Process;
use pyo3::prelude::*;
use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The time between two looks for signals.
const PIECE: Duration = Duration::from_millis(50);
/// The time between two attempts to cancel a call, which may not have begun yet, or which may begin
/// another call.
const ATTEMPT: Duration = Duration::from_millis(1);
/// The main thread waits no longer than this for a call that it has cancelled: the call may be
/// waiting for a pipe without a writer, or for users' code.
const PATIENCE: Duration = Duration::from_secs(3);

/// Ctrl-C has ended a call, and no call that may take long has succeeded since: users' code may be
/// stuck, so nothing waits for it.
static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// Whether Ctrl-C has ended the last call that took long.
pub fn has_interrupted() -> bool {
    INTERRUPTED.load(Ordering::Relaxed)
}

/// Notes whether Ctrl-C has ended a call.
pub fn note(interrupted: bool) {
    INTERRUPTED.store(interrupted, Ordering::Relaxed);
}

/// Presses Ctrl-C again, because the first one came in code that cannot raise it.
pub fn press(_: Python<'_>) {
    // SAFETY: the argument shows that this thread has the interpreter's lock.
    unsafe { pyo3::ffi::PyErr_SetInterrupt() };
}

thread_local! {
    /// Whether this is the main thread of the process.
    static IS_MAIN: Cell<Option<(Process, bool)>> = const { Cell::new(None) };
}

/// Whether this thread is the one that gets signals. After a fork that is the thread that forked.
pub fn is_main_thread(py: Python<'_>) -> bool {
    if let Some((process, is_main)) = IS_MAIN.get()
        && process.is_current()
    {
        return is_main;
    }
    // Without an answer nothing is cut off.
    let is_main = find_main_thread(py).unwrap_or(true);
    IS_MAIN.set(Some((Process::current(), is_main)));
    is_main
}

fn find_main_thread(py: Python<'_>) -> PyResult<bool> {
    let threading = py.import("threading")?;
    let main = threading.call_method0("main_thread")?.getattr("ident")?;
    threading.call_method0("get_ident")?.eq(main)
}

/// The outcome of a call: its result, or its panic.
type Outcome<R> = std::result::Result<Result<R>, Box<dyn Any + Send>>;

/// A call on a thread of its own.
struct Call<R> {
    outcome: Mutex<Option<Outcome<R>>>,
    is_over: Condvar,
}

impl<R> Call<R> {
    fn lock(&self) -> MutexGuard<'_, Option<Outcome<R>>> {
        // Nothing panics while it has the lock.
        self.outcome.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn end(&self, outcome: Outcome<R>) {
        *self.lock() = Some(outcome);
        self.is_over.notify_one();
    }

    /// The outcome, if there is one within this time.
    fn wait(&self, longest: Duration) -> Option<Outcome<R>> {
        let running = |outcome: &mut Option<_>| outcome.is_none();
        let waited = self.is_over.wait_timeout_while(self.lock(), longest, running);
        waited.unwrap_or_else(PoisonError::into_inner).0.take()
    }
}

/// Does work that may take long, without the interpreter's lock. In the main thread Ctrl-C ends it:
/// whatever exception its handler raises comes out of this function, usually KeyboardInterrupt.
///
/// `canceller` is the one that the calls inside of `work` run under, either as the canceller of
/// their reader or by [`Canceller::run`]. A result that `work` comes to nevertheless is dropped,
/// possibly later and on another thread: if users' code that it waits for does not return, this
/// function returns before `work` does.
pub fn interruptible<R: Send + 'static>(
    py: Python<'_>,
    canceller: &Canceller,
    work: impl FnOnce() -> Result<R> + Send + 'static,
) -> PyResult<R> {
    if !is_main_thread(py) {
        return ending::detached(py, work).python(py);
    }
    // A handler of a signal that has come already may raise.
    py.check_signals()?;
    let call = Arc::new(Call { outcome: Mutex::new(None), is_over: Condvar::new() });
    let running = Arc::clone(&call);
    std::thread::Builder::new().name("cntk-call".to_owned()).spawn(move || {
        // Captured values are dropped before the end of the call is announced.
        running.end(catch_unwind(AssertUnwindSafe(work)));
    })?;
    loop {
        match py.detach(|| call.wait(PIECE)) {
            Some(Ok(result)) => return result.python(py),
            Some(Err(panic)) => return Err(errors::of_panic(&*panic)).python(py),
            None => {}
        }
        if let Err(exception) = py.check_signals() {
            note(true);
            py.detach(|| cancel(&call, canceller));
            return Err(exception);
        }
    }
}

/// Cancels a call, and waits for its end, but not for ever.
fn cancel<R>(call: &Call<R>, canceller: &Canceller) {
    let begun = Instant::now();
    while begun.elapsed() < PATIENCE {
        canceller.cancel();
        if call.wait(ATTEMPT).is_some() {
            return;
        }
    }
}
