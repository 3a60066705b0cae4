//! The extension module of the Python package `cntk_reader`.
//!
//! One object of Python owns each resource from the moment it exists: a source its reader, a
//! minibatch its data, an array its minibatch. What is better in Python stays in the package's
//! modules: checks of arguments, base classes for users, and conversions to other libraries.

#![allow(unsafe_code, reason = "arrays of NumPy over the library's memory, and users' arrays in it")]

mod arrays;
mod callback;
mod convert;
mod cuda;
mod dlpack;
mod ending;
mod errors;
mod files;
mod forms;
mod given;
mod interrupt;
mod minibatch;
mod options;
mod process;
mod source;
mod steps;
mod tool;
mod transform;
mod user;
mod watchdog;

use pyo3::prelude::*;

#[pymodule]
mod _native {
    use super::*;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        refuse_subinterpreters()?;
        module.add("version", env!("CARGO_PKG_VERSION"))?;
        module.add_class::<minibatch::Minibatch>()?;
        module.add_class::<minibatch::StreamMinibatch>()?;
        module.add_class::<steps::Steps>()?;
        convert::add(module)?;
        dlpack::add(module)?;
        ending::add(module)?;
        files::add(module)?;
        options::add_to(module)?;
        process::add(module)?;
        source::add(module)?;
        tool::add(module)
    }
}

/// The module is one for the process: its threads, and what it does when Python ends, belong to the
/// main interpreter.
fn refuse_subinterpreters() -> PyResult<()> {
    // SAFETY: the thread is attached, so that there is an interpreter.
    let number = unsafe { pyo3::ffi::PyInterpreterState_GetID(pyo3::ffi::PyInterpreterState_Get()) };
    if number == 0 {
        return Ok(());
    }
    let message = "cntk_reader cannot be used in a subinterpreter. Import it in the main interpreter, or use \
                   processes (multiprocessing).";
    Err(pyo3::exceptions::PyImportError::new_err(message))
}
