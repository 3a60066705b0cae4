//! The threads that user code runs on: one, unless it is declared to be safe for several.
//!
//! They are not the library's pool, because user code may wait for a reader of this library, whose loading needs the pool.
//! When the process ends, so do they: see [`crate::runtime::exit`].

use crate::error::ExceptionClass;
use crate::memory::{Held, Meter};
use crate::runtime::exit::{self, ForeignThreads};
use crate::runtime::fork::Process;
use crate::runtime::sync::thread::{JoinHandle, ThreadId};
use crate::runtime::sync::{self, Condvar, Mutex};
use crate::runtime::thread;
use crate::{Error, ErrorKind, Result};
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Weak};
use std::time::Instant;

/// Work for a loading thread. It is given false, and must not run or drop anything of the user's, once the process ends.
type Job = Box<dyn FnOnce(bool) + Send>;

/// Threads that work off a queue.
pub(crate) struct Loader {
    shared: Arc<Shared>,
    ids: Vec<ThreadId>,
    process: Process,
    /// Counts the memory of the chunks that were loaded here.
    meter: Meter,
}

#[derive(Default)]
struct Shared {
    queue: Mutex<Queue>,
    changed: Condvar,
    /// Taken by whoever ends the threads.
    threads: Mutex<Vec<JoinHandle<()>>>,
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    running: usize,
    /// The threads end once no jobs are left.
    is_closed: bool,
}

impl Loader {
    /// Starts this many threads, at least one.
    pub fn start(threads: usize) -> Result<Loader> {
        let mut loader = Loader {
            shared: Arc::default(),
            ids: Vec::with_capacity(threads),
            process: Process::current(),
            meter: Meter::default(),
        };
        let group: Weak<Shared> = Arc::downgrade(&loader.shared);
        exit::end_with_process(group);
        for _ in 0..threads.max(1) {
            let shared = Arc::clone(&loader.shared);
            let thread = match thread::start("cntk-reader-user", move || shared.work()) {
                Ok(thread) => thread,
                Err(cause) if loader.ids.is_empty() => {
                    let message = format!("Cannot start the thread that calls the user's code: {cause}.");
                    let error = Error::new(ErrorKind::Io, ExceptionClass::Runtime, message);
                    return Err(error.with_detail(thread::ADVICE));
                }
                Err(cause) => {
                    thread::warn_of_missing("cntk-reader-user", &cause);
                    break;
                }
            };
            loader.ids.push(thread.thread().id());
            loader.shared.threads.lock().push(thread);
        }
        Ok(loader)
    }

    /// Bytes of the chunks in memory.
    pub fn held(&self) -> u64 {
        self.meter.bytes()
    }

    /// Counts the bytes of a chunk for as long as the returned object lives.
    pub fn hold(&self, bytes: usize) -> Held {
        self.meter.hold(bytes)
    }

    /// Runs `job` on one of the threads, after those that were given before; returns at once. The job is given false once
    /// the process ends: then it must neither run nor drop anything of the user's.
    pub fn spawn(&self, job: impl FnOnce(bool) + Send + 'static) {
        let mut queue = self.shared.queue.lock();
        if queue.is_closed {
            // The process ends, and the threads may be gone.
            drop(queue);
            return job(false);
        }
        queue.jobs.push_back(Box::new(job));
        drop(queue);
        self.shared.changed.notify_all();
    }

    /// Drops something of the user's on one of the threads.
    pub fn release(&self, thing: impl Send + 'static) {
        self.spawn(move |may_run| match may_run {
            true => drop(thing),
            false => std::mem::forget(thing),
        });
    }

    /// Waits until all jobs are done, and whatever they held is dropped. Does nothing on one of the threads, which would
    /// wait for itself.
    pub fn drain(&self) {
        if !self.process.is_current() || self.is_here() {
            return;
        }
        exit::outside(|| {
            let mut queue = self.shared.queue.lock();
            while (queue.running > 0 || !queue.jobs.is_empty()) && !exit::has_lost_threads() {
                self.shared.changed.wait_for(&mut queue, exit::LOOK);
            }
        });
    }

