//! Copying sparse sequences.

use super::prefetch::{NoPrefetch, Prefetch, Prefetcher, copy_indices, copy_values, worthwhile};
use super::samples_in;
use crate::pack::layout::Layout;
use crate::pack::{block, check};
use cntk_reader_core::Result;
use cntk_reader_core::memory::compact::decimal;
use cntk_reader_core::memory::compact::narrow::{One, Stored};
use cntk_reader_core::sequence::{SequenceView, SparseView, ValueForm, ViewKind};
use std::ops::Range;

/// Minimum average number of samples of a sequence in a part.
const LEAST: usize = if cfg!(test) { 1 } else { 8 };

/// A unit of work: values and indices of a sparse stream's block.
pub(in super::super) struct SparsePart<'a> {
    values: &'a mut [u8],
    indices: &'a mut [u8],
    /// Number of the first value within the block.
    first: usize,
    /// Size of a value in bytes.
    element: usize,
    /// In a one-step layout, the sequences in this part; otherwise all.
    views: &'a [SequenceView<'a>],
    columns: PartColumns<'a>,
}

/// The destination columns of a part. `offsets` are those of columns.
enum PartColumns<'a> {
    /// A column for each view.
    OneStep { offsets: &'a mut [[u8; 4]] },
    /// The columns of the only sequence.
    OneLane { offsets: &'a mut [[u8; 4]] },
    /// Some steps of several lanes. `offsets`, of all columns, are already written. `single`: every
    /// sample has exactly one value.
    Lanes { offsets: &'a [[u8; 4]], layout: &'a Layout, steps: Range<usize>, single: bool },
}

impl<'a> SparsePart<'a> {
    /// Creates a part with the whole block `out`, of [`block::sparse_size`] bytes. `nnz` is the
    /// total number of the views' values, at most `i32::MAX`. The views must have passed
    /// [`check::sizes`].
    #[inline(always)]
    pub(super) fn whole(
        out: &'a mut [u8],
        layout: &'a Layout,
        views: &'a [SequenceView<'a>],
        element: usize,
        nnz: usize,
    ) -> Result<SparsePart<'a>> {
        let block::SparseParts { values, indices, offsets } = block::begin_sparse(out, element, nnz);
        // One past the last column.
        offsets[layout.columns()] = (nnz as u32).to_ne_bytes();
        let columns = if layout.steps == 1 {
            PartColumns::OneStep { offsets }
        } else if layout.lanes == 1 {
            PartColumns::OneLane { offsets }
        } else {
            let single = are_single(views);
            column_offsets(offsets, layout, views, single)?;
            PartColumns::Lanes { offsets, layout, steps: 0..layout.steps, single }
        };
        Ok(SparsePart { values, indices, first: 0, element, views, columns })
    }

    /// Splits into parts of about `bytes` bytes, which different threads may write.
    pub(super) fn split(self, bytes: usize) -> impl Iterator<Item = SparsePart<'a>> {
        let most = (bytes / (self.element + 4)).max(1);
        let parts = (self.values.len() / self.element).div_ceil(most);
        let pays = match &self.columns {
            PartColumns::OneStep { .. } => true,
            PartColumns::OneLane { .. } => false,
            // Each part searches all sequences for its steps.
            PartColumns::Lanes { layout, .. } => self.views.len() * parts * LEAST <= layout.columns(),
        };
        let most = if pays { most } else { usize::MAX };
        let mut rest = Some(self);
        std::iter::from_fn(move || {
            let (part, others) = rest.take()?.split_at(most);
            rest = others;
            Some(part)
        })
    }

    /// Splits off a part of about `most` values. Returns it and the rest.
    fn split_at(self, most: usize) -> (SparsePart<'a>, Option<SparsePart<'a>>) {
        let SparsePart { values, indices, first, element, views, columns } = self;
        let (mut own, mut other) = (views, views);
        let (count, columns, others) = match columns {
            PartColumns::OneStep { offsets } => {
                let (mut count, mut sequences) = (0, 0);
                while count < most && sequences < views.len() {
                    count += sparse_of(&views[sequences]).count();
                    sequences += 1;
                }
                (own, other) = views.split_at(sequences);
                let (offsets, others) = offsets.split_at_mut(sequences);
                let is_last = other.is_empty();
                let others = (!is_last).then_some(PartColumns::OneStep { offsets: others });
                (count, PartColumns::OneStep { offsets }, others)
            }
            PartColumns::OneLane { .. } => (values.len() / element, columns, None),
            PartColumns::Lanes { offsets, layout, steps, single } => {
                let at = |step: usize| u32::from_ne_bytes(offsets[step * layout.lanes]) as usize;
                let end = first.saturating_add(most);
                let step = (steps.start + 1..steps.end).find(|&step| at(step) >= end).unwrap_or(steps.end);
                let lanes = |steps| PartColumns::Lanes { offsets, layout, steps, single };
                let others = (step < steps.end).then(|| lanes(step..steps.end));
                (at(step) - first, lanes(steps.start..step), others)
            }
        };
        let (values, other_values) = values.split_at_mut(count * element);
        let (indices, other_indices) = indices.split_at_mut(count * 4);
        let rest = others.map(|columns| {
            let (values, indices, first) = (other_values, other_indices, first + count);
            SparsePart { values, indices, first, element, views: other, columns }
        });
        (SparsePart { values, indices, first, element, views: own, columns }, rest)
    }

    /// Writes the part.
    #[inline(always)]
    pub(super) fn write(self) -> Result<()> {
        let SparsePart { values, indices, first, element, views, columns } = self;
        match columns {
            PartColumns::OneStep { offsets } => match worthwhile(views, values.len()) {
                [] => one_step(values, indices, offsets, views, element, first, NoPrefetch),
                asked => one_step(values, indices, offsets, views, element, first, prefetcher_of(asked)),
            },
            PartColumns::OneLane { offsets } => match worthwhile(views, values.len()) {
                [] => return one_lane(values, indices, offsets, views, element, NoPrefetch),
                asked => return one_lane(values, indices, offsets, views, element, prefetcher_of(asked)),
            },
            PartColumns::Lanes { offsets, layout, steps, single } => {
                let source = LanesSource { offsets, base: first, layout, steps, views };
                match element {
                    4 => lanes::<4>(values, indices, &source, single),
                    _ => lanes::<8>(values, indices, &source, single),
                }
            }
        }
        Ok(())
    }
}

