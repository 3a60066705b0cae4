//! The forms of a stream's sequences: padded, packed, indices, bags.

use crate::arrays::{self, Dtype};
use crate::ending::{Section, detached};
use crate::errors::IntoPython;
use crate::minibatch::StreamMinibatch;
use cntk_reader::{Error, Result};
use cntk_reader_core::memory::room;
use cntk_reader_core::stream::{Element, ElementType};
use cntk_reader_core::with_element;
use cntk_reader_engine::forms::Index;
use numpy::PyArrayDescr;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyFloat, PyInt, PyTuple};

/// Number of values from which a form is computed without the GIL.
const DETACH_SIZE: usize = 1 << 16;

/// A named tuple of `cntk_reader._forms`.
#[derive(Debug, Clone, Copy)]
pub enum TupleKind {
    Padded,
    PaddedIndices,
    Packed,
    PackedIndices,
    Sparse,
    Bags,
}

/// Returns the class of a named tuple.
pub fn tuple(py: Python<'_>, kind: TupleKind) -> PyResult<&Bound<'_, PyAny>> {
    static CLASSES: PyOnceLock<[Py<PyAny>; 6]> = PyOnceLock::new();
    let classes = CLASSES.get_or_try_init(py, || {
        let module = py.import("cntk_reader._forms")?;
        let class = |name| Ok::<_, PyErr>(module.getattr(name)?.unbind());
        Ok::<_, PyErr>([
            class("Padded")?,
            class("PaddedIndices")?,
            class("Packed")?,
            class("PackedIndices")?,
            class("Sparse")?,
            class("Bags")?,
        ])
    })?;
    Ok(classes[kind as usize].bind(py))
}

/// Imports the classes while modules can still be imported.
pub fn prepare(py: Python<'_>) -> PyResult<()> {
    Dtype::Of(ElementType::Float).descriptor(py)?;
    tuple(py, TupleKind::Padded).map(drop)
}

/// Applies a rule of `cntk_reader._rules` to a value that is not of the plain type.
fn rule<'py>(
    value: &Bound<'py, PyAny>,
    rule: &str,
    arguments: impl AsRef<[i64]>,
    what: &str,
) -> PyResult<Bound<'py, PyAny>> {
    let py = value.py();
    let _section = Section::enter(py);
    let limits = PyTuple::new(py, arguments.as_ref())?;
    let first = PyTuple::new(py, [what.into_pyobject(py)?.into_any(), value.clone()])?;
    let all = first.as_sequence().concat(limits.as_sequence())?.to_tuple()?;
    py.import("cntk_reader._rules")?.getattr(rule)?.call1(all)
}

/// Extracts a whole number from 0 on; `what` names it in messages.
pub fn whole(value: &Bound<'_, PyAny>, what: &str) -> PyResult<usize> {
    if value.is_exact_instance_of::<PyInt>()
        && let Ok(number) = value.extract()
    {
        return Ok(number);
    }
    rule(value, "whole", [], what)?.extract()
}

/// The fill value's name in messages.
const FILL: &str = "The fill value";

/// Extracts a number. NaN is allowed, because it marks padding well.
fn number(value: &Bound<'_, PyAny>) -> PyResult<f64> {
    match value.cast::<PyFloat>() {
        Ok(number) => Ok(number.value()),
        Err(_)
            if value.hasattr("dtype")? && value.get_type().name()?.to_string_lossy().starts_with("float") =>
        {
            value.extract()
        }
        Err(_) => rule(value, "real", [], FILL)?.extract(),
    }
}

/// The fill value of padded values.
struct Fill(f64);

impl FromPyObject<'_, '_> for Fill {
    type Error = PyErr;

    fn extract(value: Borrowed<'_, '_, PyAny>) -> PyResult<Fill> {
        number(&value).map(Fill)
    }
}

/// Returns whether indices have 64 bits: `dtype` is int64, rather than int32 or absent.
fn is_wide(dtype: Option<&Bound<'_, PyAny>>) -> PyResult<bool> {
    let Some(dtype) = dtype else { return Ok(false) };
    let given = PyArrayDescr::new(dtype.py(), dtype)?;
    match arrays::element_of(&given) {
        Some(ElementType::Int32) => Ok(false),
        Some(ElementType::Int64) => Ok(true),
        _ => Err(PyValueError::new_err(format!("The dtype of indices must be int32 or int64, not {given}."))),
    }
}

/// Extracts the fill value of padded indices.
fn fill_index(value: Option<&Bound<'_, PyAny>>, is_wide: bool) -> PyResult<i64> {
    let range = if is_wide { [i64::MIN, i64::MAX] } else { [i32::MIN.into(), i32::MAX.into()] };
    value.map_or(Ok(0), |value| rule(value, "whole", range, FILL)?.extract())
}

