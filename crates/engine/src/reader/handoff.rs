//! A thread that receives a value, works on it, and sends it back. The value belongs to one thread
//! at a time, so nothing needs a lock.

use cntk_reader_core::runtime::delivery::{Inbox, Outbox, delivery};
use cntk_reader_core::runtime::sync::thread::JoinHandle;
use cntk_reader_core::runtime::{exit, thread};
use cntk_reader_core::{Error, Result};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

/// The cost of handing work on a batch of minibatches to another thread and taking it back.
#[derive(Debug, Clone, Copy)]
pub(super) struct HandoverCost {
    /// Per batch: waking parked threads, and waiting for them.
    batch: Duration,
    /// Per minibatch: moving its cache lines from the core that wrote them to the caller's.
    each: Duration,
}

/// A batch is prefetched if both reading it and the caller's work between reads take longer than
/// this. There is no gain if the caller only waits.
///
/// With five times the cost per batch and ten times the cost per minibatch, minibatches of 8 to 256
/// samples are 20 to 47 % slower on average.
pub(super) const READ_AHEAD: HandoverCost =
    HandoverCost { batch: Duration::from_micros(10), each: Duration::from_nanos(100) };

/// A batch is packed by several threads only if packing it takes longer than this, because the
/// caller, which packs too, then finds fewer minibatches in its caches. (With the cost of
/// [`READ_AHEAD`], minibatches of 8 samples of 4 streams are 33 % slower.)
pub(super) const PACKED_TOGETHER: HandoverCost =
    HandoverCost { batch: Duration::from_micros(30), each: Duration::from_nanos(500) };

impl HandoverCost {
    /// Whether it pays to hand over work that takes `time` on a batch of `minibatches` minibatches.
    /// Under shuttle, which has no time, always hands over.
    ///
    /// Needs no hysteresis: in practice, the result changes a few dozen times in thousands of
    /// batches, mostly at the ends of sweeps.
    pub(super) fn is_repaid(self, time: Duration, minibatches: usize) -> bool {
        cfg!(shuttle) || time >= self.batch + self.each * minibatches as u32
    }
}

/// The thread. It has one value at a time; handing that over does not allocate.
pub(super) struct HandoffThread<T> {
    orders: Option<Outbox<T>>,
    results: Inbox<T>,
    thread: Option<JoinHandle<()>>,
}

