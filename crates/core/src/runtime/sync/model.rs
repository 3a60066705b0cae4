//! The model: the interface of [`crate::runtime::lock`] over Shuttle's primitives, and a thread
//! pool with the part of rayon's interface that [`crate::runtime::pool`] uses.

use std::collections::VecDeque;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, PoisonError};
use std::time::Duration;
use std::{fmt, io};
use thread::ThreadId;

use shuttle::sync;
pub use shuttle::{sync::mpsc, thread};

/// Always true: Shuttle cannot tell, and joining takes no time in the model.
pub fn is_finished(_thread: &thread::JoinHandle<()>) -> bool {
    true
}

/// Returns the number of threads that share the scan of a file.
pub fn current_threads() -> usize {
    3
}

/// Runs `work` on threads of its own.
pub fn on_threads(threads: usize, work: impl Fn() + Sync) {
    thread::scope(|scope| {
        (1..threads).for_each(|_| _ = scope.spawn(&work));
        work();
    });
}

crate::runtime::lock::locks!(sync);

/// A thread pool that starts jobs in the order given.
pub struct ThreadPool(Arc<PoolInner>);

type Job = Box<dyn FnOnce() + Send>;

#[derive(Default)]
struct PoolInner {
    queue: Mutex<Queue>,
    changed: Condvar,
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    threads: Vec<ThreadId>,
    is_closed: bool,
}

/// Starts the pool. If a thread cannot be started, the started ones end.
pub fn thread_pool(
    threads: usize,
    mut start: impl FnMut(usize, Job) -> io::Result<()>,
) -> io::Result<ThreadPool> {
    let pool = ThreadPool(Arc::default());
    for number in 0..threads {
        let shared = Arc::clone(&pool.0);
        start(number, Box::new(move || shared.work()))?;
    }
    Ok(pool)
}

impl ThreadPool {
    pub fn spawn_fifo(&self, job: impl FnOnce() + Send + 'static) {
        self.0.queue.lock().jobs.push_back(Box::new(job));
        self.0.changed.notify_all();
    }

    /// In the model, the work runs on the calling thread.
    pub fn install<R>(&self, work: impl FnOnce() -> R) -> R {
        work()
    }

    /// Runs one job if there is any. Returns `None` on threads outside the pool.
    pub fn yield_now(&self) -> Option<rayon::Yield> {
        let mut queue = self.0.queue.lock();
        if !queue.threads.contains(&thread::current().id()) {
            return None;
        }
        let Some(job) = queue.jobs.pop_front() else { return Some(rayon::Yield::Idle) };
        drop(queue);
        job();
        Some(rayon::Yield::Executed)
    }

    pub fn current_num_threads(&self) -> usize {
        self.0.queue.lock().threads.len().max(1)
    }
}

impl PoolInner {
    fn work(&self) {
        let mut queue = self.queue.lock();
        queue.threads.push(thread::current().id());
        loop {
            if let Some(job) = queue.jobs.pop_front() {
                drop(queue);
                job();
                queue = self.queue.lock();
            } else if queue.is_closed {
                return;
            } else {
                self.changed.wait(&mut queue);
            }
        }
    }
}

impl fmt::Debug for ThreadPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ThreadPool")
    }
}

impl Drop for ThreadPool {
    /// The threads end once no jobs are left; they are not joined.
    fn drop(&mut self) {
        self.0.queue.lock().is_closed = true;
        self.0.changed.notify_all();
    }
}

/// No time passes in the model, so this only polls once.
pub fn spin(is_done: impl Fn() -> bool) -> bool {
    is_done()
}