/// Runs `work`, without the GIL if it has many values.
fn packing<R: Send>(py: Python<'_>, size: usize, work: impl FnOnce() -> R + Send) -> R {
    if size < DETACH_SIZE { work() } else { detached(py, work) }
}

fn list<T>(count: usize) -> Result<Vec<T>> {
    let mut list = Vec::new();
    room::reserve_exact(&mut list, count, room::FORM)?;
    Ok(list)
}

impl StreamMinibatch {
    fn padded_length(&self, length: Option<&Bound<'_, PyAny>>) -> PyResult<(usize, usize)> {
        let extent = self.layout().extent();
        Ok((extent.sequences, length.map_or(Ok(extent.longest), |length| whole(length, "The length"))?))
    }

    fn pad<T: Element>(&self, length: usize, fill: f64) -> Result<(Vec<T>, Vec<bool>)> {
        let forms = self.forms();
        let fill = T::of_number(fill).ok_or_else(|| {
            let message =
                format!("The values of the stream '{}' are {}.", self.stream().name, T::TYPE.name());
            Error::argument(message).with_detail(format!("Pass one of them instead of {fill}."))
        })?;
        let mut values = list(forms.padded_size(length, self.part().sample_size())?)?;
        forms.pad(length, fill, &mut values)?;
        Ok((values, self.mask_of(length)?))
    }

    fn mask_of(&self, length: usize) -> Result<Vec<bool>> {
        let mut mask = list(self.forms().padded_size(length, 1)?)?;
        self.forms().mask(length, &mut mask)?;
        Ok(mask)
    }

    fn offsets(&self) -> Result<Vec<i32>> {
        let mut offsets = list(self.layout().extent().sequences + 1)?;
        self.forms().offsets(&mut offsets)?;
        Ok(offsets)
    }

    fn pack<T: Element>(&self) -> Result<Vec<T>> {
        let forms = self.forms();
        let mut values = list(forms.packed_size(self.part().sample_size())?)?;
        forms.pack(&mut values)?;
        Ok(values)
    }
}

