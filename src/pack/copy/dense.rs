//! Copying dense sequences.

use super::prefetch::{self, AHEAD, AHEAD_SPREAD};
use crate::compact::widen;
use crate::pack::layout::{Layout, Record};
use crate::sequence::{SequenceView, ValueForm};

/// Copies samples of `column` bytes to columns that lie `stride` bytes apart, the first one at `first`.
pub(in super::super) fn strided(out: &mut [u8], first: usize, stride: usize, column: usize, samples: &[u8]) {
    fn fixed<const N: usize>(out: &mut [u8], stride: usize, samples: &[u8]) {
        for (target, source) in out.chunks_mut(stride).zip(samples.as_chunks::<N>().0) {
            target[..N].copy_from_slice(source);
        }
    }
    if samples.is_empty() {
        return;
    }
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

/// Writes dense sequences, `column` bytes a sample and `element` bytes a value. The first records of `layout` belong to
/// `views`, in their order; the remaining records are gaps.
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
        for (i, (target, view)) in out.chunks_exact_mut(column).zip(views).enumerate() {
            if let Some(next) = views.get(i + AHEAD) {
                prefetch::next(next);
            }
            widen::values(target, view.values, view.form, element);
        }
        return;
    }
    let stride = layout.lanes * column;
    let (records, gaps) = layout.records.split_at(views.len());
    for (i, (record, view)) in records.iter().zip(views).enumerate() {
        if let Some(next) = views.get(i + AHEAD_SPREAD) {
            prefetch::next(next);
        }
        let first = (record.begin as usize * layout.lanes + record.lane as usize) * column;
        if view.form != ValueForm::Whole {
            let samples = view.values.chunks_exact(column / element * view.form.size(element));
            for (target, sample) in out[first..].chunks_mut(stride).zip(samples) {
                widen::values(&mut target[..column], sample, view.form, element);
            }
            continue;
        }
        strided(out, first, stride, column, view.values);
    }
    for gap in gaps {
        zero_gap(out, layout, gap, column);
    }
}
