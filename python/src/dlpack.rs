//! DLPack capsules for values whose type NumPy lacks.

#![allow(unsafe_code, reason = "the structs of DLPack")]

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyCapsuleMethods};
use std::ffi::{CStr, c_void};

const PLAIN: &CStr = c"dltensor";
const VERSIONED: &CStr = c"dltensor_versioned";

/// DLPack type codes.
const INT: u8 = 0;
const BFLOAT: u8 = 4;

/// The leading fields of DLPack's `DLTensor`.
#[repr(C)]
struct Tensor {
    _data: *mut c_void,
    _device: [i32; 2],
    _rank: i32,
    code: u8,
    bits: u8,
    _lanes: u16,
}

/// DLPack's `DLManagedTensorVersioned`, up to the leading fields of its tensor.
#[repr(C)]
struct Versioned {
    _version: [u32; 2],
    _owner: *mut c_void,
    _deleter: Option<unsafe extern "C" fn(*mut c_void)>,
    _flags: u64,
    tensor: Tensor,
}

/// Retypes a NumPy capsule of 16-bit integers as bfloat16 with the same bits.
#[pyfunction]
fn bfloat16_capsule<'py>(capsule: Bound<'py, PyCapsule>) -> PyResult<Bound<'py, PyCapsule>> {
    let is_versioned = capsule.is_valid_checked(Some(VERSIONED));
    let pointer = capsule.pointer_checked(Some(if is_versioned { VERSIONED } else { PLAIN }))?;
    // SAFETY: a capsule of this name points to this DLPack struct; without a version the struct
    // begins with a tensor. The name also says that no consumer has taken it over, so the capsule
    // owns it.
    let tensor = unsafe {
        match is_versioned {
            true => &mut pointer.cast::<Versioned>().as_mut().tensor,
            false => pointer.cast::<Tensor>().as_mut(),
        }
    };
    if (tensor.code, tensor.bits) != (INT, 16) {
        return Err(PyTypeError::new_err("The capsule does not hold 16-bit integers."));
    }
    tensor.code = BFLOAT;
    Ok(capsule)
}

/// Adds the function to the module.
pub fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(bfloat16_capsule, module)?)
}
