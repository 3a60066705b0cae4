//! Copying dense sequences.

use super::Columns;
use super::frames;
use super::nontemporal;
use super::prefetch::{self, AHEAD, AHEAD_SPREAD};
use crate::compact::widen;
use crate::pack::layout::{Layout, Record};
use crate::pool::Pool;
use crate::sequence::{SequenceView, ValueForm, ViewKind};
use rayon::prelude::*;

/// Copies samples `from .. from + count` of a dense sequence, with `element` bytes a value.
#[inline]
pub(super) fn run(
    out: &mut [u8],
    columns: Columns,
    element: usize,
    view: &SequenceView<'_>,
    from: usize,
    count: usize,
) {
    let Columns { first, stride, column } = columns;
    if column == 0 {
        return;
    }
    if view.form == ValueForm::Whole {
        return strided(out, columns, &view.values[from * column..(from + count) * column]);
    }
    let stored = column / element * view.form.size(element);
    let samples = view.values[from * stored..(from + count) * stored].chunks_exact(stored);
    for (target, sample) in out[first..].chunks_mut(stride).zip(samples) {
        widen::values(&mut target[..column], sample, view.form, element);
    }
}

/// Copies samples that are stored as they are in the minibatch.
fn strided(out: &mut [u8], columns: Columns, samples: &[u8]) {
    fn fixed<const N: usize>(out: &mut [u8], stride: usize, samples: &[u8]) {
        for (target, source) in out.chunks_mut(stride).zip(samples.as_chunks::<N>().0) {
            target[..N].copy_from_slice(source);
        }
    }
    if samples.is_empty() {
        return;
    }
    let Columns { first, stride, column } = columns;
    let out = &mut out[first..];
    if stride == column {
        out[..samples.len()].copy_from_slice(samples);
        return;
    }
    match column {
        4 => fixed::<4>(out, stride, samples),
        8 => fixed::<8>(out, stride, samples),
        16 => fixed::<16>(out, stride, samples),
        _ => {
            for (target, source) in out.chunks_mut(stride).zip(samples.chunks_exact(column)) {
                target[..column].copy_from_slice(source);
            }
        }
    }
}

/// Bytes of a minibatch that one thread copies at a time where several do: enough that handing them out costs nothing, and
/// few enough that no thread waits long for another.
const PIECE: usize = 256 << 10;

