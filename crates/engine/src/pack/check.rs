//! Checks of the data that chunks deliver, so that a chunk's mistake cannot cause out-of-bounds
//! copies.

use cntk_reader_core::error::ExceptionClass;
use cntk_reader_core::sequence::{FrameEncoding, FrameSpec, SequenceView, SparseView, ValueForm, ViewKind};
use cntk_reader_core::stream::ElementType;
use cntk_reader_core::{Error, ErrorKind, Result};

/// Checks that a view's sizes are consistent, and that its form suits the type of the stream's
/// values. `sample_size` is the number of values per sample. Returns the number of sparse values,
/// or 0 for a dense sequence.
pub(super) fn sizes(view: &SequenceView<'_>, element: ElementType, sample_size: usize) -> Result<usize> {
    if !view.form.suits(element) {
        let (form, element) = (view.form, element.name());
        return Err(Error::internal(format!("A chunk has values of {element} in the form {form:?}.")));
    }
    match &view.kind {
        ViewKind::Dense => dense(view, element.size(), sample_size),
        ViewKind::Sparse(sparse) => return sparse_values(view, sparse, element.size()),
        ViewKind::Frames(frames) => stored_frames(view, frames.spec, sample_size),
    }
    .map(|()| 0)
}

fn dense(view: &SequenceView<'_>, element: usize, sample_size: usize) -> Result<()> {
    let (samples, found) = (view.samples as usize, view.values.len());
    let expected = sample_size * view.form.size(element);
    if samples.checked_mul(expected) == Some(found) && view.form != ValueForm::Ones {
        return Ok(());
    }
    Err(Error::internal(format!(
        "A chunk has a dense sequence of {samples} samples with {found} bytes of values instead of {expected} per sample."
    )))
}

fn sparse_values(view: &SequenceView<'_>, sparse: &SparseView<'_>, element: usize) -> Result<usize> {
    let samples = view.samples as usize;
    let (nnz, index_size) = (sparse.count(), sparse.index_size());
    // A sequence without samples has a single offset, which is both the first and the last.
    let (Some(&first), Some(&last)) = (sparse.offsets.first(), sparse.offsets.last()) else {
        return Err(Error::internal("A chunk has a sparse sequence without offsets."));
    };
    let fits = sparse.offsets.len() - 1 == samples
        && last.checked_sub(first).is_some_and(|count| count as usize == nnz)
        && sparse.indices.len() == nnz * index_size
        && view.values.len() == nnz * view.form.size(element);
    if fits {
        return Ok(nnz);
    }
    Err(Error::internal(format!(
        "A chunk has a sparse sequence of {samples} samples whose {} offsets (from {first} to {last}), {} bytes of indices and \
         {} bytes of values do not fit together.",
        sparse.offsets.len(),
        sparse.indices.len(),
        view.values.len()
    )))
}

/// Fails if a sparse minibatch would have more values than its offsets can number.
pub(super) fn count_of_values(count: usize) -> Result<()> {
    if count <= i32::MAX as usize {
        return Ok(());
    }
    let message = format!("Minibatch NNZ count ({count}) exceeds the maximum allowed value ({})", i32::MAX);
    let detail = "Sparse minibatches number their values with 32 bits: choose a smaller minibatch size.";
    Err(Error::data(message).with_detail(detail))
}

fn stored_frames(view: &SequenceView<'_>, spec: &FrameSpec, sample_size: usize) -> Result<()> {
    let filled =
        spec.left.checked_add(spec.right).and_then(|others| others.checked_add(1)?.checked_mul(spec.dim));
    let numbers = match &spec.encoding {
        FrameEncoding::Linear { scale, offset, .. } => scale.len() == spec.dim && offset.len() == spec.dim,
        _ => true,
    };
    // `filled` bounds the values of a frame by `sample_size`, so `stored_bytes` does not overflow.
    // Values of frames without values would be a multiple of 0 bytes, which only 0 bytes are.
    let fits = filled.is_some_and(|filled| filled <= sample_size)
        && numbers
        && view.form == ValueForm::Whole
        && !view.values.is_empty()
        && view.values.len().is_multiple_of(spec.stored_bytes());
    if fits {
        return Ok(());
    }
    Err(Error::internal(format!(
        "A chunk has a sequence of frames of {} values, {} before and {} after the middle one, in {} bytes, which do not make \
         samples of {sample_size} values.",
        spec.dim,
        spec.left,
        spec.right,
        view.values.len()
    )))
}

