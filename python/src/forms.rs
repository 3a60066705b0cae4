//! The forms of a stream's sequences: padded, packed, indices.

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

/// Values from which on a form is made without the interpreter's lock.
const MANY: usize = 1 << 16;

/// A named tuple of `cntk_reader._forms`.
#[derive(Debug, Clone, Copy)]
pub enum Kind {
    Padded,
    PaddedIndices,
    Packed,
    PackedIndices,
    Sparse,
    Bags,
}

/// The class of a named tuple.
pub fn tuple(py: Python<'_>, kind: Kind) -> PyResult<&Bound<'_, PyAny>> {
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

/// Finds the classes while modules can still be imported.
pub fn prepare(py: Python<'_>) -> PyResult<()> {
    Dtype::Of(ElementType::Float).descriptor(py)?;
    tuple(py, Kind::Padded).map(drop)
}

/// A rule of `cntk_reader._rules` for values that are not of the plain type.
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

/// A whole number from 0; `what` says in messages what it is.
pub fn whole(value: &Bound<'_, PyAny>, what: &str) -> PyResult<usize> {
    if value.is_exact_instance_of::<PyInt>()
        && let Ok(number) = value.extract()
    {
        return Ok(number);
    }
    rule(value, "whole", [], what)?.extract()
}

const AFTER: &str = "What is put after sequences";

/// A number, which may be NaN: it marks places well.
fn number(value: &Bound<'_, PyAny>) -> PyResult<f64> {
    match value.cast::<PyFloat>() {
        Ok(number) => Ok(number.value()),
        Err(_)
            if value.hasattr("dtype")? && value.get_type().name()?.to_string_lossy().starts_with("float") =>
        {
            value.extract()
        }
        Err(_) => rule(value, "real", [], AFTER)?.extract(),
    }
}

/// The number that fills up padded values.
struct Fill(f64);

impl FromPyObject<'_, '_> for Fill {
    type Error = PyErr;

    fn extract(value: Borrowed<'_, '_, PyAny>) -> PyResult<Fill> {
        number(&value).map(Fill)
    }
}

/// Whether indices are of 64 bits: `dtype` is int64, and not int32 or left out.
fn is_wide(dtype: Option<&Bound<'_, PyAny>>) -> PyResult<bool> {
    let Some(dtype) = dtype else { return Ok(false) };
    let given = PyArrayDescr::new(dtype.py(), dtype)?;
    match arrays::element_of(&given) {
        Some(ElementType::Int32) => Ok(false),
        Some(ElementType::Int64) => Ok(true),
        _ => Err(PyValueError::new_err(format!("The dtype of indices is int32 or int64, not {given}."))),
    }
}

/// The number that fills up padded indices.
fn fill_index(value: Option<&Bound<'_, PyAny>>, is_wide: bool) -> PyResult<i64> {
    let range = if is_wide { [i64::MIN, i64::MAX] } else { [i32::MIN.into(), i32::MAX.into()] };
    value.map_or(Ok(0), |value| rule(value, "whole", range, AFTER)?.extract())
}

/// Does some work, without the interpreter's lock if it is much.
fn packing<R: Send>(py: Python<'_>, size: usize, work: impl FnOnce() -> R + Send) -> R {
    if size < MANY { work() } else { detached(py, work) }
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
    /// The sequences side by side, filled up with ``value`` to the longest, or to ``length``, which
    /// must not be less.
    ///
    /// ``array`` (sequences, length, *shape of a sample) and ``mask`` (sequences, length), true
    /// where there is a sample. Sparse samples become dense; for one-hot samples of many values see
    /// :meth:`padded_indices`. The array is a copy, except of dense sequences that all have this
    /// length and lie one after the other: then it is a view.
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
                // Every sequence is this long, and nothing lies between them.
                (self.first_values(py, &shape)?, vec![true; extent.samples])
            } else {
                let size = extent.samples.saturating_mul(self.part().sample_size());
                with_element!(self.part().element(), T => {
                    let (values, mask) = packing(py, size, || self.pad::<T>(length, fill)).python(py)?;
                    (arrays::of_list(py, values, self.dtype_of_values(), &shape)?, mask)
                })
            };
        tuple(py, Kind::Padded)?.call1((array, mask_array(py, mask, [sequences, length])?))
    }

    /// The samples of one sequence after the other: ``values``, ``offsets`` and ``longest``.
    ///
    /// ``values`` (samples, *shape of a sample), int32 ``offsets`` (sequences + 1,). Sparse samples
    /// become dense. The values are a view where the minibatch has dense sequences in this way, as
    /// with one sample each, and else a copy.
    ///
    /// ``offsets`` are the ``cu_seqlens`` of attention over sequences of different lengths.
    /// PyTorch's jagged tensor over the values, without a copy of them::
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
        tuple(py, Kind::Packed)?.call1((values, offsets, extent.longest))
    }

    /// The mask of :meth:`padded` alone: (sequences, samples of the longest), true where there is a
    /// sample.
    fn padded_mask<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let _section = Section::enter(py);
        let extent = self.layout().extent();
        let mask = self.mask_of(extent.longest).python(py)?;
        mask_array(py, mask, [extent.sequences, extent.longest])
    }

    /// The indices of one-hot samples in the form of :meth:`padded`: ``array`` of this ``dtype``,
    /// int32 or int64, and ``mask`` (sequences, length).
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
        tuple(py, Kind::PaddedIndices)?.call1((array, mask_array(py, mask, shape)?))
    }

    /// The indices of one-hot samples in the form of :meth:`packed`: ``values`` (samples,) of this
    /// ``dtype``, int32 or int64, ``offsets``, ``longest``.
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
        tuple(py, Kind::PackedIndices)?.call1((values, offsets, self.layout().extent().longest))
    }

    /// The index of each one-hot sample, of shape (samples,): labels as a loss wants them, ids as
    /// an embedding wants them.
    ///
    /// In the order of :meth:`packed`, of this ``dtype``, int32 or int64, which losses of PyTorch
    /// want. The stream may be sparse or dense; samples that are not one-hot are an error.
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

    /// The entries of sparse samples as ``torch.nn.functional.embedding_bag`` takes them, one
    /// sequence after the other: ``indices`` of this ``dtype``, int32 or int64, ``offsets``,
    /// ``weights`` and ``sequence_offsets``.
    ///
    /// Each sample is a bag. An index that a sample has more than once stays so. In truncated
    /// minibatches sparse streams are dense, and have no bags.
    #[pyo3(signature = (dtype = None), text_signature = "($self, dtype=numpy.int32)")]
    fn bags<'py>(&self, py: Python<'py>, dtype: Option<&Bound<'py, PyAny>>) -> PyResult<Bound<'py, PyAny>> {
        let _section = Section::enter(py);
        let is_wide = is_wide(dtype)?;
        if !self.is_sparse() {
            // The error that says so.
            return self.sparse(py);
        }
        with_element!(self.part().element(), T => match is_wide {
            true => self.made_bags::<T, i64>(py),
            false => self.made_bags::<T, i32>(py),
        })
    }

    /// Sparse data as :attr:`sparse` has them, with ascending indices in each row, each once: for
    /// libraries that search indices.
    ///
    /// Values of an index that a sample has more than once add up. Views where the data are so
    /// already, else copies.
    fn canonical<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let _section = Section::enter(py);
        let is_canonical = with_element!(self.part().element(), T => {
            self.part().sparse::<T>().map(|columns| is_canonical(columns.indices, columns.offsets))
        });
        if is_canonical != Some(false) {
            // Of a dense stream this is the error that says so.
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

    /// An array of indices that some work makes.
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
        tuple(py, Kind::Bags)?.call1(parts)
    }

    fn made_canonical<'py, T: Element>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let count = self.values(py)?.count;
        let columns = self.layout().columns();
        let (values, indices, offsets) = packing(py, count, || {
            let (mut values, mut indices, mut offsets) =
                (list::<T>(count)?, list(count)?, list(columns + 1)?);
            self.forms().canonical(&mut values, &mut indices, &mut offsets)?;
            // Values that were added up leave room at the end.
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
        tuple(py, Kind::Sparse)?.call1(parts)
    }
}

/// Whether the indices of each column ascend, each once.
fn is_canonical(indices: &[i32], offsets: &[i32]) -> bool {
    offsets.windows(2).all(|ends| {
        let own = indices.get(ends[0] as usize..ends[1] as usize).unwrap_or_default();
        own.windows(2).all(|pair| pair[0] < pair[1])
    })
}
