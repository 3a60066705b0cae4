//! Copying sparse sequences.

use super::prefetch::{self, AHEAD, AHEAD_SPREAD};
use crate::Result;
use crate::compact::narrow::{One, Stored};
use crate::compact::{decimal, widen};
use crate::pack::layout::Layout;
use crate::pack::{block, check};
use crate::sequence::{SequenceView, SparseView, ValueForm};

/// Writes the block of sparse sequences, `out`, which has the size that [`block::sparse_size`] gives. `nnz` is the total
/// number of the views' values, at most `i32::MAX`. The views must have passed [`check::sizes`].
pub(in super::super) fn sparse(
    out: &mut [u8],
    layout: &Layout,
    views: &[SequenceView<'_>],
    element: usize,
    nnz: usize,
) -> Result<()> {
    let block::SparseParts { values, indices, offsets } = block::begin_sparse(out, element, nnz);
    // One past the last column.
    offsets[layout.columns()] = (nnz as u32).to_ne_bytes();
    if layout.steps == 1 {
        one_step(values, indices, offsets, views, element);
        return Ok(());
    }
    if layout.lanes == 1 {
        return one_lane(values, indices, offsets, views, element);
    }
    let single = are_single(views);
    column_offsets(offsets, layout, views, single)?;
    match (element, single) {
        (4, true) => scatter::<4, true>(values, indices, offsets, layout, views),
        (4, false) => scatter::<4, false>(values, indices, offsets, layout, views),
        (_, true) => scatter::<8, true>(values, indices, offsets, layout, views),
        (_, false) => scatter::<8, false>(values, indices, offsets, layout, views),
    }
    Ok(())
}

/// Copies sequences that are one column each: values and indices are laid end to end.
fn one_step(
    mut values: &mut [u8],
    mut indices: &mut [u8],
    offsets: &mut [[u8; 4]],
    views: &[SequenceView<'_>],
    element: usize,
) {
    let mut at = 0;
    for (i, (view, offset)) in views.iter().zip(offsets).enumerate() {
        if let Some(next) = views.get(i + AHEAD) {
            prefetch::next(next);
        }
        *offset = (at as u32).to_ne_bytes();
        let count = sparse_of(view).count();
        let target;
        (target, values) = values.split_at_mut(count * element);
        widen::values(target, view.values, view.form, element);
        let target;
        (target, indices) = indices.split_at_mut(count * 4);
        widen::indices(target, sparse_of(view).indices, sparse_of(view).narrow);
        at += count;
    }
}

/// Copies the only sequence there is, whose values are already in the order of columns.
fn one_lane(
    values: &mut [u8],
    indices: &mut [u8],
    offsets: &mut [[u8; 4]],
    views: &[SequenceView<'_>],
    element: usize,
) -> Result<()> {
    for view in views {
        widen::values(values, view.values, view.form, element);
        widen::indices(indices, sparse_of(view).indices, sparse_of(view).narrow);
        let source = sparse_of(view).offsets;
        check::ascending(source)?;
        for (offset, from) in offsets.iter_mut().zip(source) {
            *offset = (from - source[0]).to_ne_bytes();
        }
    }
    Ok(())
}

/// Whether every sample has exactly one value. Most sequences are known to (`single`): not reading the offsets of sequences
/// of words saves a twentieth of the time.
fn are_single(views: &[SequenceView<'_>]) -> bool {
    views
        .iter()
        .all(|view| view.sparse().is_some_and(|sparse| sparse.single || counts_by_one(sparse.offsets)))
}

/// Whether each offset is one more than the offset before it.
fn counts_by_one(offsets: &[u32]) -> bool {
    let first = offsets.first().copied().unwrap_or(0);
    // Without an early exit, so that it is compiled to vector instructions.
    offsets
        .iter()
        .zip(0..)
        .fold(true, |single, (offset, number)| single & (offset.wrapping_sub(first) == number))
}

/// Fills in the offsets of all columns. First each column gets its number of values, sequence by sequence (or all at once if
/// each number is 1, as for words); columns of gaps get 0. Then one pass turns the numbers into running sums.
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

/// Copies the values and indices of each sample to where its column begins. `SINGLE`: every sample has exactly one value.
fn scatter<const E: usize, const SINGLE: bool>(
    values: &mut [u8],
    indices: &mut [u8],
    offsets: &[[u8; 4]],
    layout: &Layout,
    views: &[SequenceView<'_>],
) where
    u8: Stored<E>,
    One: Stored<E>,
{
    let values = values.as_chunks_mut::<E>().0;
    let indices = &mut indices.as_chunks_mut::<4>().0[..values.len()];
    for (i, (record, view)) in layout.records.iter().zip(views).enumerate() {
        if let (false, Some(next)) = (SINGLE, views.get(i + AHEAD_SPREAD)) {
            prefetch::next(next);
        }
        let first = record.begin as usize * layout.lanes + record.lane as usize;
        let source = sparse_of(view);
        let columns =
            SequenceColumns { columns: &offsets[first..], step: layout.lanes, offsets: source.offsets };
        let (wide_values, wide_indices) = (view.values.as_chunks::<E>().0, source.indices.as_chunks::<4>().0);
        let narrow_indices = source.indices.as_chunks::<2>().0;
        match (view.form, source.narrow) {
            (ValueForm::Byte, false) => {
                columns.put::<E, SINGLE, _, _>(values, indices, view.values, wide_indices)
            }
            (ValueForm::Byte, true) => {
                columns.put::<E, SINGLE, _, _>(values, indices, view.values, narrow_indices)
            }
            (ValueForm::Ones, false) => {
                columns.put::<E, SINGLE, _, _>(values, indices, One::EVER, wide_indices)
            }
            (ValueForm::Ones, true) => {
                columns.put::<E, SINGLE, _, _>(values, indices, One::EVER, narrow_indices)
            }
            (ValueForm::Decimal(form), narrow) => {
                // Sample by sample: those of decimals have many values.
                let load = |target: &mut [[u8; E]], from: usize| {
                    decimal::load(target.as_flattened_mut(), &view.values[from * form.size()..], form);
                };
                match narrow {
                    false => columns.put_samples(values, indices, wide_indices, load),
                    true => columns.put_samples(values, indices, narrow_indices, load),
                }
            }
            (ValueForm::Whole, false) => {
                columns.put::<E, SINGLE, _, _>(values, indices, wide_values, wide_indices)
            }
            (ValueForm::Whole, true) => {
                columns.put::<E, SINGLE, _, _>(values, indices, wide_values, narrow_indices)
            }
        }
    }
}

/// The columns that the samples of one sequence are copied to.
struct SequenceColumns<'a> {
    /// Offsets of the minibatch's columns, beginning with the column of the first sample; every `step`th column belongs to
    /// this sequence.
    columns: &'a [[u8; 4]],
    step: usize,
    /// Offsets of the samples among the sequence's values.
    offsets: &'a [u32],
}

impl SequenceColumns<'_> {
    #[inline(always)]
    fn put<const E: usize, const SINGLE: bool, V: Stored<E>, R: Stored<4>>(
        &self,
        values: &mut [[u8; E]],
        indices: &mut [[u8; 4]],
        source_values: &[V],
        source_indices: &[R],
    ) {
        if SINGLE {
            let columns = self.columns.iter().step_by(self.step);
            for (column, (value, index)) in columns.zip(source_values.iter().zip(source_indices)) {
                let at = u32::from_ne_bytes(*column) as usize;
                values[at] = value.widen();
                indices[at] = index.widen();
            }
            return;
        }
        self.put_samples(values, indices, source_indices, |target, from| {
            let source = &source_values[from..][..target.len()];
            target.iter_mut().zip(source).for_each(|(target, value)| *target = value.widen());
        });
    }

    /// Copies sample by sample. `put_values` writes values of the sequence, from the one with the given number on.
    #[inline(always)]
    fn put_samples<const E: usize, R: Stored<4>>(
        &self,
        values: &mut [[u8; E]],
        indices: &mut [[u8; 4]],
        source_indices: &[R],
        put_values: impl Fn(&mut [[u8; E]], usize),
    ) {
        let mut from = 0;
        for (column, pair) in self.columns.chunks(self.step).zip(self.offsets.windows(2)) {
            let at = u32::from_ne_bytes(column[0]) as usize;
            let count = (pair[1] - pair[0]) as usize;
            put_values(&mut values[at..][..count], from);
            for (target, index) in indices[at..][..count].iter_mut().zip(&source_indices[from..][..count]) {
                *target = index.widen();
            }
            from += count;
        }
    }
}

/// The sparse part of a view, or one without values if the view is dense.
#[inline(always)]
fn sparse_of<'a>(view: &SequenceView<'a>) -> SparseView<'a> {
    view.sparse().copied().unwrap_or(SparseView { indices: &[], narrow: false, offsets: &[], single: false })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pack::copy::running_sums;
    use crate::pack::layout::Record;
    use crate::sequence::ViewKind;

    #[test]
    fn samples_of_one_value_go_the_same_two_ways() {
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
            let write = if single { scatter::<4, true> } else { scatter::<4, false> };
            write(&mut values, &mut indices, &offsets, &layout, &views);
            (offsets, values, indices)
        });
        assert_eq!(one, other);
    }

    /// One after another, in lanes, with one entry each: decimals become what whole values are.
    #[test]
    fn decimals_are_widened_wherever_samples_go() {
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
                    sparse(&mut out, &layout, &views, 4, nnz as usize).expect("copied");
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
        assert!(sparse(&mut [0; 8 + 16 + 16], &layout, &[view], 4, 2).is_err());
        let layout = Layout {
            steps: 3,
            lanes: 2,
            records: vec![record, Record { lane: 1, ..record }],
            right_splice: 0,
            sequence_major: false,
        };
        assert!(sparse(&mut [0; 8 + 32 + 28], &layout, &[view, view], 4, 4).is_err());
    }
}
