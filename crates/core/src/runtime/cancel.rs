//! Ending calls that take long, from another thread.
//!
//! A call that may be ended runs inside [`Canceller::run`]. While it does, its thread carries it: what lies deep below the call
//! (a read of a file, a wait for another thread) finds it with [`check`] or [`waiting`] and needs no argument for it, so no
//! signature between the front door and the file mentions it. Three rules keep this sound:
//!
//! - *Work that outlives a call belongs to no call.* Chunks are loaded, and files indexed and opened ahead, by jobs of the pool
//!   ([`crate::runtime::pool::Pool::spawn`]), which carry none. A cancelled call ceases to wait for them; they go on, and the next call
//!   finds what they have made. So nothing is lost, and nothing is read twice.
//! - *Work that is shared out carries the call.* What rayon runs on other threads for a call takes it along by [`carried`] or
//!   [`Current::within`], because a thread that waits for its own share may pick up another reader's work meanwhile, and must
//!   not take that for its own. Every closure given to rayon that reads a file does so.
//! - *What a call has drawn is not drawn again.* Fetching sequences counts how often it is done, so it runs [`apart`] from the
//!   call, or on a thread that is waited for.
//!
//! A check is one load of a thread's own memory and one of an atomic number; it is made for each read of a file, each chunk and
//! each wait, never for a sample. A thread that waits is woken: see [`Wake`].

use crate::error::ExceptionClass;
use crate::runtime::fork::Process;
use crate::runtime::sync::{Condvar, Mutex};
use crate::{Error, ErrorKind, Result};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Ends calls that take long: opening, the start of an epoch, reading, restoring, and whatever else is [run](Canceller::run).
///
/// A clone cancels the same calls. Give one to `Builder::canceller`, keep the other, and call
/// [`Canceller::cancel`] from any thread. The call that is in progress then ends with an error of the kind
/// [`ErrorKind::Cancelled`], within the time of a read of a file or of packing a minibatch. It has changed nothing: the same
/// call, made again, continues where it stood, and no minibatch is lost. If several readers have the same canceller, all of
/// their calls end.
///
/// Only calls in progress are cancelled. Without one, cancelling does nothing, and the next call is not affected.
///
/// Code of users (deserializers, transforms, mounted file systems) is not interrupted. Where it runs on threads of its own, the call
/// stops waiting for it; where it runs in the call, the call ends after it.
///
#[cfg_attr(not(doctest), doc = include_str!("../../doc/canceller.md"))]
#[derive(Clone, Default)]
pub struct Canceller(Arc<Calls>);

/// The calls of one canceller that are in progress.
struct Calls {
    /// How often they were cancelled. A call is cancelled if this is not what it was when the call began.
    cancels: AtomicU64,
    state: Mutex<State>,
    process: Process,
}

impl Default for Calls {
    fn default() -> Calls {
        Calls { cancels: AtomicU64::new(0), state: Mutex::default(), process: Process::current() }
    }
}

#[derive(Default)]
struct State {
    /// Calls in progress.
    running: usize,
    /// What wakes their threads that wait.
    waiting: Vec<Arc<dyn Wake>>,
}

/// Wakes the threads that wait for something, without its being there.
///
/// To wake takes the lock that the waiting thread releases while it waits, and notifies: that thread has either not looked yet whether
/// its call is cancelled, or it is woken. So [`waiting`] must not be called, nor what it returns be dropped, with that lock held.
pub trait Wake: Send + Sync {
    fn wake(&self);
}

impl Canceller {
    /// A canceller of no call yet.
    pub fn new() -> Canceller {
        Canceller::default()
    }

    /// Ends the calls in progress. True if there is one: it is going to return an error of the kind
    /// [`ErrorKind::Cancelled`]. False if there is none; nothing happens then. Returns at once, and may be called from any thread.
    pub fn cancel(&self) -> bool {
        // In a forked child no call is in progress, and another thread may have held the lock.
        if !self.0.process.is_current() {
            return false;
        }
        let state = self.0.state.lock();
        if state.running == 0 {
            return false;
        }
        self.0.cancels.fetch_add(1, Ordering::SeqCst);
        state.waiting.iter().for_each(|one| one.wake());
        true
    }

