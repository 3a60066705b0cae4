//! Sequences: their keys and positions, and the borrowed view of one sequence's data in one stream.

pub use crate::memory::compact::ValueForm;

/// Index of a chunk in its deserializer's table of chunks.
pub type ChunkId = u32;

/// Identity of a sequence across deserializers. [`crate::corpus::Corpus`] maps it to text.
pub type SequenceKey = u64;

/// The position of a sequence: its chunk, and its index there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SequenceId {
    /// The chunk.
    pub chunk: ChunkId,
    /// Index among the chunk's sequences.
    pub index: u32,
}

/// The information on a sequence before it is loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SequenceInfo {
    /// Position of the sequence.
    pub id: SequenceId,
    /// Declared length.
    pub samples: u32,
    /// Its key.
    pub key: SequenceKey,
    /// If each sample of a sequence is a sequence of its own, the index of this sample in its key's
    /// sequence; otherwise 0.
    pub sample: u32,
}

/// One sequence's data in one stream, borrowed from its chunk. Values are bytes in native order, of
/// the stream's element type and possibly unaligned: packing only copies or widens them.
#[derive(Debug, Clone, Copy)]
pub struct SequenceView<'a> {
    /// Number of samples of this sequence in this stream.
    pub samples: u32,
    /// Dense: `samples * sample_size` values. Sparse: the non-zero values, sample by sample.
    pub values: &'a [u8],
    /// Storage form of the values.
    pub form: ValueForm,
    /// Mapping from values to samples.
    pub kind: ViewKind<'a>,
}

impl<'a> SequenceView<'a> {
    /// Returns the positions of the values, if the stream is sparse.
    #[inline(always)]
    pub fn sparse(&self) -> Option<&SparseView<'a>> {
        match &self.kind {
            ViewKind::Sparse(sparse) => Some(sparse),
            ViewKind::Dense | ViewKind::Frames(_) => None,
        }
    }

    /// Returns the sequence that consists of sample `index` alone, or `None` if there is no such
    /// sample. `value_bytes` is the size of the stream's element type, regardless of the storage
    /// form.
    ///
    /// The view must be valid. For an invalid one, such as a sparse view with decreasing offsets,
    /// the result is `None` or an invalid view.
    #[inline]
    pub fn sample(mut self, index: u32, value_bytes: usize) -> Option<SequenceView<'a>> {
        self.cut(index, value_bytes)?;
        Some(self)
    }

    /// [`SequenceView::sample`] in place: frame mode extracts one sample after another from views,
    /// and changing the differing fields is faster than copying. If the result is `None`, the view
    /// is unusable.
    #[inline]
    pub fn cut(&mut self, index: u32, value_bytes: usize) -> Option<()> {
        if index >= self.samples {
            return None;
        }
        let at = index as usize;
        match &mut self.kind {
            ViewKind::Dense => {
                let size = self.values.len() / self.samples as usize;
                self.values = self.values.get(at * size..(at + 1) * size)?;
            }
            ViewKind::Sparse(sparse) => {
                // If each sample has one value, any pair of consecutive offsets will do, and the
                // first one is in the cache since the last call.
                let (begin, end, offsets) = if sparse.single {
                    (at, at + 1, sparse.offsets.get(..2)?)
                } else {
                    let (&base, offsets) = (sparse.offsets.first()?, sparse.offsets.get(at..at + 2)?);
                    (offsets[0].checked_sub(base)? as usize, offsets[1].checked_sub(base)? as usize, offsets)
                };
                let (size, index_size) = (self.form.size(value_bytes), sparse.index_size());
                self.values = self.values.get(begin * size..end * size)?;
                sparse.indices = sparse.indices.get(begin * index_size..end * index_size)?;
                sparse.offsets = offsets;
            }
            ViewKind::Frames(frames) => frames.first = frames.first.saturating_add(index),
        }
        self.samples = 1;
        Some(())
    }
}

