//! How callbacks say why they fail.

use super::call::guard_silently;
use super::finalizer::{Userdata, cntk_reader_finalizer};
use super::text;
use cntk_reader_core::error::Cause;
use cntk_reader_core::{Error, Result};
use std::ffi::{c_char, c_void};
use std::sync::Arc;

/// Where a callback that fails says why: see cntk_reader_failure_set_message.
///
/// Threads: exclusive, during the callback only.
#[derive(Default)]
pub struct cntk_reader_failure {
    message: String,
    cause: Option<Cause>,
}

impl cntk_reader_failure {
    /// The error of a callback that returned `status`. One that has said why it fails has failed: a foreign runtime may have given
    /// up the callback before it returned a status.
    #[inline]
    pub(crate) fn check(self, callback: &str, status: i32) -> Result<()> {
        let has_succeeded = status == 0 && self.message.is_empty() && self.cause.is_none();
        if has_succeeded { Ok(()) } else { Err(self.error(callback, status)) }
    }

    #[cold]
    fn error(self, callback: &str, status: i32) -> Error {
        let error = match self.message.as_str() {
            "" => Error::user(format!(
                "The callback {callback} failed with status {status} and did not say why."
            )),
            message => Error::user(message),
        };
        match self.cause {
            Some(cause) => error.caused_by(cause),
            None => error,
        }
    }
}

/// Says why a callback fails. The message (UTF-8; `length` bytes, or CNTK_READER_NUL_TERMINATED) is copied, and comes with
/// the error of the call that needed the callback, of kind CNTK_READER_STATUS_USER. The callback then returns a number
/// other than 0. A callback that has set a message has failed even if it returns 0, so that a message can be set first, and
/// replaced by one of 0 bytes in the end.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cntk_reader_failure_set_message(
    failure: *mut cntk_reader_failure,
    message: *const c_char,
    length: usize,
) {
    guard_silently(|| {
        // SAFETY: `failure` is NULL or what the callback was given, which lives on the library's stack until the callback
        // returns; `message` is NULL or readable as its length says, by the header.
        let (failure, message) = unsafe { (failure.as_mut(), text::bytes(message, length, "message")) };
        if let (Some(failure), Ok(message)) = (failure, message) {
            failure.message = String::from_utf8_lossy(message).into_owned();
        }
    });
}

/// Adds an object that the error carries (cntk_reader_error_get_cause), such as an exception. `finalizer`, which may be
/// NULL, is called with it by any thread when it is not needed any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cntk_reader_failure_set_cause(
    failure: *mut cntk_reader_failure,
    cause: *mut c_void,
    finalizer: cntk_reader_finalizer,
) {
    guard_silently(|| {
        let cause = Cause(Arc::new(Userdata::new(cause, finalizer)));
        // SAFETY: NULL or what the callback was given, which lives on the library's stack until the callback returns.
        if let Some(failure) = unsafe { failure.as_mut() } {
            failure.cause = Some(cause);
        }
    });
}
