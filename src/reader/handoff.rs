//! A thread that works on what it is given, and gives it back. A thing belongs to one thread at a time: nothing is shared, so
//! there is nothing to lock.

use crate::delivery::{Inbox, Outbox, delivery};
use crate::sync::thread::JoinHandle;
use crate::thread;
use crate::{Error, Result};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

/// What it costs to hand a batch to another thread and to take it back, with the waking of both.
const HANDOVER: Duration = Duration::from_micros(50);

/// How long the reader of a minibatch waits until its parts have come from the processor that wrote them.
const TRANSFER: Duration = Duration::from_micros(1);

/// Whether work on a batch of `minibatches` minibatches, which takes `time`, is handed to another thread: it must take longer than
/// the handover and the transfer of the minibatches.
///
/// A batch is read ahead if this holds both for reading it and for what the caller does between reads, because nothing is gained
/// where the caller only waits. A batch is packed by several threads if this holds for packing it. (Words in minibatches of 32
/// samples, packed in 0.9 microseconds, took 1.5 times as long with two threads. If all work is handed over, second sweeps over
/// four shapes of data in minibatches of 32 and 256 take 1.1 to 4 times as long with a caller that does nothing on 2 CPUs.)
/// Chunks are loaded ahead in any case. In models, which have no time, all is handed over.
pub(super) fn is_worth_it(time: Duration, minibatches: usize) -> bool {
    cfg!(shuttle) || time >= HANDOVER + TRANSFER * minibatches as u32
}

/// The thread. It has one thing at a time; to hand that over allocates nothing.
pub(super) struct HandoffThread<T> {
    orders: Option<Outbox<T>>,
    results: Inbox<T>,
    thread: Option<JoinHandle<()>>,
}

impl<T: Send + 'static> HandoffThread<T> {
    /// Starts the thread. If there can be none now, that is logged, and the caller does the work itself.
    pub(super) fn start(name: &str, work: fn(&mut T)) -> Option<HandoffThread<T>> {
        let (orders, inbox) = delivery::<T>();
        let (outbox, results) = delivery();
        let work = move || {
            // It waits outside of any call, so that nobody cancels this.
            while let Ok(Some(mut thing)) = inbox.take() {
                // A panic drops the thing and the outbox: the reader sees that and refuses further use.
                if catch_unwind(AssertUnwindSafe(|| work(&mut thing))).is_err() {
                    return;
                }
                outbox.put(thing);
            }
        };
        match thread::start(name, work) {
            Ok(thread) => Some(HandoffThread { orders: Some(orders), results, thread: Some(thread) }),
            Err(cause) => {
                thread::warn_of_missing(name, &cause);
                None
            }
        }
    }

    /// Gives a thing away to be worked on. The thread is known to wait: it has given back what it had before. If it has ended by a panic,
    /// [`HandoffThread::take`] says so.
    pub(super) fn give(&self, thing: T) {
        if let Some(orders) = &self.orders {
            orders.put(thing);
        }
    }

    /// Whether what was given away is back, or never comes.
    pub(super) fn is_done(&self) -> bool {
        self.results.has_come()
    }

    /// Takes back what was given away. Waits for it; a call that is cancelled leaves it with the thread.
    pub(super) fn take(&self) -> Result<T> {
        self.results.take()?.ok_or_else(gone)
    }
}

impl<T> HandoffThread<T> {
    /// Forgets the thread without waiting for it: it does not exist in a forked child.
    pub(super) fn forget(mut self) {
        std::mem::forget(self.thread.take());
        std::mem::forget(self);
    }
}

impl<T> Drop for HandoffThread<T> {
    fn drop(&mut self) {
        self.orders = None;
        if let Some(thread) = self.thread.take() {
            // The thread ends after what it works on; its panics were caught.
            let _ = thread.join();
        }
    }
}

fn gone() -> Error {
    Error::internal("Assembling a minibatch panicked; the reader cannot be used any more.")
}

#[cfg(all(test, shuttle))]
mod schedules {
    use super::HandoffThread;
    use crate::sync::explore;
    use std::sync::Arc;

    /// Something whose owners are counted.
    struct Thing(#[expect(dead_code, reason = "counts owners")] Arc<()>, u32);

    #[test]
    fn a_thing_goes_there_and_back() {
        explore::all("hand-over, twice there and back", || {
            let owners = Arc::new(());
            let thread = HandoffThread::start("worker", |thing: &mut Thing| thing.1 += 1).expect("a thread");
            let mut thing = Thing(Arc::clone(&owners), 0);
            for round in 1..=2 {
                thread.give(thing);
                thing = thread.take().expect("the thread is there");
                assert_eq!(thing.1, round);
            }
            drop((thread, thing));
            assert_eq!(Arc::strong_count(&owners), 1, "nothing is left");
        });
    }

    #[test]
    fn a_thread_that_is_busy_may_be_dropped() {
        explore::all("hand-over, dropped while busy, started again", || {
            let owners = Arc::new(());
            for _ in 0..2 {
                let thread =
                    HandoffThread::start("worker", |thing: &mut Thing| thing.1 += 1).expect("a thread");
                thread.give(Thing(Arc::clone(&owners), 0));
                drop(thread);
                assert_eq!(Arc::strong_count(&owners), 1, "nothing is left");
            }
        });
    }

    #[test]
    fn a_panic_is_an_error_of_all_later_calls() {
        explore::all("hand-over, work that panics", || {
            let owners = Arc::new(());
            let work = |thing: &mut Thing| std::panic::resume_unwind(Box::new(thing.1));
            let thread = HandoffThread::start("worker", work).expect("a thread");
            for number in [7, 8] {
                thread.give(Thing(Arc::clone(&owners), number));
                assert!(thread.take().is_err());
            }
            drop(thread);
            assert_eq!(Arc::strong_count(&owners), 1, "nothing is left");
        });
    }
}
