//! Sequences: their keys, where they are, and the borrowed view of one sequence's data in one stream.

pub use crate::memory::compact::ValueForm;

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
    /// How the values make samples.
    pub kind: ViewKind<'a>,
}

impl<'a> SequenceView<'a> {
    /// Where the values belong if the stream is sparse.
    #[inline(always)]
    pub fn sparse(&self) -> Option<&SparseView<'a>> {
        match &self.kind {
            ViewKind::Sparse(sparse) => Some(sparse),
            ViewKind::Dense | ViewKind::Frames(_) => None,
        }
    }

    /// The sequence that consists of sample `index` alone, or `None` if there is no such sample. `value_bytes` is the size of a
    /// value of the stream's element type, however the values are stored.
    ///
    /// The view must be sound. Of one that is not, such as a sparse view whose offsets fall, the result is `None` or a view
    /// that is not sound either.
    #[inline]
    pub fn sample(mut self, index: u32, value_bytes: usize) -> Option<SequenceView<'a>> {
        self.cut(index, value_bytes)?;
        Some(self)
    }

    /// [`SequenceView::sample`] in place: frame mode takes one sample after the other out of views, and copying them takes
    /// longer than changing what differs. The view is of no use if the result is `None`.
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
                // Where each sample has one value, all pairs of offsets are as good as the first one, which the last call has
                // left in the cache.
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

/// How the values of a sequence make samples.
#[derive(Debug, Clone, Copy)]
pub enum ViewKind<'a> {
    /// Sample after sample, each complete.
    Dense,
    /// Some values of each sample.
    Sparse(SparseView<'a>),
    /// Each sample is made of stored frames while it is packed. The stream is dense; `values` has all stored frames of the
    /// sequence, [`FrameSpec::stored_bytes`] each, and `form` is [`ValueForm::Whole`].
    Frames(FrameView<'a>),
}

/// Samples that are made of stored frames: sample `t` consists of the frames `first + t - left ..= first + t + right`. A
/// frame before the first stored one is the first, one after the last stored one the last.
///
/// A sequence may so have more samples than stored frames: one stored frame makes any number of equal samples.
#[derive(Debug, Clone, Copy)]
pub struct FrameView<'a> {
    /// The stored frame that is the middle of sample 0.
    pub first: u32,
    /// How frames are stored, and what a sample takes of them.
    pub spec: &'a FrameSpec,
}

/// How frames are stored, and how many of them make a sample.
#[derive(Debug, Clone, PartialEq)]
pub struct FrameSpec {
    /// Values of a stored frame; not 0.
    pub dim: usize,
    /// How a value is stored.
    pub encoding: FrameEncoding,
    /// Frames before the middle one that belong to a sample.
    pub left: usize,
    /// Frames after the middle one that belong to a sample.
    pub right: usize,
}

/// How the values of stored frames are encoded.
#[derive(Debug, Clone, PartialEq)]
pub enum FrameEncoding {
    /// `f32` in native byte order.
    Float,
    /// `f32` in the other byte order.
    SwappedFloat,
    /// `f64` in native byte order.
    Double,
    /// `i16` `v`, which stands for the `f32` `(v + offset) / scale` with one offset and scale for each value of a frame.
    Linear {
        /// The other byte order than the native one.
        swapped: bool,
        /// Divides; as many as a frame has values.
        scale: Box<[f32]>,
        /// Is added first; as many as a frame has values.
        offset: Box<[f32]>,
    },
}

impl FrameEncoding {
    /// Bytes of a stored value.
    pub fn size(&self) -> usize {
        match self {
            FrameEncoding::Float | FrameEncoding::SwappedFloat => 4,
            FrameEncoding::Double => 8,
            FrameEncoding::Linear { .. } => 2,
        }
    }
}

impl FrameSpec {
    /// Bytes of a stored frame.
    pub fn stored_bytes(&self) -> usize {
        self.dim * self.encoding.size()
    }

    /// Values that frames fill of a sample, from the first one on. The rest of a sample is 0.
    pub fn filled(&self) -> usize {
        self.dim * (self.left + 1 + self.right)
    }
}

/// Where the values of a sparse sequence belong. Indices are in the input's order: they may be unsorted and may repeat.
#[derive(Debug, Clone, Copy)]
pub struct SparseView<'a> {
    /// The index of each value within its sample: `i32` in native byte order, possibly unaligned; `u16` if `narrow`.
    pub indices: &'a [u8],
    /// Indices are stored as `u16`.
    pub narrow: bool,
    /// `samples + 1` ascending numbers; the values of sample `s` are `offsets[s] - offsets[0] .. offsets[s+1] - offsets[0]`.
    pub offsets: &'a [u32],
    /// Each sample is known to have exactly one value, so that readers need not look at `offsets` to find out.
    pub single: bool,
}

impl SparseView<'_> {
    /// Bytes of a stored index.
    #[inline(always)]
    pub fn index_size(&self) -> usize {
        if self.narrow { 2 } else { 4 }
    }

    /// Number of stored values.
    #[inline(always)]
    pub fn count(&self) -> usize {
        self.indices.len() / self.index_size()
    }
}

/// What loading made of one sequence.
#[derive(Debug, Clone, Copy)]
pub enum Loaded<'a> {
    /// Its data.
    Data(SequenceView<'a>),
    /// Left out by its deserializer, which has counted it already
    /// ([`crate::format::ChunkErrors::commit`]).
    Skipped,
    /// Invalid (a broken image ...): left out, and counted against the reader's `maxErrors`.
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
    fn a_view_takes_a_cache_line() {
        assert_eq!(size_of::<SequenceView<'_>>(), 64);
    }

    #[test]
    fn samples_of_dense_views_are_their_parts() {
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
    fn samples_of_sparse_views_have_their_values_and_indices() {
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
    fn unsound_sparse_views_do_not_panic() {
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
