//! Arrays passed in by users' code, used in place or copied.

use crate::errors::IntoPython;
use crate::{arrays, callback};
use bytemuck::Pod;
use cntk_reader_core::format::user::{Buffer, DenseArray};
use cntk_reader_core::memory::room::{self, Use};
use numpy::{PyArrayDescrMethods, PyUntypedArray, PyUntypedArrayMethods, npyffi::_PyArray_GET_ITEM_DATA};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use std::sync::Arc;

/// Keeps the memory of users' arrays alive. When the last buffer over them is dropped, the memory
/// is released immediately, on any thread.
pub struct Memory(Option<Py<PyAny>>);

impl Memory {
    /// Returns an owner of all arrays that this object refers to. No other code may have access to
    /// the object, so that it keeps the references until it is freed.
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

/// Returns the address of the element whose indices are all 0.
fn start(array: &Bound<'_, PyUntypedArray>) -> *const u8 {
    // SAFETY: the pointer is that of a NumPy array, which `array` keeps alive.
    let start = unsafe { (*_PyArray_GET_ITEM_DATA(array.as_array_ptr().cast_const())).data };
    start.cast_const().cast()
}

/// The range of memory that an array's elements span.
struct Bytes {
    start: *const u8,
    count: usize,
    /// Offset of the element whose indices are all 0.
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
            _ => Err(PyValueError::new_err("The strides of the array exceed the address space.")),
        }
    }
}

/// Downcasts an object to an array.
fn array<'a, 'py>(object: &'a Bound<'py, PyAny>) -> PyResult<&'a Bound<'py, PyUntypedArray>> {
    Ok(object.cast::<PyUntypedArray>()?)
}

fn unusable(array: &Bound<'_, PyUntypedArray>) -> PyErr {
    PyTypeError::new_err(format!(
        "An array of {} in the machine's memory is not expected here.",
        array.dtype()
    ))
}

/// Wraps the elements of a contiguous array in place. `owner` keeps the array alive.
pub fn buffer(object: &Bound<'_, PyAny>, owner: &Arc<dyn Send + Sync>) -> PyResult<Buffer> {
    let array = array(object)?;
    if !array.is_c_contiguous() {
        return Err(unusable(array));
    }
    in_place(array, &Bytes::of(array)?, owner)
}

/// Wraps an array in place whose first dimension is samples. `owner` keeps the array alive.
pub fn dense(object: &Bound<'_, PyAny>, owner: &Arc<dyn Send + Sync>) -> PyResult<DenseArray> {
    let array = array(object)?;
    let [samples, ..] = *array.shape() else { return Err(unusable(array)) };
    let bytes = Bytes::of(array)?;
    let strides = (!array.is_c_contiguous()).then(|| {
        // In NumPy the last dimension varies fastest, in the library the first.
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
    // SAFETY: `Bytes::of` spans exactly what shape and strides reach, which NumPy guarantees to be
    // readable, or users who choose strides themselves (`as_strided`). `owner` keeps the array, and
    // so its memory, alive. The manual for users' deserializers forbids changing the values
    // meanwhile.
    Ok(unsafe { Buffer::from_raw(bytes.start, bytes.count, element, Arc::clone(owner)) })
}

/// Copies the elements of a contiguous array.
pub fn list<T: numpy::Element + Pod>(object: &Bound<'_, PyAny>, purpose: Use) -> PyResult<Vec<T>> {
    let (py, array) = (object.py(), array(object)?);
    if !array.is_c_contiguous() || !array.dtype().is_equiv_to(&T::get_dtype(py)) {
        return Err(unusable(array));
    }
    let count = array.len();
    let mut list: Vec<T> = room::with_capacity(count, purpose).python(py)?;
    // SAFETY: a contiguous array of this type has `count` elements from its start on, the list has
    // room for them, and the two do not overlap. Any bytes are a valid `Pod` value. The array need
    // not be aligned, because bytes are copied.
    unsafe {
        start(array).copy_to_nonoverlapping(list.as_mut_ptr().cast(), count * size_of::<T>());
        list.set_len(count);
    }
    Ok(list)
}
