//! Sequences as plain numbers, for callers that read chunks directly without dealing with their
//! storage formats.

use super::buffer::AlignedBuffer;
use super::{check, copy};
use cntk_reader_core::Result;
use cntk_reader_core::memory::compact::widen;
use cntk_reader_core::sequence::{SequenceView, SparseView, ValueForm, ViewKind};
use cntk_reader_core::stream::StreamInfo;

/// Memory for one sequence of one stream; reusable.
#[derive(Debug, Default)]
pub struct PlainSequence {
    values: AlignedBuffer,
    indices: AlignedBuffer,
}

/// Whether a view is dense or sparse with values of full width and, if it is sparse, `i32` indices.
pub fn is_plain(view: &SequenceView<'_>) -> bool {
    let is_stored_plainly = match &view.kind {
        ViewKind::Dense => true,
        ViewKind::Sparse(sparse) => !sparse.narrow,
        ViewKind::Frames(_) => false,
    };
    is_stored_plainly && view.form == ValueForm::Whole
}

impl PlainSequence {
    /// Returns a plain view of a sequence of the stream `info`, dense or sparse like the stream:
    /// the view itself if it is plain, otherwise decoded into this memory. Samples made of frames
    /// include their context. Fails if the view does not match the stream, or if there is not
    /// enough memory.
    pub fn decode<'a>(&'a mut self, view: &SequenceView<'a>, info: &StreamInfo) -> Result<SequenceView<'a>> {
        if is_plain(view) {
            return Ok(*view);
        }
        let (element, sample_size) = (info.element.size(), info.sample_size());
        let nnz =
            check::sizes(view, info.element, sample_size).map_err(|error| error.in_stream(&info.name))?;
        let (form, samples) = (ValueForm::Whole, view.samples as usize);
        if let Some(&sparse) = view.sparse() {
            self.values.resize(nnz * element)?;
            self.indices.resize(nnz * size_of::<i32>())?;
            widen::values(self.values.bytes_mut(), view.values, view.form, element);
            widen::indices(self.indices.bytes_mut(), sparse.indices, sparse.narrow);
            let kind =
                ViewKind::Sparse(SparseView { indices: self.indices.bytes(), narrow: false, ..sparse });
            return Ok(SequenceView { samples: view.samples, values: self.values.bytes(), form, kind });
        }
        let column = sample_size * element;
        // A size that overflows exceeds any memory.
        self.values.resize(samples.saturating_mul(column))?;
        let columns = copy::Columns { first: 0, stride: column, column };
        copy::samples(self.values.bytes_mut(), columns, element, view, 0, samples, copy::Repeats::Sum)?;
        Ok(SequenceView { samples: view.samples, values: self.values.bytes(), form, kind: ViewKind::Dense })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pack::test_feed::{floats, info};
    use cntk_reader_core::sequence::{FrameEncoding, FrameSpec, FrameView};
    use cntk_reader_core::stream::{ElementType, Storage};

    #[test]
    fn plain_views_are_not_copied() {
        let values = [0; 24];
        let view =
            SequenceView { samples: 3, values: &values, form: ValueForm::Whole, kind: ViewKind::Dense };
        let mut memory = PlainSequence::default();
        let info = info("x", Storage::Dense, ElementType::Double, 1);
        let plain = memory.decode(&view, &info).expect("a view");
        assert_eq!((plain.values.as_ptr(), plain.samples), (values.as_ptr(), 3));
    }

    #[test]
    fn labels_get_values_and_wide_indices() {
        let indices = [3u16, 65535].map(u16::to_ne_bytes).concat();
        let sparse = SparseView { indices: &indices, narrow: true, offsets: &[4, 5, 6], single: true };
        let kind = ViewKind::Sparse(sparse);
        let view = SequenceView { samples: 2, values: &[], form: ValueForm::Ones, kind };
        let mut memory = PlainSequence::default();
        let info = info("s", Storage::SparseCsc, ElementType::Double, 70_000);
        let plain = memory.decode(&view, &info).expect("a view");
        assert!(is_plain(&plain) && !is_plain(&view));
        assert_eq!(plain.values, [1f64; 2].map(f64::to_ne_bytes).concat());
        let sparse = plain.sparse().expect("a sparse view");
        assert_eq!(sparse.indices, [3i32, 65535].map(i32::to_ne_bytes).concat());
        assert_eq!(sparse.offsets, [4, 5, 6]);
    }

    #[test]
    fn frames_get_their_context() {
        let spec = FrameSpec { dim: 1, encoding: FrameEncoding::SwappedFloat, left: 1, right: 1 };
        let stored = [1f32, 2.0].map(|value| value.to_bits().swap_bytes().to_ne_bytes()).concat();
        let kind = ViewKind::Frames(FrameView { first: 0, spec: &spec });
        let view = SequenceView { samples: 3, values: &stored, form: ValueForm::Whole, kind };
        let mut memory = PlainSequence::default();
        let stream = info("x", Storage::Dense, ElementType::Float, 4);
        let plain = memory.decode(&view, &stream).expect("a view");
        assert_eq!(floats(plain.values), [1.0, 1.0, 2.0, 0.0, 1.0, 2.0, 2.0, 0.0, 2.0, 2.0, 2.0, 0.0]);
        // Three frames do not fit into samples of two values.
        let stream = info("x", Storage::Dense, ElementType::Float, 2);
        assert!(memory.decode(&view, &stream).is_err());
        assert!(memory.decode(&SequenceView { values: &stored[..7], ..view }, &stream).is_err());
    }

    #[test]
    fn views_are_plain_in_full_width_only() {
        let spec = FrameSpec { dim: 1, encoding: FrameEncoding::Float, left: 0, right: 0 };
        let frames = ViewKind::Frames(FrameView { first: 0, spec: &spec });
        let sparse = |narrow| {
            ViewKind::Sparse(SparseView { indices: &[0; 4], narrow, offsets: &[0, 1], single: true })
        };
        for (form, kind, expected) in [
            (ValueForm::Whole, ViewKind::Dense, true),
            (ValueForm::Byte, ViewKind::Dense, false),
            (ValueForm::Whole, sparse(false), true),
            (ValueForm::Whole, sparse(true), false),
            (ValueForm::Byte, sparse(false), false),
            (ValueForm::Whole, frames, false),
        ] {
            let view = SequenceView { samples: 1, values: &[0; 4], form, kind };
            assert_eq!(is_plain(&view), expected, "{form:?} {kind:?}");
        }
    }

    #[test]
    fn bytes_are_widened() {
        let view =
            SequenceView { samples: 2, values: &[1, 2, 3, 4], form: ValueForm::Byte, kind: ViewKind::Dense };
        let mut memory = PlainSequence::default();
        let stream = info("x", Storage::Dense, ElementType::Float, 2);
        let plain = memory.decode(&view, &stream).expect("a view");
        assert_eq!((plain.samples, floats(plain.values)), (2, vec![1.0, 2.0, 3.0, 4.0]));
        assert!(is_plain(&plain));
        let error = memory.decode(&SequenceView { samples: 3, ..view }, &stream).expect_err("too few values");
        assert_eq!(error.location().stream.as_deref(), Some("x"));
    }
}
