//! The log callback.

use super::call::call;
use super::error::cntk_reader_error;
use super::finalizer::{Userdata, cntk_reader_finalizer};
use super::status::cntk_reader_status;
use super::text::nul_terminated;
use cntk_reader_core::runtime::exit;
use cntk_reader_core::runtime::log::{Level, set_sink};
use std::ffi::{c_char, c_void};
use std::mem::MaybeUninit;
use std::sync::Arc;

/// How much a log line matters.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum cntk_reader_log_level {
    /// Always reported.
    CNTK_READER_LOG_LEVEL_ERROR = 0,
    /// Reported at `traceLevel` 1, the default, and above; at every level if it reports sequences that are dropped.
    CNTK_READER_LOG_LEVEL_WARNING = 1,
    /// Reported at `traceLevel` 2 and above.
    CNTK_READER_LOG_LEVEL_INFO = 2,
}

/// Receives one log line without its line break: UTF-8, NUL-terminated, `length` bytes without the NUL, valid during
/// the call only. It is called from any thread, also from several at once. It must not throw. A call on the reader that
/// logs the line gives CNTK_READER_STATUS_STATE.
pub type cntk_reader_log_callback = Option<
    unsafe extern "C-unwind" fn(
        userdata: *mut c_void,
        level: cntk_reader_log_level,
        line: *const c_char,
        length: usize,
    ),
>;

struct Callback {
    userdata: Userdata,
    call: unsafe extern "C-unwind" fn(*mut c_void, cntk_reader_log_level, *const c_char, usize),
}

impl Callback {
    fn report(&self, level: Level, line: &str) {
        let level = match level {
            Level::Error => cntk_reader_log_level::CNTK_READER_LOG_LEVEL_ERROR,
            Level::Warning => cntk_reader_log_level::CNTK_READER_LOG_LEVEL_WARNING,
            Level::Info => cntk_reader_log_level::CNTK_READER_LOG_LEVEL_INFO,
        };
        let line = nul_terminated(line);
        // The host's code may be gone.
        let Some(_inside) = exit::enter() else { return };
        // SAFETY: the caller registered this function for this userdata, which is not given back before `self` is dropped;
        // `line` is NUL-terminated, has this length, and lives until the function returns.
        exit::foreign(|| unsafe {
            (self.call)(self.userdata.pointer(), level, line.as_ptr(), line.as_bytes().len());
        });
    }
}

/// Sends all further log lines of the process to a callback; a NULL callback restores standard error. Lines below a
/// reader's `traceLevel` go to neither.
///
/// `finalizer`, which may be NULL, is called once when the userdata is not needed any more: after the callback was
/// replaced and its last call has returned. That may be later than this call's return if other threads are logging. If
/// this call fails, the finalizer is not called. May be called from any thread.
#[unsafe(no_mangle)]
pub extern "C" fn cntk_reader_log_set_callback(
    userdata: *mut c_void,
    callback: cntk_reader_log_callback,
    finalizer: cntk_reader_finalizer,
    error: Option<&mut MaybeUninit<*mut cntk_reader_error>>,
) -> cntk_reader_status {
    call(error, || {
        let userdata = Userdata::new(userdata, finalizer);
        set_sink(callback.map(|call| {
            let callback = Callback { userdata, call };
            Arc::new(move |level: Level, line: &str| callback.report(level, line)) as Arc<_>
        }));
        Ok(())
    })
}