/// The mapping from the values of a sequence to samples.
#[derive(Debug, Clone, Copy)]
pub enum ViewKind<'a> {
    /// Complete samples, one after another.
    Dense,
    /// Only some values of each sample.
    Sparse(SparseView<'a>),
    /// Each sample is assembled from stored frames during packing. The stream is dense; `values`
    /// contains all stored frames of the sequence, [`FrameSpec::stored_bytes`] each, and `form` is
    /// [`ValueForm::Whole`].
    Frames(FrameView<'a>),
}

/// Samples assembled from stored frames: sample `t` consists of the frames `first + t - left ..=
/// first + t + right`. Indices before the first stored frame refer to the first, indices after the
/// last one to the last.
///
/// Thus a sequence may have more samples than stored frames: one stored frame yields any number of
/// equal samples.
#[derive(Debug, Clone, Copy)]
pub struct FrameView<'a> {
    /// Index of the stored frame in the middle of sample 0.
    pub first: u32,
    /// Storage of the frames, and the frames of a sample.
    pub spec: &'a FrameSpec,
}

/// The storage of frames, and the number of frames per sample.
#[derive(Debug, Clone, PartialEq)]
pub struct FrameSpec {
    /// Values per stored frame; not 0.
    pub dim: usize,
    /// Encoding of a value.
    pub encoding: FrameEncoding,
    /// Number of frames of a sample before the middle one.
    pub left: usize,
    /// Number of frames of a sample after the middle one.
    pub right: usize,
}

/// The encoding of values of stored frames.
#[derive(Debug, Clone, PartialEq)]
pub enum FrameEncoding {
    /// `f32` in native byte order.
    Float,
    /// `f32` in the opposite byte order.
    SwappedFloat,
    /// `f64` in native byte order.
    Double,
    /// An `i16` `v` that stands for the `f32` `(v + offset) / scale`, with an offset and a scale
    /// for each value of a frame.
    Linear {
        /// Whether the byte order is opposite to the native one.
        swapped: bool,
        /// Divisor, applied last; one per value of a frame.
        scale: Box<[f32]>,
        /// Summand, applied first; one per value of a frame.
        offset: Box<[f32]>,
    },
}

impl FrameEncoding {
    /// Returns the bytes of a stored value.
    pub fn size(&self) -> usize {
        match self {
            FrameEncoding::Float | FrameEncoding::SwappedFloat => 4,
            FrameEncoding::Double => 8,
            FrameEncoding::Linear { .. } => 2,
        }
    }
}

impl FrameSpec {
    /// Returns the bytes of a stored frame.
    pub fn stored_bytes(&self) -> usize {
        self.dim * self.encoding.size()
    }

    /// Returns the number of leading values of a sample that frames fill. The rest of a sample is
    /// 0.
    pub fn filled(&self) -> usize {
        self.dim * (self.left + 1 + self.right)
    }
}

/// The positions of the values of a sparse sequence. Indices are in the order of the input:
/// possibly unsorted and repeated.
#[derive(Debug, Clone, Copy)]
pub struct SparseView<'a> {
    /// The index of each value within its sample: `i32` in native byte order, possibly unaligned,
    /// or `u16` if `narrow`.
    pub indices: &'a [u8],
    /// Whether indices are stored as `u16`.
    pub narrow: bool,
    /// `samples + 1` ascending numbers; the values of sample `s` are `offsets[s] - offsets[0] ..
    /// offsets[s+1] - offsets[0]`.
    pub offsets: &'a [u32],
    /// Whether each sample is known to have exactly one value, so that reading `offsets` is
    /// unnecessary.
    pub single: bool,
}

impl SparseView<'_> {
    /// Returns the bytes of a stored index.
    #[inline(always)]
    pub fn index_size(&self) -> usize {
        if self.narrow { 2 } else { 4 }
    }

    /// Returns the number of stored values.
    #[inline(always)]
    pub fn count(&self) -> usize {
        self.indices.len() / self.index_size()
    }
}