    /// Runs `work`, which [`Canceller::cancel`] ends: any calls of this library that `work` makes on its thread, such as
    /// converting, checking or indexing data. Readers that have a canceller of their own
    /// listen to that one.
    ///
    /// If it is cancelled, what `work` returns is dropped.
    pub fn run<R>(&self, work: impl FnOnce() -> Result<R>) -> Result<R> {
        if !self.0.process.is_current() {
            return work();
        }
        let running = Running::begin(&self.0);
        let result = Current(Some(running.call.clone())).within(work);
        match running.end() {
            true => Err(cancelled()),
            false => result,
        }
    }
}

impl fmt::Debug for Canceller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Canceller")
    }
}

/// The error of a call that was cancelled.
fn cancelled() -> Error {
    Error::new(ErrorKind::Cancelled, ExceptionClass::Runtime, "The call was cancelled.")
        .with_detail("It has changed nothing. Make it again, and it continues where it stood.")
}

/// A call that is in progress as long as this exists.
struct Running {
    call: Call,
    is_over: bool,
}

impl Running {
    fn begin(calls: &Arc<Calls>) -> Running {
        let mut state = calls.state.lock();
        state.running += 1;
        // Read under the lock: whoever cancels changes it there, and has seen this call or not.
        let begun = calls.cancels.load(Ordering::SeqCst);
        Running { call: Call { calls: Arc::clone(calls), begun }, is_over: false }
    }

    /// Whether the call was cancelled. From here on it is not in progress any more.
    fn end(mut self) -> bool {
        self.leave()
    }

    fn leave(&mut self) -> bool {
        if std::mem::replace(&mut self.is_over, true) {
            return false;
        }
        let mut state = self.call.calls.state.lock();
        state.running -= 1;
        self.call.is_cancelled()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // After a panic of the work.
        self.leave();
    }
}

/// A call, to be asked whether it was cancelled.
#[derive(Clone)]
struct Call {
    calls: Arc<Calls>,
    begun: u64,
}

impl Call {
    fn is_cancelled(&self) -> bool {
        self.calls.cancels.load(Ordering::Relaxed) != self.begun
    }
}

/// The call that a thread works for, if it is one that can be cancelled.
#[derive(Clone)]
pub struct Current(Option<Call>);

impl Current {
    /// That of this thread.
    #[doc(hidden)]
    pub fn get() -> Current {
        Current(here::with(|call| call.clone()))
    }

    /// Runs `work` for this call, on any thread.
    #[doc(hidden)]
    pub fn within<R>(&self, work: impl FnOnce() -> R) -> R {
        /// Puts back what was there, also after a panic.
        struct Back(Option<Call>);
        impl Drop for Back {
            fn drop(&mut self) {
                let own = here::with(|call| std::mem::replace(call, self.0.take()));
                // Not while the cell is borrowed.
                drop(own);
            }
        }
        let call = self.0.clone();
        let _back = Back(here::with(|current| std::mem::replace(current, call)));
        work()
    }
}

/// Runs `work` for no call: it is finished even if the call is cancelled, or it is not the call's at all.
pub fn apart<R>(work: impl FnOnce() -> R) -> R {
    Current(None).within(work)
}

/// The same work, for the call of this thread, on whichever thread runs it.
pub fn carried<A, R>(work: impl Fn(A) -> R) -> impl Fn(A) -> R {
    let current = Current::get();
    move |argument| current.within(|| work(argument))
}

fn is_cancelled() -> bool {
    here::with(|call| call.as_ref().is_some_and(Call::is_cancelled))
}

/// Whether this thread works for a call that can be cancelled.
pub fn is_possible() -> bool {
    here::with(|call| call.is_some())
}

/// Whether a result is that of a call that was cancelled: nothing has failed then, and the next call does what this one has not.
pub fn ended<R>(result: &Result<R>) -> bool {
    matches!(result, Err(error) if error.kind() == ErrorKind::Cancelled)
}

/// An error if the call that this thread works for was cancelled.
pub fn check() -> Result<()> {
    match is_cancelled() {
        true => Err(cancelled()),
        false => Ok(()),
    }
}

/// Has the call that this thread works for wake the thread by `wake` when it is cancelled, as long as the returned object lives.
pub fn waiting<W: Wake + 'static>(wake: &Arc<W>) -> Waiting {
    let Current(call) = Current::get();
    Waiting(call.map(|call| {
        let wake: Arc<dyn Wake> = Arc::<W>::clone(wake);
        call.calls.state.lock().waiting.push(Arc::clone(&wake));
        (call, wake)
    }))
}

