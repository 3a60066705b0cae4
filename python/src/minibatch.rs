//! Minibatches and their streams, as arrays over the minibatch's memory.

use crate::arrays::{self, Dtype};
use crate::ending::Section;
use crate::errors::IntoPython;
use crate::forms;
use cntk_reader::Error;
use cntk_reader_core::corpus::Corpus;
use cntk_reader_core::runtime::fork::Process;
use cntk_reader_core::stream::{Element, ElementType, Storage};
use cntk_reader_core::with_element;
use cntk_reader_engine::forms::Forms;
use cntk_reader_engine::pack::{self, SparseColumns, layout::Layout};
use pyo3::exceptions::{PyAttributeError, PyKeyError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString, PyTuple};
use std::mem::ManuallyDrop;
use std::sync::Arc;

/// The descriptions of a source's streams that its minibatches share.
pub struct Described {
    /// `StreamInformation` by name.
    pub by_name: Py<PyDict>,
    /// The index of each stream by name.
    pub numbers: Py<PyDict>,
    pub streams: Vec<Stream>,
    pub corpus: Arc<Corpus>,
    /// Whether some shapes are only known once data have been read.
    pub is_open: bool,
}

pub struct Stream {
    pub name: String,
    /// Its `StreamInformation`.
    pub info: Py<PyAny>,
    /// The shape of a sample in NumPy's order: the last axis varies fastest.
    pub shape: Vec<usize>,
}

/// A minibatch of the engine. It is never freed in a forked child: another thread may have held the
/// lock of the pool that owns its buffers.
struct Content {
    process: Process,
    minibatch: ManuallyDrop<pack::Minibatch>,
}

impl Drop for Content {
    fn drop(&mut self) {
        if self.process.is_current() {
            // SAFETY: `drop` runs only once, and nothing uses the minibatch afterwards.
            unsafe { ManuallyDrop::drop(&mut self.minibatch) };
        }
    }
}

/// A minibatch: streams by name or by :class:`StreamInformation`. Without data it is empty and
/// falsy.
///
/// It may outlive its source, and may be shared between threads.
#[pyclass(frozen, mapping, module = "cntk_reader")]
pub struct Minibatch {
    content: Content,
    described: Arc<Described>,
}

impl Minibatch {
    pub fn new(minibatch: pack::Minibatch, described: &Arc<Described>) -> Minibatch {
        let content = Content { process: Process::current(), minibatch: ManuallyDrop::new(minibatch) };
        Minibatch { content, described: Arc::clone(described) }
    }

    fn minibatch(&self) -> &pack::Minibatch {
        &self.content.minibatch
    }

    fn is_empty(&self) -> bool {
        self.minibatch().streams.is_empty()
    }
}

#[pymethods]
impl Minibatch {
    /// Whether the minibatch ends a sweep.
    #[getter]
    fn end_of_sweep(&self) -> bool {
        self.minibatch().end_of_sweep
    }

    /// Whether the minibatch ends the epoch.
    #[getter]
    fn end_of_epoch(&self) -> bool {
        self.minibatch().end_of_epoch
    }

    /// Whether the minibatch is a training step: it has data, or it is one of a lockstep step in
    /// which other workers may have data.
    #[getter]
    fn is_step(&self) -> bool {
        self.minibatch().is_step
    }

    fn __len__(&self) -> usize {
        self.minibatch().streams.len()
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        match self.is_empty() {
            true => PyTuple::empty(py).call_method0("__iter__"),
            false => self.described.by_name.bind(py).call_method0("__iter__"),
        }
    }

    fn __getitem__(slf: &Bound<'_, Self>, stream: &Bound<'_, PyAny>) -> PyResult<StreamMinibatch> {
        let _section = Section::enter(slf.py());
        let (py, own) = (slf.py(), slf.get());
        let found = match stream.is_instance_of::<PyString>() {
            true => own.find(stream)?,
            // A `StreamInformation`.
            false => stream.getattr("name").map_or(Ok(None), |name| own.find(&name))?,
        };
        match found {
            Some(number) => Ok(StreamMinibatch { minibatch: slf.clone().unbind(), number }),
            None => Err(own.unknown(py, stream)),
        }
    }

