//! The library's thread pool: one per process, started when first needed. A forked child starts its
//! own.

#![allow(unsafe_code, reason = "a lock that is held across a fork")]

use crate::error::ExceptionClass;
use crate::runtime::cancel::{self, Current};
use crate::runtime::fork::{self, Hooks, Position, Process};
use crate::runtime::lock::{AcrossFork, Mutex};
use crate::runtime::log::{Level, Logger};
use crate::runtime::sync::{self, ThreadPool};
use crate::runtime::thread;
use crate::{Error, ErrorKind, Result};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Environment variable that sets the number of loading threads.
pub(crate) const THREADS_VARIABLE: &str = "CNTK_READER_THREADS";

/// A pool of long-lived threads that load and parse chunks. The library does not use rayon's global
/// pool, which belongs to the host process.
#[derive(Clone)]
pub struct Pool {
    threads: Arc<ThreadPool>,
    process: Process,
}

/// Maximum number of threads, which exceeds the CPUs of any machine likely to read such data. A
/// larger number is a mistake, and would make opening a reader take minutes.
pub const MAX_THREADS: usize = crate::limits::MAX_THREADS;

static SHARED: Mutex<Option<Pool>> = Mutex::new(None);
static ACROSS_FORK: AcrossFork<Option<Pool>> = AcrossFork::new(&SHARED);
static THREADS: AtomicUsize = AtomicUsize::new(0);

/// Keeps other threads from holding the lock of the shared pool during a fork.
const HOOKS: Hooks =
    Hooks { before: || ACROSS_FORK.lock(), in_parent: unlock_after_fork, in_child: unlock_after_fork };

fn unlock_after_fork() {
    // SAFETY: `fork` runs this once after each call of `before`, which called `lock`, on the thread
    // that forked. In the child that is the only thread.
    unsafe { ACROSS_FORK.unlock() };
}

/// Sets the number of loading threads for readers created from now on; 0 restores the default
/// ([`THREADS_VARIABLE`], or else the number of CPUs that this process may use). Numbers above 1024
/// are reduced to 1024, with a warning.
pub fn set_threads(threads: usize) {
    THREADS.store(threads, Ordering::Relaxed);
}

/// Returns the number of threads that a pool created now would have.
pub fn threads() -> usize {
    started(&wanted())
}

/// Returns how many threads are started if this many are requested.
fn started(wanted: &std::result::Result<usize, String>) -> usize {
    match *wanted {
        Ok(0) | Err(_) => cpus(),
        Ok(threads) => threads.min(MAX_THREADS),
    }
}

/// Returns the configured number of threads, or 0 if there is none; or the text of the environment
/// variable if it is not a number.
fn wanted() -> std::result::Result<usize, String> {
    match THREADS.load(Ordering::Relaxed) {
        0 => match std::env::var(THREADS_VARIABLE) {
            Ok(text) => text.trim().parse().map_err(|_| text),
            Err(_) => Ok(0),
        },
        threads => Ok(threads),
    }
}

/// Returns the number of CPUs that this process may use, considering CPU affinity and cgroup
/// quotas.
pub fn cpus() -> usize {
    std::thread::available_parallelism().map_or(1, |threads| threads.get())
}

/// Warns if the number of started threads differs from the setting.
fn warn_of_setting() {
    let line = match wanted() {
        Ok(wanted) if wanted > MAX_THREADS => {
            format!("{wanted} loading threads are set, but only {MAX_THREADS}, the maximum, are started.")
        }
        Err(text) => format!(
            "{THREADS_VARIABLE} is '{text}', but should be the number of loading threads; one per CPU is started."
        ),
        Ok(_) => return,
    };
    Logger::log_always(Level::Warning, &line);
}

