//! Checks of what chunks deliver, so that a chunk's mistake cannot make a copy leave its bounds.

use crate::error::ExceptionClass;
use crate::sequence::SequenceView;
use crate::{Error, ErrorKind, Result};

/// Compares a view's sizes with each other. `element` is the size of one value in bytes, `sample_size` the number of values
/// of a sample. Returns the number of sparse values, 0 for a dense sequence.
pub(super) fn sizes(view: &SequenceView<'_>, element: usize, sample_size: usize) -> Result<usize> {
    let samples = view.samples as usize;
    let element = view.form.size(element);
    let Some(sparse) = &view.sparse else {
        let found = view.values.len();
        return if samples.checked_mul(sample_size * element) == Some(found) {
            Ok(0)
        } else {
            Err(Error::internal(format!(
                "A chunk has a dense sequence of {samples} samples with {found} bytes of values instead of {} per sample.",
                sample_size * element
            )))
        };
    };
    let index_size = if sparse.narrow { 2 } else { 4 };
    let nnz = sparse.indices.len() / index_size;
    // A sequence without samples has one offset, which is both the first and the last.
    let (Some(&first), Some(&last)) = (sparse.offsets.first(), sparse.offsets.last()) else {
        return Err(Error::internal("A chunk has a sparse sequence without offsets."));
    };
    let fits = sparse.offsets.len() - 1 == samples
        && last.checked_sub(first).is_some_and(|count| count as usize == nnz)
        && sparse.indices.len() == nnz * index_size
        && view.values.len() == nnz * element;
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

/// Fails unless the offsets ascend. With the comparison of their first and last in [`sizes`] this keeps all copies in
/// bounds.
pub(super) fn ascending(offsets: &[u32]) -> Result<()> {
    // Without an early exit, so that it is compiled to vector instructions.
    let falls = offsets.windows(2).fold(false, |falls, pair| falls | (pair[0] > pair[1]));
    if falls {
        Err(Error::internal("A chunk has a sparse sequence whose offsets do not ascend."))
    } else {
        Ok(())
    }
}

/// CNTK 2.7's error for a sequence without samples in this stream.
pub(super) fn empty_sequence(stream: &str) -> Error {
    let message = "AddSequence: Sequences must be a least one frame long.";
    Error::new(ErrorKind::Data, ExceptionClass::Logic, message).in_stream(stream)
}
