//! Helper threads for work that consists of many parts.
//!
//! A rayon thread takes 40 to 110 microseconds to wake up, as long as packing several minibatches.
//! The threads here spin before they park, and a late thread is not waited for: the sharing thread
//! takes parts like all others, and unstarted parts are never reserved for a particular thread.

#![allow(unsafe_code, reason = "work that other threads borrow until it ends")]

use crate::runtime::cancel;
use crate::runtime::sync::thread::JoinHandle;
use crate::runtime::sync::{Condvar, Mutex, MutexGuard, spin};
use crate::runtime::thread;
use crate::{Error, Result};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// A unit of shared work: each thread takes parts until none is left. The argument is the number of
/// the thread, unique at the time: 0 is the sharing thread, and [`Helpers::most`] a waiting caller.
type SharedWork<'a> = &'a (dyn Fn(usize) + Sync);

/// A group of threads, started when first needed.
pub struct Helpers {
    threads: Vec<JoinHandle<()>>,
    shared: Arc<HelpersInner>,
}

/// Data shared by the threads.
struct HelpersInner {
    state: Mutex<HelpersState>,
    /// Notified when there is work, or when the helpers should end.
    begun: Condvar,
    /// Notified when the last helper has finished.
    finished: Condvar,
    /// Number of rounds of work so far. Helpers poll it before parking.
    rounds: AtomicU32,
    /// Number of threads helping now. Polled before parking.
    busy: AtomicU32,
    /// Maximum number of threads that work at a time.
    most: usize,
}

#[derive(Default)]
struct HelpersState {
    /// Present while parts may be left. Borrowed from [`Helpers::share`], which removes it and then
    /// waits until no thread is [`HelpersInner::busy`].
    work: Option<SharedWork<'static>>,
    /// Threads with lower numbers may help.
    wanted: usize,
    sleeping: usize,
    /// A helper has panicked.
    is_broken: bool,
    is_closed: bool,
}

impl HelpersInner {
    /// The main loop of a helper, until the helpers are dropped.
    fn serve(&self, number: usize) {
        let mut helped = None;
        let mut state = self.state.lock();
        while !state.is_closed {
            let round = self.rounds.load(Ordering::Relaxed);
            let is_needed = state.work.is_some() && number < state.wanted && helped != Some(round);
            if is_needed {
                helped = Some(round);
                state = self.help(number, state);
                continue;
            }
            // Spin first: the next work mostly comes sooner than a parked thread wakes up.
            drop(state);
            spin(|| self.rounds.load(Ordering::Relaxed) != round);
            state = self.state.lock();
            if self.rounds.load(Ordering::Relaxed) == round && !state.is_closed {
                state.sleeping += 1;
                self.begun.wait(&mut state);
                state.sleeping -= 1;
            }
        }
    }

    /// Helps with the remaining work, if there is any.
    fn help<'s>(
        &'s self,
        number: usize,
        mut state: MutexGuard<'s, HelpersState>,
    ) -> MutexGuard<'s, HelpersState> {
        let Some(work) = state.work else { return state };
        self.busy.fetch_add(1, Ordering::Relaxed);
        drop(state);
        let is_done = catch_unwind(AssertUnwindSafe(|| work(number))).is_ok();
        state = self.state.lock();
        state.is_broken |= !is_done;
        if self.busy.fetch_sub(1, Ordering::Release) == 1 {
            self.finished.notify_all();
        }
        state
    }
}

/// A round of work. Dropping it removes the work and waits until no helper is working on it.
struct Round<'a>(&'a HelpersInner);

impl Drop for Round<'_> {
    fn drop(&mut self) {
        let HelpersInner { state, busy, finished, .. } = self.0;
        state.lock().work = None;
        // No thread can begin any more, so the number only falls.
        if busy.load(Ordering::Acquire) > 0 && !spin(|| busy.load(Ordering::Acquire) == 0) {
            let mut state = state.lock();
            while busy.load(Ordering::Acquire) > 0 {
                finished.wait(&mut state);
            }
        }
    }
}

impl Helpers {
    /// Allows at most `most` threads, including the sharing thread.
    pub fn new(most: usize) -> Helpers {
        let shared = HelpersInner {
            state: Mutex::default(),
            begun: Condvar::default(),
            finished: Condvar::default(),
            rounds: AtomicU32::new(0),
            busy: AtomicU32::new(0),
            most,
        };
        Helpers { threads: Vec::new(), shared: Arc::new(shared) }
    }

