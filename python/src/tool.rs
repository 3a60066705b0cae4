//! The command-line tool, run in this process.

use crate::ending::detached;
use pyo3::prelude::*;
use std::ffi::OsString;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The exit code of a Rust program that has panicked.
const PANICKED: u8 = 101;

/// Runs the tool with these arguments, which do not include the program name. Returns the exit
/// code.
#[pyfunction]
fn run_tool(py: Python<'_>, arguments: Vec<OsString>) -> u8 {
    let arguments = std::iter::once(OsString::from("cntk-reader")).chain(arguments);
    let run = AssertUnwindSafe(|| cntk_reader_cli::run(arguments));
    // As in the program, the panic hook has already printed the message to standard error.
    detached(py, || catch_unwind(run).unwrap_or(PANICKED))
}

/// Adds the function to the module.
pub fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(run_tool, module)?)
}
