//! Threads that help another one with work that has many parts.
//!
//! Rayon's pool loads chunks, and a thread of it takes 40 to 110 microseconds to wake up, as long as packing several minibatches. The
//! threads here look for what comes next before they sleep, and a thread that comes late is not waited for: whoever shares
//! work takes parts of it like all others, and what nobody has begun is not left to anyone.

#![allow(unsafe_code, reason = "work that other threads borrow until it ends")]

use crate::runtime::cancel;
use crate::runtime::sync::thread::JoinHandle;
use crate::runtime::sync::{Condvar, Mutex, MutexGuard, spin};
use crate::runtime::thread;
use crate::{Error, Result};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// What threads do together: each takes parts until none is left. The argument is the number of the thread, which no other one has
/// at the time: 0 is who shares the work, [`Helpers::most`] a caller who waits.
type Work<'a> = &'a (dyn Fn(usize) + Sync);

/// The threads, started when they are first needed.
pub struct Helpers {
    threads: Vec<JoinHandle<()>>,
    shared: Arc<Shared>,
}

/// What the threads share.
struct Shared {
    state: Mutex<State>,
    /// There is work, or no helper is needed any more.
    begun: Condvar,
    /// Nobody helps any more.
    finished: Condvar,
    /// How often work was shared: what helpers look at before they sleep.
    rounds: AtomicU32,
    /// How many threads help now: what waits for them looks at before it sleeps.
    busy: AtomicU32,
    /// Threads that work at a time, at most.
    most: usize,
}

#[derive(Default)]
struct State {
    /// Here while parts may be left. It is borrowed from [`Helpers::share`], which takes it away and then waits for all that are
    /// [`Shared::busy`].
    work: Option<Work<'static>>,
    /// Threads with lower numbers may help.
    wanted: usize,
    sleeping: usize,
    /// A thread has panicked while it helped.
    is_broken: bool,
    is_closed: bool,
}

impl Shared {
    /// What a thread does until it is not needed any more.
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
            // What comes next mostly comes sooner than a sleeping thread wakes up.
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

    /// Does what is left of the work, if there is any.
    fn help<'s>(&'s self, number: usize, mut state: MutexGuard<'s, State>) -> MutexGuard<'s, State> {
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

/// Takes the work away from the threads when it is dropped, and waits until none of them does it any more.
struct Round<'a>(&'a Shared);

impl Drop for Round<'_> {
    fn drop(&mut self) {
        let Shared { state, busy, finished, .. } = self.0;
        state.lock().work = None;
        // Under the lock nobody begins any more, so that this only falls.
        if busy.load(Ordering::Acquire) > 0 && !spin(|| busy.load(Ordering::Acquire) == 0) {
            let mut state = state.lock();
            while busy.load(Ordering::Acquire) > 0 {
                finished.wait(&mut state);
            }
        }
    }
}

impl Helpers {
    /// As many threads at most, at least one: the one that shares its work.
    pub fn new(most: usize) -> Helpers {
        let shared = Shared {
            state: Mutex::default(),
            begun: Condvar::default(),
            finished: Condvar::default(),
            rounds: AtomicU32::new(0),
            busy: AtomicU32::new(0),
            most,
        };
        Helpers { threads: Vec::new(), shared: Arc::new(shared) }
    }

    /// Threads that work at a time, at most.
    pub fn most(&self) -> usize {
        self.shared.most
    }

    /// What a caller needs to help while it waits.
    pub fn waiting_caller(&self) -> WaitingCaller {
        WaitingCaller { shared: Arc::clone(&self.shared), rounds: 0 }
    }

    /// Does `work` on this thread and, at the same time, on up to `threads - 1` others and a caller who waits. It returns on each
    /// of them when no part is left that nobody has begun. After a panic on another thread the result is an error, now and later.
    pub fn share(&mut self, threads: usize, work: Work<'_>) -> Result<()> {
        self.start(threads - 1);
        let shared = &*self.shared;
        // SAFETY: only the lifetime changes, and nobody uses the reference after it has ended: it is in `State::work`, from which
        // threads copy it under the lock, and they count themselves as busy under that lock before they use it. `Round`, which is
        // dropped before this function returns or unwinds, takes it out under the lock and waits until none is busy.
        let lasting = unsafe { std::mem::transmute::<Work<'_>, Work<'static>>(work) };
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

    /// Starts threads until there are as many, if there can be.
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
            // It ends after what it does; its panics were caught.
            let _ = thread.join();
        }
    }
}

/// Some of the helpers, for work that is a list of parts.
pub struct Team<'a> {
    pub helpers: &'a mut Helpers,
    /// Threads that work, beside a caller who waits.
    pub threads: usize,
}

impl Team<'_> {
    /// Does `work` with each part. Of several failures, the first in the parts' order is the result.
    pub fn each<T: Send>(
        &mut self,
        parts: impl DoubleEndedIterator<Item = T> + ExactSizeIterator + Send,
        work: impl Fn(T) -> Result<()> + Sync,
    ) -> Result<()> {
        let most = self.helpers.most();
        let parts = Mutex::new(parts.enumerate());
        let failure = Mutex::new(None::<(usize, Error)>);
        self.helpers.share(self.threads, &|thread| {
            // From both ends, so that mostly the same thread gets the same parts again: of memory that its caches still have. A
            // caller who waits, whose number is `most`, takes the place of the first helper.
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

/// A caller who waits for what another thread reads ahead.
pub struct WaitingCaller {
    shared: Arc<Shared>,
    /// How often work was shared when the caller last looked.
    rounds: u32,
}

impl WaitingCaller {
    /// Another thread is about to read.
    pub fn begin(&mut self) {
        self.rounds = self.shared.rounds.load(Ordering::Relaxed);
    }

    /// Helps with what is shared soon, until nothing is. `is_done` says whether what the caller waits for is there: not all is shared.
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
            // What was begun is done, even if the call is cancelled.
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
    fn the_first_failure_in_order_counts() {
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
    fn a_helper_that_panics_is_an_error_now_and_later() {
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
    fn a_panic_of_who_shares_waits_for_the_helpers() {
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

    /// A thread that shares work twice, helpers and a caller who waits do every part once, and all end.
    #[test]
    fn parts_are_done_once_and_all_end() {
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
