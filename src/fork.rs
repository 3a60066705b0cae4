//! Knows whether the process was forked: threads and locked mutexes do not survive a fork, so objects that
//! depend on them remember the process they were made in.

use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counted up in the child of every fork. Asking costs one load, where `getpid` is a system call.
static GENERATION: AtomicU64 = AtomicU64::new(1);
static REGISTER: Once = Once::new();

/// The process that made an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Process(u64);

impl Process {
    /// The current process.
    pub fn current() -> Process {
        REGISTER.call_once(|| {
            // SAFETY: the handlers are `extern "C"` functions that stay loaded as long as this code does, and do nothing
            // but take or release a lock, or count up an atomic. Failure (out of memory) leaves forks undetected, no worse.
            unsafe { libc::pthread_atfork(Some(before), Some(after_in_parent), Some(after_in_child)) };
        });
        Process(GENERATION.load(Ordering::Relaxed))
    }

    /// Whether this is still the process that made the object.
    pub fn is_current(self) -> bool {
        self.0 == GENERATION.load(Ordering::Relaxed)
    }
}

// The pool's lock is held across the fork, so that the child never inherits it locked by a thread that is gone.
extern "C" fn before() {
    crate::pool::lock_for_fork();
}

extern "C" fn after_in_parent() {
    crate::pool::unlock_after_fork();
}

extern "C" fn after_in_child() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
    crate::exit::after_fork_in_child();
    crate::pool::unlock_after_fork();
}
