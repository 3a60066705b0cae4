//! Asking for the memory of sequences before they are copied.
//!
//! Randomized sequences come from all over the window, so nearly each of them would wait for main memory.

use crate::prefetch::{FIRST_LINES, bytes};
use crate::sequence::{SequenceView, ViewKind};

/// Distance, in sequences, at which a sequence's data are prefetched ahead of the copy while sequences are copied as a whole.
/// This saves a quarter of the time. Distances from 4 to 32 make no difference that could be measured.
pub(super) const AHEAD: usize = 8;

/// The same distance while the samples of sequences are spread over the minibatch.
pub(super) const AHEAD_SPREAD: usize = 4;

/// Cache lines of a sequence that are prefetched shortly before it is copied, at most: those of several sequences fit into
/// the nearest cache.
const MOST_LINES: usize = 16;

/// The stored values that a view is made of: of frames, those between the first and the last one in its samples.
#[inline(always)]
fn values<'a>(view: &SequenceView<'a>) -> &'a [u8] {
    let ViewKind::Frames(frames) = &view.kind else { return view.values };
    let (size, first) = (frames.spec.stored_bytes(), frames.first as usize);
    let end = (first + view.samples as usize).saturating_add(frames.spec.right).saturating_mul(size);
    let begin = first.saturating_sub(frames.spec.left).saturating_mul(size);
    view.values.get(begin..end.min(view.values.len())).unwrap_or_default()
}

#[inline(always)]
fn indices<'a>(view: &SequenceView<'a>) -> &'a [u8] {
    view.sparse().map_or(&[], |sparse| sparse.indices)
}

/// Prefetches the beginning of a sequence's data when the sequence is looked up; it is copied after all others have been
/// looked up.
#[inline(always)]
pub(in super::super) fn first(view: &SequenceView<'_>) {
    bytes(values(view), FIRST_LINES);
    bytes(indices(view), FIRST_LINES);
}

/// Prefetches a sequence shortly before it is copied, all cache lines of its values, because the processor's own prefetching
/// comes too late: samples of 600 bytes are copied in nine tenths of the time, and values stored as decimals would take half
/// as long again without it.
#[inline(always)]
pub(super) fn next(view: &SequenceView<'_>) {
    bytes(view.values, MOST_LINES);
    bytes(indices(view), FIRST_LINES);
}

/// As [`next`], for a dense sequence that may be made of frames.
#[inline(always)]
pub(super) fn next_frames(view: &SequenceView<'_>) {
    bytes(values(view), MOST_LINES);
}