/// Fails unless the offsets ascend. Together with the comparison of the first and last in
/// [`sizes`], this keeps all copies in bounds.
pub(super) fn ascending(offsets: &[u32]) -> Result<()> {
    // No early exit, so that the loop is vectorized.
    let falls = offsets.windows(2).fold(false, |falls, pair| falls | (pair[0] > pair[1]));
    if falls {
        Err(Error::internal("A chunk has a sparse sequence whose offsets do not ascend."))
    } else {
        Ok(())
    }
}

/// Returns CNTK 2.7's error for a sequence without samples in this stream.
pub(super) fn empty_sequence(stream: &str) -> Error {
    let message = "AddSequence: Sequences must be a least one frame long.";
    let found = format!("A sequence has no sample in the stream '{stream}'.");
    let detail = "Add one, or leave the sequence out.";
    Error::new(ErrorKind::Data, ExceptionClass::Logic, message)
        .as_cntk()
        .with_detail(found)
        .with_detail(detail)
        .in_stream(stream)
}

#[cfg(test)]
mod tests {
    use super::*;
    use cntk_reader_core::memory::compact::decimal;
    use cntk_reader_core::sequence::FrameView;

    /// Checks frames in `bytes` bytes for samples of 6 values.
    fn check_frames(spec: &FrameSpec, bytes: usize) -> Result<usize> {
        let values = vec![0; bytes];
        let kind = ViewKind::Frames(FrameView { first: 0, spec });
        sizes(
            &SequenceView { samples: 9, values: &values, form: ValueForm::Whole, kind },
            ElementType::Float,
            6,
        )
    }

    #[test]
    fn frames_must_be_whole_and_fit_into_their_samples() {
        let spec = |dim, left, right, encoding| FrameSpec { dim, left, right, encoding };
        let float = |dim, left, right| spec(dim, left, right, FrameEncoding::Float);
        assert!(matches!(check_frames(&float(2, 1, 1), 8), Ok(0)));
        assert!(matches!(check_frames(&float(2, 0, 1), 80), Ok(0)));
        for (dim, left, right, bytes) in
            [(2, 1, 1, 0), (2, 1, 1, 12), (2, 1, 2, 8), (0, 1, 1, 8), (7, 0, 0, 28), (2, usize::MAX, 1, 8)]
        {
            let error = check_frames(&float(dim, left, right), bytes).expect_err("must be refused");
            assert_eq!(error.kind(), ErrorKind::Internal, "{dim} {left} {right} {bytes}");
        }
        assert!(check_frames(&float(usize::MAX, 0, 0), 8).is_err());
        let linear = |scales: usize, offsets: usize| FrameEncoding::Linear {
            swapped: true,
            scale: vec![1.0; scales].into(),
            offset: vec![0.0; offsets].into(),
        };
        assert!(check_frames(&spec(2, 0, 0, linear(2, 2)), 4).is_ok());
        assert!(check_frames(&spec(2, 0, 0, linear(1, 2)), 4).is_err());
        assert!(check_frames(&spec(2, 0, 0, linear(2, 3)), 4).is_err());
        let form = ValueForm::Byte;
        let kind = ViewKind::Frames(FrameView { first: 0, spec: &float(2, 0, 0) });
        assert!(
            sizes(&SequenceView { samples: 1, values: &[0; 8], form, kind }, ElementType::Float, 6).is_err()
        );
    }