    /// Explains a wrong attribute: Python calls it if there is no attribute of this name.
    fn __getattr__(&self, name: &Bound<'_, PyString>) -> PyResult<Py<PyAny>> {
        let mut message = format!("'Minibatch' object has no attribute '{name}'");
        if self.find(name)?.is_some() {
            message.push_str(&format!(". A stream is an item of it: minibatch['{name}']"));
        }
        Err(PyAttributeError::new_err(message))
    }

    /// The key of each sequence as a number, indexed by the sequence number in the records. A
    /// read-only view.
    #[getter]
    fn keys_of_sequences<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let _section = Section::enter(slf.py());
        let keys = &slf.get().minibatch().keys;
        // SAFETY: the keys do not move until the minibatch is freed, which the array keeps alive,
        // and the array is read-only.
        unsafe { arrays::view(slf.as_any(), keys.as_ptr().cast(), Dtype::Key, &[keys.len()], false) }
    }

    /// Returns the key of a sequence as CNTK shows it.
    fn key_text(&self, py: Python<'_>, sequence: &Bound<'_, PyAny>) -> PyResult<String> {
        let _section = Section::enter(py);
        let sequence = forms::whole(sequence, "The number of a sequence")?;
        let keys = &self.minibatch().keys;
        let Some(&key) = keys.get(sequence) else {
            let message = format!("There is no sequence {sequence}: the minibatch has {}.", keys.len());
            return Err(Error::argument(message)).python(py);
        };
        // Looking up a text takes a lock that another thread may have held during the fork.
        if matches!(*self.described.corpus, Corpus::Symbolic(_)) && !self.content.process.is_current() {
            let message =
                "The minibatch was read before a fork: textual keys are not available in the child.";
            return Err(Error::state(message)).python(py);
        }
        Ok(self.described.corpus.text_of(key))
    }
}

impl Minibatch {
    fn find(&self, name: &Bound<'_, PyAny>) -> PyResult<Option<usize>> {
        if self.is_empty() {
            return Ok(None);
        }
        let number = self.described.numbers.bind(name.py()).get_item(name)?;
        number.map(|number| number.extract()).transpose()
    }

    /// Builds the error for an unknown stream name.
    fn unknown(&self, py: Python<'_>, name: &Bound<'_, PyAny>) -> PyErr {
        let infos = (!self.is_empty()).then(|| self.described.by_name.bind(py));
        let made = py.import("cntk_reader._minibatch").and_then(|module| {
            let text = module.getattr("explain_unknown")?.call1((name, infos))?;
            Ok(PyKeyError::new_err((text.unbind(),)))
        });
        made.unwrap_or_else(|error| error)
    }
}

/// Pointers to the arrays of a stream's values.
pub struct Values {
    pub start: *const u8,
    pub count: usize,
    /// For sparse values: the indices, and the offsets of columns.
    pub sparse: Option<(*const u8, *const u8)>,
}

impl Values {
    fn of<T: Element>(part: &pack::StreamMinibatch) -> Option<Values> {
        let (start, base) = (part.block().as_ptr().addr(), part.block_pointer());
        // Derives the arrays' pointers from the block's mutable pointer: programs may write to
        // them.
        let array = |address: usize| base.wrapping_byte_add(address - start).cast_const().cast();
        if let Some(values) = part.dense::<T>() {
            return Some(Values { start: base.cast_const().cast(), count: values.len(), sparse: None });
        }
        let SparseColumns { values, indices, offsets, .. } = part.sparse::<T>()?;
        let sparse = Some((array(indices.as_ptr().addr()), array(offsets.as_ptr().addr())));
        Some(Values { start: array(values.as_ptr().addr()), count: values.len(), sparse })
    }
}

