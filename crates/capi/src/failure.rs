//! Error reports of callbacks.

use super::call::guard_silently;
use super::finalizer::{Userdata, cntk_reader_finalizer};
use super::text;
use cntk_reader_core::error::Cause;
use cntk_reader_core::{Error, Result};
use std::ffi::{c_char, c_void};
use std::sync::Arc;

/// Receives the error of a failing callback: see cntk_reader_failure_set_message.
///
/// Threads: exclusive, during the callback only.
#[derive(Default)]
pub struct cntk_reader_failure {
    message: String,
    cause: Option<Cause>,
}

impl cntk_reader_failure {
    /// Turns the status of a callback into a result. A message or a cause means failure even if
    /// `status` is 0: a foreign runtime may abandon the callback before it returns a status.
    #[inline]
    pub(crate) fn check(self, callback: &str, status: i32) -> Result<()> {
        let has_succeeded = status == 0 && self.message.is_empty() && self.cause.is_none();
        if has_succeeded { Ok(()) } else { Err(self.error(callback, status)) }
    }

    #[cold]
    fn error(self, callback: &str, status: i32) -> Error {
        let error = match self.message.as_str() {
            "" => Error::user(format!(
                "The callback {callback} failed with status {status} and set no message."
            )),
            message => Error::user(message),
        };
        match self.cause {
            Some(cause) => error.caused_by(cause),
            None => error,
        }
    }
}

/// Sets the error message of a failing callback. The message (UTF-8; `length` bytes, or
/// CNTK_READER_NUL_TERMINATED) is copied into the error of the call that needed the callback, whose
/// kind is CNTK_READER_STATUS_USER. The callback then returns a nonzero number. A callback that has
/// set a message has failed even if it returns 0; it may therefore set a message first, and replace
/// it by one of 0 bytes once it has succeeded.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cntk_reader_failure_set_message(
    failure: *mut cntk_reader_failure,
    message: *const c_char,
    length: usize,
) {
    guard_silently(|| {
        // SAFETY: `failure` is NULL or the pointer that the callback got, which is valid until the
        // callback returns; `message` is NULL or has `length` readable bytes, as the header
        // requires.
        let (failure, message) = unsafe { (failure.as_mut(), text::bytes(message, length, "message")) };
        if let (Some(failure), Ok(message)) = (failure, message) {
            failure.message = String::from_utf8_lossy(message).into_owned();
        }
    });
}

/// Attaches an object, such as an exception, to the error (see cntk_reader_error_get_cause).
/// `finalizer`, which may be NULL, is called with it on any thread once it is unused.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cntk_reader_failure_set_cause(
    failure: *mut cntk_reader_failure,
    cause: *mut c_void,
    finalizer: cntk_reader_finalizer,
) {
    guard_silently(|| {
        let cause = Cause(Arc::new(Userdata::new(cause, finalizer)));
        // SAFETY: NULL or the pointer that the callback got, which is valid until the callback
        // returns.
        if let Some(failure) = unsafe { failure.as_mut() } {
            failure.cause = Some(cause);
        }
    });
}
