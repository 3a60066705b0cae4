//! DLPack of values whose type NumPy does not have.

#![allow(unsafe_code, reason = "the structs of DLPack")]

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyCapsuleMethods};
use std::ffi::{CStr, c_void};

const PLAIN: &CStr = c"dltensor";
const VERSIONED: &CStr = c"dltensor_versioned";

/// Numbers of types in DLPack.
const INT: u8 = 0;
const BFLOAT: u8 = 4;

/// The beginning of DLPack's `DLTensor`.
#[repr(C)]
struct Tensor {
    _data: *mut c_void,
    _device: [i32; 2],
    _rank: i32,
    code: u8,
    bits: u8,
    _lanes: u16,
}

/// DLPack's `DLManagedTensorVersioned`, up to the beginning of the tensor.
#[repr(C)]
struct Versioned {
    _version: [u32; 2],
    _owner: *mut c_void,
    _deleter: Option<unsafe extern "C" fn(*mut c_void)>,
    _flags: u64,
    tensor: Tensor,
}

/// Makes a capsule of NumPy with integers of 16 bits one of the type bfloat16, whose bits they are.
#[pyfunction]
fn bfloat16_capsule<'py>(capsule: Bound<'py, PyCapsule>) -> PyResult<Bound<'py, PyCapsule>> {
    let is_versioned = capsule.is_valid_checked(Some(VERSIONED));
    let pointer = capsule.pointer_checked(Some(if is_versioned { VERSIONED } else { PLAIN }))?;
    // SAFETY: a capsule of this name has a pointer to this struct of DLPack, which begins with a
    // tensor unless it has a version. It belongs to the capsule, which no consumer has taken yet,
    // as its name says.
    let tensor = unsafe {
        match is_versioned {
            true => &mut pointer.cast::<Versioned>().as_mut().tensor,
            false => pointer.cast::<Tensor>().as_mut(),
        }
    };
    if (tensor.code, tensor.bits) != (INT, 16) {
        return Err(PyTypeError::new_err("The capsule has no integers of 16 bits."));
    }
    tensor.code = BFLOAT;
    Ok(capsule)
}

/// Adds the function to the module.
pub fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(bfloat16_capsule, module)?)
}