/// Starts a pool: with fewer threads than `wanted` if no more can be started now, for the returned
/// reason.
fn start(wanted: usize) -> Result<(ThreadPool, Option<io::Error>)> {
    let mut failure = None;
    let mut threads = wanted;
    loop {
        let started = sync::thread_pool(threads, |number, work| {
            thread::start(&format!("cntk-reader-{number}"), work).map(drop)
        });
        match started {
            Ok(pool) => return Ok((pool, failure)),
            Err(cause) if threads == 1 => {
                let message = format!("Cannot start the loading threads: {cause}.");
                let error = Error::new(ErrorKind::Io, ExceptionClass::Runtime, message);
                return Err(error.with_detail(thread::ADVICE));
            }
            Err(cause) => failure = Some(cause),
        }
        threads /= 2;
    }
}

impl Pool {
    /// Creates a pool for one run of a model, which shares nothing with other runs.
    #[cfg(shuttle)]
    pub fn of_model(threads: usize) -> Pool {
        let (threads, _) = start(threads).expect("threads");
        Pool { threads: Arc::new(threads), process: Process::current() }
    }

    /// Returns the pool that the readers of this process share. Starts a new one if there is none
    /// yet, or if [`threads`] has changed.
    pub fn shared() -> Result<Pool> {
        let process = Process::current();
        let wanted = threads();
        fork::register(Position::Pool, HOOKS);
        let mut shared = SHARED.lock();
        // A forked child has inherited the pool's memory but not its threads, so it starts its own.
        if let Some(pool) = shared.as_ref().filter(|pool| pool.process == process && pool.threads() == wanted)
        {
            return Ok(pool.clone());
        }
        let (threads, failure) = start(wanted)?;
        let pool = Pool { threads: Arc::new(threads), process };
        let old = shared.replace(pool.clone());
        drop(shared);
        drop(old);
        // Not under the lock: the receiver of the lines may open a reader.
        warn_of_setting();
        failure.iter().for_each(|cause| thread::warn_of_missing("cntk-reader-0", cause));
        Ok(pool)
    }

    /// Runs `work` on a thread of the pool and returns at once; jobs start in the order given. The
    /// job outlives the call that spawned it, and is not cancelled with it.
    pub fn spawn(&self, work: impl FnOnce() + Send + 'static) {
        self.threads.spawn_fifo(|| cancel::apart(work));
    }

    /// Runs `work` on the pool and waits for it; inside, rayon's `par_iter` and `join` use this
    /// pool.
    pub fn install<R: Send>(&self, work: impl FnOnce() -> R + Send) -> R {
        let call = Current::get();
        self.threads.install(|| call.within(work))
    }

    /// Keeps a waiting thread of the pool useful: runs one pending job, or sleeps for 50
    /// microseconds if there is none. Returns false, at once, on any other thread, which may simply
    /// block.
    pub(crate) fn help(&self) -> bool {
        match self.threads.yield_now() {
            None => return false,
            Some(rayon::Yield::Executed) => {}
            Some(rayon::Yield::Idle) => sync::thread::sleep(Duration::from_micros(50)),
        }
        true
    }

    /// Returns the number of threads.
    pub fn threads(&self) -> usize {
        self.threads.current_num_threads()
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        if !self.process.is_current() {
            // Inherited by a forked child: the pool's threads do not exist here, and every lock
            // that they held stays locked, so its destructor would wait forever. Leaking one
            // reference keeps it from ever running.
            std::mem::forget(self.threads.clone());
        }
    }
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

    #[test]
    fn pool_falls_back_to_fewer_threads() {
        for (failures, expected) in [(0, 8), (1, 4), (3, 1)] {
            thread::faults::FAILURES.set(failures);
            let (pool, failure) = start(8).expect("threads");
            assert_eq!((pool.current_num_threads(), failure.is_some()), (expected, failures > 0));
        }
        thread::faults::FAILURES.set(4);
        assert!(start(8).expect_err("no thread").detail().contains("ulimit"));
    }

    #[test]
    fn excessive_thread_counts_are_capped() {
        assert_eq!(started(&Ok(3)), 3);
        assert_eq!(started(&Ok(100_000)), MAX_THREADS);
        assert_eq!((started(&Ok(0)), started(&Err("many".to_owned()))), (cpus(), cpus()));
    }
}