fn mask_array(py: Python<'_>, mask: Vec<bool>, shape: [usize; 2]) -> PyResult<Bound<'_, PyAny>> {
    arrays::of_list(py, mask, Dtype::FLAG, &shape)
}

#[pymethods]
impl StreamMinibatch {
    /// Returns the sequences padded with ``value`` to the longest one, or to ``length`` if that is
    /// larger.
    ///
    /// The result has an ``array`` (sequences, length, *shape of a sample) and a ``mask``
    /// (sequences, length), true where there is a sample. A ``length`` below the longest sequence
    /// is an error. Sparse samples become dense; for one-hot samples of many values see
    /// :meth:`padded_indices`. The array is a copy, unless the sequences are dense, contiguous and
    /// all of this length: then it is a view.
    #[pyo3(signature = (value = Fill(0.0), length = None), text_signature = "($self, value=0, length=None)")]
    fn padded<'py>(
        &self,
        py: Python<'py>,
        value: Fill,
        length: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let _section = Section::enter(py);
        let Fill(fill) = value;
        let (sequences, length) = self.padded_length(length)?;
        let shape = self.shape(&[sequences, length]);
        let extent = self.layout().extent();
        let (array, mask) =
            if !self.is_sparse() && extent.is_packed && Some(extent.samples) == sequences.checked_mul(length)
            {
                // All sequences have this length and are contiguous.
                (self.first_values(py, &shape)?, vec![true; extent.samples])
            } else {
                let size = extent.samples.saturating_mul(self.part().sample_size());
                with_element!(self.part().element(), T => {
                    let (values, mask) = packing(py, size, || self.pad::<T>(length, fill)).python(py)?;
                    (arrays::of_list(py, values, self.dtype_of_values(), &shape)?, mask)
                })
            };
        tuple(py, TupleKind::Padded)?.call1((array, mask_array(py, mask, [sequences, length])?))
    }

    /// Returns the samples of all sequences, concatenated: ``values``, ``offsets``, ``longest``.
    ///
    /// The result has ``values`` (samples, *shape of a sample) and int32 ``offsets``
    /// (sequences + 1,). Sparse samples become dense. The values are a view if the minibatch
    /// stores dense sequences contiguously, as with one sample each, and a copy otherwise.
    ///
    /// ``offsets`` are the ``cu_seqlens`` of variable-length attention. A jagged PyTorch tensor
    /// over the values, without a copy::
    ///
    ///     values, offsets, longest = stream.packed()
    ///     torch.nested.nested_tensor_from_jagged(
    ///         torch.from_numpy(values), torch.from_numpy(offsets), max_seqlen=longest
    ///     )
    fn packed<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let _section = Section::enter(py);
        let extent = self.layout().extent();
        let (shape, size) =
            (self.shape(&[extent.samples]), extent.samples.saturating_mul(self.part().sample_size()));
        let values = if !self.is_sparse() && extent.is_packed {
            self.first_values(py, &shape)?
        } else {
            with_element!(self.part().element(), T => {
                let values = packing(py, size, || self.pack::<T>()).python(py)?;
                arrays::of_list(py, values, self.dtype_of_values(), &shape)?
            })
        };
        let offsets = self.offsets().python(py)?;
        let shape = [offsets.len()];
        let offsets = arrays::of_list(py, offsets, Dtype::INT, &shape)?;
        tuple(py, TupleKind::Packed)?.call1((values, offsets, extent.longest))
    }

    /// Returns only the mask of :meth:`padded`: (sequences, samples of the longest), true where
    /// there is a sample.
    fn padded_mask<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let _section = Section::enter(py);
        let extent = self.layout().extent();
        let mask = self.mask_of(extent.longest).python(py)?;
        mask_array(py, mask, [extent.sequences, extent.longest])
    }

    /// Returns the indices of one-hot samples in the form of :meth:`padded`: an ``array`` of
    /// ``dtype`` int32 or int64, and a ``mask``, both (sequences, length).
    #[pyo3(
        signature = (value = None, length = None, dtype = None),
        text_signature = "($self, value=0, length=None, dtype=numpy.int32)"
    )]
    fn padded_indices<'py>(
        &self,
        py: Python<'py>,
        value: Option<&Bound<'py, PyAny>>,
        length: Option<&Bound<'py, PyAny>>,
        dtype: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let _section = Section::enter(py);
        let is_wide = is_wide(dtype)?;
        let fill = fill_index(value, is_wide)?;
        let (sequences, length) = self.padded_length(length)?;
        let shape = [sequences, length];
        let array = match is_wide {
            true => self.index_array(py, &shape, || self.indices_padded(length, fill)),
            false => self.index_array(py, &shape, || self.indices_padded(length, fill as i32)),
        }?;
        let mask = self.mask_of(length).python(py)?;
        tuple(py, TupleKind::PaddedIndices)?.call1((array, mask_array(py, mask, shape)?))
    }

    /// Returns the indices of one-hot samples in the form of :meth:`packed`: ``values`` (samples,)
    /// of ``dtype`` int32 or int64, ``offsets`` and ``longest``.
    #[pyo3(signature = (dtype = None), text_signature = "($self, dtype=numpy.int32)")]
    fn packed_indices<'py>(
        &self,
        py: Python<'py>,
        dtype: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let values = self.indices(py, dtype)?;
        let _section = Section::enter(py);
        let offsets = self.offsets().python(py)?;
        let shape = [offsets.len()];
        let offsets = arrays::of_list(py, offsets, Dtype::INT, &shape)?;
        tuple(py, TupleKind::PackedIndices)?.call1((values, offsets, self.layout().extent().longest))
    }

    /// Returns the index of each one-hot sample, of shape (samples,): labels for a loss, or ids for
    /// an embedding.
    ///
    /// The order is that of :meth:`packed`. ``dtype`` is int32, or int64, which PyTorch's losses
    /// expect. The stream may be sparse or dense; samples that are not one-hot are an error.
    #[pyo3(signature = (dtype = None), text_signature = "($self, dtype=numpy.int32)")]
    fn indices<'py>(
        &self,
        py: Python<'py>,
        dtype: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let _section = Section::enter(py);
        let shape = [self.layout().samples()];
        match is_wide(dtype)? {
            true => self.index_array(py, &shape, || self.indices_packed::<i64>()),
            false => self.index_array(py, &shape, || self.indices_packed::<i32>()),
        }
    }

    /// Returns the entries of sparse samples as ``torch.nn.functional.embedding_bag`` takes them,
    /// one sequence after the other: ``indices`` of ``dtype`` int32 or int64, ``offsets``,
    /// ``weights`` and ``sequence_offsets``.
    ///
    /// Each sample is a bag. Repeated indices in a sample are kept. A dense stream has no bags.
    #[pyo3(signature = (dtype = None), text_signature = "($self, dtype=numpy.int32)")]
    fn bags<'py>(&self, py: Python<'py>, dtype: Option<&Bound<'py, PyAny>>) -> PyResult<Bound<'py, PyAny>> {
        let _section = Section::enter(py);
        let is_wide = is_wide(dtype)?;
        if !self.is_sparse() {
            // Raises the error about a dense stream.
            return self.sparse(py);
        }
        with_element!(self.part().element(), T => match is_wide {
            true => self.made_bags::<T, i64>(py),
            false => self.made_bags::<T, i32>(py),
        })
    }

    /// Returns sparse data like :attr:`sparse`, with strictly ascending indices in each row, for
    /// libraries that search indices.
    ///
    /// Values with the same index in a sample are added up. The result consists of views if the
    /// data are already canonical, and of copies otherwise.
    fn canonical<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let _section = Section::enter(py);
        let is_canonical = with_element!(self.part().element(), T => {
            self.part().sparse::<T>().map(|columns| is_canonical(columns.indices, columns.offsets))
        });
        if is_canonical != Some(false) {
            // For a dense stream this raises the error about it.
            return self.sparse(py);
        }
        with_element!(self.part().element(), T => self.made_canonical::<T>(py))
    }
}