    /// Whether this is one of the threads.
    fn is_here(&self) -> bool {
        self.ids.contains(&sync::thread::current().id())
    }
}

impl Shared {
    /// Has the threads end, and gives those that the caller may wait for.
    fn close(&self) -> impl Iterator<Item = JoinHandle<()>> {
        self.queue.lock().is_closed = true;
        self.changed.notify_all();
        let threads = std::mem::take(&mut *self.threads.lock());
        let this = sync::thread::current().id();
        threads.into_iter().filter(move |thread| thread.thread().id() != this)
    }

    fn work(&self) {
        let mut queue = self.queue.lock();
        loop {
            if let Some(job) = queue.jobs.pop_front() {
                queue.running += 1;
                drop(queue);
                let inside = exit::enter();
                // Panics of user code are caught where they become errors; here a job must only not end the thread.
                let _ = catch_unwind(AssertUnwindSafe(|| job(inside.is_some())));
                if inside.is_some() {
                    exit::count_job();
                }
                drop(inside);
                queue = self.queue.lock();
                queue.running -= 1;
                self.changed.notify_all();
            } else if queue.is_closed {
                return;
            } else {
                self.changed.wait(&mut queue);
            }
        }
    }
}

impl ForeignThreads for Shared {
    fn end(&self, deadline: Instant) {
        self.close().for_each(|thread| exit::join_until(thread, deadline));
    }
}

impl Drop for Loader {
    /// Waits for the jobs that are left, as to release chunks.
    fn drop(&mut self) {
        if !self.process.is_current() {
            // In a forked child there are no such threads.
            // Nor may their handles be dropped, so what they are in is leaked.
            std::mem::forget(Arc::clone(&self.shared));
            return;
        }
        for thread in self.shared.close() {
            exit::join(thread);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn jobs_run_in_order_and_all_of_them_before_the_end() {
        let done = Arc::new(AtomicUsize::new(0));
        let loader = Loader::start(1).expect("a thread");
        for i in 0..100 {
            let done = Arc::clone(&done);
            loader.spawn(move |_| assert_eq!(done.fetch_add(1, Ordering::SeqCst), i));
        }
        loader.drain();
        assert_eq!(done.load(Ordering::SeqCst), 100);
        loader.spawn(|_| assert_eq!(std::thread::current().name(), Some("cntk-reader-user")));
        loader.drain();
        loader.spawn(|_| panic!("on purpose"));
        let last = Arc::clone(&done);
        loader.spawn(move |_| {
            last.fetch_add(1, Ordering::SeqCst);
        });
        drop(loader);
        assert_eq!(done.load(Ordering::SeqCst), 101);
    }
}

#[cfg(all(test, shuttle))]
mod schedules {
    use super::*;
    use crate::runtime::sync::{explore, thread};
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn every_job_runs_once_and_before_the_end() {
        explore::random("users' threads: jobs, waiting, nested work, end", || {
            let done = Arc::new(AtomicUsize::new(0));
            let loader = Arc::new(Loader::start(2).expect("threads"));
            let spawn = |loader: &Loader| {
                let done = Arc::clone(&done);
                loader.spawn(move |may_run| {
                    assert!(may_run);
                    thread::yield_now();
                    done.fetch_add(1, Ordering::SeqCst);
                });
            };
            (0..3).for_each(|_| spawn(&loader));
            loader.drain();
            assert!(done.load(Ordering::SeqCst) == 3, "drained");
            (0..2).for_each(|_| spawn(&loader));
            loader.spawn(|_| std::panic::resume_unwind(Box::new("on purpose")));
            drop(loader);
            assert_eq!(done.load(Ordering::SeqCst), 5);
            assert_eq!(Arc::strong_count(&done), 1, "no job is left");
        });
    }

    /// A job may be what drops the last owner of the threads.
    #[test]
    fn threads_may_end_on_one_of_them() {
        explore::random("users' threads: ended by one of themselves", || {
            let loader = Arc::new(Loader::start(2).expect("threads"));
            let its = Arc::clone(&loader);
            loader.spawn(move |_| drop(its));
            drop(loader);
        });
    }
}
