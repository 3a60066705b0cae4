//! Copying dense sequences.

use super::Columns;
use super::frames;
use super::nontemporal;
use super::prefetch::{EightAhead, NoPrefetch, Prefetch, Prefetcher, beginning, copy_values, worthwhile};
use super::samples_in;
use crate::pack::layout::{Layout, Record};
use cntk_reader_core::memory::compact::widen;
use cntk_reader_core::sequence::{SequenceView, ValueForm, ViewKind};
use std::ops::Range;

/// Approximate size in bytes of a block of steps. Smaller in tests, to get many blocks.
const BLOCK: usize = if cfg!(test) { 100 } else { 256 << 10 };

/// Minimum average number of samples of a sequence in a block of steps.
const LEAST: usize = if cfg!(test) { 1 } else { 8 };

/// Size in bytes up to which a sample is prefetched as a whole.
const SHORT: usize = 1 << 10;

/// Cost of starting a run of samples, as the approximate number of bytes copied in the same time.
const RUN: usize = if cfg!(test) { 1 } else { 1000 };

/// Returns the stored bytes of samples of a dense sequence. Its columns have `column` bytes, with
/// `element` bytes per value.
#[inline(always)]
pub(super) fn stored_samples<'a>(
    view: &SequenceView<'a>,
    samples: Range<usize>,
    column: usize,
    element: usize,
) -> &'a [u8] {
    let stored = column / element * view.form.size(element);
    &view.values[samples.start * stored..samples.end * stored]
}

/// Copies samples of a dense sequence stored in `form`, with `element` bytes per value.
#[inline]
pub(super) fn run(
    out: &mut [u8],
    columns: Columns,
    element: usize,
    samples: &[u8],
    form: ValueForm,
    prefetch: &mut impl Prefetch,
) {
    let Columns { first, stride, column } = columns;
    if samples.is_empty() {
        return;
    }
    let stored = column / element * form.size(element);
    let out = &mut out[first..];
    if stride == column {
        let bytes = samples.len() / stored * column;
        return copy_values(prefetch, &mut out[..bytes], samples, form, element);
    }
    if form == ValueForm::Whole && strided(out, columns, samples, prefetch) {
        return;
    }
    for (target, sample) in out.chunks_mut(stride).zip(samples.chunks_exact(stored)) {
        copy_values(prefetch, &mut target[..column], sample, form, element);
    }
}

/// Copies samples of 4 to 64 bytes that need no conversion. Returns false for other sizes.
///
/// Selects a loop by size once for all samples: for samples of 20 bytes in several lanes, this is
/// 60 % faster than calling `memcpy` for each, and 30 % faster than [`widen::values`]. Not inlined,
/// because that slows short sequences down by 5 %.
#[inline(never)]
fn strided(out: &mut [u8], columns: Columns, samples: &[u8], prefetch: &mut impl Prefetch) -> bool {
    /// Samples of `N` bytes.
    fn exact<const N: usize>(out: &mut [u8], stride: usize, samples: &[u8], prefetch: &mut impl Prefetch) {
        prefetch.copies(samples.len());
        for (target, source) in out.chunks_mut(stride).zip(samples.as_chunks::<N>().0) {
            target[..N].copy_from_slice(source);
        }
    }
    /// Samples of `N` to `2 * N` bytes.
    fn by_ends<const N: usize>(
        out: &mut [u8],
        columns: Columns,
        samples: &[u8],
        prefetch: &mut impl Prefetch,
    ) {
        let Columns { stride, column, .. } = columns;
        for (target, source) in out.chunks_mut(stride).zip(samples.chunks_exact(column)) {
            prefetch.copies(column);
            widen::ends::<N>(&mut target[..column], source);
        }
    }
    let stride = columns.stride;
    match columns.column {
        4 => exact::<4>(out, stride, samples, prefetch),
        8 => exact::<8>(out, stride, samples, prefetch),
        12 => exact::<12>(out, stride, samples, prefetch),
        16 => exact::<16>(out, stride, samples, prefetch),
        17..=32 => by_ends::<16>(out, columns, samples, prefetch),
        33..=64 => by_ends::<32>(out, columns, samples, prefetch),
        _ => return false,
    }
    true
}

