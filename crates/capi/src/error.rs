//! Error objects, owned by the caller.

use super::call::guard_silently;
use super::finalizer::Userdata;
use super::handle::{self, Handle, Header, Kind, argument, object};
use super::sized::{Sized, SizedOutput};
use super::status::cntk_reader_status;
use super::text::nul_terminated;
use cntk_reader_core::Error;
use cntk_reader_core::error::{Cause, ExceptionClass};
use std::ffi::{CString, c_char, c_void};
use std::ptr::{null, null_mut};

/// The C++ exception that CNTK throws for this error.
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

/// An error with its message and location. Returned by a failing call; free it with
/// cntk_reader_error_free.
///
/// Threads: immutable, may be shared.
pub struct cntk_reader_error(Header);

// SAFETY: no other type has this kind.
unsafe impl Handle for cntk_reader_error {
    const KIND: Kind = Kind::Error;
    type Object = ErrorReport;

    fn header(&self) -> &Header {
        &self.0
    }
}

/// The object of a cntk_reader_error.
pub(crate) struct ErrorReport {
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

impl ErrorReport {
    pub(super) fn new(error: &Error) -> Self {
        let place = error.location();
        let optional = |text: &Option<String>| text.as_deref().map(nul_terminated);
        ErrorReport {
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
    /// Kind of the error: the status that the failing call returned.
    pub kind: cntk_reader_status,
    /// The exception that CNTK throws.
    pub exception: cntk_reader_exception,
    /// The message alone, in CNTK's words where CNTK reports the same error. Its wording may change
    /// between versions.
    pub message: *const c_char,
    /// Details: what was found, what was expected, what to do about it. "" if there is nothing to
    /// add.
    pub detail: *const c_char,
    /// Path of the data file as written in the configuration, or path of the configuration file; or
    /// NULL.
    pub file: *const c_char,
    /// Byte offset from the start of the file, or CNTK_READER_UNKNOWN.
    pub offset: u64,
    /// Line in the file, or in the text of a configuration without a file, from 1; 0 if unknown.
    pub line: u64,
    /// Name of the stream, or NULL.
    pub stream: *const c_char,
    /// Key of the sequence as text, or NULL.
    pub key: *const c_char,
    /// Column in the configuration in characters, from 1; 0 for other errors.
    pub column: u64,
}

// SAFETY: `repr(C)`, begins with a `usize`, and has integers and pointers, for which zero is valid,
// and two enums, which are only written.
unsafe impl Sized for cntk_reader_error_info {
    const NAME: &'static str = "cntk_reader_error_info";
}

/// Gets the parts of an error. Returns CNTK_READER_STATUS_INVALID_ARGUMENT if an argument is NULL,
/// `error` is released or another handle, or `info->struct_size` is not set.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cntk_reader_error_describe(
    error: Option<&cntk_reader_error>,
    info: *mut cntk_reader_error_info,
) -> cntk_reader_status {
    // SAFETY: `info` is NULL, which `new` refuses, or the caller's struct with its size in the
    // first member.
    match (object!(error), unsafe { SizedOutput::new(info) }) {
        (Ok(error), Ok(info)) => {
            info.set(error.info());
            cntk_reader_status::CNTK_READER_STATUS_OK
        }
        _ => cntk_reader_status::CNTK_READER_STATUS_INVALID_ARGUMENT,
    }
}

/// Returns the message and the location for display: UTF-8, NUL-terminated, valid as long as the
/// error. It is one line; for an error in the text of a configuration, two more lines show the
/// place. For NULL it is "". For a released error or another handle, it is a fixed text that says
/// so.
#[unsafe(no_mangle)]
pub extern "C" fn cntk_reader_error_get_text(error: Option<&cntk_reader_error>) -> *const c_char {
    match (error, object!(error)) {
        (None, _) => c"".as_ptr(),
        (_, Ok(error)) => error.text.as_ptr(),
        (_, Err(_)) => {
            c"The argument 'error' of cntk_reader_error_get_text is released, or not a cntk_reader_error."
                .as_ptr()
        }
    }
}

/// Returns the object that a failing callback has attached with cntk_reader_failure_set_cause, or
/// NULL. It is valid at least as long as the error. For a released error or another handle it is
/// NULL.
#[unsafe(no_mangle)]
pub extern "C" fn cntk_reader_error_get_cause(error: Option<&cntk_reader_error>) -> *mut c_void {
    let cause = object!(error).ok().and_then(|error| error.cause.as_ref());
    cause.and_then(|Cause(cause)| cause.downcast_ref()).map_or(null_mut(), Userdata::pointer)
}

/// Frees an error. NULL is allowed. For a released error or another handle it does nothing but log
/// the mistake.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cntk_reader_error_free(error: *mut cntk_reader_error) {
    // SAFETY: NULL or a handle, which the caller gives up.
    guard_silently(|| drop(unsafe { handle::release(error, argument!("error")) }));
}