    #[test]
    fn unsupported_forms_are_rejected() {
        let view = |form, values, kind| SequenceView { samples: 1, values, form, kind };
        let sparse = SparseView { indices: &[0; 4], narrow: false, offsets: &[0, 1], single: true };
        assert!(sizes(&view(ValueForm::Ones, &[], ViewKind::Dense), ElementType::Float, 1).is_err());
        let mut stored = Vec::new();
        let decimals =
            decimal::store(&[0.123_456], decimal::WIDEST, &mut stored).expect("memory").expect("decimals");
        assert_eq!(decimals.size(), 3);
        assert!(
            sizes(&view(ValueForm::Decimal(decimals), &[0; 3], ViewKind::Dense), ElementType::Double, 1)
                .is_err()
        );
        assert!(
            sizes(&view(ValueForm::Decimal(decimals), &[0; 3], ViewKind::Dense), ElementType::Float, 1)
                .is_ok()
        );
        assert!(
            sizes(
                &view(ValueForm::Decimal(decimals), &[0; 3], ViewKind::Sparse(sparse)),
                ElementType::Double,
                1
            )
            .is_err()
        );
        assert!(
            sizes(
                &view(ValueForm::Decimal(decimals), &[0; 3], ViewKind::Sparse(sparse)),
                ElementType::Float,
                1
            )
            .is_ok()
        );
        assert!(
            sizes(
                &view(ValueForm::Decimal(decimals), &[0; 4], ViewKind::Sparse(sparse)),
                ElementType::Float,
                1
            )
            .is_err()
        );
        let narrow = view(ValueForm::Narrow, &[1, 0], ViewKind::Dense);
        assert!(sizes(&narrow, ElementType::Float, 1).is_err());
        assert!(
            sizes(&narrow, ElementType::Int32, 1).is_ok() && sizes(&narrow, ElementType::Int64, 1).is_ok()
        );
        let int = view(ValueForm::Int, &[0; 4], ViewKind::Dense);
        assert!(sizes(&int, ElementType::Int32, 1).is_err() && sizes(&int, ElementType::Int64, 1).is_ok());
        assert!(matches!(
            sizes(&view(ValueForm::Ones, &[], ViewKind::Sparse(sparse)), ElementType::Float, 1),
            Ok(1)
        ));
    }

    #[test]
    fn values_of_dense_sequences_are_counted() {
        for (form, bytes, fits) in [
            (ValueForm::Whole, 24, true),
            (ValueForm::Whole, 23, false),
            (ValueForm::Whole, 36, false),
            (ValueForm::Whole, 0, false),
            (ValueForm::Byte, 6, true),
            (ValueForm::Byte, 24, false),
        ] {
            let values = vec![0; bytes];
            let view = SequenceView { samples: 2, values: &values, form, kind: ViewKind::Dense };
            assert_eq!(sizes(&view, ElementType::Float, 3).ok(), fits.then_some(0), "{form:?} {bytes}");
        }
    }

    #[test]
    fn all_sizes_of_sparse_sequences_are_compared() {
        let checked = |samples, values: usize, indices: usize, narrow, offsets: &[u32]| {
            let (values, indices) = (vec![0; values], vec![0; indices]);
            let kind = ViewKind::Sparse(SparseView { indices: &indices, narrow, offsets, single: false });
            let view = SequenceView { samples, values: &values, form: ValueForm::Whole, kind };
            sizes(&view, ElementType::Double, 1).map_err(|error| error.kind())
        };
        assert_eq!(checked(2, 24, 12, false, &[7, 7, 10]), Ok(3));
        assert_eq!(checked(2, 24, 6, true, &[7, 8, 10]), Ok(3));
        assert_eq!(checked(0, 0, 0, false, &[7]), Ok(0));
        for (samples, values, indices, offsets) in [
            (1, 24, 12, &[7, 7, 10][..]),
            (3, 24, 12, &[7, 7, 10]),
            (2, 16, 12, &[7, 7, 10]),
            (2, 24, 13, &[7, 7, 10]),
            (2, 24, 8, &[7, 7, 10]),
            (2, 24, 12, &[7, 7, 9]),
            (2, 24, 12, &[10, 8, 7]),
            (0, 0, 0, &[]),
        ] {
            let found = checked(samples, values, indices, false, offsets);
            assert_eq!(found, Err(ErrorKind::Internal), "{samples} {values} {indices} {offsets:?}");
        }
    }

    #[test]
    fn offsets_may_not_fall() {
        for offsets in [&[][..], &[5], &[3, 3, 4], &[0, u32::MAX]] {
            assert!(ascending(offsets).is_ok(), "{offsets:?}");
        }
        for offsets in [&[3, 2][..], &[1, 2, 1, 3], &[5, 4, 3], &[0, 1, 0]] {
            let error = ascending(offsets).expect_err("must be refused");
            assert_eq!(error.kind(), ErrorKind::Internal, "{offsets:?}");
        }
    }
}
