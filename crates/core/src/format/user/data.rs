//! The arrays in which a user's deserializer passes a chunk.

use super::buffer::Buffer;
use crate::Result;
use crate::memory::room;

/// Samples of a dense stream: one array with the dimensions of a sample first and the samples last.
#[derive(Debug, Clone)]
pub struct DenseArray {
    /// The memory that contains the array.
    pub values: Buffer,
    /// Byte offset of the array's first value in the memory.
    pub offset: usize,
    /// Number of samples; `None` to use all values.
    pub samples: Option<usize>,
    /// Dimensions of a sample, the first one varying fastest, to be compared with the stream's
    /// shape; `None` to skip the comparison.
    pub shape: Option<Vec<usize>>,
    /// Strides in bytes for each dimension of a sample and then for the samples; may be negative or
    /// 0. `None` for a contiguous array, the first dimension varying fastest.
    pub strides: Option<Vec<isize>>,
}

impl DenseArray {
    /// Creates a contiguous array: the values of the first sample, then of the second, and so on.
    pub fn new(values: impl Into<Buffer>) -> DenseArray {
        DenseArray { values: values.into(), offset: 0, samples: None, shape: None, strides: None }
    }
}

/// Samples of a sparse stream in CSR layout, one row per sample: sample `s` has the entries
/// `offsets[s] .. offsets[s + 1]`.
#[derive(Debug, Clone)]
pub struct SparseArray {
    /// The values of all entries.
    pub values: Buffer,
    /// The index of each entry within its sample, `i32` or `i64`, in any order.
    pub indices: Buffer,
    /// `samples + 1` ascending entry numbers, `i32` or `i64`.
    pub offsets: Buffer,
}

impl SparseArray {
    /// Creates an array from its three lists.
    pub fn new(
        values: impl Into<Buffer>,
        indices: impl Into<Buffer>,
        offsets: impl Into<Buffer>,
    ) -> SparseArray {
        SparseArray { values: values.into(), indices: indices.into(), offsets: offsets.into() }
    }
}

/// An array of samples.
#[derive(Debug, Clone)]
pub enum Array {
    /// Of a dense stream.
    Dense(DenseArray),
    /// Of a sparse stream.
    Sparse(SparseArray),
}

impl From<DenseArray> for Array {
    fn from(array: DenseArray) -> Array {
        Array::Dense(array)
    }
}

impl From<SparseArray> for Array {
    fn from(array: SparseArray) -> Array {
        Array::Sparse(array)
    }
}

/// One stream's data in a chunk, and how its samples form sequences.
#[derive(Debug, Clone)]
pub enum StreamData {
    /// Each sample is a sequence.
    Samples(Array),
    /// One array with the samples of all sequences in order, and the number of samples of each
    /// sequence.
    Sequences(Array, Vec<u32>),
    /// Each array is a sequence.
    Arrays(Vec<Array>),
}

impl StreamData {
    /// Contiguous dense samples, each of them a sequence.
    pub fn dense(values: impl Into<Buffer>) -> StreamData {
        StreamData::Samples(DenseArray::new(values).into())
    }

    /// Contiguous dense samples of all sequences in order; `lengths` are the sequences' numbers of
    /// samples.
    pub fn dense_sequences(values: impl Into<Buffer>, lengths: Vec<u32>) -> StreamData {
        StreamData::Sequences(DenseArray::new(values).into(), lengths)
    }

    /// Sparse samples, each of them a sequence: sample `s` has the values and indices `offsets[s]
    /// .. offsets[s + 1]`.
    pub fn sparse(
        values: impl Into<Buffer>,
        indices: impl Into<Buffer>,
        offsets: impl Into<Buffer>,
    ) -> StreamData {
        StreamData::Samples(SparseArray::new(values, indices, offsets).into())
    }

    /// Sparse samples as for [`StreamData::sparse`], of all sequences in order; `lengths` are the
    /// sequences' numbers of samples.
    pub fn sparse_sequences(
        values: impl Into<Buffer>,
        indices: impl Into<Buffer>,
        offsets: impl Into<Buffer>,
        lengths: Vec<u32>,
    ) -> StreamData {
        StreamData::Sequences(SparseArray::new(values, indices, offsets).into(), lengths)
    }
}

/// The sequences of a chunk: their number, lengths and keys.
#[derive(Debug, Clone, Default)]
pub struct Sequences {
    /// Number of sequences; may be 0.
    pub count: u32,
    /// Length of each sequence: its samples in the stream that defines the minibatch size, or else
    /// in the longest stream. `None` if all are one sample long.
    pub lengths: Option<Vec<u32>>,
    /// Their keys.
    pub keys: Keys,
    /// For sequences that are the samples of another sequence: the index of each one in the
    /// sequence with its key. `None` if all are 0.
    pub sample_indices: Option<Vec<u32>>,
}

impl Sequences {
    /// `count` sequences of one sample each.
    pub fn of_one_sample(count: u32) -> Sequences {
        Sequences { count, ..Sequences::default() }
    }

    /// Sequences with these lengths in samples.
    pub fn of_lengths(lengths: Vec<u32>) -> Sequences {
        Sequences { count: lengths.len() as u32, lengths: Some(lengths), ..Sequences::default() }
    }

    /// Copies the lists; fails if memory is exhausted.
    #[doc(hidden)]
    pub fn copied(&self) -> Result<Sequences> {
        let copied =
            |list: &Option<Vec<u32>>| list.as_ref().map(|list| room::copy(list, room::INDEX)).transpose();
        Ok(Sequences {
            count: self.count,
            lengths: copied(&self.lengths)?,
            keys: self.keys.copied()?,
            sample_indices: copied(&self.sample_indices)?,
        })
    }

    /// Sets the keys.
    #[must_use]
    pub fn with_keys(mut self, keys: Keys) -> Sequences {
        self.keys = keys;
        self
    }
}

/// Keys of sequences, by which the deserializers of a reader are joined, and which minibatches
/// report.
#[derive(Debug, Clone, Default)]
pub enum Keys {
    /// The running number in the whole data; `chunk * 2^32 + index` for chunks that list their
    /// sequences when they are loaded.
    #[default]
    Ordinal,
    /// Numbers. If the reader's keys are texts, each stands for its decimal text.
    Numbers(Vec<u64>),
    /// Texts. Different texts are different keys; if the reader's keys are numbers, each must be a
    /// number in canonical form.
    Texts(Vec<String>),
    /// Numbers from the reader's corpus, for deserializers that were given the corpus
    /// ([`super::Request`]).
    OfCorpus(Vec<u64>),
}

impl Keys {
    fn copied(&self) -> Result<Keys> {
        Ok(match self {
            Keys::Ordinal => Keys::Ordinal,
            Keys::Numbers(keys) => Keys::Numbers(room::copy(keys, room::KEYS)?),
            Keys::Texts(keys) => Keys::Texts(room::copy(keys, room::KEYS)?),
            Keys::OfCorpus(keys) => Keys::OfCorpus(room::copy(keys, room::KEYS)?),
        })
    }
}