/// Copies sequences of one sample each to consecutive columns, up to the first sequence made of
/// frames. Returns the number of sequences copied.
#[inline(never)]
fn one_step(
    out: &mut [u8],
    column: usize,
    element: usize,
    views: &[SequenceView<'_>],
    is_nontemporal: bool,
    mut prefetch: impl Prefetch,
) -> usize {
    for (i, (target, view)) in out.chunks_exact_mut(column).zip(views).enumerate() {
        if let ViewKind::Frames(_) = view.kind {
            return i;
        }
        if !is_nontemporal || !nontemporal::values(target, view.values, view.form, element) {
            copy_values(&mut prefetch, target, view.values, view.form, element);
        }
    }
    views.len()
}

/// Whether to bypass the caches when writing a block with columns of `column` bytes.
fn is_nontemporal(out: &[u8], column: usize) -> bool {
    /// Exceeds a core's private caches: the first columns are evicted before the last ones are
    /// written.
    const BLOCK: usize = 16 << 20;
    /// Smaller columns would have too many partial cache lines.
    const COLUMN: usize = 4 << 10;
    out.len() >= BLOCK && column >= COLUMN
}

/// Zeroes the columns of a gap, of `column` bytes each.
fn zero_gap(out: &mut [u8], layout: &Layout, gap: &Record, column: usize) {
    fill_gap(out, layout, gap, column, &[0]);
}

/// Fills the columns of a gap, of `column` bytes each, with one value.
pub(in super::super) fn fill_gap(out: &mut [u8], layout: &Layout, gap: &Record, column: usize, value: &[u8]) {
    if column == 0 {
        return;
    }
    let (first, end) = (gap.begin.max(0) as usize, gap.end as usize);
    let stride = layout.lanes * column;
    let start = (first * layout.lanes + gap.lane as usize) * column;
    for target in out[start..].chunks_mut(stride).take(end - first) {
        match value {
            [byte] => target[..column].fill(*byte),
            value => {
                let values = target[..column].chunks_exact_mut(value.len());
                values.for_each(|target| target.copy_from_slice(value));
            }
        }
    }
}

/// Returns the number of steps in a block of about `bytes` bytes. All lanes of a block are written
/// before the next block. Starting a sequence in a block costs as much as copying `run` bytes, and
/// a sequence may span all blocks. If that could cost more than copying all data, returns a single
/// block with all steps.
fn block_steps(layout: &Layout, records: usize, column: usize, bytes: usize, run: usize) -> usize {
    let stride = layout.lanes * column;
    let block = bytes.checked_div(stride).unwrap_or(1).max(1);
    let blocks = layout.steps.div_ceil(block);
    if records.saturating_mul(blocks).saturating_mul(run) <= layout.steps.saturating_mul(stride) {
        block
    } else {
        layout.steps.max(1)
    }
}

/// A unit of work: columns of a dense stream. Contains some of the steps or, in a one-step layout,
/// some of the sequences.
pub(in super::super) struct DensePart<'a> {
    out: &'a mut [u8],
    layout: &'a Layout,
    /// In a one-step layout, the sequences in `out`; otherwise all.
    views: &'a [SequenceView<'a>],
    steps: Range<usize>,
    /// Size of a sample in bytes.
    column: usize,
    /// Size of a value in bytes.
    element: usize,
    /// Whether writes bypass the caches.
    is_nontemporal: bool,
}