impl<T: Send + 'static> HandoffThread<T> {
    /// Starts the thread. If that fails, logs it and returns `None`, and the caller must do the
    /// work itself.
    pub(super) fn start(name: &str, work: fn(&mut T)) -> Option<HandoffThread<T>> {
        let (orders, inbox) = delivery::<T>();
        let (outbox, results) = delivery();
        let work = move || {
            // The thread waits outside of any call, so this cannot be cancelled.
            while let Ok(Some(mut thing)) = inbox.take() {
                // A panic drops the value and the outbox. The reader detects that and rejects
                // further use.
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

    /// Sends a value to the thread, which must be idle: the previous value must have been taken
    /// back. If the thread has ended by a panic, [`HandoffThread::take`] reports it.
    pub(super) fn give(&self, thing: T) {
        if let Some(orders) = &self.orders {
            orders.put(thing);
        }
    }

    /// Whether the value is back, or will never come.
    pub(super) fn is_done(&self) -> bool {
        self.results.has_come()
    }

    /// Waits until [`HandoffThread::is_done`], at most until `deadline`. Returns whether it is
    /// done. Fails if the call is cancelled.
    pub(super) fn is_done_by(&self, deadline: Instant) -> Result<bool> {
        self.results.comes_by(deadline)
    }

    /// Waits for the value and takes it back. If the call is cancelled, the thread keeps it.
    pub(super) fn take(&self) -> Result<T> {
        self.results.take_of_foreign()?.ok_or_else(gone)
    }
}

impl<T> HandoffThread<T> {
    /// Forgets the thread without waiting, in a forked child, in which it does not exist.
    pub(super) fn forget(mut self) {
        std::mem::forget(self.thread.take());
        std::mem::forget(self);
    }
}

impl<T> Drop for HandoffThread<T> {
    fn drop(&mut self) {
        self.orders = None;
        if let Some(thread) = self.thread.take() {
            // A thread that is lost in a callback, or waits for such a thread, never ends.
            if exit::has_lost_threads() {
                return std::mem::forget(thread);
            }
            // The thread ends after its current work; its panics are caught.
            let _ = thread.join();
        }
    }
}

fn gone() -> Error {
    if exit::has_lost_threads() {
        return exit::refusal("the reader can no longer be used");
    }
    Error::internal("Assembling a minibatch panicked; the reader can no longer be used.")
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    #[test]
    fn handover_costs_a_batch_and_each_minibatch() {
        let (micros, nanos) = (Duration::from_micros, Duration::from_nanos);
        for (cost, minibatches, least) in [
            (READ_AHEAD, 0, micros(10)),
            (READ_AHEAD, 5, nanos(10_500)),
            (PACKED_TOGETHER, 1, nanos(30_500)),
            (PACKED_TOGETHER, 20, micros(40)),
        ] {
            assert!(cost.is_repaid(least, minibatches), "{cost:?}");
            assert!(!cost.is_repaid(least - nanos(1), minibatches), "{cost:?}");
        }
    }

    /// A number whose work can be held up, and which tells when that has ended.
    struct Work {
        number: u32,
        is_held: Arc<AtomicBool>,
        is_done: Arc<AtomicBool>,
    }

    impl Work {
        fn new(is_held: bool) -> Work {
            let flag = |value| Arc::new(AtomicBool::new(value));
            Work { number: 0, is_held: flag(is_held), is_done: flag(false) }
        }

        /// Waits for up to ten seconds.
        fn run(&mut self) {
            let end = Instant::now() + Duration::from_secs(10);
            while self.is_held.load(Ordering::SeqCst) && Instant::now() < end {
                std::thread::sleep(Duration::from_millis(1));
            }
            self.number += 1;
            self.is_done.store(true, Ordering::SeqCst);
        }
    }

    #[test]
    fn value_goes_there_and_back() {
        let thread = HandoffThread::start("worker", Work::run).expect("a thread");
        let mut work = Work::new(false);
        for round in 1..=3 {
            thread.give(work);
            work = thread.take().expect("the thread is there");
            assert_eq!(work.number, round);
            assert!(!thread.is_done());
        }
        work.is_held.store(true, Ordering::SeqCst);
        let is_held = Arc::clone(&work.is_held);
        thread.give(work);
        let soon = || Instant::now() + Duration::from_millis(3);
        assert!(!thread.is_done() && !thread.is_done_by(soon()).expect("no error"));
        is_held.store(false, Ordering::SeqCst);
        assert!(thread.is_done_by(Instant::now() + Duration::from_secs(60)).expect("no error"));
        assert!(thread.is_done());
    }

    #[test]
    fn work_ends_before_the_thread_is_dropped() {
        let thread = HandoffThread::start("worker", Work::run).expect("a thread");
        let work = Work::new(true);
        let (is_held, is_done) = (Arc::clone(&work.is_held), Arc::clone(&work.is_done));
        thread.give(work);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(10));
                is_held.store(false, Ordering::SeqCst);
            });
            drop(thread);
            assert!(is_done.load(Ordering::SeqCst));
        });
    }

    #[test]
    fn forgotten_thread_is_not_waited_for() {
        let thread = HandoffThread::start("worker", Work::run).expect("a thread");
        let work = Work::new(true);
        let (is_held, is_done) = (Arc::clone(&work.is_held), Arc::clone(&work.is_done));
        thread.give(work);
        thread.forget();
        assert!(!is_done.load(Ordering::SeqCst));
        is_held.store(false, Ordering::SeqCst);
    }

    #[test]
    fn panic_fails_all_later_calls() {
        let work = |number: &mut u32| std::panic::resume_unwind(Box::new(*number));
        let thread = HandoffThread::start("worker", work).expect("a thread");
        for number in [7, 8] {
            thread.give(number);
            let error = thread.take().expect_err("a panic");
            let message = "Assembling a minibatch panicked; the reader can no longer be used.";
            assert_eq!(error.message(), message);
            assert!(thread.is_done());
        }
    }
}

#[cfg(all(test, shuttle))]
mod schedules {
    use super::HandoffThread;
    use cntk_reader_core::runtime::sync::explore;
    use std::sync::Arc;

    /// A value that counts its owners.
    struct Thing(#[expect(dead_code, reason = "counts owners")] Arc<()>, u32);

    #[test]
    fn value_goes_there_and_back() {
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
    fn busy_thread_may_be_dropped() {
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
    fn panic_fails_all_later_calls() {
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
