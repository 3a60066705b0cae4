//! Starts threads. This may fail: processes may have a limited number of threads, and in containers
//! often few.

use crate::runtime::exit;
use crate::runtime::log::{Level, Logger};
use crate::runtime::sync::thread::{Builder, JoinHandle};
use std::io;
use std::sync::Once;

/// Advice for when a thread cannot be started.
pub(crate) const ADVICE: &str = "Raise the limit on processes (ulimit -u, or the container's limit), or set CNTK_READER_THREADS to a \
                          smaller number.";

/// Starts a thread.
pub fn start(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    #[cfg(any(test, feature = "test-support"))]
    if let Some(left) = faults::FAILURES.get().checked_sub(1) {
        faults::FAILURES.set(left);
        return Err(io::ErrorKind::WouldBlock.into());
    }
    Builder::new().name(name.to_owned()).spawn(|| {
        exit::refuse_cancel();
        work();
    })
}

/// Warns that reading continues without a thread: only once, because each batch of minibatches
/// retries.
pub fn warn_of_missing(name: &str, cause: &io::Error) {
    static WARNED: Once = Once::new();
    WARNED.call_once(|| {
        let line = format!(
            "Cannot start the thread '{name}': {cause}. Reading continues with fewer threads and retries later. {ADVICE}"
        );
        Logger::log_always(Level::Warning, &line);
    });
}

/// Failures to start threads, for tests.
#[cfg(any(test, feature = "test-support"))]
pub mod faults {
    use std::cell::Cell;

    thread_local! {
        /// How many of the next threads that the current one starts will fail to start.
        pub static FAILURES: Cell<usize> = const { Cell::new(0) };
    }
}
