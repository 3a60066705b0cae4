//! Users' Python code, which the library calls on its own threads and on those of its callers.
//!
//! Exceptions of every kind become errors of the library with the exception as their cause
//! ([`crate::errors`]), never a value. The interpreter must not end while a thread of the library
//! runs Python code: in CPython up to 3.13 it would end that thread by unwinding frames of Rust,
//! which aborts the process. So each call is counted ([`exit::enter`]); a function of `atexit`
//! ([`crate::ending`]) has no further call begin, and waits for those that are running.

use crate::{errors, interrupt};
use cntk_reader::{Error, Result};
use cntk_reader_core::runtime::exit;
use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;
use pyo3::types::PyString;
use std::cell::Cell;

/// Characters of an exception's text that an error repeats.
const MOST: usize = 20_000;

thread_local! {
    /// How many calls of users' code this thread is in.
    static DEPTH: Cell<usize> = const { Cell::new(0) };
}

/// Whether this thread is running users' code.
pub fn is_inside() -> bool {
    DEPTH.get() > 0
}

/// This thread runs users' code as long as this exists.
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

/// Calls users' code: `what` names the call in messages (`get_chunk(3)`), `user` is the object that
/// it is a method of.
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

/// Calls users' code that cannot fail: what it raises all the same goes where exceptions of
/// `__del__` go. Ctrl-C is raised again as soon as Python code runs.
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

/// Drops an object at once, on any thread: PyO3 would put it off until the next thread attaches,
/// and the object may keep much memory. Users' code may run in it, such as `__del__`.
pub fn release(object: Py<PyAny>) {
    let Some(_inside) = exit::enter() else { return };
    Python::try_attach(|py| {
        let _depth = Depth::enter();
        object.drop_ref(py);
    });
}

/// A text with escapes for the surrogates in it, which are no characters.
fn plain(text: &Bound<'_, PyString>) -> PyResult<String> {
    // The text may be of a class of users'.
    let class = text.py().get_type::<PyString>();
    class
        .call_method1("encode", (text, "utf-8", "backslashreplace"))?
        .extract::<Vec<u8>>()
        .map(|text| String::from_utf8_lossy(&text).replace('\0', " "))
}

/// The error for an exception of users' code.
fn failed(py: Python<'_>, user: &Bound<'_, PyAny>, what: &str, exception: PyErr) -> Error {
    let class = |object: &Bound<'_, PyAny>| {
        object.get_type().name().map_or_else(|_| "object".to_owned(), |name| name.to_string())
    };
    let value = exception.value(py);
    let text = match value.str().and_then(|text| plain(&text)) {
        Ok(text) => text,
        Err(other) => format!("(its text cannot be made: __str__ raises {})", class(other.value(py))),
    };
    let length = text.chars().count();
    let text = if length <= MOST {
        text
    } else {
        format!("{} ... ({length} characters)", text.chars().take(MOST).collect::<String>())
    };
    let message = format!("{what} of {}: {}: {text}", class(user), class(value));
    errors::caused_by(Error::user(message), exception)
}