impl<'a> DensePart<'a> {
    /// Creates a part with all columns of a stream. The first records of `layout` belong to
    /// `views`, in the same order; the remaining records are gaps.
    #[inline(always)]
    pub(super) fn whole(
        out: &'a mut [u8],
        layout: &'a Layout,
        views: &'a [SequenceView<'a>],
        column: usize,
        element: usize,
    ) -> DensePart<'a> {
        let is_nontemporal = layout.steps == 1 && is_nontemporal(out, column);
        DensePart { out, layout, views, steps: 0..layout.steps, column, element, is_nontemporal }
    }

    /// Splits into parts of about `bytes` bytes, which different threads may write.
    pub(super) fn split(self, bytes: usize) -> impl Iterator<Item = DensePart<'a>> {
        let DensePart { out, layout, views, steps, column, element, is_nontemporal } = self;
        let is_one_step = layout.steps == 1;
        let (unit, count) = if is_one_step {
            (column, (bytes / column.max(1)).max(1))
        } else {
            // Each run reads the context of its frames again.
            let is_frame = |view: &SequenceView<'_>| matches!(view.kind, ViewKind::Frames(_));
            let run = if views.iter().any(is_frame) { LEAST * column } else { RUN };
            (layout.lanes * column, block_steps(layout, views.len(), column, bytes, run))
        };
        (0..).zip(out.chunks_mut((unit * count).max(1))).map(move |(number, out)| {
            let begin: usize = number * count;
            let (views, steps) = match is_one_step {
                true => (&views[begin..(begin + count).min(views.len())], 0..1),
                false => (views, begin..(begin + count).min(steps.end)),
            };
            DensePart { out, layout, views, steps, column, element, is_nontemporal }
        })
    }

    /// Writes the part.
    #[inline(always)]
    pub(super) fn write(self) {
        if self.column == 0 {
            return;
        }
        match self.layout.steps {
            1 => self.write_one_step(),
            _ => self.write_steps(),
        }
    }

    fn write_one_step(self) {
        let DensePart { out, views, column, element, is_nontemporal, .. } = self;
        let mut done = 0;
        while done < views.len() {
            let (out, views) = (&mut out[done * column..], &views[done..]);
            done += match frames::one_step(out, column, element, views) {
                0 => match worthwhile(views, out.len()) {
                    [] => one_step(out, column, element, views, is_nontemporal, NoPrefetch),
                    asked if column <= SHORT => {
                        one_step(out, column, element, views, is_nontemporal, EightAhead(asked))
                    }
                    asked => {
                        let prefetcher = Prefetcher::new(|i: usize| asked.get(i).map(|view| view.values));
                        one_step(out, column, element, views, is_nontemporal, prefetcher)
                    }
                },
                count => count,
            };
        }
    }

    /// Writes blocks of steps, with all lanes of a block before the next one. The samples of a lane
    /// lie far apart: writing lane by lane would exceed the TLB and defeat the hardware prefetcher,
    /// which is 14 % slower for frames with context in 10 lanes.
    #[inline(never)]
    fn write_steps(mut self) {
        let DensePart { layout, views, ref steps, column, .. } = self;
        let (first, steps) = (steps.start, steps.clone());
        let block = block_steps(layout, views.len(), column, BLOCK, LEAST * column);
        for start in steps.clone().step_by(block) {
            let block = start..(start + block).min(steps.end);
            match worthwhile(views, self.out.len()) {
                [] => self.write_block(&block, NoPrefetch),
                asked => self.write_block(&block, self.prefetcher(&block, asked)),
            }
        }
        for gap in &layout.records[views.len()..] {
            let (begin, end) = (gap.begin.max(first as i64), gap.end.min(steps.end as u64));
            if begin < end as i64 {
                let (begin, end) = (begin - first as i64, end - first as u64);
                zero_gap(self.out, layout, &Record { begin, end, ..*gap }, column);
            }
        }
    }

    /// Prefetches the data of sequences in a block of steps. For frames, which occur in several
    /// samples, prefetches only the beginning of each sequence.
    fn prefetcher<'b>(
        &self,
        block: &'b Range<usize>,
        views: &'b [SequenceView<'b>],
    ) -> impl Prefetch + use<'a, 'b> {
        let &DensePart { layout, column, element, .. } = self;
        Prefetcher::new(move |i: usize| {
            let (record, view) = (layout.records.get(i)?, views.get(i)?);
            match view.kind {
                ViewKind::Frames(_) => (block.start == 0).then(|| beginning(view)),
                _ => {
                    let samples = samples_in(block, record.begin as usize, view);
                    Some(stored_samples(view, samples, column, element))
                }
            }
        })
    }

    /// Writes a block of steps.
    #[inline(always)]
    fn write_block(&mut self, block: &Range<usize>, mut prefetch: impl Prefetch) {
        let &mut DensePart { ref mut out, layout, views, ref steps, column, element, .. } = self;
        let stride = layout.lanes * column;
        for (record, view) in layout.records.iter().zip(views) {
            let begin = record.begin as usize;
            let samples = samples_in(block, begin, view);
            if samples.is_empty() {
                continue;
            }
            let (from, count) = (samples.start, samples.len());
            let first = ((begin + from - steps.start) * layout.lanes + record.lane as usize) * column;
            let columns = Columns { first, stride, column };
            match &view.kind {
                ViewKind::Frames(frames) => {
                    prefetch.copies(beginning(view).len());
                    frames::run(out, columns, element, view.values, frames, from, count)
                }
                _ => {
                    let samples = stored_samples(view, samples, column, element);
                    run(out, columns, element, samples, view.form, &mut prefetch)
                }
            }
        }
    }
}

