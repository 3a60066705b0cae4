//! The threads that run user code: one, unless the code is declared thread-safe.
//!
//! They are separate from the library's pool, because user code may wait for a reader of this
//! library, whose loading needs the pool. They end when the process exits: see
//! [`crate::runtime::exit`].

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

/// Work for a loading thread. It gets `false` once the process is exiting, and must then neither
/// run nor drop user objects.
type Job = Box<dyn FnOnce(bool) + Send>;

/// Threads that process a queue of jobs.
pub(crate) struct Loader {
    shared: Arc<LoaderState>,
    ids: Vec<ThreadId>,
    process: Process,
    /// Counts the memory of the chunks loaded here.
    meter: Meter,
}

#[derive(Default)]
struct LoaderState {
    queue: Mutex<JobQueue>,
    changed: Condvar,
    /// Taken by the first caller that ends the threads.
    threads: Mutex<Vec<JoinHandle<()>>>,
}

#[derive(Default)]
struct JobQueue {
    jobs: VecDeque<Job>,
    running: usize,
    /// The threads end once the queue is empty.
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
        let group: Weak<LoaderState> = Arc::downgrade(&loader.shared);
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

    /// Counts the bytes of a chunk while the returned object lives.
    pub fn hold(&self, bytes: usize) -> Held {
        self.meter.hold(bytes)
    }

    /// Queues `job` for one of the threads and returns at once. The job gets `false` once the
    /// process is exiting; it must then neither run nor drop user objects.
    pub fn spawn(&self, job: impl FnOnce(bool) + Send + 'static) {
        let mut queue = self.shared.queue.lock();
        if queue.is_closed {
            // The process is exiting, and the threads may be gone.
            drop(queue);
            return job(false);
        }
        queue.jobs.push_back(Box::new(job));
        drop(queue);
        self.shared.changed.notify_all();
    }

    /// Drops a user object on one of the threads.
    pub fn release(&self, thing: impl Send + 'static) {
        self.spawn(move |may_run| match may_run {
            true => drop(thing),
            false => std::mem::forget(thing),
        });
    }

    /// Waits until all jobs are finished and have dropped everything they held. Does nothing on one
    /// of the threads itself, which would deadlock.
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

    /// Whether the current thread is one of these threads.
    fn is_here(&self) -> bool {
        self.ids.contains(&sync::thread::current().id())
    }
}

impl LoaderState {
    /// Tells the threads to end, and returns those that the caller may join.
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
                // Panics of user code are caught where they become errors; this only keeps a job
                // from ending the thread.
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

impl ForeignThreads for LoaderState {
    fn end(&self, deadline: Instant) {
        self.close().for_each(|thread| exit::join_until(thread, deadline));
    }
}

impl Drop for Loader {
    /// Waits for the remaining jobs, such as releasing chunks.
    fn drop(&mut self) {
        if !self.process.is_current() {
            // A forked child does not have these threads, and must not drop their handles either.
            // So leak their owner.
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
    fn jobs_run_in_order_and_finish_before_drop() {
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
    fn every_job_runs_once_before_drop() {
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

    /// A job may drop the last owner of the threads.
    #[test]
    fn loader_may_be_dropped_on_its_own_thread() {
        explore::random("users' threads: ended by one of themselves", || {
            let loader = Arc::new(Loader::start(2).expect("threads"));
            let its = Arc::clone(&loader);
            loader.spawn(move |_| drop(its));
            drop(loader);
        });
    }
}
