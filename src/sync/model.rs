//! The model: the interface of [`crate::lock`] over Shuttle's primitives, and a pool of threads with the part of rayon's interface that
//! [`crate::pool`] uses.

use std::collections::VecDeque;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, PoisonError};
use std::time::Duration;
use std::{fmt, io};
use thread::ThreadId;

pub use shuttle::{sync::mpsc, thread};

/// The model has no such question. Without time, a thread is joined until it has ended.
pub fn is_finished(_thread: &thread::JoinHandle<()>) -> bool {
    true
}

/// Threads that share the scan of a file.
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

/// A lock that a panic does not poison.
#[derive(Debug, Default)]
pub struct Mutex<T>(shuttle::sync::Mutex<T>);

/// The lock is held while this exists. Empty only while [`Condvar::wait`] or [`MutexGuard::unlocked`] has released it.
pub struct MutexGuard<'a, T> {
    mutex: &'a Mutex<T>,
    guard: Option<shuttle::sync::MutexGuard<'a, T>>,
}

impl<T> Mutex<T> {
    pub const fn new(value: T) -> Mutex<T> {
        Mutex(shuttle::sync::Mutex::new(value))
    }

    pub fn lock(&self) -> MutexGuard<'_, T> {
        let guard = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        MutexGuard { mutex: self, guard: Some(guard) }
    }

    pub fn into_inner(self) -> T {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> MutexGuard<'_, T> {
    pub fn unlocked<R>(this: &mut Self, work: impl FnOnce() -> R) -> R {
        this.guard = None;
        let result = work();
        *this = this.mutex.lock();
        result
    }
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.guard.as_ref().expect("the lock is held")
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.guard.as_mut().expect("the lock is held")
    }
}

/// A condition variable.
#[derive(Debug, Default)]
pub struct Condvar(shuttle::sync::Condvar);

impl Condvar {
    pub const fn new() -> Condvar {
        Condvar(shuttle::sync::Condvar::new())
    }

    pub fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
        let held = guard.guard.take().expect("the lock is held");
        guard.guard = Some(self.0.wait(held).unwrap_or_else(PoisonError::into_inner));
    }

    pub fn wait_for<T>(&self, guard: &mut MutexGuard<'_, T>, _most: Duration) {
        self.wait(guard);
    }

    pub fn notify_all(&self) {
        self.0.notify_all();
    }
}

/// A pool of threads that start jobs in the order in which they were given.
pub struct ThreadPool(Arc<Shared>);

type Job = Box<dyn FnOnce() + Send>;

#[derive(Default)]
struct Shared {
    queue: Mutex<Queue>,
    changed: Condvar,
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    threads: Vec<ThreadId>,
    is_closed: bool,
}

/// Starts the pool. If a thread cannot be started, those that were end.
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

    /// In the model the work runs on the thread that asks for it.
    pub fn install<R>(&self, work: impl FnOnce() -> R) -> R {
        work()
    }

    /// Runs one job if there is any. `None` on threads that are not the pool's.
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

impl Shared {
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
    /// The threads end once no jobs are left; nobody waits for them.
    fn drop(&mut self) {
        self.0.queue.lock().is_closed = true;
        self.0.changed.notify_all();
    }
}

/// In the model no time passes, so nobody waits a short time.
pub fn spin(is_done: impl Fn() -> bool) -> bool {
    is_done()
}
