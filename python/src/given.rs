//! Arrays that users' code gives: read where they lie, or copied.

use crate::errors::IntoPython;
use crate::{arrays, callback};
use bytemuck::Pod;
use cntk_reader_core::format::user::{Buffer, DenseArray};
use cntk_reader_core::memory::room::{self, Use};
use numpy::{PyArrayDescrMethods, PyUntypedArray, PyUntypedArrayMethods, npyffi::_PyArray_GET_ITEM_DATA};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use std::sync::Arc;

/// Keeps the memory of users' arrays. The last buffer over them gives it back at once, on any
/// thread.
pub struct Memory(Option<Py<PyAny>>);

impl Memory {
    /// The memory of all arrays that this object refers to. No other code may have the object, so
    /// that it refers to them until it is freed.
    pub fn of(object: &Bound<'_, PyAny>) -> Arc<dyn Send + Sync> {
        Arc::new(Memory(Some(object.clone().unbind())))
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        if let Some(object) = self.0.take() {
            callback::release(object);
        }
    }
}

/// The address of the value whose indices are all 0.
fn start(array: &Bound<'_, PyUntypedArray>) -> *const u8 {
    // SAFETY: the pointer is that of an array of NumPy, which `array` keeps.
    let start = unsafe { (*_PyArray_GET_ITEM_DATA(array.as_array_ptr().cast_const())).data };
    start.cast_const().cast()
}

/// The bytes from the first to the last one of an array's values.
struct Bytes {
    start: *const u8,
    count: usize,
    /// Bytes from `start` to the value whose indices are all 0.
    first: usize,
}

impl Bytes {
    fn of(array: &Bound<'_, PyUntypedArray>) -> PyResult<Bytes> {
        let start = start(array);
        if array.is_empty() {
            return Ok(Bytes { start, count: 0, first: 0 });
        }
        let (mut low, mut high) = (0, array.dtype().itemsize() as i128);
        for (&size, &stride) in array.shape().iter().zip(array.strides()) {
            let reach = (size as i128 - 1) * stride as i128;
            low += reach.min(0);
            high += reach.max(0);
        }
        match (usize::try_from(-low), isize::try_from(high - low)) {
            (Ok(first), Ok(count)) => {
                Ok(Bytes { start: start.wrapping_sub(first), count: count.unsigned_abs(), first })
            }
            _ => Err(PyValueError::new_err("The strides of the array leave the memory.")),
        }
    }
}

/// The array that an object is.
fn array<'a, 'py>(object: &'a Bound<'py, PyAny>) -> PyResult<&'a Bound<'py, PyUntypedArray>> {
    Ok(object.cast::<PyUntypedArray>()?)
}

fn unusable(array: &Bound<'_, PyUntypedArray>) -> PyErr {
    PyTypeError::new_err(format!(
        "An array of {} in the machine's memory is not expected here.",
        array.dtype()
    ))
}

/// The numbers of a contiguous array, where they lie. `owner` keeps the array.
pub fn buffer(object: &Bound<'_, PyAny>, owner: &Arc<dyn Send + Sync>) -> PyResult<Buffer> {
    let array = array(object)?;
    if !array.is_c_contiguous() {
        return Err(unusable(array));
    }
    in_place(array, &Bytes::of(array)?, owner)
}

/// An array of samples, the first dimension, where it lies. `owner` keeps the array.
pub fn dense(object: &Bound<'_, PyAny>, owner: &Arc<dyn Send + Sync>) -> PyResult<DenseArray> {
    let array = array(object)?;
    let [samples, ..] = *array.shape() else { return Err(unusable(array)) };
    let bytes = Bytes::of(array)?;
    let strides = (!array.is_c_contiguous()).then(|| {
        // NumPy's last dimension is the one that varies fastest.
        let (of_samples, inner) = array.strides().split_at(1);
        inner.iter().rev().chain(of_samples).copied().collect()
    });
    let values = in_place(array, &bytes, owner)?;
    Ok(DenseArray { values, offset: bytes.first, samples: Some(samples), shape: None, strides })
}

fn in_place(
    array: &Bound<'_, PyUntypedArray>,
    bytes: &Bytes,
    owner: &Arc<dyn Send + Sync>,
) -> PyResult<Buffer> {
    let element = arrays::element_of(&array.dtype()).ok_or_else(|| unusable(array))?;
    // SAFETY: shape and strides of an array lead to readable bytes; NumPy sees to that, or users
    // who make strides by themselves (`as_strided`). `owner` keeps the array, and so its memory.
    // The manual of users' deserializers forbids changes of the values meanwhile.
    Ok(unsafe { Buffer::from_raw(bytes.start, bytes.count, element, Arc::clone(owner)) })
}

/// A copy of the numbers of a contiguous array.
pub fn list<T: numpy::Element + Pod>(object: &Bound<'_, PyAny>, purpose: Use) -> PyResult<Vec<T>> {
    let (py, array) = (object.py(), array(object)?);
    if !array.is_c_contiguous() || !array.dtype().is_equiv_to(&T::get_dtype(py)) {
        return Err(unusable(array));
    }
    let count = array.len();
    let mut list: Vec<T> = room::with_capacity(count, purpose).python(py)?;
    // SAFETY: a contiguous array of this type has `count` numbers from its start on, and the list
    // has room for them. Any bytes are a value of a `Pod`. The array need not be aligned: bytes
    // are copied.
    unsafe {
        start(array).copy_to_nonoverlapping(list.as_mut_ptr().cast(), count * size_of::<T>());
        list.set_len(count);
    }
    Ok(list)
}
