//! Copies views of sequences to the columns of one stream's block.
//!
//! Column `t * lanes + s` is step `t` of lane `s`. The samples of a sequence therefore lie `lanes`
//! columns apart, except in two cases in which whole sequences are copied at once: a single lane,
//! and a single step (then column `i` is sequence `i`).

use super::layout::Layout;
use cntk_reader_core::Result;
use cntk_reader_core::memory::room;
use cntk_reader_core::sequence::{SequenceView, ViewKind};
use cntk_reader_core::stream::{Storage, StreamInfo};
use std::ops::Range;

mod dense;
mod expand;
mod frames;
mod nontemporal;
mod prefetch;
mod sparse;

pub(super) use dense::fill_gap;
pub(super) use prefetch::first as prefetch_first;

/// A unit of work: a part of one stream's block.
///
/// Its methods are inlined into the caller, because passing a part as an argument makes small
/// minibatches 3 to 5 % slower. The loops over sequences are not inlined, which leaves all
/// registers to them.
pub(super) enum BlockPart<'a> {
    Dense(dense::DensePart<'a>),
    Sparse(sparse::SparsePart<'a>),
    /// Lanes of a binary stream, which are contiguous.
    Binary(dense::BinaryLanes<'a>),
}

impl<'a> BlockPart<'a> {
    /// Creates a part with the whole block of a stream, whose size must match its layout. `nnz` is
    /// the number of values of a sparse stream. The first records of `layout` belong to `views`, in
    /// the same order; the remaining records are gaps. The views must have passed
    /// [`check::sizes`](super::check::sizes).
    #[inline(always)]
    pub(super) fn whole(
        info: &StreamInfo,
        layout: &'a Layout,
        views: &'a [SequenceView<'a>],
        out: &'a mut [u8],
        nnz: usize,
    ) -> Result<BlockPart<'a>> {
        let (element, column) = (info.element.size(), info.sample_size() * info.element.size());
        Ok(match info.storage {
            Storage::Dense if info.is_binary => {
                BlockPart::Binary(dense::BinaryLanes { out, views, column, steps: layout.steps })
            }
            Storage::Dense => BlockPart::Dense(dense::DensePart::whole(out, layout, views, column, element)),
            Storage::SparseCsc => {
                BlockPart::Sparse(sparse::SparsePart::whole(out, layout, views, element, nnz)?)
            }
        })
    }

    /// Splits into parts of about `bytes` bytes, which threads may write concurrently, and appends
    /// them.
    pub(super) fn split(self, bytes: usize, parts: &mut Vec<BlockPart<'a>>) -> Result<()> {
        match self {
            BlockPart::Dense(part) => push(part.split(bytes), parts, BlockPart::Dense),
            BlockPart::Sparse(part) => push(part.split(bytes), parts, BlockPart::Sparse),
            BlockPart::Binary(lanes) => push(std::iter::once(lanes), parts, BlockPart::Binary),
        }
    }

    /// Writes the part.
    #[inline(always)]
    pub(super) fn write(self) -> Result<()> {
        match self {
            BlockPart::Dense(part) => part.write(),
            BlockPart::Sparse(part) => return part.write(),
            BlockPart::Binary(lanes) => lanes.write(),
        }
        Ok(())
    }
}

/// Returns the samples of a sequence within some steps. The sequence begins at step `begin`.
#[inline(always)]
fn samples_in(steps: &Range<usize>, begin: usize, view: &SequenceView<'_>) -> Range<usize> {
    let end = steps.end.saturating_sub(begin).min(view.samples as usize);
    steps.start.saturating_sub(begin).min(end)..end
}

/// Wraps items as parts and appends them.
fn push<'a, P>(
    items: impl Iterator<Item = P>,
    parts: &mut Vec<BlockPart<'a>>,
    part: impl Fn(P) -> BlockPart<'a>,
) -> Result<()> {
    for item in items {
        room::reserve(parts, 1, room::MINIBATCH)?;
        parts.push(part(item));
    }
    Ok(())
}

/// The location of the columns of a run of samples.
#[derive(Debug, Clone, Copy)]
pub(super) struct Columns {
    /// Byte offset of the first column.
    pub first: usize,
    /// Distance between columns in bytes.
    pub stride: usize,
    /// Size of a column in bytes.
    pub column: usize,
}

/// The value of an index in a dense column if it occurs several times in a sparse sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Repeats {
    /// The sum of its values, as elsewhere when CNTK converts sparse values to dense ones.
    #[default]
    Sum,
    /// Its last value, as in CNTK's truncated minibatches.
    Last,
}

/// Writes samples `from .. from + count` of a sequence as dense columns, with `element` bytes per
/// value. The view must have passed [`check::sizes`](super::check::sizes), and
/// [`check::ascending`](super::check::ascending) if it is sparse. Fails if the index of a sparse
/// value is out of bounds.
#[inline]
pub(super) fn samples(
    out: &mut [u8],
    columns: Columns,
    element: usize,
    view: &SequenceView<'_>,
    from: usize,
    count: usize,
    repeats: Repeats,
) -> Result<()> {
    match &view.kind {
        ViewKind::Dense => {
            let samples = dense::stored_samples(view, from..from + count, columns.column, element);
            dense::run(out, columns, element, samples, view.form, &mut prefetch::NoPrefetch)
        }
        ViewKind::Frames(frames) => frames::run(out, columns, element, view.values, frames, from, count),
        ViewKind::Sparse(sparse) => {
            return expand::expand(out, columns, element, view, sparse, from, count, repeats);
        }
    }
    Ok(())
}

/// Returns the offsets of samples with these numbers of entries.
#[cfg(test)]
fn running_sums(counts: &[u32]) -> Vec<u32> {
    let sums = counts.iter().scan(0, |sum, count| {
        *sum += count;
        Some(*sum)
    });
    std::iter::once(0).chain(sums).collect()
}

#[cfg(test)]
mod tests;