/// See [`waiting`].
pub struct Waiting(Option<(Call, Arc<dyn Wake>)>);

impl Waiting {
    /// An error if the call was cancelled. To be asked before each wait, with the lock held that the wait releases.
    #[doc(hidden)]
    pub fn check(&self) -> Result<()> {
        match &self.0 {
            Some((call, _)) if call.is_cancelled() => Err(cancelled()),
            _ => Ok(()),
        }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if let Some((call, wake)) = &self.0 {
            let mut state = call.calls.state.lock();
            let own = state.waiting.iter().position(|other| Arc::ptr_eq(other, wake));
            own.into_iter().for_each(|own| _ = state.waiting.swap_remove(own));
        }
    }
}

/// A pause, which ends early if the call that this thread works for is cancelled.
pub(crate) fn pause(duration: Duration) {
    #[derive(Default)]
    struct Pause(Mutex<()>, Condvar);
    impl Wake for Pause {
        fn wake(&self) {
            drop(self.0.lock());
            self.1.notify_all();
        }
    }
    if !is_possible() {
        return std::thread::sleep(duration);
    }
    let pause = Arc::new(Pause::default());
    let end = Instant::now() + duration;
    let waiting = waiting(&pause);
    let mut lock = pause.0.lock();
    while waiting.check().is_ok()
        && let Some(left) = end.checked_duration_since(Instant::now()).filter(|left| !left.is_zero())
    {
        pause.1.wait_for(&mut lock, left);
    }
    drop(lock);
}

/// Where a thread keeps the call that it works for.
#[cfg(not(shuttle))]
mod here {
    use super::Call;
    use std::cell::RefCell;

    thread_local! {
        static CURRENT: RefCell<Option<Call>> = const { RefCell::new(None) };
    }

    /// Looks at the call, or changes it. Neither may run code that comes here again.
    pub(super) fn with<R>(work: impl FnOnce(&mut Option<Call>) -> R) -> R {
        CURRENT.with_borrow_mut(work)
    }
}

/// The threads of a model take turns on one thread of the system, so each is known by its number. rayon's threads, which are not the
/// model's, work for no call.
#[cfg(shuttle)]
mod here {
    use super::Call;
    use shuttle::current::try_get_current_task;
    use std::collections::HashMap;
    use std::sync::Mutex;

    static CURRENT: Mutex<Option<HashMap<usize, Call>>> = Mutex::new(None);

    pub(super) fn with<R>(work: impl FnOnce(&mut Option<Call>) -> R) -> R {
        let Some(thread) = try_get_current_task().map(usize::from) else { return work(&mut None) };
        let mut all = CURRENT.lock().expect("no panic");
        let all = all.get_or_insert_default();
        let mut call = all.remove(&thread);
        let result = work(&mut call);
        call.into_iter().for_each(|call| _ = all.insert(thread, call));
        result
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn work_of_other_threads_belongs_to_the_call_that_it_carries() {
        let canceller = Canceller::new();
        let result: Result<()> = canceller.run(|| {
            let current = Current::get();
            assert!(canceller.cancel());
            assert!(check().is_err());
            std::thread::scope(|scope| {
                let own = scope.spawn(|| (is_possible(), check().is_ok()));
                assert_eq!(own.join().expect("no panic"), (false, true));
                let carried = scope.spawn(|| current.within(|| (is_possible(), check().is_ok())));
                assert_eq!(carried.join().expect("no panic"), (true, false));
            });
            assert!(apart(check).is_ok());
            assert!(carried(|()| check())(()).is_err());
            Ok(())
        });
        assert!(ended(&result));
        assert!(!is_possible() && check().is_ok());
    }

    #[test]
    fn a_thread_that_another_call_runs_on_keeps_its_own() {
        let (outer, inner) = (Canceller::new(), Canceller::new());
        let result: Result<()> = outer.run(|| {
            outer.cancel();
            assert!(inner.run(check).is_ok(), "the inner call is another one");
            check()
        });
        assert!(ended(&result));
    }

    /// Retries of a read end at once, where they would take seconds.
    #[test]
    fn a_pause_ends_with_its_call() {
        let canceller = Canceller::new();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !canceller.cancel() {
                    std::thread::yield_now();
                }
            });
            let paused = canceller.run(|| {
                pause(Duration::from_secs(3600));
                check()
            });
            assert!(ended(&paused));
        });
        assert!(canceller.0.state.lock().waiting.is_empty());
    }
}
