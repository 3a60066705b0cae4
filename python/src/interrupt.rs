//! Interrupts calls that may take long when Ctrl-C is pressed.
//!
//! Python delivers signals only to its main thread, and only while that runs Python code. So a call
//! that may take long runs on its own thread, while the main thread waits in short intervals and
//! checks for signals between them. Other threads get no signals and make such calls directly.

#![allow(unsafe_code, reason = "a function of CPython")]

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

/// Interval between two checks for signals.
const SIGNAL_INTERVAL: Duration = Duration::from_millis(50);
/// Interval between two attempts to cancel a call, which may not have started yet or may start
/// another call.
const CANCEL_INTERVAL: Duration = Duration::from_millis(1);
/// Maximum time that the main thread waits for a cancelled call, which may be blocked on a pipe
/// without a writer or in users' code.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(3);

/// Whether Ctrl-C has interrupted a long call and none has succeeded afterwards. Users' code may
/// then be stuck, so nothing waits for it.
static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// Returns whether Ctrl-C interrupted the last long call.
pub fn has_interrupted() -> bool {
    INTERRUPTED.load(Ordering::Relaxed)
}

/// Records whether Ctrl-C interrupted a call.
pub fn note(interrupted: bool) {
    INTERRUPTED.store(interrupted, Ordering::Relaxed);
}

/// Simulates Ctrl-C, because the real one arrived in code that cannot raise it.
pub fn press(_: Python<'_>) {
    // SAFETY: the argument proves that this thread holds the GIL.
    unsafe { pyo3::ffi::PyErr_SetInterrupt() };
}

thread_local! {
    /// Whether this thread is the main thread, cached for a process.
    static IS_MAIN: Cell<Option<(Process, bool)>> = const { Cell::new(None) };
}

/// Returns whether this is the thread that receives signals. After a fork that is the forking
/// thread.
pub fn is_main_thread(py: Python<'_>) -> bool {
    if let Some((process, is_main)) = IS_MAIN.get()
        && process.is_current()
    {
        return is_main;
    }
    // If Python cannot tell, assume the main thread, which loses no signals.
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

/// A call that runs on its own thread.
struct Call<R> {
    outcome: Mutex<Option<Outcome<R>>>,
    is_over: Condvar,
}

impl<R> Call<R> {
    fn lock(&self) -> MutexGuard<'_, Option<Outcome<R>>> {
        // No code panics while holding the lock.
        self.outcome.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn end(&self, outcome: Outcome<R>) {
        *self.lock() = Some(outcome);
        self.is_over.notify_one();
    }

    /// Waits for the outcome for at most this time.
    fn wait(&self, longest: Duration) -> Option<Outcome<R>> {
        let running = |outcome: &mut Option<_>| outcome.is_none();
        let waited = self.is_over.wait_timeout_while(self.lock(), longest, running);
        waited.unwrap_or_else(PoisonError::into_inner).0.take()
    }
}

/// Runs work that may take long without the GIL. On the main thread Ctrl-C interrupts it: the
/// exception that the signal handler raises, usually KeyboardInterrupt, is returned.
///
/// The calls in `work` must run under `canceller`, either as their reader's canceller or through
/// [`Canceller::run`]. After an interrupt the result of `work` is dropped, possibly later and on
/// another thread: if `work` is stuck in users' code, this function returns first.
pub fn interruptible<R: Send + 'static>(
    py: Python<'_>,
    canceller: &Canceller,
    work: impl FnOnce() -> Result<R> + Send + 'static,
) -> PyResult<R> {
    if !is_main_thread(py) {
        return ending::detached(py, work).python(py);
    }
    // The handler of a pending signal may raise.
    py.check_signals()?;
    let call = Arc::new(Call { outcome: Mutex::new(None), is_over: Condvar::new() });
    let running = Arc::clone(&call);
    std::thread::Builder::new().name("cntk-call".to_owned()).spawn(move || {
        // `work` consumes its captured values before the end of the call is announced.
        running.end(catch_unwind(AssertUnwindSafe(work)));
    })?;
    loop {
        match py.detach(|| call.wait(SIGNAL_INTERVAL)) {
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

/// Cancels a call and waits for its end, for at most [`CANCEL_TIMEOUT`].
fn cancel<R>(call: &Call<R>, canceller: &Canceller) {
    let begun = Instant::now();
    while begun.elapsed() < CANCEL_TIMEOUT {
        canceller.cancel();
        if call.wait(CANCEL_INTERVAL).is_some() {
            return;
        }
    }
}
