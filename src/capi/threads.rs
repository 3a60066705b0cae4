//! The number of loading threads.

use super::call::{Output, guard};
use super::error::cntk_reader_error;
use super::status::cntk_reader_status;
use crate::pool;

/// Sets the number of threads that load and parse data, for readers opened from now on; they share one pool. 0 brings
/// the default back: the environment variable CNTK_READER_THREADS, else the CPUs that this process may use. What a
/// reader delivers does not depend on it. May be called from any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cntk_reader_threads_set(
    threads: usize,
    error: *mut *mut cntk_reader_error,
) -> cntk_reader_status {
    let body = || {
        pool::set_threads(threads);
        Ok(())
    };
    // SAFETY: the caller's promise.
    unsafe { guard(error, body) }
}

/// Gives the number of loading threads that a reader opened now would use. May be called from any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cntk_reader_threads_get(
    threads: *mut usize,
    error: *mut *mut cntk_reader_error,
) -> cntk_reader_status {
    // SAFETY: the caller's promises.
    unsafe {
        guard(error, || {
            Output::new(threads, "threads")?.set(pool::threads());
            Ok(())
        })
    }
}