/// Prefetches values and indices, sequence by sequence. `view` returns the sequence with a given
/// number.
#[inline(always)]
fn prefetcher<'a>(view: impl Fn(usize) -> Option<SequenceView<'a>>) -> impl Prefetch {
    Prefetcher::new(move |i: usize| {
        let view = view(i / 2)?;
        Some(if i.is_multiple_of(2) { view.values } else { sparse_of(&view).indices })
    })
}

/// [`prefetcher`] for whole sequences.
#[inline(always)]
fn prefetcher_of<'a>(views: &'a [SequenceView<'a>]) -> impl Prefetch {
    prefetcher(|i| views.get(i).copied())
}

/// Copies sequences of one column each: values and indices are concatenated.
#[inline(never)]
fn one_step(
    mut values: &mut [u8],
    mut indices: &mut [u8],
    offsets: &mut [[u8; 4]],
    views: &[SequenceView<'_>],
    element: usize,
    first: usize,
    mut prefetch: impl Prefetch,
) {
    let mut at = first;
    for (view, offset) in views.iter().zip(offsets) {
        *offset = (at as u32).to_ne_bytes();
        let count = sparse_of(view).count();
        let target;
        (target, values) = values.split_at_mut(count * element);
        copy_values(&mut prefetch, target, view.values, view.form, element);
        let target;
        (target, indices) = indices.split_at_mut(count * 4);
        copy_indices(&mut prefetch, target, sparse_of(view).indices, sparse_of(view).narrow);
        at += count;
    }
}

/// Copies the only sequence, whose values are already in column order.
#[inline(never)]
fn one_lane(
    values: &mut [u8],
    indices: &mut [u8],
    offsets: &mut [[u8; 4]],
    views: &[SequenceView<'_>],
    element: usize,
    mut prefetch: impl Prefetch,
) -> Result<()> {
    for view in views {
        copy_values(&mut prefetch, values, view.values, view.form, element);
        copy_indices(&mut prefetch, indices, sparse_of(view).indices, sparse_of(view).narrow);
        let source = sparse_of(view).offsets;
        check::ascending(source)?;
        for (offset, from) in offsets.iter_mut().zip(source) {
            *offset = (from - source[0]).to_ne_bytes();
        }
    }
    Ok(())
}

/// Whether every sample has exactly one value. Most sequences declare this (`single`): not reading
/// the offsets makes sequences of words 5 % faster.
fn are_single(views: &[SequenceView<'_>]) -> bool {
    views
        .iter()
        .all(|view| view.sparse().is_some_and(|sparse| sparse.single || counts_by_one(sparse.offsets)))
}

/// Whether each offset is one more than the offset before it.
fn counts_by_one(offsets: &[u32]) -> bool {
    let first = offsets.first().copied().unwrap_or(0);
    // No early exit, so that the loop is vectorized.
    offsets
        .iter()
        .zip(0..)
        .fold(true, |single, (offset, number)| single & (offset.wrapping_sub(first) == number))
}

/// Fills in the offsets of all columns. First, each column gets its number of values, sequence by
/// sequence (or all at once if each is 1, as for words); columns of gaps get 0. Then one pass turns
/// the counts into running sums.
fn column_offsets(
    offsets: &mut [[u8; 4]],
    layout: &Layout,
    views: &[SequenceView<'_>],
    single: bool,
) -> Result<()> {
    let columns = &mut offsets[..layout.columns()];
    let (records, gaps) = layout.records.split_at(views.len());
    if single {
        columns.fill(1u32.to_ne_bytes());
        for gap in gaps {
            let (begin, end) = (gap.begin.max(0) as usize, gap.end as usize);
            let first = begin * layout.lanes + gap.lane as usize;
            let steps = columns[first..].iter_mut().step_by(layout.lanes).take(end - begin);
            steps.for_each(|column| *column = [0; 4]);
        }
    } else {
        columns.fill([0; 4]);
        for (record, view) in records.iter().zip(views) {
            let source = sparse_of(view).offsets;
            check::ascending(source)?;
            let first = record.begin as usize * layout.lanes + record.lane as usize;
            for (column, pair) in columns[first..].chunks_mut(layout.lanes).zip(source.windows(2)) {
                column[0] = (pair[1] - pair[0]).to_ne_bytes();
            }
        }
    }
    let mut at = 0u32;
    for column in columns {
        let count = u32::from_ne_bytes(*column);
        *column = at.to_ne_bytes();
        at += count;
    }
    Ok(())
}

/// The source of a copy to some steps of several lanes.
struct LanesSource<'a> {
    /// The offsets of all columns.
    offsets: &'a [[u8; 4]],
    /// The first offset of the steps.
    base: usize,
    layout: &'a Layout,
    steps: Range<usize>,
    views: &'a [SequenceView<'a>],
}

impl LanesSource<'_> {
    /// Whether all steps are included.
    fn is_whole(&self) -> bool {
        self.steps == (0..self.layout.steps)
    }
}

/// Copies the samples of all lanes. `single`: every sample has exactly one value.
fn lanes<const E: usize>(values: &mut [u8], indices: &mut [u8], source: &LanesSource<'_>, single: bool)
where
    u8: Stored<E>,
    One: Stored<E>,
{
    let asked = worthwhile(source.views, values.len());
    match (single, source.is_whole()) {
        // Mostly words and labels in short sequences.
        (true, true) => scatter::<E, true, true>(values, indices, source, NoPrefetch),
        (true, false) => scatter::<E, true, false>(values, indices, source, NoPrefetch),
        (false, true) if asked.is_empty() => scatter::<E, false, true>(values, indices, source, NoPrefetch),
        (false, true) => scatter::<E, false, true>(values, indices, source, prefetcher_of(asked)),
        (false, false) => {
            let part = |i: usize| {
                let (record, view) = (source.layout.records.get(i)?, asked.get(i)?);
                let samples = samples_in(&source.steps, record.begin as usize, view);
                Some(part_of(view, samples, E))
            };
            scatter::<E, false, false>(values, indices, source, prefetcher(part))
        }
    }
}

/// Copies the values and indices of each sample to its column. `SINGLE`: every sample has exactly
/// one value. `WHOLE`: all steps; a separate instance, because the code for parts makes words 6 %
/// slower. Not inlined, to keep loop variables in registers (3 to 7 %).
#[inline(never)]
fn scatter<const E: usize, const SINGLE: bool, const WHOLE: bool>(
    values: &mut [u8],
    indices: &mut [u8],
    source: &LanesSource<'_>,
    mut prefetch: impl Prefetch,
) where
    u8: Stored<E>,
    One: Stored<E>,
{
    let &LanesSource { offsets, base, layout, ref steps, views } = source;
    let base = if WHOLE { 0 } else { base };
    let values = values.as_chunks_mut::<E>().0;
    let indices = &mut indices.as_chunks_mut::<4>().0[..values.len()];
    for (record, view) in layout.records.iter().zip(views) {
        let (mut begin, mut view) = (record.begin as usize, view);
        let cut;
        if !WHOLE {
            let samples = samples_in(steps, begin, view);
            if samples.is_empty() {
                continue;
            }
            begin += samples.start;
            cut = part_of(view, samples, E);
            view = &cut;
        }
        let first = begin * layout.lanes + record.lane as usize;
        let source = sparse_of(view);
        let columns =
            SequenceColumns { columns: &offsets[first..], step: layout.lanes, base, offsets: source.offsets };
        let (wide_values, wide_indices) = (view.values.as_chunks::<E>().0, source.indices.as_chunks::<4>().0);
        let narrow_indices = source.indices.as_chunks::<2>().0;
        match (view.form, source.narrow) {
            (ValueForm::Byte, false) => {
                columns.put::<E, SINGLE, _, _>(&mut prefetch, values, indices, view.values, wide_indices)
            }
            (ValueForm::Byte, true) => {
                columns.put::<E, SINGLE, _, _>(&mut prefetch, values, indices, view.values, narrow_indices)
            }
            (ValueForm::Ones, false) => {
                columns.put::<E, SINGLE, _, _>(&mut prefetch, values, indices, One::EVER, wide_indices)
            }
            (ValueForm::Ones, true) => {
                columns.put::<E, SINGLE, _, _>(&mut prefetch, values, indices, One::EVER, narrow_indices)
            }
            (ValueForm::Decimal(form), narrow) => {
                // Copy by sample: samples of decimals have many values.
                let load = |target: &mut [[u8; E]], from: usize| {
                    decimal::load(target.as_flattened_mut(), &view.values[from * form.size()..], form);
                };
                match narrow {
                    false => {
                        columns.put_samples(&mut prefetch, values, indices, wide_indices, form.size(), load)
                    }
                    true => {
                        columns.put_samples(&mut prefetch, values, indices, narrow_indices, form.size(), load)
                    }
                }
            }
            // Integers (`Narrow`, `Int`) are never sparse.
            (ValueForm::Whole | ValueForm::Narrow | ValueForm::Int, false) => {
                columns.put::<E, SINGLE, _, _>(&mut prefetch, values, indices, wide_values, wide_indices)
            }
            (ValueForm::Whole | ValueForm::Narrow | ValueForm::Int, true) => {
                columns.put::<E, SINGLE, _, _>(&mut prefetch, values, indices, wide_values, narrow_indices)
            }
        }
    }
}

/// Returns some samples of a sparse sequence with values of `element` bytes.
fn part_of<'a>(view: &SequenceView<'a>, samples: Range<usize>, element: usize) -> SequenceView<'a> {
    let source = sparse_of(view);
    let offsets = &source.offsets[samples.start..=samples.end];
    let entry = |offset: &u32| (offset - source.offsets[0]) as usize;
    let entries = entry(&offsets[0])..entry(&offsets[samples.len()]);
    let cut = |bytes: &'a [u8], size: usize| &bytes[entries.start * size..entries.end * size];
    let indices = cut(source.indices, if source.narrow { 2 } else { 4 });
    SequenceView {
        samples: samples.len() as u32,
        values: cut(view.values, view.form.size(element)),
        form: view.form,
        kind: ViewKind::Sparse(SparseView { indices, offsets, ..source }),
    }
}

