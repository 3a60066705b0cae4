//! Conversions between formats.

use pyo3::prelude::*;

/// Adds the functions to the module.
pub fn add(_module: &Bound<'_, PyModule>) -> PyResult<()> {
    Ok(())
}
