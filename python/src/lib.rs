//! The extension module of the Python package `cntk_reader`.
//!
//! One object of Python owns each resource from the moment it exists: a source its reader, a
//! minibatch its data, an array its minibatch. What is better in Python stays in the package's
//! modules: checks of arguments, base classes for users, and conversions to other libraries.

#![allow(unsafe_code, reason = "arrays of NumPy over the library's memory, and users' arrays in it")]

mod arrays;
mod callback;
mod convert;
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
mod transform;
mod user;
mod watchdog;

use pyo3::prelude::*;

#[pymodule]
mod _native {
    use super::*;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("version", env!("CARGO_PKG_VERSION"))?;
        module.add_class::<minibatch::Minibatch>()?;
        module.add_class::<minibatch::StreamMinibatch>()?;
        convert::add(module)?;
        ending::add(module)?;
        files::add(module)?;
        options::add_to(module)?;
        process::add(module)?;
        source::add(module)
    }
}
