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

/// Severity of a log line.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum cntk_reader_log_level {
    /// Always reported.
    CNTK_READER_LOG_LEVEL_ERROR = 0,
    /// Reported at `traceLevel` 1 (the default) and above, and at every level for warnings about
    /// dropped sequences.
    CNTK_READER_LOG_LEVEL_WARNING = 1,
    /// Reported at `traceLevel` 2 and above.
    CNTK_READER_LOG_LEVEL_INFO = 2,
}

/// Receives one log line without its line break: UTF-8, NUL-terminated, `length` bytes without the
/// NUL, valid during the call only. Called on any thread, and on several at once. It must not
/// throw, and must not use the reader that logs the line: such calls return
/// CNTK_READER_STATUS_STATE.
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
        // After shutdown of the host, its code may be gone.
        let Some(_inside) = exit::enter() else { return };
        // SAFETY: the caller registered this function with this userdata, which is kept until
        // `self` is dropped; `line` is NUL-terminated, has this length, and is valid until the
        // function returns.
        exit::foreign(|| unsafe {
            (self.call)(self.userdata.pointer(), level, line.as_ptr(), line.as_bytes().len());
        });
    }
}

/// Sends all further log lines of the process to a callback; NULL restores standard error. Lines
/// beyond a reader's `traceLevel` are dropped in either case.
///
/// `finalizer`, which may be NULL, is called once when the userdata is unused: after the callback
/// was replaced and its last call has returned. That may be after this function returns if other
/// threads are logging. If this function fails, the finalizer is not called. May be called from any
/// thread.
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