/// The result of loading one sequence.
#[derive(Debug, Clone, Copy)]
pub enum Loaded<'a> {
    /// Its data.
    Data(SequenceView<'a>),
    /// Skipped by its deserializer, which has already counted it
    /// ([`crate::format::ChunkErrors::commit`]).
    Skipped,
    /// Invalid (such as a broken image): skipped, and counted against the reader's `maxErrors`.
    Invalid,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bytes of numbers in native order.
    macro_rules! bytes {
        ($($number:expr),* $(,)?) => { [$($number.to_ne_bytes()),*].concat() };
    }

    #[test]
    fn view_fits_a_cache_line() {
        assert_eq!(size_of::<SequenceView<'_>>(), 64);
    }

    #[test]
    fn dense_views_split_into_samples() {
        let values = bytes![1f32, 2f32, 3f32, 4f32, 5f32, 6f32];
        let view =
            SequenceView { samples: 3, values: &values, form: ValueForm::Whole, kind: ViewKind::Dense };
        let sample = view.sample(2, 4).expect("a sample");
        assert_eq!((sample.samples, sample.values, sample.form), (1, &values[16..], ValueForm::Whole));
        assert!(view.sample(3, 4).is_none());
        let view = SequenceView { form: ValueForm::Byte, values: &[1, 2, 3, 4, 5, 6], ..view };
        assert_eq!(view.sample(1, 8).map(|sample| sample.values), Some(&[3, 4][..]));
        let empty = SequenceView { samples: 0, values: &[], ..view };
        assert!(empty.sample(0, 4).is_none());
    }

    fn sparse_sample<'a>(view: &SequenceView<'a>, index: u32, element: usize) -> (&'a [u8], &'a [u8], usize) {
        let sample = view.sample(index, element).expect("a sample");
        let sparse = sample.sparse().expect("a sparse view");
        assert_eq!((sample.samples, sparse.offsets.len()), (1, 2));
        (sample.values, sparse.indices, (sparse.offsets[1] - sparse.offsets[0]) as usize)
    }

    #[test]
    fn sparse_views_split_into_samples() {
        let (values, indices) = (bytes![1f64, 2f64, 3f64], bytes![7i32, 8i32, 9i32]);
        let sparse = SparseView { indices: &indices, narrow: false, offsets: &[5, 5, 7, 8], single: false };
        let kind = ViewKind::Sparse(sparse);
        let view = SequenceView { samples: 3, values: &values, form: ValueForm::Whole, kind };
        assert_eq!(sparse_sample(&view, 0, 8), (&[][..], &[][..], 0));
        assert_eq!(sparse_sample(&view, 1, 8), (&values[..16], &indices[..8], 2));
        assert_eq!(sparse_sample(&view, 2, 8), (&values[16..], &indices[8..], 1));
        assert!(view.sample(3, 8).is_none());

        let indices = bytes![7u16, 8u16, 9u16];
        let kind = ViewKind::Sparse(SparseView { indices: &indices, narrow: true, ..sparse });
        let view = SequenceView { values: &[1, 2, 3], form: ValueForm::Byte, kind, ..view };
        assert_eq!(sparse_sample(&view, 1, 8), (&[1, 2][..], &indices[..4], 2));
        let kind = ViewKind::Sparse(SparseView {
            indices: &indices,
            narrow: true,
            offsets: &[0, 1, 2, 3],
            single: true,
        });
        let view = SequenceView { values: &[], form: ValueForm::Ones, kind, ..view };
        assert_eq!(sparse_sample(&view, 2, 8), (&[][..], &indices[4..], 1));
    }

    #[test]
    fn invalid_sparse_views_do_not_panic() {
        let indices = bytes![7i32, 8i32];
        for (offsets, single) in
            [(&[][..], true), (&[][..], false), (&[3, 1, 9][..], false), (&[0, 1, 9][..], false)]
        {
            let kind = ViewKind::Sparse(SparseView { indices: &indices, narrow: false, offsets, single });
            let view = SequenceView { samples: 5, values: &[0; 8], form: ValueForm::Whole, kind };
            for index in 0..5 {
                let sample = view.sample(index, 4);
                assert!(sample.is_none() || (single, index) == (false, 0) && offsets[0] == 0);
            }
        }
    }

    #[test]
    fn samples_of_frames_keep_their_neighbours() {
        let spec = FrameSpec { dim: 2, encoding: FrameEncoding::Float, left: 1, right: 1 };
        let values = bytes![1f32, 2f32, 3f32, 4f32];
        let kind = ViewKind::Frames(FrameView { first: 3, spec: &spec });
        let view = SequenceView { samples: 9, values: &values, form: ValueForm::Whole, kind };
        let sample = view.sample(4, 4).expect("a sample");
        assert_eq!((sample.samples, sample.values), (1, &values[..]));
        assert!(matches!(sample.kind, ViewKind::Frames(FrameView { first: 7, .. })));
        let kind = ViewKind::Frames(FrameView { first: u32::MAX, spec: &spec });
        let sample = SequenceView { kind, ..view }.sample(1, 4).expect("a sample");
        assert!(matches!(sample.kind, ViewKind::Frames(FrameView { first: u32::MAX, .. })));
        assert!(view.sample(9, 4).is_none());
    }
}
