//! Bounds the time that a call on the main thread runs without checking for signals.
//!
//! A read whose minibatch is loaded takes microseconds, much less than handing it to another thread
//! would cost. So reads run on the caller's thread, where Ctrl-C cannot interrupt them. If a read
//! takes long after all, because a file system stalls, the watchdog cancels it; its caller then
//! checks for signals and continues reading in short intervals.

use cntk_reader_core::runtime::cancel::Canceller;
use cntk_reader_core::runtime::fork::Process;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Time after which a call is cancelled.
const TIMEOUT: Duration = Duration::from_millis(50);
/// Number of idle polls after which the watchdog sleeps.
const IDLE_POLLS: u32 = 40;

/// A call under watch.
struct Watched {
    until: Instant,
    canceller: Canceller,
    was_cancelled: Arc<AtomicBool>,
}

#[derive(Default)]
struct Watchdog {
    state: Mutex<WatchState>,
    wake: Condvar,
}

#[derive(Default)]
struct WatchState {
    /// The watched calls. They nest: users' code in a call may read from another source.
    calls: Vec<Watched>,
    is_asleep: bool,
}

static WATCHDOG: Mutex<Option<(Process, Arc<Watchdog>)>> = Mutex::new(None);

/// Returns the watchdog of this process, or `None` if it cannot be started.
fn watchdog() -> Option<Arc<Watchdog>> {
    // In a forked child the lock may stay locked: another thread may have held it during the fork.
    let mut known = WATCHDOG.try_lock().ok()?;
    if let Some((process, watchdog)) = &*known
        && process.is_current()
    {
        return Some(Arc::clone(watchdog));
    }
    let watchdog = Arc::new(Watchdog::default());
    let shared = Arc::clone(&watchdog);
    std::thread::Builder::new().name("cntk-watchdog".to_owned()).spawn(move || watch(&shared)).ok()?;
    *known = Some((Process::current(), Arc::clone(&watchdog)));
    Some(watchdog)
}

fn watch(watchdog: &Watchdog) {
    let mut idle = 0;
    loop {
        let mut state = watchdog.state.lock().unwrap_or_else(PoisonError::into_inner);
        idle = if state.calls.is_empty() { idle + 1 } else { 0 };
        while idle >= IDLE_POLLS && state.calls.is_empty() {
            state.is_asleep = true;
            state = watchdog.wake.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        let now = Instant::now();
        for call in state.calls.iter().filter(|call| call.until <= now) {
            call.was_cancelled.store(true, Ordering::SeqCst);
            call.canceller.cancel();
        }
        drop(state);
        std::thread::sleep(TIMEOUT / 2);
    }
}

/// Runs `work`, which must run under `canceller`. Returns its result, and whether the watchdog
/// cancelled it.
pub fn watched<R>(canceller: &Canceller, work: impl FnOnce() -> R) -> (R, bool) {
    let Some(watchdog) = watchdog() else { return (work(), false) };
    let was_cancelled = Arc::new(AtomicBool::new(false));
    let call = Watched {
        until: Instant::now() + TIMEOUT,
        canceller: canceller.clone(),
        was_cancelled: Arc::clone(&was_cancelled),
    };
    {
        let mut state = watchdog.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.calls.push(call);
        if std::mem::take(&mut state.is_asleep) {
            watchdog.wake.notify_one();
        }
    }
    let result = work();
    watchdog.state.lock().unwrap_or_else(PoisonError::into_inner).calls.pop();
    (result, was_cancelled.load(Ordering::SeqCst))
}
