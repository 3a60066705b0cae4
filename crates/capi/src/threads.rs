//! The number of loading threads.

use super::call::{call, given};
use super::error::cntk_reader_error;
use super::status::cntk_reader_status;
use cntk_reader_core::runtime::pool;
use std::mem::MaybeUninit;

/// Sets the number of threads that load and parse data, for readers opened from now on, which share
/// one pool. 0 restores the default: the environment variable CNTK_READER_THREADS, or else the
/// number of CPUs available to the process. At most 1024 threads are started; larger numbers log a
/// warning. The number does not affect what a reader delivers. May be called from any thread.
#[unsafe(no_mangle)]
pub extern "C" fn cntk_reader_threads_set(
    threads: usize,
    error: Option<&mut MaybeUninit<*mut cntk_reader_error>>,
) -> cntk_reader_status {
    call(error, || {
        pool::set_threads(threads);
        Ok(())
    })
}

/// Gets the number of loading threads that a reader opened now would use. May be called from any
/// thread.
#[unsafe(no_mangle)]
pub extern "C" fn cntk_reader_threads_get(
    threads: Option<&mut MaybeUninit<usize>>,
    error: Option<&mut MaybeUninit<*mut cntk_reader_error>>,
) -> cntk_reader_status {
    call(error, || {
        given(threads, "threads")?.write(pool::threads());
        Ok(())
    })
}