    /// Returns the maximum number of threads that work at a time.
    pub fn most(&self) -> usize {
        self.shared.most
    }

    /// Returns a handle with which a caller helps while it waits.
    pub fn waiting_caller(&self) -> WaitingCaller {
        WaitingCaller { shared: Arc::clone(&self.shared), rounds: 0 }
    }

    /// Runs `work` on this thread and concurrently on up to `threads - 1` helpers and a waiting
    /// caller. It returns on each thread when no unstarted parts are left. After a panic on another
    /// thread, this and later calls return an error.
    pub fn share(&mut self, threads: usize, work: SharedWork<'_>) -> Result<()> {
        self.start(threads - 1);
        let shared = &*self.shared;
        // SAFETY: only the lifetime changes, and the reference is not used after it ends: it is
        // stored in `HelpersState::work`, from which threads copy it under the lock, counting
        // themselves as busy under the same lock before they use it. `Round`, which is dropped
        // before this function returns or unwinds, removes it under the lock and waits until no
        // thread is busy.
        let lasting = unsafe { std::mem::transmute::<SharedWork<'_>, SharedWork<'static>>(work) };
        let mut state = shared.state.lock();
        let round = Round(shared);
        state.work = Some(lasting);
        state.wanted = threads;
        shared.rounds.fetch_add(1, Ordering::Relaxed);
        if state.sleeping > 0 && threads > 1 {
            shared.begun.notify_all();
        }
        drop(state);
        work(0);
        drop(round);
        match shared.state.lock().is_broken {
            true => Err(Error::internal("Packing a minibatch panicked; the reader cannot be used any more.")),
            false => Ok(()),
        }
    }

    /// Starts threads until there are `wanted`, or no more can be started.
    fn start(&mut self, wanted: usize) {
        const NAME: &str = "cntk-reader-pack";
        while self.threads.len() < wanted {
            let (shared, number) = (Arc::clone(&self.shared), self.threads.len() + 1);
            match thread::start(NAME, move || shared.serve(number)) {
                Ok(thread) => self.threads.push(thread),
                Err(cause) => return thread::warn_of_missing(NAME, &cause),
            }
        }
    }
}

impl Drop for Helpers {
    fn drop(&mut self) {
        self.shared.state.lock().is_closed = true;
        self.shared.rounds.fetch_add(1, Ordering::Relaxed);
        self.shared.begun.notify_all();
        for thread in self.threads.drain(..) {
            // The thread ends after its current work; its panics were caught.
            let _ = thread.join();
        }
    }
}

/// Some of the helpers, for work that is a list of parts.
pub struct Team<'a> {
    pub helpers: &'a mut Helpers,
    /// Number of threads that work, in addition to a waiting caller.
    pub threads: usize,
}

impl Team<'_> {
    /// Runs `work` for each part. If several fail, returns the error of the first part in order.
    pub fn each<T: Send>(
        &mut self,
        parts: impl DoubleEndedIterator<Item = T> + ExactSizeIterator + Send,
        work: impl Fn(T) -> Result<()> + Sync,
    ) -> Result<()> {
        let most = self.helpers.most();
        let parts = Mutex::new(parts.enumerate());
        let failure = Mutex::new(None::<(usize, Error)>);
        self.helpers.share(self.threads, &|thread| {
            // Threads take parts from both ends, so that repeated work mostly finds its data in the
            // same thread's caches. A waiting caller, whose number is `most`, takes parts from the
            // end, like the first helper.
            let next = || match thread % 2 == 0 && thread < most {
                true => parts.lock().next(),
                false => parts.lock().next_back(),
            };
            while let Some((number, part)) = next() {
                if let Err(error) = work(part) {
                    let mut failure = failure.lock();
                    if failure.as_ref().is_none_or(|(first, _)| number < *first) {
                        *failure = Some((number, error));
                    }
                }
            }
        })?;
        failure.into_inner().map_or(Ok(()), |(_, error)| Err(error))
    }
}

/// A caller that helps while it waits for data that another thread reads ahead.
pub struct WaitingCaller {
    shared: Arc<HelpersInner>,
    /// Number of rounds when the caller last looked.
    rounds: u32,
}