/// The data of one stream in a minibatch.
///
/// It has ``steps`` times ``lanes`` columns of one sample each; step t of lane s is column
/// ``t * lanes + s``. Sequences lie in lanes; columns without data are gaps and hold zeros.
///
/// In a binary stream (``info.is_binary``), such as lattices, each sample is four opaque bytes. In
/// minibatches of whole sequences each sequence then has its own lane, in which its bytes are
/// contiguous: step t of lane s is column ``s * steps + t``.
///
/// The sequence forms (:meth:`padded`, :meth:`packed`, :meth:`as_list`, and those of indices) leave
/// out gaps. In all streams they contain the sequences in the order of
/// :attr:`Minibatch.keys_of_sequences`, and the part of a truncated sequence that is in this
/// minibatch.
#[pyclass(frozen, module = "cntk_reader")]
pub struct StreamMinibatch {
    minibatch: Py<Minibatch>,
    number: usize,
}

impl StreamMinibatch {
    fn own(&self) -> &Minibatch {
        self.minibatch.get()
    }

    pub fn part(&self) -> &pack::StreamMinibatch {
        &self.own().minibatch().streams[self.number]
    }

    pub fn layout(&self) -> &Layout {
        &self.part().layout
    }

    pub fn stream(&self) -> &Stream {
        &self.own().described.streams[self.number]
    }

    pub fn forms(&self) -> Forms<'_> {
        let corpus = self.own().content.process.is_current().then_some(&*self.own().described.corpus);
        Forms::new(self.own().minibatch(), self.part(), &self.stream().name, corpus)
    }

    pub fn dtype_of_values(&self) -> Dtype {
        Dtype::Of(self.part().element())
    }

    pub fn values(&self, py: Python<'_>) -> PyResult<Values> {
        let values = with_element!(self.part().element(), T => Values::of::<T>(self.part()));
        let message = "A block of data does not have the size of its layout.";
        values.ok_or_else(|| Error::internal(message)).python(py)
    }

    /// Creates a writable array over the minibatch's memory.
    ///
    /// # Safety
    /// As for [`arrays::view`]; `start` points into the minibatch's memory.
    unsafe fn view<'py>(
        &self,
        py: Python<'py>,
        start: *const u8,
        dtype: Dtype,
        shape: &[usize],
    ) -> PyResult<Bound<'py, PyAny>> {
        // SAFETY: this function's contract; the array keeps the minibatch alive.
        unsafe { arrays::view(self.minibatch.bind(py).as_any(), start, dtype, shape, true) }
    }

    /// Returns the stream's first values in this shape.
    pub fn first_values<'py>(&self, py: Python<'py>, shape: &[usize]) -> PyResult<Bound<'py, PyAny>> {
        let values = self.values(py)?;
        let wanted = shape.iter().product::<usize>();
        if wanted > values.count {
            let message = "The values of a stream are fewer than its layout says.";
            return Err(Error::internal(message)).python(py);
        }
        // SAFETY: there are enough values, as checked above; only the minibatch uses the memory.
        unsafe { self.view(py, values.start, self.dtype_of_values(), shape) }
    }

    /// Returns the shape `first` followed by the shape of a sample.
    pub fn shape(&self, first: &[usize]) -> Vec<usize> {
        [first, &self.stream().shape].concat()
    }
}

#[pymethods]
impl StreamMinibatch {
    /// The stream: a :class:`StreamInformation`.
    #[getter]
    fn info(&self, py: Python<'_>) -> Py<PyAny> {
        self.stream().info.clone_ref(py)
    }

    /// Whether the minibatch ends a sweep.
    #[getter]
    fn end_of_sweep(&self) -> bool {
        self.own().minibatch().end_of_sweep
    }

    /// Number of steps of each lane.
    #[getter]
    fn steps(&self) -> usize {
        self.layout().steps
    }

    /// Number of lanes, the parallel sequences of the layout.
    #[getter]
    fn lanes(&self) -> usize {
        self.layout().lanes
    }

