//! The arrays that a user's deserializer hands over for one chunk.

use super::buffer::Buffer;
use crate::Result;
use crate::memory::room;

/// Samples of a dense stream: one array with the sample's own dimensions first and the samples last.
#[derive(Debug, Clone)]
pub struct DenseArray {
    /// The memory that the array lies in.
    pub values: Buffer,
    /// Bytes from the start of the memory to the array's first value.
    pub offset: usize,
    /// Number of samples. None: as many as the values fill.
    pub samples: Option<usize>,
    /// Dimensions of a sample, the first one varying fastest: compared with the stream's shape. None: not compared.
    pub shape: Option<Vec<usize>>,
    /// Bytes from one index to the next, for each dimension of a sample and then for the samples; may be negative or 0.
    /// None: no gaps, the first dimension varying fastest.
    pub strides: Option<Vec<isize>>,
}

impl DenseArray {
    /// An array without gaps: the values of the first sample, of the second, and so on.
    pub fn new(values: impl Into<Buffer>) -> DenseArray {
        DenseArray { values: values.into(), offset: 0, samples: None, shape: None, strides: None }
    }
}

/// Samples of a sparse stream, compressed by sample (CSR with one line a sample): sample `s` owns the entries
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
    /// An array of its three lists.
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

/// One stream's data in a chunk: how its samples make sequences.
#[derive(Debug, Clone)]
pub enum StreamData {
    /// Each sample is a sequence.
    Samples(Array),
    /// One array with the samples of all sequences, one sequence after the other, and the number of samples of each.
    Sequences(Array, Vec<u32>),
    /// Each array is a sequence.
    Arrays(Vec<Array>),
}

impl StreamData {
    /// Dense samples without gaps, each of them a sequence.
    pub fn dense(values: impl Into<Buffer>) -> StreamData {
        StreamData::Samples(DenseArray::new(values).into())
    }

    /// Dense samples without gaps, one sequence after the other; `lengths` are their numbers of samples.
    pub fn dense_sequences(values: impl Into<Buffer>, lengths: Vec<u32>) -> StreamData {
        StreamData::Sequences(DenseArray::new(values).into(), lengths)
    }

    /// Sparse samples, each of them a sequence: sample `s` has the values and indices `offsets[s] .. offsets[s + 1]`.
    pub fn sparse(
        values: impl Into<Buffer>,
        indices: impl Into<Buffer>,
        offsets: impl Into<Buffer>,
    ) -> StreamData {
        StreamData::Samples(SparseArray::new(values, indices, offsets).into())
    }

    /// Sparse samples as [`StreamData::sparse`] takes them, one sequence after the other; `lengths` are the sequences'
    /// numbers of samples.
    pub fn sparse_sequences(
        values: impl Into<Buffer>,
        indices: impl Into<Buffer>,
        offsets: impl Into<Buffer>,
        lengths: Vec<u32>,
    ) -> StreamData {
        StreamData::Sequences(SparseArray::new(values, indices, offsets).into(), lengths)
    }
}

/// The sequences of a chunk: how many there are, how long they are, and what their keys are.
#[derive(Debug, Clone, Default)]
pub struct Sequences {
    /// Their number; may be 0.
    pub count: u32,
    /// The length of each: samples in the stream that defines the minibatch size, else in the longest stream. None: all
    /// are one sample long.
    pub lengths: Option<Vec<u32>>,
    /// Their keys.
    pub keys: Keys,
    /// Which sample of its key's sequence each one is, where the samples of a sequence stand as sequences of their own.
    /// None: 0 for all.
    pub sample_indices: Option<Vec<u32>>,
}

impl Sequences {
    /// `count` sequences of one sample each.
    pub fn of_one_sample(count: u32) -> Sequences {
        Sequences { count, ..Sequences::default() }
    }

    /// Sequences of these lengths, in samples.
    pub fn of_lengths(lengths: Vec<u32>) -> Sequences {
        Sequences { count: lengths.len() as u32, lengths: Some(lengths), ..Sequences::default() }
    }

    /// A copy.
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

    /// The sequences with these keys.
    #[must_use]
    pub fn with_keys(mut self, keys: Keys) -> Sequences {
        self.keys = keys;
        self
    }
}

/// Keys of sequences: what deserializers of one reader are joined by, and what minibatches report.
#[derive(Debug, Clone, Default)]
pub enum Keys {
    /// The running number in the whole data. For chunks that list their sequences when they are loaded:
    /// `chunk * 2^32 + index`.
    #[default]
    Ordinal,
    /// Numbers. Where the reader's keys are texts, each stands for its decimal text.
    Numbers(Vec<u64>),
    /// Texts. Different ones are different keys; where the reader's keys are numbers, each must
    /// show a number as it is printed.
    Texts(Vec<String>),
    /// Numbers of the reader's corpus, for those that were given the corpus ([`super::Request`]).
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
