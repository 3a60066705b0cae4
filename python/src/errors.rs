//! Conversion of errors to Python exceptions, and of exceptions to causes of errors.

use crate::ending::Section;
use cntk_reader::{Error, ErrorKind, Result};
use cntk_reader_core::error::{Cause, ExceptionClass};
use pyo3::exceptions::{PyKeyboardInterrupt, PySystemExit};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyType;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

static READER_ERROR: PyOnceLock<Py<PyType>> = PyOnceLock::new();
static READER_VALUE_ERROR: PyOnceLock<Py<PyType>> = PyOnceLock::new();

/// An exception raised by users' code, as the cause of an error.
struct Raised {
    exception: PyErr,
    /// The thread that raised it.
    thread: std::thread::ThreadId,
}

/// Returns the value of `ReaderError.kind` for a kind of error.
fn kind(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::Config => "config",
        ErrorKind::InvalidArgument => "invalid_argument",
        ErrorKind::Io => "io",
        ErrorKind::Data => "data",
        ErrorKind::Checkpoint => "checkpoint",
        ErrorKind::State => "state",
        ErrorKind::User => "user",
        ErrorKind::Cancelled => "cancelled",
        ErrorKind::Memory => "memory",
        _ => "internal",
    }
}

/// Converts an error to a `ReaderError`, or to a `ReaderValueError` where CNTK raises ValueError.
/// An exception in users' code becomes its `__cause__`; KeyboardInterrupt and SystemExit that a
/// callback raised on this thread are raised again as themselves.
pub fn exception(py: Python<'_>, error: &Error) -> PyErr {
    let raised = error.cause().and_then(|Cause(cause)| cause.downcast_ref::<Raised>());
    if let Some(Raised { exception, thread }) = raised
        && *thread == std::thread::current().id()
        && (exception.is_instance_of::<PyKeyboardInterrupt>(py)
            || exception.is_instance_of::<PySystemExit>(py))
    {
        return exception.clone_ref(py);
    }
    // Creating an exception runs Python code.
    let _section = Section::enter(py);
    match made(py, error) {
        Ok(exception) => {
            if let Some(Raised { exception: cause, .. }) = raised {
                exception.set_cause(py, Some(cause.clone_ref(py)));
            }
            exception
        }
        Err(failure) => failure,
    }
}

/// Returns `ReaderError` and `ReaderValueError`.
fn classes(py: Python<'_>) -> PyResult<(&Bound<'_, PyType>, &Bound<'_, PyType>)> {
    const MODULE: &str = "cntk_reader._errors";
    let general = READER_ERROR.import(py, MODULE, "ReaderError")?;
    Ok((general, READER_VALUE_ERROR.import(py, MODULE, "ReaderValueError")?))
}

/// Imports the classes while modules can still be imported.
pub fn prepare(py: Python<'_>) -> PyResult<()> {
    classes(py).map(drop)
}

fn made(py: Python<'_>, error: &Error) -> PyResult<PyErr> {
    let (general, of_values) = classes(py)?;
    let class = match error.class() {
        ExceptionClass::InvalidArgument => of_values,
        _ => general,
    };
    let exception = class.call1((error.to_string(),))?;
    let place = error.location();
    exception.setattr("kind", kind(error.kind()))?;
    exception.setattr("message", error.message())?;
    exception.setattr("detail", error.detail())?;
    exception.setattr("file", place.file.as_deref())?;
    exception.setattr("line", place.line)?;
    exception.setattr("column", place.column)?;
    exception.setattr("offset", place.offset)?;
    exception.setattr("stream", place.stream.as_deref())?;
    exception.setattr("key", place.key.as_deref())?;
    Ok(PyErr::from_value(exception))
}

/// Attaches an exception in users' code to an error as its cause.
pub fn caused_by(error: Error, exception: PyErr) -> Error {
    let thread = std::thread::current().id();
    error.caused_by(Cause(Arc::new(Raised { exception, thread })))
}

/// Runs `work`, and turns a panic into an internal error.
pub fn guarded<T>(work: impl FnOnce() -> Result<T>) -> Result<T> {
    // State that a panic leaves inconsistent is not used again: see `source::Content`.
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| Err(of_panic(&*panic)))
}

/// Converts a panic payload to an internal error.
pub fn of_panic(panic: &(dyn Any + Send)) -> Error {
    let text = panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("unknown cause");
    Error::internal(format!("Internal error (a bug in cntk-reader; please report it): {text}"))
}

/// Conversion of the library's results to Python results.
pub trait IntoPython<T> {
    fn python(self, py: Python<'_>) -> PyResult<T>;
}

impl<T> IntoPython<T> for cntk_reader::Result<T> {
    fn python(self, py: Python<'_>) -> PyResult<T> {
        self.map_err(|error| exception(py, &error))
    }
}
