//! Minibatches and their streams, looked up by name.

use cntk_reader_core::corpus::Corpus;
use cntk_reader_core::message::spelling::nearest;
use cntk_reader_core::stream::{Element, ElementType, LateShapes, Storage, StreamInfo};
use cntk_reader_core::{Error, Result, with_element};
use cntk_reader_engine::forms::Forms;
use cntk_reader_engine::pack::layout::Layout;
use cntk_reader_engine::pack::{self as packed, SparseColumns, StreamMinibatch};
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

/// The parts of a reader that its minibatches need, even after it is dropped.
pub(super) struct Descriptions {
    pub streams: Vec<StreamInfo>,
    pub shapes: Arc<LateShapes>,
    pub corpus: Arc<Corpus>,
    /// Stream numbers by name; empty if there are at most [`FEW`] streams.
    numbers: HashMap<String, usize>,
}

/// Up to this many streams, a linear search is faster than hashing.
const FEW: usize = 8;

impl Descriptions {
    pub fn new(streams: &[StreamInfo], shapes: &Arc<LateShapes>, corpus: &Arc<Corpus>) -> Descriptions {
        let many = streams.iter().enumerate().filter(|_| streams.len() > FEW);
        Descriptions {
            streams: streams.to_vec(),
            shapes: Arc::clone(shapes),
            corpus: Arc::clone(corpus),
            numbers: many.map(|(number, stream)| (stream.name.clone(), number)).collect(),
        }
    }

    /// Returns the number of a stream.
    pub fn find(&self, name: &str) -> Result<usize> {
        let number = match self.numbers.is_empty() {
            true => self.streams.iter().position(|stream| stream.name == name),
            false => self.numbers.get(name).copied(),
        };
        number.ok_or_else(|| {
            let names: Vec<_> = self.streams.iter().map(|stream| format!("'{}'", stream.name)).collect();
            let message = format!("There is no stream '{name}'. The reader has {}.", names.join(", "));
            let known = self.streams.iter().map(|stream| stream.name.as_str()).collect();
            let meant = nearest(&name.to_ascii_lowercase(), &known);
            let meant = meant.map_or_else(String::new, |meant| format!("Did you mean '{meant}'?"));
            Error::argument(message).with_detail(meant).in_stream(name)
        })
    }
}

/// One minibatch. Owns its data; once dropped, its memory is reused for a later minibatch. It may
/// outlive the reader and be used on any thread.
pub struct Minibatch {
    packed: packed::Minibatch,
    descriptions: Arc<Descriptions>,
}

impl Minibatch {
    pub(super) fn new(packed: packed::Minibatch, descriptions: &Arc<Descriptions>) -> Minibatch {
        Minibatch { packed, descriptions: Arc::clone(descriptions) }
    }

    /// Returns a stream by name. The error for an unknown name lists the names that exist.
    pub fn stream(&self, name: &str) -> Result<MinibatchStream<'_>> {
        self.descriptions.find(name).map(|number| self.view(number))
    }

    /// Returns all streams in the order of their numbers; see
    /// [`Reader::streams`](crate::Reader::streams).
    pub fn streams(&self) -> impl ExactSizeIterator<Item = MinibatchStream<'_>> {
        (0..self.descriptions.streams.len()).map(|number| self.view(number))
    }

    fn view(&self, number: usize) -> MinibatchStream<'_> {
        let info = &self.descriptions.streams[number];
        let late = if info.has_late_shape() { self.descriptions.shapes.get(number) } else { None };
        let shape = late.unwrap_or(&info.shape);
        let (packed, whole) = (self.packed.streams.get(number), &self.packed);
        MinibatchStream { info, shape, packed, whole, corpus: &self.descriptions.corpus }
    }

    /// Returns whether it has no data. [`Reader::read`](crate::Reader::read) may return such
    /// minibatches, iterators only in lockstep. The streams are still there, with no samples.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.packed.streams.is_empty()
    }

    /// Returns the number of sequences.
    #[must_use]
    pub fn sequences(&self) -> usize {
        self.packed.keys.len()
    }

    /// Returns the keys of the sequences, indexed by the sequence number in the records of a
    /// [`Layout`]. Textual keys are numbered; [`Minibatch::key_text`] returns their text.
    #[must_use]
    pub fn keys(&self) -> &[u64] {
        &self.packed.keys
    }

    /// Returns the key of a sequence as written in the data. `None` if there is no sequence of this
    /// number.
    #[must_use]
    pub fn key_text(&self, sequence: usize) -> Option<String> {
        self.packed.keys.get(sequence).map(|&key| self.descriptions.corpus.text_of(key))
    }

    /// Returns whether it reaches or crosses the end of a sweep.
    #[must_use]
    pub fn end_of_sweep(&self) -> bool {
        self.packed.end_of_sweep
    }

    /// Returns whether it is a training step: it has data, or workers in lockstep take part in it,
    /// some of them without data. Only [`Reader::read`](crate::Reader::read) returns minibatches
    /// that are not steps: past the end of the epoch, and where this worker has no share.
    #[must_use]
    pub fn is_step(&self) -> bool {
        self.packed.is_step
    }

    /// Returns whether it is the last one of the epoch or, if it is not a step, comes after the
    /// last one.
    #[must_use]
    pub fn end_of_epoch(&self) -> bool {
        self.packed.end_of_epoch
    }
}

impl fmt::Debug for Minibatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Minibatch")
            .field("sequences", &self.sequences())
            .field("end_of_sweep", &self.end_of_sweep())
            .field("end_of_epoch", &self.end_of_epoch())
            .field("streams", &self.streams().collect::<Vec<_>>())
            .finish()
    }
}