/// The destination columns of one sequence's samples.
struct SequenceColumns<'a> {
    /// Offsets of the minibatch's columns from the first sample's column on. Every `step`th column
    /// belongs to this sequence.
    columns: &'a [[u8; 4]],
    step: usize,
    /// Number of the first value to write.
    base: usize,
    /// Offsets of the samples among the sequence's values.
    offsets: &'a [u32],
}

impl SequenceColumns<'_> {
    #[inline(always)]
    fn put<const E: usize, const SINGLE: bool, V: Stored<E>, R: Stored<4>>(
        &self,
        prefetch: &mut impl Prefetch,
        values: &mut [[u8; E]],
        indices: &mut [[u8; 4]],
        source_values: &[V],
        source_indices: &[R],
    ) {
        if SINGLE {
            let columns = self.columns.iter().step_by(self.step);
            for (column, (value, index)) in columns.zip(source_values.iter().zip(source_indices)) {
                let at = u32::from_ne_bytes(*column) as usize - self.base;
                values[at] = value.widen();
                indices[at] = index.widen();
            }
            return;
        }
        self.put_samples(prefetch, values, indices, source_indices, size_of::<V>(), |target, from| {
            let source = &source_values[from..][..target.len()];
            target.iter_mut().zip(source).for_each(|(target, value)| *target = value.widen());
        });
    }

    /// Copies sample by sample. `put_values` writes values of the sequence, starting with the given
    /// number.
    #[inline(always)]
    fn put_samples<const E: usize, R: Stored<4>>(
        &self,
        prefetch: &mut impl Prefetch,
        values: &mut [[u8; E]],
        indices: &mut [[u8; 4]],
        source_indices: &[R],
        value_size: usize,
        put_values: impl Fn(&mut [[u8; E]], usize),
    ) {
        let mut from = 0;
        for (column, pair) in self.columns.chunks(self.step).zip(self.offsets.windows(2)) {
            let at = u32::from_ne_bytes(column[0]) as usize - self.base;
            let count = (pair[1] - pair[0]) as usize;
            prefetch.copies(count * (value_size + size_of::<R>()));
            put_values(&mut values[at..][..count], from);
            for (target, index) in indices[at..][..count].iter_mut().zip(&source_indices[from..][..count]) {
                *target = index.widen();
            }
            from += count;
        }
    }
}

