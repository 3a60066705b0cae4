//! Detects forks of the process. Threads do not survive a fork, and a mutex that another thread held stays locked in the
//! child, so objects that depend on either remember the process in which they were made.

use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering};

/// Incremented in the child of every fork. Reading it costs one load, where `getpid` is a system call.
static GENERATION: AtomicU64 = AtomicU64::new(1);
static REGISTER: Once = Once::new();

/// The process in which an object was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Process(u64);

impl Process {
    /// The current process.
    pub fn current() -> Process {
        REGISTER.call_once(|| {
            // SAFETY: the handlers have the signature that `pthread_atfork` requires, `extern "C" fn()`, and glibc
            // removes them if this library is unloaded. They only lock, unlock and write atomics, which is allowed in
            // the child of a fork. If registering fails (out of memory), forks go undetected, which is no memory error.
            unsafe { libc::pthread_atfork(Some(before), Some(after_in_parent), Some(after_in_child)) };
        });
        Process(GENERATION.load(Ordering::Relaxed))
    }

    /// Whether this is still the process that made the object.
    pub fn is_current(self) -> bool {
        self.0 == GENERATION.load(Ordering::Relaxed)
    }
}

// Holds the library's static locks across the fork, so that the child never inherits one locked by a thread that does not
// exist there.
extern "C" fn before() {
    crate::pool::lock_for_fork();
    crate::exit::lock_for_fork();
}

extern "C" fn after_in_parent() {
    crate::exit::unlock_after_fork();
    crate::pool::unlock_after_fork();
}

extern "C" fn after_in_child() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
    crate::exit::after_fork_in_child();
    crate::exit::unlock_after_fork();
    crate::pool::unlock_after_fork();
}
