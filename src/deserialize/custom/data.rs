//! What a user's deserializer hands over for one chunk.

use super::buffer::Buffer;

/// Samples of a dense stream: one array with the sample's own dimensions first and the samples last.
#[derive(Debug, Clone)]
pub struct DenseArray {
    /// The memory that the array lies in.
    pub values: Buffer,
    /// Bytes from the start of the memory to the array's first value.
    pub offset: usize,
    /// Number of samples.
    pub samples: usize,
    /// Dimensions of a sample, the first one varying fastest. Has to be the stream's shape; None is taken for that.
    pub shape: Option<Vec<usize>>,
    /// Bytes from one index to the next, for each dimension and then for the samples; may be negative or 0. None:
    /// without gaps, the first dimension varying fastest.
    pub strides: Option<Vec<isize>>,
}

impl DenseArray {
    /// An array without gaps.
    pub fn new(values: impl Into<Buffer>, samples: usize) -> DenseArray {
        DenseArray { values: values.into(), offset: 0, samples, shape: None, strides: None }
    }
}

/// Samples of a sparse stream, compressed: sample `s` owns the entries `starts[s] .. starts[s + 1]`.
#[derive(Debug, Clone)]
pub struct SparseArray {
    /// The values of all entries.
    pub values: Buffer,
    /// The row of each entry within its sample, `i32` or `i64`, in any order.
    pub indices: Buffer,
    /// `samples + 1` ascending entry numbers, `i32` or `i64`.
    pub starts: Buffer,
}

/// An array of samples.
#[derive(Debug, Clone)]
pub enum Array {
    /// Of a dense stream.
    Dense(DenseArray),
    /// Of a sparse stream.
    Sparse(SparseArray),
}

/// One stream's part of a chunk: how its samples make sequences.
#[derive(Debug, Clone)]
pub enum StreamData {
    /// Each sample is a sequence.
    Samples(Array),
    /// One array with the samples of all sequences, one after the other; so many samples each.
    Sequences(Array, Vec<u32>),
    /// Each array is a sequence.
    Arrays(Vec<Array>),
}

/// The data of a chunk.
#[derive(Debug, Clone, Default)]
pub struct ChunkData {
    /// All streams, by number; each with the same number of sequences.
    pub streams: Vec<StreamData>,
    /// The key of each sequence. Without: `chunk * 2^32 + index`. Composable deserializers have told keys before.
    pub keys: Option<Vec<u64>>,
}
