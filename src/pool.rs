//! The library's threads: one pool per process, started when first needed. A forked child starts a pool of its own.

use crate::error::ExceptionClass;
use crate::fork::Process;
use crate::{Error, ErrorKind, Result};
use parking_lot::Mutex;
use parking_lot::lock_api::RawMutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Environment variable that sets the number of loading threads.
pub const THREADS_VARIABLE: &str = "CNTK_READER_THREADS";

/// Long-lived threads that load and parse chunks. The library does not use rayon's global pool, because that belongs to the
/// process into which the library is loaded.
#[derive(Clone)]
pub struct Pool {
    threads: Arc<rayon::ThreadPool>,
    process: Process,
}

static SHARED: Mutex<Option<Pool>> = Mutex::new(None);
static THREADS: AtomicUsize = AtomicUsize::new(0);

/// Sets the number of loading threads for readers that are created from now on; 0 restores the default
/// ([`THREADS_VARIABLE`], else the CPUs this process may use).
pub fn set_threads(threads: usize) {
    THREADS.store(threads, Ordering::Relaxed);
}

/// The number of threads that a pool created now would have.
pub fn threads() -> usize {
    match THREADS.load(Ordering::Relaxed) {
        0 => std::env::var(THREADS_VARIABLE)
            .ok()
            .and_then(|text| text.trim().parse().ok())
            .filter(|&threads: &usize| threads > 0)
            // Honours CPU affinity and the quotas of control groups.
            .unwrap_or_else(|| std::thread::available_parallelism().map_or(1, |threads| threads.get())),
        threads => threads,
    }
}

impl Pool {
    /// The pool that the readers of this process share. Starts a new one if there is none yet, or if [`threads`] has changed.
    pub fn shared() -> Result<Pool> {
        let process = Process::current();
        let wanted = threads();
        let mut shared = SHARED.lock();
        // A forked child has inherited the pool's memory but not its threads, so it starts a pool of its own.
        if let Some(pool) = shared.as_ref().filter(|pool| pool.process == process && pool.threads() == wanted)
        {
            return Ok(pool.clone());
        }
        let threads = rayon::ThreadPoolBuilder::new()
            .num_threads(wanted)
            .thread_name(|i| format!("cntk-reader-{i}"))
            .build()
            .map_err(|cause| {
                let message = format!("Cannot start the loading threads: {cause}");
                Error::new(ErrorKind::Io, ExceptionClass::Runtime, message)
            })?;
        let pool = Pool { threads: Arc::new(threads), process };
        let old = shared.replace(pool.clone());
        drop(shared);
        drop(old);
        Ok(pool)
    }

    /// Runs `work` on a thread of the pool and returns at once; works start in the order given.
    pub fn spawn(&self, work: impl FnOnce() + Send + 'static) {
        self.threads.spawn_fifo(work);
    }

    /// Runs `work` on the pool and waits for it; inside, rayon's `par_iter` and `join` use this pool.
    pub fn install<R: Send>(&self, work: impl FnOnce() -> R + Send) -> R {
        self.threads.install(work)
    }

    /// Keeps a thread of the pool useful while it waits: runs one pending job, or sleeps for 50 microseconds if there is none.
    /// Returns false, at once, on any other thread: that may simply block.
    pub fn help(&self) -> bool {
        match self.threads.yield_now() {
            None => return false,
            Some(rayon::Yield::Executed) => {}
            Some(rayon::Yield::Idle) => std::thread::sleep(std::time::Duration::from_micros(50)),
        }
        true
    }

    /// Number of threads.
    pub fn threads(&self) -> usize {
        self.threads.current_num_threads()
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        if !self.process.is_current() {
            // Inherited by a forked child: the pool's threads do not exist here, and every lock that they held stays
            // locked, so its destructor would wait forever. Leaking one reference keeps it from ever running.
            std::mem::forget(self.threads.clone());
        }
    }
}

/// For [`crate::fork`]: takes the pool's lock, so that no other thread holds it while the process forks.
pub(crate) fn lock_for_fork() {
    // SAFETY: `raw` requires that the mutex is not unlocked while a guard is alive. Here it is only locked, and the one
    // unlock through `raw`, in `unlock_after_fork`, releases exactly this lock.
    unsafe { SHARED.raw() }.lock();
}

/// For [`crate::fork`]: the counterpart of [`lock_for_fork`].
pub(crate) fn unlock_after_fork() {
    // SAFETY: the mutex is locked, and no guard is alive: the C library runs this handler after `fork::before`, which called
    // `lock_for_fork`, in the thread that forked. In the child that is the only thread.
    unsafe { SHARED.raw().unlock() };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pool_is_shared_and_follows_the_setting() {
        let first = Pool::shared().expect("threads");
        assert!(Arc::ptr_eq(&first.threads, &Pool::shared().expect("threads").threads));
        assert_eq!(first.install(|| 2 + 2), 4);
    }
}
