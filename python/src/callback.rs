//! Calls of users' Python code, on the library's threads and on those of its callers.
//!
//! An exception of any kind becomes an error of the library with the exception as its cause
//! ([`crate::errors`]). The interpreter must not finalize while a library thread runs Python code:
//! CPython up to 3.13 would end that thread by unwinding Rust frames, which aborts the process. So
//! each call is counted ([`exit::enter`]); an `atexit` function ([`crate::ending`]) refuses new
//! calls and waits for the running ones.

use crate::{errors, interrupt};
use cntk_reader::{Error, Result};
use cntk_reader_core::runtime::exit;
use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;
use pyo3::types::PyString;
use std::cell::Cell;

/// Maximum length of an exception's text in an error, in characters.
const MAX_TEXT: usize = 20_000;

thread_local! {
    /// Number of nested calls of users' code on this thread.
    static DEPTH: Cell<usize> = const { Cell::new(0) };
}

/// Returns whether this thread is running users' code.
pub fn is_inside() -> bool {
    DEPTH.get() > 0
}

/// A guard that marks this thread as running users' code.
struct Depth;

impl Depth {
    fn enter() -> Depth {
        DEPTH.set(DEPTH.get() + 1);
        Depth
    }
}

impl Drop for Depth {
    fn drop(&mut self) {
        DEPTH.set(DEPTH.get() - 1);
    }
}

/// Calls users' code. `what` names the call in messages (`get_chunk(3)`); `user` is the object
/// whose method is called.
pub fn call<R>(
    user: &Py<PyAny>,
    what: impl FnOnce() -> String,
    work: impl for<'py> FnOnce(Python<'py>, &Bound<'py, PyAny>) -> PyResult<R>,
) -> Result<R> {
    let refused = || exit::refusal("no Python code is called any more");
    let Some(_inside) = exit::enter() else { return Err(refused()) };
    let called = Python::try_attach(|py| {
        let _depth = Depth::enter();
        let user = user.bind(py);
        work(py, user).map_err(|exception| failed(py, user, &what(), exception))
    });
    called.unwrap_or_else(|| Err(refused()))
}

/// Calls users' code that has no way to report an error. Exceptions go where those of `__del__` go;
/// KeyboardInterrupt on the main thread is raised again as soon as Python code runs.
pub fn call_quietly(user: &Py<PyAny>, work: impl for<'py> FnOnce(&Bound<'py, PyAny>) -> PyResult<()>) {
    let Some(_inside) = exit::enter() else { return };
    Python::try_attach(|py| {
        let _depth = Depth::enter();
        let user = user.bind(py);
        if let Err(exception) = work(user) {
            if exception.is_instance_of::<PyKeyboardInterrupt>(py) && interrupt::is_main_thread(py) {
                interrupt::press(py);
            } else {
                exception.write_unraisable(py, Some(user));
            }
        }
    });
}

/// Drops an object immediately, on any thread. PyO3 would defer it until the next thread attaches,
/// and the object may keep much memory alive. This may run users' code, such as `__del__`.
pub fn release(object: Py<PyAny>) {
    let Some(_inside) = exit::enter() else { return };
    Python::try_attach(|py| {
        let _depth = Depth::enter();
        object.drop_ref(py);
    });
}

/// Converts a text to UTF-8, with escapes for lone surrogates.
fn plain(text: &Bound<'_, PyString>) -> PyResult<String> {
    // The text may be an instance of a user-defined subclass.
    let class = text.py().get_type::<PyString>();
    class
        .call_method1("encode", (text, "utf-8", "backslashreplace"))?
        .extract::<Vec<u8>>()
        .map(|text| String::from_utf8_lossy(&text).replace('\0', " "))
}

/// Builds the error for an exception in users' code.
fn failed(py: Python<'_>, user: &Bound<'_, PyAny>, what: &str, exception: PyErr) -> Error {
    let class = |object: &Bound<'_, PyAny>| {
        object.get_type().name().map_or_else(|_| "object".to_owned(), |name| name.to_string())
    };
    let value = exception.value(py);
    let text = match value.str().and_then(|text| plain(&text)) {
        Ok(text) => text,
        Err(other) => format!("(no text: __str__ raises {})", class(other.value(py))),
    };
    let length = text.chars().count();
    let text = if length <= MAX_TEXT {
        text
    } else {
        format!("{} ... ({length} characters)", text.chars().take(MAX_TEXT).collect::<String>())
    };
    let message = format!("{what} of {}: {}: {text}", class(user), class(value));
    errors::caused_by(Error::user(message), exception)
}