/// One stream of a [`Minibatch`]: a view into its data.
///
/// The data are columns, one for each sample and each gap. A [`Layout`] says which column belongs
/// to which sequence. If all sequences are one sample long, such as images with labels, there is
/// one column per sequence, in the order of [`Minibatch::keys`].
#[derive(Clone, Copy)]
pub struct MinibatchStream<'m> {
    info: &'m StreamInfo,
    shape: &'m [usize],
    /// `None` in a minibatch without data.
    packed: Option<&'m StreamMinibatch>,
    /// For the keys of its sequences.
    whole: &'m packed::Minibatch,
    corpus: &'m Corpus,
}

static NO_COLUMNS: Layout = Layout::without_columns();

impl<'m> MinibatchStream<'m> {
    /// Returns name, storage and element type.
    #[must_use]
    pub fn info(&self) -> &'m StreamInfo {
        self.info
    }

    /// Returns the name.
    #[must_use]
    pub fn name(&self) -> &'m str {
        &self.info.name
    }

    /// Returns the shape of one sample, first dimension varying fastest (column-major, as in CNTK).
    #[must_use]
    pub fn shape(&self) -> &'m [usize] {
        self.shape
    }

    /// Returns the number of values in one sample.
    #[must_use]
    pub fn sample_size(&self) -> usize {
        self.shape.iter().product()
    }

    /// Returns which columns belong to which sequence.
    #[must_use]
    pub fn layout(&self) -> &'m Layout {
        self.packed.map_or(&NO_COLUMNS, |packed| &packed.layout)
    }

    /// Returns the number of columns, including gaps.
    #[must_use]
    pub fn columns(&self) -> usize {
        self.layout().columns()
    }

    /// Returns the number of samples: columns that are not gaps.
    #[must_use]
    pub fn samples(&self) -> usize {
        self.layout().samples()
    }

    /// Returns the sequences, each with its number, an index into [`Minibatch::keys`], and the
    /// columns of its samples in order. In truncated mode these are the samples that this minibatch
    /// holds.
    ///
    /// ```no_run
    /// # use cntk_reader::{Minibatch, Result};
    /// # fn example(minibatch: &Minibatch) -> Result<()> {
    /// let stream = minibatch.stream("words")?;
    /// let (values, size) = (stream.dense::<f32>()?, stream.sample_size());
    /// for (sequence, columns) in stream.sequences() {
    ///     println!("{:?} has {} samples:", minibatch.key_text(sequence), columns.len());
    ///     for column in columns {
    ///         println!("{:?}", &values[column * size..][..size]);
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn sequences(
        &self,
    ) -> impl Iterator<Item = (usize, impl ExactSizeIterator<Item = usize> + use<>)> + use<'m> {
        self.layout().runs().map(|run| (run.number, run.columns()))
    }

    /// Returns the values of a dense stream: [`columns`](MinibatchStream::columns) times
    /// [`sample_size`](MinibatchStream::sample_size) values, one column after the other; gaps are
    /// zeros.
    ///
    /// `T` is the type of the stream's values: `f32`, or `f64` if the reader's precision is double,
    /// unless the stream declares another one. Any other type, or a sparse stream, is an error.
    pub fn dense<T: Element>(&self) -> Result<&'m [T]> {
        self.check(Storage::Dense, T::TYPE)?;
        let Some(packed) = self.packed else { return Ok(&[]) };
        packed.dense::<T>().ok_or_else(|| self.broken())
    }

    /// Returns the values of a sparse stream in compressed columns: the values of column `i` are
    /// `values[offsets[i]..offsets[i + 1]]`, and `indices` has their positions in the sample at the
    /// same range. Gaps are empty.
    ///
    /// `T` is the type of the stream's values: `f32`, or `f64` if the reader's precision is double,
    /// unless the stream declares another one. Any other type, or a dense stream, is an error.
    pub fn sparse<T: Element>(&self) -> Result<SparseColumns<'m, T>> {
        self.check(Storage::SparseCsc, T::TYPE)?;
        let Some(packed) = self.packed else {
            return Ok(SparseColumns::none());
        };
        packed.sparse::<T>().ok_or_else(|| self.broken())
    }

    /// Returns the forms of this stream's sequences; `None` if there is no data.
    pub(super) fn forms(&self) -> Option<Forms<'m>> {
        self.packed.map(|packed| Forms::new(self.whole, packed, &self.info.name, Some(self.corpus)))
    }

    /// Fails if the stream's values have another type.
    pub(super) fn check_type<T: Element>(&self) -> Result<()> {
        self.check(self.info.storage, T::TYPE)
    }

    fn check(&self, storage: Storage, element: ElementType) -> Result<()> {
        let describe = |storage, element| {
            let function = match storage {
                Storage::Dense => "dense",
                Storage::SparseCsc => "sparse",
            };
            let name = with_element!(element, T => std::any::type_name::<T>());
            format!("{function}::<{}>", name.rsplit("::").next().unwrap_or(name))
        };
        if (self.info.storage, self.info.element) == (storage, element) {
            return Ok(());
        }
        let message = format!(
            "The stream '{}' cannot be read with {}: read it with {}. (Its description says how it is stored and what \
             type its values have; ‹precision› decides the type of text and user-defined data.)",
            self.info.name,
            describe(storage, element),
            describe(self.info.storage, self.info.element),
        );
        Err(Error::argument(message).in_stream(&self.info.name))
    }

    fn broken(&self) -> Error {
        Error::internal("The data of a stream do not match its description.").in_stream(&self.info.name)
    }
}

impl fmt::Debug for MinibatchStream<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MinibatchStream")
            .field("name", &self.name())
            .field("shape", &self.shape())
            .field("storage", &self.info.storage)
            .field("columns", &self.columns())
            .field("samples", &self.samples())
            .finish()
    }
}
