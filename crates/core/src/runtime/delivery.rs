//! A one-slot, cancellable channel between two threads.

use crate::Result;
use crate::runtime::cancel::{self, Wake};
use crate::runtime::exit;
use crate::runtime::sync::{Condvar, Mutex, MutexGuard, spin, thread};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// The sending half, for one item at a time. Dropping it closes the channel.
pub struct Outbox<T>(Arc<Slot<T>>);

/// The receiving half.
pub struct Inbox<T>(Arc<Slot<T>>);

struct Slot<T> {
    state: Mutex<SlotState<T>>,
    changed: Condvar,
    /// There is an item, or the channel is closed. Polled before parking; written under the lock.
    has_come: AtomicBool,
}

struct SlotState<T> {
    item: Option<T>,
    /// The outbox was dropped.
    is_closed: bool,
}

/// Creates a channel between two threads. Sending an item does not allocate.
pub fn delivery<T>() -> (Outbox<T>, Inbox<T>) {
    let state = Mutex::new(SlotState { item: None, is_closed: false });
    let shared = Arc::new(Slot { state, changed: Condvar::new(), has_come: AtomicBool::new(false) });
    (Outbox(Arc::clone(&shared)), Inbox(shared))
}

impl<T> Outbox<T> {
    /// Sends an item. The previous one must have been taken.
    pub fn put(&self, item: T) {
        self.0.change(|state| state.item = Some(item));
    }
}

impl<T> Drop for Outbox<T> {
    fn drop(&mut self) {
        self.0.change(|state| state.is_closed = true);
    }
}

impl<T> Slot<T> {
    fn change(&self, change: impl FnOnce(&mut SlotState<T>)) {
        let mut state = self.state.lock();
        change(&mut state);
        self.has_come.store(true, Ordering::Relaxed);
        drop(state);
        self.changed.notify_all();
    }
}

impl<T: Send + 'static> Inbox<T> {
    /// Returns whether [`Inbox::take`] would return without waiting.
    pub fn has_come(&self) -> bool {
        self.0.has_come.load(Ordering::Relaxed)
    }

    /// Waits until [`Inbox::take_of_foreign`] would return without waiting, but at most until
    /// `deadline`. Returns whether it would. Models have no time, so there it only yields to other
    /// threads.
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
            if state.item.is_some() || state.is_closed || exit::has_lost_threads() {
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

    /// Waits for the next item; `None` if the channel is closed. A cancelled call leaves the item
    /// for the next one.
    pub fn take(&self) -> Result<Option<T>> {
        self.take_by(|changed, state| {
            changed.wait(state);
            true
        })
    }

    /// Like [`take`](Inbox::take), for a sender that runs foreign code: also returns `None` once
    /// threads are lost in it.
    pub fn take_of_foreign(&self) -> Result<Option<T>> {
        self.take_by(|changed, state| {
            changed.wait_for(state, exit::LOOK);
            !exit::has_lost_threads()
        })
    }

    /// `wait` returns whether to continue.
    fn take_by(
        &self,
        wait: impl Fn(&Condvar, &mut MutexGuard<'_, SlotState<T>>) -> bool,
    ) -> Result<Option<T>> {
        // Spin first: the item often comes sooner than a parked thread wakes up.
        spin(|| self.has_come());
        let waiting = cancel::waiting(&self.0);
        let mut state = self.0.state.lock();
        loop {
            if state.item.is_some() || state.is_closed {
                self.0.has_come.store(state.is_closed, Ordering::Relaxed);
                return Ok(state.item.take());
            }
            waiting.check()?;
            if !wait(&self.0.changed, &mut state) {
                return Ok(state.item.take());
            }
        }
    }
}

impl<T: Send> Wake for Slot<T> {
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

    /// A thread that waits in vain is woken by a cancellation at any time, and gets the item later.
    #[test]
    fn cancellation_wakes_the_receiver() {
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

    /// An item that arrives while the call is cancelled is taken by this call or the next one, and
    /// only once.
    #[test]
    fn cancellation_loses_no_item() {
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
