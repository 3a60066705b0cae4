//! The copying: from views of sequences to the columns of one stream's block.
//!
//! Column `t * lanes + s` is step `t` of lane `s`. The samples of a sequence therefore lie `lanes` columns apart, except in
//! two cases where whole sequences are copied at once: one lane, and one step (then column `i` is sequence `i`).

use crate::Result;
use crate::sequence::{SequenceView, ViewKind};

mod dense;
mod expand;
mod frames;
mod nontemporal;
mod prefetch;
mod sparse;

pub(super) use dense::{dense, dense_in_parallel, sequential, zero_gap};
pub(super) use prefetch::first as prefetch_first;
pub(super) use sparse::sparse;

/// Where the columns of a run of samples lie.
#[derive(Debug, Clone, Copy)]
pub(super) struct Columns {
    /// Byte at which the first column starts.
    pub first: usize,
    /// Bytes from one column to the next.
    pub stride: usize,
    /// Bytes of a column.
    pub column: usize,
}

/// Writes samples `from .. from + count` of a sequence as dense columns, with `element` bytes a value. The view must have
/// passed [`check::sizes`](super::check::sizes), and [`check::ascending`](super::check::ascending) if it is sparse. Fails if an
/// index of a sparse value lies outside of its sample.
#[inline]
pub(super) fn samples(
    out: &mut [u8],
    columns: Columns,
    element: usize,
    view: &SequenceView<'_>,
    from: usize,
    count: usize,
) -> Result<()> {
    match &view.kind {
        ViewKind::Dense => dense::run(out, columns, element, view, from, count),
        ViewKind::Frames(frames) => frames::run(out, columns, element, view.values, frames, from, count),
        ViewKind::Sparse(sparse) => return expand::expand(out, columns, element, view, sparse, from, count),
    }
    Ok(())
}

/// The offsets of samples with these numbers of entries.
#[cfg(test)]
fn running_sums(counts: &[u32]) -> Vec<u32> {
    let sums = counts.iter().scan(0, |sum, count| {
        *sum += count;
        Some(*sum)
    });
    std::iter::once(0).chain(sums).collect()
}