/// Returns the sparse part of a view, or an empty one if the view is dense.
#[inline(always)]
fn sparse_of<'a>(view: &SequenceView<'a>) -> SparseView<'a> {
    view.sparse().copied().unwrap_or(SparseView { indices: &[], narrow: false, offsets: &[], single: false })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pack::copy::running_sums;
    use crate::pack::layout::Record;

    #[test]
    fn single_value_samples_match_the_general_path() {
        let lengths = [3, 1, 7, 2, 2, 5, 1, 1, 6, 4];
        let bytes =
            |from: u32, count: u32| -> Vec<u8> { (from..from + count).flat_map(u32::to_ne_bytes).collect() };
        let data: Vec<(Vec<u8>, Vec<u8>, Vec<u32>)> = (lengths.iter().zip(1u32..))
            .map(|(&length, i)| (bytes(100 * i, length), bytes(1000 * i, length), (i..=i + length).collect()))
            .collect();
        let views: Vec<SequenceView<'_>> = (data.iter().zip(lengths))
            .map(|((values, indices, offsets), samples)| SequenceView {
                samples,
                values,
                form: ValueForm::Whole,
                kind: ViewKind::Sparse(SparseView { indices, narrow: false, offsets, single: false }),
            })
            .collect();
        assert!(are_single(&views));
        let mut layout = Layout::default();
        crate::pack::first_fit::FirstFit::default().lay_out(&lengths, &mut layout).expect("memory");
        let nnz = lengths.iter().sum::<u32>() as usize;
        let [one, other] = [true, false].map(|single| {
            let mut offsets = vec![[9; 4]; layout.columns()];
            let (mut values, mut indices) = (vec![0; nnz * 4], vec![0; nnz * 4]);
            column_offsets(&mut offsets, &layout, &views, single).expect("columns");
            let write = if single { scatter::<4, true, true> } else { scatter::<4, false, true> };
            let source = LanesSource {
                offsets: &offsets,
                base: 0,
                layout: &layout,
                steps: 0..layout.steps,
                views: &views,
            };
            write(&mut values, &mut indices, &source, NoPrefetch);
            (offsets, values, indices)
        });
        assert_eq!(one, other);
    }

    /// In one step, one lane and several lanes, and with single entries, decimals give the same
    /// result as full-width values.
    #[test]
    fn decimals_match_full_width_values() {
        for counts in [
            &[&[20_u32, 0, 3][..], &[1], &[17, 40]][..],
            &[&[5], &[16]],
            &[&[7, 30]],
            &[&[1, 1], &[1], &[1, 1, 1]],
        ] {
            let lengths: Vec<u32> = counts.iter().map(|counts| counts.len() as u32).collect();
            let nnz = counts.iter().copied().flatten().sum::<u32>();
            let all: Vec<f32> =
                (0..nnz).map(|i| [-0.0, -163.84, 0.01, 99.5, 327.67][i as usize % 5]).collect();
            let whole: Vec<u8> = all.iter().flat_map(|value| value.to_ne_bytes()).collect();
            let mut stored = Vec::new();
            let form = decimal::store(&all, 2, &mut stored).expect("memory").expect("two decimals");
            assert_eq!(form.size(), 2);
            let indices: Vec<u8> = (0..nnz as u16).flat_map(|i| (i * 3).to_ne_bytes()).collect();
            let offsets: Vec<Vec<u32>> = counts.iter().map(|counts| running_sums(counts)).collect();
            let mut layout = Layout::default();
            crate::pack::first_fit::FirstFit::default().lay_out(&lengths, &mut layout).expect("memory");
            let [expected, found] =
                [(&whole, ValueForm::Whole), (&stored, ValueForm::Decimal(form))].map(|(values, form)| {
                    let (size, mut from) = (form.size(4), 0);
                    let views: Vec<SequenceView<'_>> = (offsets.iter().zip(&lengths))
                        .map(|(offsets, &samples)| {
                            let end = from + offsets[samples as usize] as usize;
                            let entries = std::mem::replace(&mut from, end)..end;
                            let indices = &indices[entries.start * 2..entries.end * 2];
                            let kind = ViewKind::Sparse(SparseView {
                                indices,
                                narrow: true,
                                offsets,
                                single: false,
                            });
                            SequenceView {
                                samples,
                                values: &values[entries.start * size..entries.end * size],
                                form,
                                kind,
                            }
                        })
                        .collect();
                    let mut out =
                        vec![9; block::sparse_size(nnz as usize, 4, layout.columns()).expect("a size")];
                    let part =
                        SparsePart::whole(&mut out, &layout, &views, 4, nnz as usize).expect("offsets");
                    part.write().expect("copied");
                    out
                });
            assert_eq!(found, expected, "{counts:?}");
        }
    }

    #[test]
    fn falling_offsets_are_an_error() {
        let indices = [0; 8];
        let view = SequenceView {
            samples: 3,
            values: &[0; 8],
            form: ValueForm::Whole,
            kind: ViewKind::Sparse(SparseView {
                indices: &indices,
                narrow: false,
                offsets: &[0, 2, 1, 2],
                single: false,
            }),
        };
        let record = Record { id: 0, lane: 0, begin: 0, end: 3 };
        let layout =
            Layout { steps: 3, lanes: 1, records: vec![record], right_splice: 0, sequence_major: false };
        let write = |out: &mut [u8], layout: &Layout, views: &[SequenceView<'_>], nnz: usize| {
            SparsePart::whole(out, layout, views, 4, nnz).and_then(SparsePart::write)
        };
        assert!(write(&mut [0; 8 + 16 + 16], &layout, &[view], 2).is_err());
        let layout = Layout {
            steps: 3,
            lanes: 2,
            records: vec![record, Record { lane: 1, ..record }],
            right_splice: 0,
            sequence_major: false,
        };
        assert!(write(&mut [0; 8 + 32 + 28], &layout, &[view, view], 4).is_err());
    }

    #[test]
    fn offsets_of_single_entries_count_by_one() {
        for (offsets, expected) in [
            (&[][..], true),
            (&[5], true),
            (&[5, 6, 7], true),
            (&[u32::MAX, 0, 1], true),
            (&[5, 5], false),
            (&[5, 7, 7], false),
            (&[5, 7, 8], false),
            (&[0, 1, 3, 3, 4], false),
        ] {
            assert_eq!(counts_by_one(offsets), expected, "{offsets:?}");
        }
        let view = |single, offsets| {
            let kind = ViewKind::Sparse(SparseView { indices: &[], narrow: false, offsets, single });
            SequenceView { samples: 1, values: &[], form: ValueForm::Ones, kind }
        };
        let (declared, counted, others) = (view(true, &[0, 2]), view(false, &[0, 1]), view(false, &[0, 2]));
        assert!(are_single(&[declared, counted]) && are_single(&[]));
        assert!(!are_single(&[declared, others]) && !are_single(&[others, counted]));
        assert!(!are_single(&[SequenceView { kind: ViewKind::Dense, ..declared }]));
    }
}
