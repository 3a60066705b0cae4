//! The log callback.

use super::call::guard;
use super::error::cntk_reader_error;
use super::status::cntk_reader_status;
use super::text::nul_terminated;
use crate::log::{Level, set_sink};
use std::ffi::{c_char, c_void};
use std::sync::Arc;

/// How much a log line matters.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum cntk_reader_log_level {
    /// Always reported.
    CNTK_READER_LOG_LEVEL_ERROR = 0,
    /// Reported at `traceLevel` 1, the default, and above; at every level if it tells of sequences that are dropped.
    CNTK_READER_LOG_LEVEL_WARNING = 1,
    /// Reported at `traceLevel` 2 and above.
    CNTK_READER_LOG_LEVEL_INFO = 2,
}

/// Receives one log line without its line break: UTF-8, NUL-terminated, `length` bytes without the NUL, valid during
/// the call only. Called from any thread, also from several at once. It must not throw, nor use the reader that is
/// being called (that gives CNTK_READER_STATUS_STATE).
pub type cntk_reader_log_callback = Option<
    unsafe extern "C" fn(
        userdata: *mut c_void,
        level: cntk_reader_log_level,
        line: *const c_char,
        length: usize,
    ),
>;

/// Called once with the userdata that was registered with it, when the library will not use it again.
pub type cntk_reader_finalizer = Option<unsafe extern "C" fn(userdata: *mut c_void)>;

struct Callback {
    userdata: *mut c_void,
    call: unsafe extern "C" fn(*mut c_void, cntk_reader_log_level, *const c_char, usize),
    finalizer: cntk_reader_finalizer,
}

// SAFETY: the header demands a callback, and with it userdata, that may be used from any thread.
unsafe impl Send for Callback {}
// SAFETY: as above; it demands that several threads may do so at once.
unsafe impl Sync for Callback {}

impl Callback {
    fn line(&self, level: Level, line: &str) {
        let level = match level {
            Level::Error => cntk_reader_log_level::CNTK_READER_LOG_LEVEL_ERROR,
            Level::Warning => cntk_reader_log_level::CNTK_READER_LOG_LEVEL_WARNING,
            Level::Info => cntk_reader_log_level::CNTK_READER_LOG_LEVEL_INFO,
        };
        let line = nul_terminated(line);
        // SAFETY: the caller registered this function with this userdata for this use; the line lives until it returns.
        unsafe { (self.call)(self.userdata, level, line.as_ptr(), line.as_bytes().len()) };
    }
}

impl Drop for Callback {
    fn drop(&mut self) {
        if let Some(finalizer) = self.finalizer {
            // SAFETY: registered for this use, and this is the only and last one.
            unsafe { finalizer(self.userdata) };
        }
    }
}

/// Sends all further log lines of the process to a callback; a NULL callback brings standard error back. Lines below
/// a reader's `traceLevel` are not reported to either.
///
/// `finalizer` (or NULL) is called once when the userdata is not needed any more: after the callback was replaced and
/// its last call has returned, which may be later than this call's return if other threads are logging. If this call
/// fails, the finalizer is not called. May be called from any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cntk_reader_log_set_callback(
    userdata: *mut c_void,
    callback: cntk_reader_log_callback,
    finalizer: cntk_reader_finalizer,
    error: *mut *mut cntk_reader_error,
) -> cntk_reader_status {
    let body = || {
        set_sink(callback.map(|call| {
            let callback = Callback { userdata, call, finalizer };
            Arc::new(move |level: Level, line: &str| callback.line(level, line)) as Arc<_>
        }));
        Ok(())
    };
    // SAFETY: the caller's promise about `error`.
    unsafe { guard(error, body) }
}