impl WaitingCaller {
    /// Call this before another thread begins to read.
    pub fn begin(&mut self) {
        self.rounds = self.shared.rounds.load(Ordering::Relaxed);
    }

    /// Helps with the work that is shared soon, until there is none. `is_done` returns whether the
    /// caller's data are ready: not all of the reading is shared.
    pub fn help(&mut self, is_done: impl Fn() -> bool) {
        let shared = &*self.shared;
        if shared.most == 1 {
            return;
        }
        loop {
            let rounds = || shared.rounds.load(Ordering::Relaxed);
            spin(|| rounds() != self.rounds || is_done());
            if rounds() == self.rounds {
                return;
            }
            self.rounds = rounds();
            // Work that was begun must be completed, even if the call is cancelled.
            cancel::apart(|| drop(shared.help(shared.most, shared.state.lock())));
        }
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;

    #[test]
    fn every_part_is_done_once() {
        for threads in 1..=4 {
            let mut helpers = Helpers::new(4);
            for count in [0, 1, 2, 100] {
                let done: Vec<_> = (0..count).map(|_| AtomicU32::new(0)).collect();
                let mut team = Team { helpers: &mut helpers, threads };
                let add = |part: &AtomicU32| {
                    part.fetch_add(1, Ordering::Relaxed);
                    Ok(())
                };
                team.each(done.iter(), add).expect("no failure");
                assert!(done.iter().all(|part| part.load(Ordering::Relaxed) == 1));
            }
        }
    }

    #[test]
    fn first_failure_in_order_wins() {
        let mut helpers = Helpers::new(3);
        for _ in 0..20 {
            let mut team = Team { helpers: &mut helpers, threads: 3 };
            let fail = |part: u32| match part % 7 {
                5 => Err(Error::data(part.to_string())),
                _ => Ok(()),
            };
            let error =
                team.each((0..40).collect::<Vec<_>>().into_iter(), fail).expect_err("five parts fail");
            assert_eq!(error.message(), "5");
        }
    }

    #[test]
    fn helper_panic_fails_this_and_later_rounds() {
        let mut helpers = Helpers::new(2);
        let helps = AtomicBool::new(false);
        let shared = helpers.share(2, &|number| {
            if number > 0 {
                helps.store(true, Ordering::Relaxed);
                std::panic::resume_unwind(Box::new(number));
            }
            while !helps.load(Ordering::Relaxed) {
                std::thread::yield_now();
            }
        });
        assert!(shared.is_err());
        assert!(helpers.share(2, &|_| ()).is_err());
    }

    #[test]
    fn caller_panic_joins_helpers() {
        let mut helpers = Helpers::new(2);
        let (helps, ended) = (AtomicBool::new(false), AtomicBool::new(false));
        let shared = catch_unwind(AssertUnwindSafe(|| {
            helpers.share(2, &|number| {
                if number > 0 {
                    helps.store(true, Ordering::Relaxed);
                    std::thread::sleep(std::time::Duration::from_millis(20));
                    ended.store(true, Ordering::Relaxed);
                    return;
                }
                while !helps.load(Ordering::Relaxed) {
                    std::thread::yield_now();
                }
                std::panic::resume_unwind(Box::new(()));
            })
        }));
        assert!(shared.is_err() && ended.load(Ordering::Relaxed));
        helpers.share(2, &|_| ()).expect("nothing is broken");
    }
}

#[cfg(all(test, shuttle))]
mod schedules {
    use super::*;
    use crate::runtime::sync::{explore, thread};

    /// A thread that shares work twice, its helpers and a waiting caller do every part once, and
    /// all threads end.
    #[test]
    fn parts_are_done_once_and_all_threads_end() {
        explore::random("helpers and a caller who waits", || {
            let mut helpers = Helpers::new(2);
            let mut caller = helpers.waiting_caller();
            caller.begin();
            let sharing = thread::spawn(move || {
                for round in 0..2 {
                    let done: Vec<_> = (0..3).map(|_| Mutex::new(0)).collect();
                    let mut team = Team { helpers: &mut helpers, threads: 2 };
                    let add = |part: &Mutex<u32>| {
                        *part.lock() += 1;
                        Ok(())
                    };
                    team.each(done.iter(), add).expect("no failure");
                    assert!(done.iter().all(|part| *part.lock() == 1), "round {round}");
                }
            });
            caller.help(|| false);
            sharing.join().expect("no panic");
        });
    }
}
