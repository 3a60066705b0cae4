//! Zero-copy NumPy arrays over the library's memory.

use cntk_reader_core::stream::ElementType;
use numpy::npyffi::{self, PY_ARRAY_API, npy_intp};
use numpy::{PyArrayDescr, PyArrayDescrMethods, dtype};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use std::ffi::c_int;

/// The element type of an array.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dtype {
    /// Stream values, indices and masks.
    Of(ElementType),
    Key,
    /// `cntk_reader.RECORD`.
    Record,
}

impl Dtype {
    /// The type of indices.
    pub const INT: Dtype = Dtype::Of(ElementType::Int32);
    /// The type of masks.
    pub const FLAG: Dtype = Dtype::Of(ElementType::Bool);

    /// Returns the NumPy dtype.
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

/// Returns the NumPy dtype of an element type.
fn of_element(py: Python<'_>, element: ElementType) -> PyResult<&Bound<'_, PyArrayDescr>> {
    static ELEMENTS: [PyOnceLock<Py<PyArrayDescr>>; ElementType::ALL.len()] =
        [const { PyOnceLock::new() }; ElementType::ALL.len()];
    // In the order of `ElementType::ALL`. Nine comparisons are cheaper than a Python call.
    let place = ElementType::ALL.iter().position(|known| *known == element).unwrap_or_default();
    let descriptor = ELEMENTS[place].get_or_try_init(py, || {
        let found = py.import("cntk_reader._types")?.getattr("dtype_of")?.call1((element.name(),))?;
        PyResult::Ok(found.cast_into::<PyArrayDescr>()?.unbind())
    })?;
    Ok(descriptor.bind(py))
}

/// Returns the element type of an array's values, or `None` if streams do not support its dtype
/// (which includes foreign byte orders).
pub fn element_of(array: &Bound<'_, PyArrayDescr>) -> Option<ElementType> {
    let py = array.py();
    let is_equal = |element: &ElementType| {
        element.size() == array.itemsize()
            && of_element(py, *element).is_ok_and(|descriptor| array.is_equiv_to(descriptor))
    };
    ElementType::ALL.iter().copied().find(is_equal)
}

/// Creates an array of this shape over memory that `owner` keeps alive.
///
/// # Safety
/// `start` points to as many aligned elements of the type as the shape says, and they stay valid
/// until `owner` is freed. If the array is writable, nothing else relies on their values.
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
    // SAFETY: `array` is a new NumPy array without a base. The call takes over the reference to
    // `owner`.
    let set = unsafe {
        PY_ARRAY_API.PyArray_SetBaseObject(owner.py(), array.as_ptr().cast(), owner.clone().into_ptr())
    };
    if set < 0 { Err(PyErr::fetch(owner.py())) } else { Ok(array) }
}

/// Creates an uninitialized array in memory of NumPy's own.
pub fn empty<'py>(py: Python<'py>, dtype: Dtype, shape: &[usize]) -> PyResult<Bound<'py, PyAny>> {
    // SAFETY: without an address NumPy allocates the memory.
    unsafe { new(py, std::ptr::null_mut(), dtype, shape, 0) }
}

/// Owns a list that an array views.
#[pyclass(frozen)]
struct Numbers {
    _list: Box<dyn Send + Sync>,
}

/// Creates an array over a list.
pub fn of_list<'py, T: bytemuck::NoUninit + Send + Sync>(
    py: Python<'py>,
    list: Vec<T>,
    dtype: Dtype,
    shape: &[usize],
) -> PyResult<Bound<'py, PyAny>> {
    debug_assert_eq!(list.len(), shape.iter().product::<usize>(), "{shape:?}");
    let start = list.as_ptr().cast();
    let owner = Bound::new(py, Numbers { _list: Box::new(list) })?;
    // SAFETY: the list has as many elements as the shape, which every caller computes from its
    // length, and `owner` keeps it alive. Nothing else refers to it.
    unsafe { view(owner.as_any(), start, dtype, shape, true) }
}

/// Creates an array over memory at `start`, or over memory of NumPy's own if `start` is NULL.
///
/// # Safety
/// `start` is NULL, or points to as many aligned elements of the type as the shape says.
unsafe fn new<'py>(
    py: Python<'py>,
    start: *mut u8,
    dtype: Dtype,
    shape: &[usize],
    flags: c_int,
) -> PyResult<Bound<'py, PyAny>> {
    const MAX_DIMENSIONS: usize = 32;
    let mut dimensions = [0 as npy_intp; MAX_DIMENSIONS];
    let rank = shape.len();
    if rank > MAX_DIMENSIONS {
        let message =
            format!("The array would have {rank} dimensions; NumPy allows at most {MAX_DIMENSIONS}.");
        return Err(pyo3::exceptions::PyValueError::new_err(message));
    }
    for (dimension, &size) in dimensions.iter_mut().zip(shape) {
        *dimension = size as npy_intp;
    }
    let descriptor = dtype.descriptor(py)?.clone().into_dtype_ptr();
    // SAFETY: `class` is NumPy's array type; the call takes over the reference to the descriptor;
    // `dimensions` has at least `rank` entries; this function's contract covers the memory.
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
