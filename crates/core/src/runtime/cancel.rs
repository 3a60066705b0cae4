//! Cancellation of long calls from another thread.
//!
//! A cancellable call runs inside [`Canceller::run`]. Meanwhile its thread carries the call: code
//! deep below (a read of a file, a wait for another thread) finds it with [`check`] or [`waiting`],
//! so no signature in between has to pass it on. Three rules keep this sound:
//!
//! - *Work that outlives a call belongs to no call.* Chunks are loaded, and files are indexed and
//!   opened ahead, by jobs of the pool ([`crate::runtime::pool::Pool::spawn`]), which carry no
//!   call. A cancelled call stops waiting for them; they continue, and the next call finds their
//!   results. So nothing is lost, and nothing is read twice.
//! - *Shared work carries the call.* Work that rayon runs on other threads for a call takes it
//!   along by [`carried`] or [`Current::within`], because a thread that waits for its own share may
//!   pick up another reader's work in the meantime, and must not run it as part of its own call.
//!   Every closure given to rayon that reads a file does so.
//! - *Sequences that a call has drawn are not drawn again.* Fetching sequences has side effects
//!   (it is counted), so it runs [`apart`] from the call, or on a thread that is waited for.
//!
//! A check is one thread-local load and one atomic load; it is made for each read of a file, each
//! chunk and each wait, but never per sample. A waiting thread is woken: see [`Wake`].

use crate::error::ExceptionClass;
use crate::runtime::fork::Process;
use crate::runtime::sync::{Condvar, Mutex};
use crate::{Error, ErrorKind, Result};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Cancels long calls: opening, starting an epoch, reading, restoring, and anything that is
/// [run](Canceller::run).
///
/// A clone cancels the same calls. Give one to `Builder::canceller`, keep the other, and call
/// [`Canceller::cancel`] from any thread. The call in progress then returns an error of the kind
/// [`ErrorKind::Cancelled`], within the time of one file read or of packing one minibatch. It has
/// changed nothing: the same call, repeated, continues where it stopped, and no minibatch is lost.
/// If several readers share a canceller, all of their calls are cancelled.
///
/// Only calls in progress are cancelled. Without one, cancelling does nothing, and the next call is
/// not affected.
///
/// User code (deserializers, transforms, mounted file systems) is not interrupted. If it runs on
/// threads of its own, the call stops waiting for it; if it runs in the call, the call returns
/// after it.
///
#[cfg_attr(not(doctest), doc = include_str!("../../doc/canceller.md"))]
#[derive(Clone, Default)]
pub struct Canceller(Arc<Calls>);

/// The calls in progress of one canceller.
struct Calls {
    /// Number of cancellations. A call is cancelled if this has changed after the call began.
    cancels: AtomicU64,
    state: Mutex<CallsState>,
    process: Process,
}

impl Default for Calls {
    fn default() -> Calls {
        Calls { cancels: AtomicU64::new(0), state: Mutex::default(), process: Process::current() }
    }
}

#[derive(Default)]
struct CallsState {
    /// Number of calls in progress.
    running: usize,
    /// Wake-ups for their waiting threads.
    waiting: Vec<Arc<dyn Wake>>,
}

/// Wakes threads that wait for something although it has not happened.
///
/// `wake` takes the lock that the waiting thread releases during the wait, and notifies. So the
/// thread either has not checked for cancellation yet, or it is woken. Therefore that lock must not
/// be held while [`waiting`] is called or its result is dropped.
pub trait Wake: Send + Sync {
    fn wake(&self);
}

impl Canceller {
    /// Creates a canceller without calls.
    pub fn new() -> Canceller {
        Canceller::default()
    }

    /// Cancels the calls in progress. Returns true if there are any: they will return an error of
    /// the kind [`ErrorKind::Cancelled`]. Returns false, without any effect, if there are none.
    /// Returns at once, and may be called from any thread.
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

    /// Runs `work` as a call that [`Canceller::cancel`] cancels: any calls of this library that
    /// `work` makes on its thread, such as converting, checking or indexing data. Readers with a
    /// canceller of their own respond to that one.
    ///
    /// If the call is cancelled, the result of `work` is dropped.
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

/// Returns the error of a cancelled call.
fn cancelled() -> Error {
    Error::new(ErrorKind::Cancelled, ExceptionClass::Runtime, "The call was cancelled.")
        .with_detail("It has changed nothing. Repeat it to continue where it stopped.")
}

/// A call in progress, until this is dropped.
struct Running {
    call: Call,
    is_over: bool,
}

impl Running {
    fn begin(calls: &Arc<Calls>) -> Running {
        let mut state = calls.state.lock();
        state.running += 1;
        // Read under the lock, where `cancel` changes it: it has either seen this call or not.
        let begun = calls.cancels.load(Ordering::SeqCst);
        Running { call: Call { calls: Arc::clone(calls), begun }, is_over: false }
    }

