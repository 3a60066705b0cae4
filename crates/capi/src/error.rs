//! Errors as objects that the caller owns.

use super::finalizer::Userdata;
use super::sized::{Sized, SizedOutput};
use super::status::cntk_reader_status;
use super::text::nul_terminated;
use cntk_reader_core::Error;
use cntk_reader_core::error::{Cause, ExceptionClass};
use std::ffi::{CString, c_char, c_void};
use std::ptr::{null, null_mut};

/// Which C++ exception CNTK throws where this error is reported.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum cntk_reader_exception {
    /// `std::runtime_error`; Python: `RuntimeError`.
    CNTK_READER_EXCEPTION_RUNTIME_ERROR = 1,
    /// `std::logic_error`; Python: `RuntimeError`.
    CNTK_READER_EXCEPTION_LOGIC_ERROR = 2,
    /// `std::invalid_argument`; Python: `ValueError`.
    CNTK_READER_EXCEPTION_INVALID_ARGUMENT = 3,
}

/// What went wrong and where. A call that fails hands one out; free it with cntk_reader_error_free.
///
/// Threads: immutable, may be shared.
pub struct cntk_reader_error {
    kind: cntk_reader_status,
    exception: cntk_reader_exception,
    text: CString,
    message: CString,
    detail: CString,
    file: Option<CString>,
    stream: Option<CString>,
    key: Option<CString>,
    offset: u64,
    line: u64,
    column: u64,
    cause: Option<Cause>,
}

impl cntk_reader_error {
    pub(super) fn new(error: &Error) -> Self {
        let place = error.location();
        let optional = |text: &Option<String>| text.as_deref().map(nul_terminated);
        cntk_reader_error {
            kind: error.kind().into(),
            exception: match error.class() {
                ExceptionClass::Runtime => cntk_reader_exception::CNTK_READER_EXCEPTION_RUNTIME_ERROR,
                ExceptionClass::Logic => cntk_reader_exception::CNTK_READER_EXCEPTION_LOGIC_ERROR,
                ExceptionClass::InvalidArgument => {
                    cntk_reader_exception::CNTK_READER_EXCEPTION_INVALID_ARGUMENT
                }
            },
            text: nul_terminated(&error.to_string()),
            message: nul_terminated(error.message()),
            detail: nul_terminated(error.detail()),
            file: optional(&place.file),
            stream: optional(&place.stream),
            key: optional(&place.key),
            offset: place.offset.unwrap_or(u64::MAX),
            line: place.line.unwrap_or(0),
            column: place.column.unwrap_or(0),
            cause: error.cause().cloned(),
        }
    }

    fn info(&self) -> cntk_reader_error_info {
        let optional = |text: &Option<CString>| text.as_ref().map_or(null(), |text| text.as_ptr());
        cntk_reader_error_info {
            struct_size: 0,
            kind: self.kind,
            exception: self.exception,
            message: self.message.as_ptr(),
            detail: self.detail.as_ptr(),
            file: optional(&self.file),
            offset: self.offset,
            line: self.line,
            stream: optional(&self.stream),
            key: optional(&self.key),
            column: self.column,
        }
    }
}

/// The parts of an error. Strings are UTF-8, NUL-terminated, and valid as long as the error.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct cntk_reader_error_info {
    /// sizeof(cntk_reader_error_info), set by the caller.
    pub struct_size: usize,
    /// What went wrong: the status that the failing call returned.
    pub kind: cntk_reader_status,
    /// CNTK's type of exception.
    pub exception: cntk_reader_exception,
    /// The message alone: CNTK's words where CNTK has any. Its wording may change between versions.
    pub message: *const c_char,
    /// What the message does not say: what was found, what was expected, what to do about it. "" if there is nothing to
    /// add.
    pub detail: *const c_char,
    /// Path of the data file as the configuration wrote it, or of the configuration file; or NULL.
    pub file: *const c_char,
    /// Byte offset from the start of the file, or CNTK_READER_UNKNOWN.
    pub offset: u64,
    /// Line in the file, or in the text of a configuration that is no file, from 1; 0 if it is not known.
    pub line: u64,
    /// Name of the stream, or NULL.
    pub stream: *const c_char,
    /// Key of the sequence as text, or NULL.
    pub key: *const c_char,
    /// Column in a line of a configuration: the number of the character, from 1. 0 for other errors.
    pub column: u64,
}

// SAFETY: plain members; the two enums are only ever written.
unsafe impl Sized for cntk_reader_error_info {
    const NAME: &'static str = "cntk_reader_error_info";
}

/// Gives the parts of an error. Returns CNTK_READER_STATUS_INVALID_ARGUMENT if an argument is NULL or
/// `info->struct_size` is not set.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cntk_reader_error_describe(
    error: Option<&cntk_reader_error>,
    info: *mut cntk_reader_error_info,
) -> cntk_reader_status {
    // SAFETY: `info` is NULL, which `new` refuses, or the caller's struct with its size in the first member.
    match (error, unsafe { SizedOutput::new(info) }) {
        (Some(error), Ok(info)) => {
            info.set(error.info());
            cntk_reader_status::CNTK_READER_STATUS_OK
        }
        _ => cntk_reader_status::CNTK_READER_STATUS_INVALID_ARGUMENT,
    }
}

/// The message with all that is known of the place, for people: UTF-8, NUL-terminated, valid as long as the error. It is
/// one line; for a mistake in a configuration's text two more follow, which show the mistake. For NULL: "".
#[unsafe(no_mangle)]
pub extern "C" fn cntk_reader_error_get_text(error: Option<&cntk_reader_error>) -> *const c_char {
    error.map_or(c"".as_ptr(), |error| error.text.as_ptr())
}

/// The object that a failing callback has added with cntk_reader_failure_set_cause, or NULL. It lives at least as long
/// as the error.
#[unsafe(no_mangle)]
pub extern "C" fn cntk_reader_error_get_cause(error: Option<&cntk_reader_error>) -> *mut c_void {
    let cause = error.and_then(|error| error.cause.as_ref());
    cause.and_then(|Cause(cause)| cause.downcast_ref()).map_or(null_mut(), Userdata::pointer)
}

/// Frees an error. NULL is allowed.
#[unsafe(no_mangle)]
pub extern "C" fn cntk_reader_error_free(error: Option<Box<cntk_reader_error>>) {
    drop(error);
}
