//! The extension module of the Python package `cntk_reader`.
//!
//! Each resource is owned by one Python object from the moment it exists: the reader by a source,
//! the data by a minibatch, the minibatch by its arrays. The package's Python modules implement
//! whatever is easier there: argument checks, base classes for users, and conversions to other
//! libraries.

#![allow(unsafe_code, reason = "NumPy arrays over the library's memory, and users' arrays in the library")]

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
mod normalize;
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

/// Refuses to load in a subinterpreter: the module's threads and its work at Python's exit belong
/// to the main interpreter.
fn refuse_subinterpreters() -> PyResult<()> {
    // SAFETY: modules are initialized on an attached thread, so there is a current interpreter.
    let number = unsafe { pyo3::ffi::PyInterpreterState_GetID(pyo3::ffi::PyInterpreterState_Get()) };
    if number == 0 {
        return Ok(());
    }
    let message = "cntk_reader cannot be used in a subinterpreter. Import it in the main interpreter, or use \
                   processes (multiprocessing).";
    Err(pyo3::exceptions::PyImportError::new_err(message))
}