    /// Ends the call, and returns whether it was cancelled.
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
        // Reached when the work panics.
        self.leave();
    }
}

/// A call that can be asked whether it was cancelled.
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

/// The call that a thread works for, if it is cancellable.
#[derive(Clone)]
pub struct Current(Option<Call>);

impl Current {
    /// Returns this thread's call.
    #[doc(hidden)]
    pub fn get() -> Current {
        Current(here::with(|call| call.clone()))
    }

    /// Runs `work` for this call, on any thread.
    #[doc(hidden)]
    pub fn within<R>(&self, work: impl FnOnce() -> R) -> R {
        /// Restores the previous call, also after a panic.
        struct Back(Option<Call>);
        impl Drop for Back {
            fn drop(&mut self) {
                let own = here::with(|call| std::mem::replace(call, self.0.take()));
                // Dropped outside the borrow of the cell.
                drop(own);
            }
        }
        let call = self.0.clone();
        let _back = Back(here::with(|current| std::mem::replace(current, call)));
        work()
    }
}

/// Runs `work` for no call: it must be completed even if the call is cancelled, or it is unrelated
/// to it.
pub fn apart<R>(work: impl FnOnce() -> R) -> R {
    Current(None).within(work)
}

/// Wraps `work` so that it runs for this thread's call on any thread.
pub fn carried<A, R>(work: impl Fn(A) -> R) -> impl Fn(A) -> R {
    let current = Current::get();
    move |argument| current.within(|| work(argument))
}

fn is_cancelled() -> bool {
    here::with(|call| call.as_ref().is_some_and(Call::is_cancelled))
}

/// Returns whether this thread works for a cancellable call.
pub fn is_possible() -> bool {
    here::with(|call| call.is_some())
}

/// Returns whether a result comes from a cancelled call: nothing has failed then, and the next call
/// does the remaining work.
pub fn ended<R>(result: &Result<R>) -> bool {
    matches!(result, Err(error) if error.kind() == ErrorKind::Cancelled)
}

/// Fails if the call that this thread works for was cancelled.
pub fn check() -> Result<()> {
    match is_cancelled() {
        true => Err(cancelled()),
        false => Ok(()),
    }
}

/// Registers `wake` to be called when this thread's call is cancelled, until the returned object is
/// dropped.
pub fn waiting<W: Wake + 'static>(wake: &Arc<W>) -> Waiting {
    let Current(call) = Current::get();
    Waiting(call.map(|call| {
        let wake: Arc<dyn Wake> = Arc::<W>::clone(wake);
        call.calls.state.lock().waiting.push(Arc::clone(&wake));
        (call, wake)
    }))
}

/// A registration by [`waiting`].
pub struct Waiting(Option<(Call, Arc<dyn Wake>)>);

impl Waiting {
    /// Fails if the call was cancelled. Check this before each wait, holding the lock that the wait
    /// releases.
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

/// Sleeps, but returns early if the call that this thread works for is cancelled.
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

/// The thread-local current call.
#[cfg(not(shuttle))]
mod here {
    use super::Call;
    use std::cell::RefCell;

    thread_local! {
        static CURRENT: RefCell<Option<Call>> = const { RefCell::new(None) };
    }

    /// Reads or changes the call. `work` must not call this function again.
    pub(super) fn with<R>(work: impl FnOnce(&mut Option<Call>) -> R) -> R {
        CURRENT.with_borrow_mut(work)
    }
}

/// Shuttle runs all threads of a model on one system thread, so each is identified by its number.
/// rayon's threads are not part of the model and work for no call.
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
    fn work_on_other_threads_belongs_to_the_carried_call() {
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
    fn nested_call_does_not_replace_the_outer_one() {
        let (outer, inner) = (Canceller::new(), Canceller::new());
        let result: Result<()> = outer.run(|| {
            outer.cancel();
            assert!(inner.run(check).is_ok(), "the inner call is another one");
            check()
        });
        assert!(ended(&result));
    }

    /// Without cancellation, retries of a read would take seconds.
    #[test]
    fn pause_ends_when_call_is_cancelled() {
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
