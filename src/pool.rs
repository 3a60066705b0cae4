//! The library's threads: one pool per process, started when first needed, gone after a fork.

use crate::{Error, ErrorKind, Result};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Environment variable that sets the number of loading threads.
pub const THREADS_VARIABLE: &str = "CNTK_READER_THREADS";

/// Long-lived threads that load and parse chunks. Private to the library: this code lives inside foreign processes,
/// whose own rayon pool it must not touch.
#[derive(Clone)]
pub struct Pool {
    threads: Arc<rayon::ThreadPool>,
    process: u32,
}

static SHARED: Mutex<Option<Pool>> = Mutex::new(None);
static THREADS: AtomicUsize = AtomicUsize::new(0);

/// Sets the number of loading threads for readers that are created from now on; 0 restores the default
/// ([`THREADS_VARIABLE`], else the CPUs this process may use).
pub fn set_threads(threads: usize) {
    THREADS.store(threads, Ordering::Relaxed);
    *SHARED.lock() = None;
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
    /// The pool that the process shares, started if it does not run yet.
    pub fn shared() -> Result<Pool> {
        let mut shared = SHARED.lock();
        // After a fork the child has the pool's memory but not its threads: it gets a pool of its own.
        if let Some(pool) = shared.as_ref().filter(|pool| pool.process == std::process::id()) {
            return Ok(pool.clone());
        }
        let threads = rayon::ThreadPoolBuilder::new()
            .num_threads(threads())
            .thread_name(|i| format!("cntk-reader-{i}"))
            .build()
            .map_err(|cause| {
                let class = crate::error::ExceptionClass::Runtime;
                Error::new(ErrorKind::Io, class, format!("Cannot start the loading threads: {cause}"))
            })?;
        let pool = Pool { threads: Arc::new(threads), process: std::process::id() };
        // A pool inherited from the parent process must not be dropped here: its threads could never be joined.
        std::mem::forget(shared.replace(pool.clone()).filter(|old| old.process != pool.process));
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

    /// Number of threads.
    pub fn threads(&self) -> usize {
        self.threads.current_num_threads()
    }

    /// Whether the pool's threads exist in this process: false in the child after a fork.
    pub fn is_alive(&self) -> bool {
        self.process == std::process::id()
    }
}
