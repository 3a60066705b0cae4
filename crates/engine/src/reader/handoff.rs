//! A thread that works on what it is given, and gives it back. A thing belongs to one thread at a time: nothing is shared, so
//! there is nothing to lock.

use cntk_reader_core::runtime::delivery::{Inbox, Outbox, delivery};
use cntk_reader_core::runtime::sync::thread::JoinHandle;
use cntk_reader_core::runtime::{exit, thread};
use cntk_reader_core::{Error, Result};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

/// What it costs to hand work on a batch of minibatches to another thread and to take it back.
#[derive(Debug, Clone, Copy)]
pub(super) struct HandoverCost {
    /// Of the batch: waking threads that have begun to sleep, and waiting for them.
    batch: Duration,
    /// Of each minibatch: its parts come from the processor that wrote them when the caller looks at them.
    each: Duration,
}

/// A batch is read ahead if both reading it and what the caller does between reads take longer than this, because nothing is gained where
/// the caller only waits.
///
/// This and [`PACKED_TOGETHER`] were 50 microseconds and 1 for each minibatch, measured when waiting threads slept at once and waiting
/// callers did not help. With today's costs later sweeps in CNTK's place with 2 CPUs take 0.83 of the time in minibatches of 256 samples,
/// 0.70 of 32 and 0.68 of 8 (means over twelve shapes, alternating runs, 1.00 at most). Six shapes with callers that do nothing, read all data,
/// or work for a microsecond take 0.52 to 1.05.
pub(super) const READ_AHEAD: HandoverCost =
    HandoverCost { batch: Duration::from_micros(10), each: Duration::from_nanos(100) };

/// A batch is packed by several threads if packing it takes longer than this: they write parts of minibatches that the caller, who packs
/// too, would have in its caches otherwise. (With the cost of [`READ_AHEAD`], minibatches of 8 samples of 4 streams take 1.33 of the time.)
pub(super) const PACKED_TOGETHER: HandoverCost =
    HandoverCost { batch: Duration::from_micros(30), each: Duration::from_nanos(500) };

impl HandoverCost {
    /// Whether it pays to hand over work that takes `time` on a batch of `minibatches` minibatches. In models, which have no time, all work is
    /// handed over.
    ///
    /// There is no hysteresis, because answers hardly alternate: over ten shapes, in minibatches of 256, 32 and 8 samples, they change 1 to 36
    /// times in 175 to 13,814 batches, mostly at the ends of sweeps.
    pub(super) fn is_repaid(self, time: Duration, minibatches: usize) -> bool {
        cfg!(shuttle) || time >= self.batch + self.each * minibatches as u32
    }
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

    /// Whether [`HandoffThread::is_done`] becomes true before `deadline`. Waits for that; a call
    /// that is cancelled does not.
    pub(super) fn is_done_by(&self, deadline: Instant) -> Result<bool> {
        self.results.comes_by(deadline)
    }

    /// Takes back what was given away. Waits for it; a call that is cancelled leaves it with the thread.
    pub(super) fn take(&self) -> Result<T> {
        self.results.take_of_foreign()?.ok_or_else(gone)
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
            // One that is lost in a callback, or waits for such a thread, never ends.
            if exit::has_lost_threads() {
                return std::mem::forget(thread);
            }
            // The thread ends after what it works on; its panics were caught.
            let _ = thread.join();
        }
    }
}

fn gone() -> Error {
    if exit::has_lost_threads() {
        return exit::refusal("the reader cannot be used any more");
    }
    Error::internal("Assembling a minibatch panicked; the reader cannot be used any more.")
}

#[cfg(all(test, shuttle))]
mod schedules {
    use super::HandoffThread;
    use cntk_reader_core::runtime::sync::explore;
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
