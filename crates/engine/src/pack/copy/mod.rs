//! The copying: from views of sequences to the columns of one stream's block.
//!
//! Column `t * lanes + s` is step `t` of lane `s`. The samples of a sequence therefore lie `lanes` columns apart, except in
//! two cases where whole sequences are copied at once: one lane, and one step (then column `i` is sequence `i`).

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

/// What is to be written of one stream's block.
///
/// It is inlined into its caller, because as an argument it makes small minibatches slower (1.03 to 1.05 of the time for 8 and 32 samples).
/// The loops over sequences are not inlined, so that all registers are theirs.
pub(super) enum Part<'a> {
    Dense(dense::Part<'a>),
    Sparse(sparse::Part<'a>),
    /// Of a binary stream, which has its lanes one after the other.
    Binary(dense::Lanes<'a>),
}

impl<'a> Part<'a> {
    /// The whole block of a stream, whose size is that of its layout. `nnz` is the number of values if the stream is sparse. The first
    /// records of `layout` belong to `views`, in their order; the remaining records are gaps. The views must have passed
    /// [`check::sizes`](super::check::sizes).
    #[inline(always)]
    pub(super) fn whole(
        info: &StreamInfo,
        layout: &'a Layout,
        views: &'a [SequenceView<'a>],
        out: &'a mut [u8],
        nnz: usize,
    ) -> Result<Part<'a>> {
        let (element, column) = (info.element.size(), info.sample_size() * info.element.size());
        Ok(match info.storage {
            Storage::Dense if info.is_binary => {
                Part::Binary(dense::Lanes { out, views, column, steps: layout.steps })
            }
            Storage::Dense => Part::Dense(dense::Part::whole(out, layout, views, column, element)),
            Storage::SparseCsc => Part::Sparse(sparse::Part::whole(out, layout, views, element, nnz)?),
        })
    }

    /// Appends the parts of this one that threads may write at the same time, of about `bytes` bytes.
    pub(super) fn split(self, bytes: usize, parts: &mut Vec<Part<'a>>) -> Result<()> {
        match self {
            Part::Dense(part) => push(part.split(bytes), parts, Part::Dense),
            Part::Sparse(part) => push(part.split(bytes), parts, Part::Sparse),
            Part::Binary(lanes) => push(std::iter::once(lanes), parts, Part::Binary),
        }
    }

    /// Writes it.
    #[inline(always)]
    pub(super) fn write(self) -> Result<()> {
        match self {
            Part::Dense(part) => part.write(),
            Part::Sparse(part) => return part.write(),
            Part::Binary(lanes) => lanes.write(),
        }
        Ok(())
    }
}

/// The samples of a sequence that belong to some steps. The sequence begins at step `begin`.
#[inline(always)]
fn samples_in(steps: &Range<usize>, begin: usize, view: &SequenceView<'_>) -> Range<usize> {
    let end = steps.end.saturating_sub(begin).min(view.samples as usize);
    steps.start.saturating_sub(begin).min(end)..end
}

/// Appends items as parts.
fn push<'a, P>(
    items: impl Iterator<Item = P>,
    parts: &mut Vec<Part<'a>>,
    part: impl Fn(P) -> Part<'a>,
) -> Result<()> {
    for item in items {
        room::reserve(parts, 1, room::MINIBATCH)?;
        parts.push(part(item));
    }
    Ok(())
}

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

/// The value of an index in a dense column if a sparse sample has it more than once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Repeats {
    /// The sum of its values, as wherever CNTK makes dense values of sparse ones itself.
    #[default]
    Sum,
    /// Its last value, as in CNTK's truncated minibatches.
    Last,
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

/// The offsets of samples with these numbers of entries.
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