/// A unit of work: sequences of a binary stream with `column` bytes per sample. Each lane is
/// contiguous: its samples, followed by zeros.
pub(in super::super) struct BinaryLanes<'a> {
    pub(super) out: &'a mut [u8],
    pub(super) views: &'a [SequenceView<'a>],
    pub(super) column: usize,
    pub(super) steps: usize,
}

impl BinaryLanes<'_> {
    /// Writes the lanes.
    #[inline(never)]
    pub(super) fn write(self) {
        let BinaryLanes { out, views, column, steps } = self;
        if column == 0 {
            return;
        }
        let mut prefetch = Prefetcher::new(|i: usize| views.get(i).map(|view| view.values));
        for (lane, view) in out.chunks_exact_mut(steps * column).zip(views) {
            let (data, rest) = lane.split_at_mut(view.samples as usize * column);
            copy_values(&mut prefetch, data, view.values, ValueForm::Whole, 1);
            rest.fill(0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pack::layout::GAP;
    use cntk_reader_core::sequence::{FrameEncoding, FrameSpec, FrameView};

    #[test]
    fn blocks_of_steps_must_pay() {
        let layout = Layout { steps: 10, lanes: 2, ..Layout::default() };
        // Columns of 4 bytes: 8 bytes in a step, 80 in all.
        for (records, bytes, run, expected) in [
            (2, 24, 10, 3),
            (2, 24, 11, 10),
            (2, 31, 10, 3),
            (2, 32, 13, 4),
            (2, 80, 40, 10),
            (2, 7, 4, 1),
            (3, 7, 4, 10),
        ] {
            assert_eq!(block_steps(&layout, records, 4, bytes, run), expected, "{records} {bytes} {run}");
        }
        assert_eq!(block_steps(&layout, 2, 0, 24, 1), 10);
        assert_eq!(block_steps(&Layout::default(), 0, 4, 24, 1), 1);
    }

    #[test]
    fn gaps_are_filled() {
        let layout = Layout { steps: 4, lanes: 3, ..Layout::default() };
        let gap = Record { id: GAP, lane: 1, begin: 1, end: 3 };
        let filled = |gap: &Record, column: usize, value: &[u8]| {
            let mut out = vec![9; 12 * column];
            fill_gap(&mut out, &layout, gap, column, value);
            out
        };
        let mut expected = vec![9; 24];
        expected[8..10].copy_from_slice(&[5, 5]);
        expected[14..16].copy_from_slice(&[5, 5]);
        assert_eq!(filled(&gap, 2, &[5]), expected);
        expected[8..10].copy_from_slice(&[5, 6]);
        expected[14..16].copy_from_slice(&[5, 6]);
        assert_eq!(filled(&gap, 2, &[5, 6]), expected);
        assert_eq!(filled(&gap, 0, &[5]), []);
        let from_before = Record { begin: -2, end: 1, lane: 0, ..gap };
        assert_eq!(filled(&from_before, 1, &[0]), [0, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9]);
    }

    #[test]
    fn sequences_of_one_sample_are_copied_up_to_frames() {
        let spec = FrameSpec { dim: 1, encoding: FrameEncoding::Float, left: 0, right: 0 };
        let frames = ViewKind::Frames(FrameView { first: 0, spec: &spec });
        let view = |kind| SequenceView { samples: 1, values: &[1, 2, 3, 4], form: ValueForm::Whole, kind };
        let dense = view(ViewKind::Dense);
        for (views, expected) in
            [(&[dense; 3], 3), (&[dense, view(frames), dense], 1), (&[view(frames), dense, dense], 0)]
        {
            let mut out = vec![9; 12];
            let count = one_step(&mut out, 4, 4, views, false, NoPrefetch);
            assert_eq!(count, expected);
            assert_eq!(out, [[1, 2, 3, 4].repeat(count), vec![9; 12 - 4 * count]].concat());
        }
    }
}
