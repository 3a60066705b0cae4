//! Settings of the process: threads and the log.

use crate::callback::call_quietly;
use crate::ending::detached;
use cntk_reader_core::runtime::log::{Level, set_sink};
use cntk_reader_core::runtime::pool;
use pyo3::prelude::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether log lines go to Python code.
static HAS_CALLBACK: AtomicBool = AtomicBool::new(false);

/// Returns whether log lines go to Python code.
pub fn has_callback() -> bool {
    HAS_CALLBACK.load(Ordering::Relaxed)
}

/// Sets the number of loading threads of readers opened from now on. 0 restores the default.
#[pyfunction]
fn set_threads(py: Python<'_>, threads: usize) {
    detached(py, || pool::set_threads(threads));
}

/// Returns the number of loading threads that a reader opened now would use.
#[pyfunction]
fn get_threads(py: Python<'_>) -> usize {
    detached(py, pool::threads)
}

/// Sends log lines to `callback(level, line)`, or to standard error if it is None.
#[pyfunction]
#[pyo3(signature = (callback))]
fn set_log_callback(py: Python<'_>, callback: Option<Py<PyAny>>) {
    HAS_CALLBACK.store(callback.is_some(), Ordering::Relaxed);
    let sink = callback.map(|callback| {
        let sink = move |level: Level, line: &str| {
            call_quietly(&callback, |callback| callback.call1((level as u32, line)).map(drop));
        };
        Arc::new(sink) as Arc<_>
    });
    // Threads that log may hold the callback's lock while they wait for the GIL.
    detached(py, || set_sink(sink));
}

/// Adds the functions to the module.
pub fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(set_threads, module)?)?;
    module.add_function(wrap_pyfunction!(get_threads, module)?)?;
    module.add_function(wrap_pyfunction!(set_log_callback, module)?)
}
