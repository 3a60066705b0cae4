//! One thread waits for what another one delivers, until its call is cancelled.

use crate::Result;
use crate::runtime::cancel::{self, Wake};
use crate::runtime::exit;
use crate::runtime::sync::{Condvar, Mutex, MutexGuard, spin, thread};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// Where the deliverer puts things, one at a time. Without it nothing comes any more.
pub struct Outbox<T>(Arc<Shared<T>>);

/// Where they are waited for.
pub struct Inbox<T>(Arc<Shared<T>>);

struct Shared<T> {
    state: Mutex<State<T>>,
    changed: Condvar,
    /// There is something to take, or the outbox is gone: what is looked at before sleeping. Written under the lock.
    has_come: AtomicBool,
}

struct State<T> {
    thing: Option<T>,
    /// The outbox is gone.
    is_closed: bool,
}

/// A way for things from one thread to another. To deliver one allocates nothing.
pub fn delivery<T>() -> (Outbox<T>, Inbox<T>) {
    let state = Mutex::new(State { thing: None, is_closed: false });
    let shared = Arc::new(Shared { state, changed: Condvar::new(), has_come: AtomicBool::new(false) });
    (Outbox(Arc::clone(&shared)), Inbox(shared))
}

impl<T> Outbox<T> {
    /// Delivers a thing. The one before was taken.
    pub fn put(&self, thing: T) {
        self.0.change(|state| state.thing = Some(thing));
    }
}

impl<T> Drop for Outbox<T> {
    fn drop(&mut self) {
        self.0.change(|state| state.is_closed = true);
    }
}

impl<T> Shared<T> {
    fn change(&self, change: impl FnOnce(&mut State<T>)) {
        let mut state = self.state.lock();
        change(&mut state);
        self.has_come.store(true, Ordering::Relaxed);
        drop(state);
        self.changed.notify_all();
    }
}

impl<T: Send + 'static> Inbox<T> {
    /// Whether [`Inbox::take`] would not wait.
    pub fn has_come(&self) -> bool {
        self.0.has_come.load(Ordering::Relaxed)
    }

    /// Waits until [`Inbox::take_of_foreign`] would not wait, but no longer than to `deadline`.
    /// Returns whether it would not. In models, which have no time, only other threads' next steps
    /// are waited for.
    pub fn comes_by(&self, deadline: Instant) -> Result<bool> {
        if spin(|| self.has_come()) {
            return Ok(true);
        }
        if cfg!(shuttle) {
            thread::yield_now();
            return Ok(self.has_come());
        }
        let waiting = cancel::waiting(&self.0);
        let mut state = self.0.state.lock();
        loop {
            if state.thing.is_some() || state.is_closed || exit::has_lost_threads() {
                return Ok(true);
            }
            waiting.check()?;
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(false);
            }
            self.0.changed.wait_for(&mut state, left.min(exit::LOOK));
        }
    }

    /// Waits for the next thing; `None` if none comes any more. A call that is cancelled leaves it for the next one.
    pub fn take(&self) -> Result<Option<T>> {
        self.take_by(|changed, state| {
            changed.wait(state);
            true
        })
    }

    /// [`take`](Inbox::take), from a thread that runs foreign code: `None` also once threads are
    /// lost in it.
    pub fn take_of_foreign(&self) -> Result<Option<T>> {
        self.take_by(|changed, state| {
            changed.wait_for(state, exit::LOOK);
            !exit::has_lost_threads()
        })
    }

    /// `wait` returns whether to go on.
    fn take_by(&self, wait: impl Fn(&Condvar, &mut MutexGuard<'_, State<T>>) -> bool) -> Result<Option<T>> {
        // What comes soon comes sooner than a thread that sleeps wakes up.
        spin(|| self.has_come());
        let waiting = cancel::waiting(&self.0);
        let mut state = self.0.state.lock();
        loop {
            if state.thing.is_some() || state.is_closed {
                self.0.has_come.store(state.is_closed, Ordering::Relaxed);
                return Ok(state.thing.take());
            }
            waiting.check()?;
            if !wait(&self.0.changed, &mut state) {
                return Ok(state.thing.take());
            }
        }
    }
}

impl<T: Send> Wake for Shared<T> {
    fn wake(&self) {
        drop(self.state.lock());
        self.changed.notify_all();
    }
}

#[cfg(all(test, shuttle))]
mod schedules {
    use super::delivery;
    use crate::ErrorKind;
    use crate::runtime::cancel::Canceller;
    use crate::runtime::sync::{explore, thread};

    /// A thread that waits for what does not come is woken by a cancellation, whenever that comes, and gets the thing later.
    #[test]
    fn a_thread_that_waits_is_woken() {
        explore::random("delivery, cancelled while nothing comes", || {
            let (canceller, other) = (Canceller::new(), Canceller::new());
            let (outbox, inbox) = delivery();
            let ends = canceller.clone();
            let thread = thread::spawn(move || {
                while !ends.cancel() {
                    thread::yield_now();
                }
                outbox
            });
            let taken = canceller.run(|| inbox.take());
            assert_eq!(taken.expect_err("nothing came").kind(), ErrorKind::Cancelled);
            let outbox = thread.join().expect("no panic");
            let thread = thread::spawn(move || outbox.put(7));
            assert_eq!(other.run(|| inbox.take()).expect("not cancelled"), Some(7));
            thread.join().expect("no panic");
            assert_eq!(inbox.take().expect("not cancelled"), None);
        });
    }

    /// A thing that comes while the call is cancelled is taken by it or by the next one, and comes once.
    #[test]
    fn nothing_is_lost() {
        explore::random("delivery, cancelled while something comes", || {
            let (canceller, (outbox, inbox)) = (Canceller::new(), delivery());
            let ends = canceller.clone();
            let puts = thread::spawn(move || outbox.put(7));
            let cancels = thread::spawn(move || ends.cancel());
            let mut taken = None;
            let call = canceller.run(|| {
                taken = inbox.take()?;
                Ok(())
            });
            let was_cancelled = cancels.join().expect("no panic");
            assert_eq!(call.is_err(), was_cancelled);
            if taken.is_none() {
                taken = inbox.take().expect("not cancelled");
            }
            assert_eq!(taken, Some(7));
            puts.join().expect("no panic");
        });
    }
}
