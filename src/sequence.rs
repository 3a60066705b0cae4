//! Sequences: their keys, where they are, and the borrowed view of one sequence's data in one stream.

pub use crate::compact::ValueForm;

/// Position of a chunk in its deserializer's table of chunks.
pub type ChunkId = u32;

/// Identity of a sequence across deserializers. A number; [`crate::corpus::Corpus`] knows the text it stands for.
pub type SequenceKey = u64;

/// Where a sequence is: its chunk and its index there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SequenceId {
    /// The chunk.
    pub chunk: ChunkId,
    /// Index among the chunk's sequences.
    pub index: u32,
}

/// What is known of a sequence before it is loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SequenceInfo {
    /// Where it is.
    pub id: SequenceId,
    /// Declared length.
    pub samples: u32,
    /// Its key.
    pub key: SequenceKey,
    /// Which sample of its key's sequence it is, where each sample of a sequence stands as a sequence of its own; else 0.
    pub sample: u32,
}

/// One sequence's data in one stream, borrowed from its chunk. Values are bytes in native order, of the stream's
/// element type and without promise of alignment: packing only moves them, or widens them on the way.
#[derive(Debug, Clone, Copy)]
pub struct SequenceView<'a> {
    /// Samples of this sequence in this stream.
    pub samples: u32,
    /// Dense: `samples * sample_size` values. Sparse: the non-zero values, sample after sample.
    pub values: &'a [u8],
    /// How they are stored.
    pub form: ValueForm,
    /// Where the values belong if the stream is sparse, `None` if it is dense.
    pub sparse: Option<SparseView<'a>>,
}

/// Where the values of a sparse sequence belong. Indices are in the input's order: they may be unsorted and may repeat.
#[derive(Debug, Clone, Copy)]
pub struct SparseView<'a> {
    /// The index of each value within its sample: `i32` in native byte order, possibly unaligned; `u16` if `narrow`.
    pub indices: &'a [u8],
    /// Indices are stored as `u16`. Only packers of whole sequences can read them.
    pub narrow: bool,
    /// `samples + 1` ascending numbers; the values of sample `s` are `offsets[s] - offsets[0] .. offsets[s+1] - offsets[0]`.
    pub offsets: &'a [u32],
    /// Each sample is known to have exactly one value, so that readers need not look at `offsets` to find out.
    pub single: bool,
}

/// What loading made of one sequence.
#[derive(Debug, Clone, Copy)]
pub enum Loaded<'a> {
    /// Its data.
    Data(SequenceView<'a>),
    /// Left out by its deserializer, which has counted it already ([`crate::deserialize::Chunk::commit_errors`]).
    Skipped,
    /// Invalid (a broken image ...): left out, and counted against the reader's `maxErrors`.
    Invalid,
}