impl StreamMinibatch {
    fn indices_padded<I: Index>(&self, length: usize, fill: I) -> Result<Vec<I>> {
        let mut indices = list(self.forms().padded_size(length, 1)?)?;
        self.forms().pad_indices(length, fill, &mut indices)?;
        Ok(indices)
    }

    fn indices_packed<I: Index>(&self) -> Result<Vec<I>> {
        let mut indices = list(self.layout().samples())?;
        self.forms().pack_indices(&mut indices)?;
        Ok(indices)
    }

    /// Creates an array of the indices that `work` computes.
    fn index_array<'py, I: Index>(
        &self,
        py: Python<'py>,
        shape: &[usize],
        work: impl FnOnce() -> Result<Vec<I>> + Send,
    ) -> PyResult<Bound<'py, PyAny>> {
        let indices = packing(py, self.layout().samples(), work).python(py)?;
        arrays::of_list(py, indices, Dtype::Of(I::TYPE), shape)
    }

    fn made_bags<'py, T: Element, I: Index>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let (samples, count) = (self.layout().samples(), self.values(py)?.count);
        let (indices, weights, offsets, are_ones) = packing(py, count, || {
            let (mut indices, mut weights, mut offsets) =
                (list::<I>(count)?, list::<T>(count)?, list(samples + 1)?);
            let are_ones = self.forms().bags(&mut indices, &mut weights, &mut offsets)?;
            Ok((indices, weights, offsets, are_ones))
        })
        .python(py)?;
        let sequence_offsets = self.offsets().python(py)?;
        let (entries, sequences) = ([indices.len()], [sequence_offsets.len()]);
        let weights = match are_ones {
            true => py.None().into_bound(py),
            false => arrays::of_list(py, weights, self.dtype_of_values(), &entries)?,
        };
        let parts = (
            arrays::of_list(py, indices, Dtype::Of(I::TYPE), &entries)?,
            arrays::of_list(py, offsets, Dtype::INT, &[samples + 1])?,
            weights,
            arrays::of_list(py, sequence_offsets, Dtype::INT, &sequences)?,
        );
        tuple(py, TupleKind::Bags)?.call1(parts)
    }

    fn made_canonical<'py, T: Element>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let count = self.values(py)?.count;
        let columns = self.layout().columns();
        let (values, indices, offsets) = packing(py, count, || {
            let (mut values, mut indices, mut offsets) =
                (list::<T>(count)?, list(count)?, list(columns + 1)?);
            self.forms().canonical(&mut values, &mut indices, &mut offsets)?;
            // Merged values leave spare capacity at the end.
            values.shrink_to_fit();
            indices.shrink_to_fit();
            Ok((values, indices, offsets))
        })
        .python(py)?;
        let (entries, rows) = ([values.len()], [offsets.len()]);
        let parts = (
            arrays::of_list(py, values, self.dtype_of_values(), &entries)?,
            arrays::of_list(py, indices, Dtype::INT, &entries)?,
            arrays::of_list(py, offsets, Dtype::INT, &rows)?,
            (columns, self.part().sample_size()),
        );
        tuple(py, TupleKind::Sparse)?.call1(parts)
    }
}

/// Returns whether the indices of each column are strictly ascending.
fn is_canonical(indices: &[i32], offsets: &[i32]) -> bool {
    offsets.windows(2).all(|ends| {
        let own = indices.get(ends[0] as usize..ends[1] as usize).unwrap_or_default();
        own.windows(2).all(|pair| pair[0] < pair[1])
    })
}