/// Copies sequences of one sample each as [`dense`] does, with the help of the pool's threads. False, with nothing done, if
/// that would not be faster: the block is small, or its samples have to be put together.
///
/// Minibatches of 64 images of 500 x 375 pixels are 144 MB of floats: with this, decoding them whole takes two threads 0.52 of
/// the time that one takes, and cutting out and scaling parts to 224 x 224 pixels 0.52 too.
pub(in super::super) fn dense_in_parallel(
    pool: &Pool,
    out: &mut [u8],
    layout: &Layout,
    views: &[SequenceView<'_>],
    column: usize,
    element: usize,
) -> bool {
    let is_plain = |view: &SequenceView<'_>| !matches!(view.kind, ViewKind::Frames(_));
    if pool.threads() < 2 || out.len() < 4 * PIECE || layout.steps != 1 || !views.iter().all(is_plain) {
        return false;
    }
    let is_nontemporal = is_nontemporal(out, column);
    let columns = out.par_chunks_exact_mut(column).zip(views);
    pool.install(|| {
        columns.with_max_len((PIECE / column).max(1)).for_each(|(target, view)| {
            write(target, view, element, is_nontemporal);
        });
    });
    true
}

/// Copies sequences of one sample each to columns that follow one another, up to the first sequence that is made of frames.
/// Returns the number of sequences that were copied.
fn one_step(out: &mut [u8], column: usize, element: usize, views: &[SequenceView<'_>]) -> usize {
    let is_nontemporal = is_nontemporal(out, column);
    for (i, (target, view)) in out.chunks_exact_mut(column).zip(views).enumerate() {
        if let ViewKind::Frames(_) = view.kind {
            return i;
        }
        if let Some(next) = views.get(i + AHEAD) {
            prefetch::next(next);
        }
        write(target, view, element, is_nontemporal);
    }
    views.len()
}

/// Writes the sample of a sequence to its column.
#[inline(always)]
fn write(target: &mut [u8], view: &SequenceView<'_>, element: usize, is_nontemporal: bool) {
    match is_nontemporal {
        true => nontemporal::values(target, view.values, view.form, element),
        false => widen::values(target, view.values, view.form, element),
    }
}

/// Whether a block with columns of `column` bytes is written past the caches.
fn is_nontemporal(out: &[u8], column: usize) -> bool {
    /// Larger than what a core's own caches hold: the first columns leave them before the last ones are written.
    const BLOCK: usize = 16 << 20;
    /// Columns of fewer bytes would have too many incomplete cache lines.
    const COLUMN: usize = 4 << 10;
    out.len() >= BLOCK && column >= COLUMN
}

/// Zeroes the columns of a gap, `column` bytes each.
pub(in super::super) fn zero_gap(out: &mut [u8], layout: &Layout, gap: &Record, column: usize) {
    if column == 0 {
        return;
    }
    let (first, end) = (gap.begin.max(0) as usize, gap.end as usize);
    let stride = layout.lanes * column;
    let start = (first * layout.lanes + gap.lane as usize) * column;
    for target in out[start..].chunks_mut(stride).take(end - first) {
        target[..column].fill(0);
    }
}

/// Steps that are written of all lanes before the next ones are. The samples of a lane lie far apart, so that writing one lane
/// after the other asks for more pages than the processor remembers, and its prefetching sees no pattern. Later sweeps over frames
/// of 40 values with a context of 5:5, minibatches of 8.8 MB in 10 lanes, take 80 instead of 91 ms a million.
fn block_steps(layout: &Layout, records: usize, stride: usize) -> usize {
    /// Bytes of a block, about. Tests have many blocks.
    const BLOCK: usize = if cfg!(test) { 100 } else { 256 << 10 };
    /// Least number of samples that a sequence has in a block, on average: each run of samples begins with some extra work.
    const LEAST: usize = if cfg!(test) { 1 } else { 8 };
    let block = BLOCK.checked_div(stride).unwrap_or(1).max(1);
    let blocks = layout.steps.div_ceil(block);
    if records.saturating_mul(blocks).saturating_mul(LEAST) <= layout.steps.saturating_mul(layout.lanes) {
        block
    } else {
        layout.steps.max(1)
    }
}

/// Writes sequences of a dense stream, `column` bytes a sample and `element` bytes a value. The first records of `layout`
/// belong to `views`, in their order; the remaining records are gaps.
pub(in super::super) fn dense(
    out: &mut [u8],
    layout: &Layout,
    views: &[SequenceView<'_>],
    column: usize,
    element: usize,
) {
    if column == 0 {
        return;
    }
    if layout.steps == 1 {
        let mut done = 0;
        while done < views.len() {
            let (out, views) = (&mut out[done * column..], &views[done..]);
            done += match frames::one_step(out, column, element, views) {
                0 => one_step(out, column, element, views),
                count => count,
            };
        }
        return;
    }
    let stride = layout.lanes * column;
    let (records, gaps) = layout.records.split_at(views.len());
    let block = block_steps(layout, records.len(), stride);
    for start in (0..layout.steps).step_by(block) {
        for (i, (record, view)) in records.iter().zip(views).enumerate() {
            if let (0, Some(next)) = (start, views.get(i + AHEAD_SPREAD)) {
                prefetch::next_frames(next);
            }
            let begin = record.begin as usize;
            let from = start.saturating_sub(begin);
            let to = (start + block).saturating_sub(begin).min(view.samples as usize);
            if from >= to {
                continue;
            }
            let first = ((begin + from) * layout.lanes + record.lane as usize) * column;
            let (columns, count) = (Columns { first, stride, column }, to - from);
            match &view.kind {
                ViewKind::Frames(frames) => {
                    frames::run(out, columns, element, view.values, frames, from, count)
                }
                _ => run(out, columns, element, view, from, count),
            }
        }
    }
    for gap in gaps {
        zero_gap(out, layout, gap, column);
    }
}

/// Writes sequences of a binary stream, `column` bytes a sample: each lane lies in one piece, its samples one after the other,
/// and zeros after the last one.
pub(in super::super) fn sequential(out: &mut [u8], views: &[SequenceView<'_>], column: usize, steps: usize) {
    if column == 0 {
        return;
    }
    for (i, (lane, view)) in out.chunks_exact_mut(steps * column).zip(views).enumerate() {
        if let Some(next) = views.get(i + AHEAD_SPREAD) {
            prefetch::next(next);
        }
        let (data, rest) = lane.split_at_mut(view.samples as usize * column);
        data.copy_from_slice(view.values);
        rest.fill(0);
    }
}
