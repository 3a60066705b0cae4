//! Arrays of NumPy over memory of the library, without copies.

use cntk_reader_core::stream::ElementType;
use numpy::npyffi::{self, PY_ARRAY_API, npy_intp};
use numpy::{PyArrayDescr, PyArrayDescrMethods, dtype};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use std::ffi::c_int;

/// Types of the numbers in arrays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dtype {
    /// Values of a stream, indices, masks.
    Of(ElementType),
    Key,
    /// `cntk_reader.RECORD`.
    Record,
}

impl Dtype {
    /// The types of indices and masks.
    pub const INT: Dtype = Dtype::Of(ElementType::Int32);
    pub const FLAG: Dtype = Dtype::Of(ElementType::Bool);

    /// The type as NumPy has it.
    pub fn descriptor<'py>(self, py: Python<'py>) -> PyResult<&'py Bound<'py, PyArrayDescr>> {
        static KEY: PyOnceLock<Py<PyArrayDescr>> = PyOnceLock::new();
        static RECORD: PyOnceLock<Py<PyArrayDescr>> = PyOnceLock::new();
        let descriptor = match self {
            Dtype::Of(element) => return of_element(py, element),
            Dtype::Key => KEY.get_or_init(py, || dtype::<u64>(py).unbind()),
            Dtype::Record => RECORD.get_or_try_init(py, || {
                let record = py.import("cntk_reader._types")?.getattr("RECORD")?;
                PyResult::Ok(record.cast_into::<PyArrayDescr>()?.unbind())
            })?,
        };
        Ok(descriptor.bind(py))
    }
}

/// NumPy's type of an element type.
fn of_element(py: Python<'_>, element: ElementType) -> PyResult<&Bound<'_, PyArrayDescr>> {
    static ELEMENTS: [PyOnceLock<Py<PyArrayDescr>>; ElementType::ALL.len()] =
        [const { PyOnceLock::new() }; ElementType::ALL.len()];
    // In the order of `ElementType::ALL`; a comparison for each is less than a call of Python.
    let place = ElementType::ALL.iter().position(|known| *known == element).unwrap_or_default();
    let descriptor = ELEMENTS[place].get_or_try_init(py, || {
        let found = py.import("cntk_reader._types")?.getattr("dtype_of")?.call1((element.name(),))?;
        PyResult::Ok(found.cast_into::<PyArrayDescr>()?.unbind())
    })?;
    Ok(descriptor.bind(py))
}

/// The element type of an array's values, in the machine's byte order. `None`: streams have no such
/// values.
pub fn element_of(array: &Bound<'_, PyArrayDescr>) -> Option<ElementType> {
    let py = array.py();
    let is_equal = |element: &ElementType| {
        element.size() == array.itemsize()
            && of_element(py, *element).is_ok_and(|descriptor| array.is_equiv_to(descriptor))
    };
    ElementType::ALL.iter().copied().find(is_equal)
}

/// An array of this shape at an address inside memory that `owner` keeps.
///
/// # Safety
/// From `start` on there are as many numbers of the type as the shape says, aligned, until `owner`
/// is freed. If the array is writable, nothing else relies on their values.
pub unsafe fn view<'py>(
    owner: &Bound<'py, PyAny>,
    start: *const u8,
    dtype: Dtype,
    shape: &[usize],
    writable: bool,
) -> PyResult<Bound<'py, PyAny>> {
    if start.is_null() || shape.contains(&0) {
        return empty(owner.py(), dtype, shape);
    }
    let flags = match writable {
        true => npyffi::NPY_ARRAY_CARRAY,
        false => npyffi::NPY_ARRAY_CARRAY_RO,
    };
    // SAFETY: this function's contract.
    let array = unsafe { new(owner.py(), start.cast_mut(), dtype, shape, flags) }?;
    // SAFETY: a new array of NumPy has no base yet. The call takes over the reference to `owner`.
    let set = unsafe {
        PY_ARRAY_API.PyArray_SetBaseObject(owner.py(), array.as_ptr().cast(), owner.clone().into_ptr())
    };
    if set < 0 { Err(PyErr::fetch(owner.py())) } else { Ok(array) }
}

/// An array of NumPy's own memory, which is not cleared.
pub fn empty<'py>(py: Python<'py>, dtype: Dtype, shape: &[usize]) -> PyResult<Bound<'py, PyAny>> {
    // SAFETY: without an address NumPy takes memory of its own.
    unsafe { new(py, std::ptr::null_mut(), dtype, shape, 0) }
}

/// Numbers of the library's that an array keeps.
#[pyclass(frozen)]
struct Numbers {
    _list: Box<dyn Send + Sync>,
}

/// An array over a list.
pub fn of_list<'py, T: bytemuck::NoUninit + Send + Sync>(
    py: Python<'py>,
    list: Vec<T>,
    dtype: Dtype,
    shape: &[usize],
) -> PyResult<Bound<'py, PyAny>> {
    debug_assert_eq!(list.len(), shape.iter().product::<usize>(), "{shape:?}");
    let start = list.as_ptr().cast();
    let owner = Bound::new(py, Numbers { _list: Box::new(list) })?;
    // SAFETY: the list has as many numbers as the shape says, which every caller computes from its
    // length, and `owner` keeps it. Nothing else knows of it.
    unsafe { view(owner.as_any(), start, dtype, shape, true) }
}

/// # Safety
/// `start` is NULL, or leads to as many numbers of the type as the shape says, aligned.
unsafe fn new<'py>(
    py: Python<'py>,
    start: *mut u8,
    dtype: Dtype,
    shape: &[usize],
    flags: c_int,
) -> PyResult<Bound<'py, PyAny>> {
    const MOST: usize = 32;
    let mut dimensions = [0 as npy_intp; MOST];
    let rank = shape.len();
    if rank > MOST {
        let message = format!("An array of {rank} dimensions is wanted, and NumPy has {MOST} at most.");
        return Err(pyo3::exceptions::PyValueError::new_err(message));
    }
    for (dimension, &size) in dimensions.iter_mut().zip(shape) {
        *dimension = size as npy_intp;
    }
    let descriptor = dtype.descriptor(py)?.clone().into_dtype_ptr();
    // SAFETY: the type is NumPy's; the call takes over the reference to the descriptor; there are
    // `rank` dimensions; the memory is this function's contract.
    unsafe {
        let class = npyffi::get_type_object(py, npyffi::NpyTypes::PyArray_Type);
        let array = PY_ARRAY_API.PyArray_NewFromDescr(
            py,
            class,
            descriptor,
            rank as c_int,
            dimensions.as_mut_ptr(),
            std::ptr::null_mut(),
            start.cast(),
            flags,
            std::ptr::null_mut(),
        );
        Bound::from_owned_ptr_or_err(py, array)
    }
}