    /// Number of samples, without gaps.
    #[getter]
    fn num_samples(&self) -> usize {
        self.layout().samples()
    }

    /// Number of sequences with samples in this minibatch.
    #[getter]
    fn num_sequences(&self) -> usize {
        self.layout().extent().sequences
    }

    /// Number of samples of the longest sequence.
    #[getter]
    fn longest(&self) -> usize {
        self.layout().extent().longest
    }

    /// Whether the values are sparse in this minibatch. In truncated minibatches sparse streams are
    /// dense if the configuration has ``expandSparse = true``, CNTK's default.
    #[getter]
    pub fn is_sparse(&self) -> bool {
        self.part().storage() == Storage::SparseCsc
    }

    /// Type of the values.
    #[getter]
    fn dtype<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        Ok(self.dtype_of_values().descriptor(py)?.clone().into_any())
    }

    /// The columns of each sequence and gap, of dtype :data:`RECORD`. A read-only view.
    #[getter]
    fn records<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let _section = Section::enter(py);
        let records = &self.layout().records;
        let owner = self.minibatch.bind(py);
        // SAFETY: the records do not move until the minibatch is freed, which the array keeps
        // alive, and the array is read-only. `RECORD` has the members of `Record`, which is
        // `repr(C)`.
        unsafe {
            arrays::view(owner.as_any(), records.as_ptr().cast(), Dtype::Record, &[records.len()], false)
        }
    }

    /// Dense data, of shape (steps, lanes, *shape of a sample). Always a view.
    #[getter]
    fn array<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let _section = Section::enter(py);
        if self.is_sparse() {
            return Err(PyTypeError::new_err(format!(
                "The stream '{}' is sparse: use .sparse or .csr, .padded(), .packed(), .indices() if it \
                 is one-hot, or .asarray().",
                self.stream().name
            )));
        }
        let layout = self.layout();
        if layout.sequence_major {
            let array = self.first_values(py, &self.shape(&[layout.lanes, layout.steps]))?;
            return array.call_method1("swapaxes", (0, 1));
        }
        self.first_values(py, &self.shape(&[layout.steps, layout.lanes]))
    }

    /// The name of the type of the values.
    #[getter]
    fn _element(&self) -> &'static str {
        self.part().element().name()
    }

    /// The bits of 16-bit values as integers, for types that NumPy may lack. Otherwise like
    /// [`StreamMinibatch::array`].
    #[getter]
    fn _bits<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let values = self.values(py)?;
        let layout = self.layout();
        let shape = self.shape(&[layout.steps, layout.lanes]);
        let is_short = self.part().element().size() == size_of::<i16>();
        if !is_short || values.sparse.is_some() || shape.iter().product::<usize>() > values.count {
            return Err(Error::internal("The values do not have 16 bits each.")).python(py);
        }
        // SAFETY: there are enough values of this size, as checked above; only the minibatch uses
        // the memory.
        unsafe { self.view(py, values.start, Dtype::Of(ElementType::Int16), &shape) }
    }

    /// Sparse data as the arrays of a CSR matrix with one row per column of the layout. Views.
    #[getter]
    pub fn sparse<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let _section = Section::enter(py);
        let values = self.values(py)?;
        let Some((indices, offsets)) = values.sparse else {
            let message =
                format!("The stream '{}' is dense: use .array, .padded() or .packed().", self.stream().name);
            return Err(PyTypeError::new_err(message));
        };
        let (columns, width) = (self.layout().columns(), self.part().sample_size());
        // SAFETY: the lengths are those of the engine's own slices of these arrays, and only the
        // minibatch uses their memory.
        let parts = unsafe {
            (
                self.view(py, values.start, self.dtype_of_values(), &[values.count])?,
                self.view(py, indices, Dtype::INT, &[values.count])?,
                self.view(py, offsets, Dtype::INT, &[columns + 1])?,
                (columns, width),
            )
        };
        forms::tuple(py, forms::TupleKind::Sparse)?.call1(parts)
    }
}
