//! Bounds how long a call of the main thread goes on without a look for signals.
//!
//! A read that finds its minibatch loaded takes microseconds, far less than handing it to another
//! thread would. So reads run on the caller's thread, where Ctrl-C cannot end them. If one takes
//! long after all, because a file system stalls, the watchdog cancels it: its caller looks for
//! signals, and reads on in pieces.

use cntk_reader_core::runtime::cancel::Canceller;
use cntk_reader_core::runtime::fork::Process;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long a call may take.
const PATIENCE: Duration = Duration::from_millis(50);
/// The watchdog goes to sleep after so many looks without a call.
const LOOKS: u32 = 40;

/// A call that is watched.
struct Watched {
    until: Instant,
    canceller: Canceller,
    was_cancelled: Arc<AtomicBool>,
}

#[derive(Default)]
struct Kennel {
    calls: Mutex<State>,
    wake: Condvar,
}

#[derive(Default)]
struct State {
    /// Nested calls: users' code that runs in a call may read from another source.
    calls: Vec<Watched>,
    is_asleep: bool,
}

static KENNEL: Mutex<Option<(Process, Arc<Kennel>)>> = Mutex::new(None);

/// The watchdog of this process. `None` if it cannot be started.
fn kennel() -> Option<Arc<Kennel>> {
    // In the child of a fork another thread may have held the lock.
    let mut known = KENNEL.try_lock().ok()?;
    if let Some((process, kennel)) = &*known
        && process.is_current()
    {
        return Some(Arc::clone(kennel));
    }
    let kennel = Arc::new(Kennel::default());
    let watched = Arc::clone(&kennel);
    std::thread::Builder::new().name("cntk-watchdog".to_owned()).spawn(move || watch(&watched)).ok()?;
    *known = Some((Process::current(), Arc::clone(&kennel)));
    Some(kennel)
}

fn watch(kennel: &Kennel) {
    let mut looks = 0;
    loop {
        let mut state = kennel.calls.lock().unwrap_or_else(PoisonError::into_inner);
        looks = if state.calls.is_empty() { looks + 1 } else { 0 };
        while looks >= LOOKS && state.calls.is_empty() {
            state.is_asleep = true;
            state = kennel.wake.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        let now = Instant::now();
        for call in state.calls.iter().filter(|call| call.until <= now) {
            call.was_cancelled.store(true, Ordering::SeqCst);
            call.canceller.cancel();
        }
        drop(state);
        std::thread::sleep(PATIENCE / 2);
    }
}

/// Does some work that `canceller` ends. Whether the watchdog has cancelled it comes with the
/// result.
pub fn watched<R>(canceller: &Canceller, work: impl FnOnce() -> R) -> (R, bool) {
    let Some(kennel) = kennel() else { return (work(), false) };
    let was_cancelled = Arc::new(AtomicBool::new(false));
    let call = Watched {
        until: Instant::now() + PATIENCE,
        canceller: canceller.clone(),
        was_cancelled: Arc::clone(&was_cancelled),
    };
    {
        let mut state = kennel.calls.lock().unwrap_or_else(PoisonError::into_inner);
        state.calls.push(call);
        if std::mem::take(&mut state.is_asleep) {
            kennel.wake.notify_one();
        }
    }
    let result = work();
    kennel.calls.lock().unwrap_or_else(PoisonError::into_inner).calls.pop();
    (result, was_cancelled.load(Ordering::SeqCst))
}
