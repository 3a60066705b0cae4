//! The copying: from sequences' views to the columns of one stream's minibatch.
//!
//! Column `t * rows + s` is step `t` of row `s`. A sequence's samples therefore lie `rows` columns apart, except in two
//! cases that take whole sequences at once: one row, and one step (then column `i` is sequence `i`).

use super::layout::{Layout, Record};
use crate::compact::widen::{self, Stored};
use crate::sequence::{SequenceView, SparseView, ValueForm};
use crate::{Error, Result};

/// How many sequences ahead memory is asked for while sequences are copied as a whole. Randomized sequences come from all
/// over the window, so that nearly each of them would wait for main memory; asking saves a quarter of the time. From 4 to
/// 32 makes no difference that could be measured.
const AHEAD: usize = 8;

/// The same while their samples are spread over the minibatch.
const AHEAD_SPREAD: usize = 4;

/// Cache lines of a sequence that it takes until the processor's own prefetching has noticed.
const FIRST_LINES: usize = 4;

/// Cache lines of a sequence that are asked for at most: those of several sequences fit into the nearest cache.
const MOST_LINES: usize = 16;

/// Tells the processor that these bytes will be read soon: so many cache lines of them, and the last one of short ones,
/// which seldom start where a line does.
#[inline(always)]
fn prefetch(bytes: &[u8], lines: usize) {
    for line in bytes.chunks(64).take(lines) {
        crate::prefetch::line(line.as_ptr());
    }
    if let (true, Some(last)) = (bytes.len() < lines * 64, bytes.last()) {
        crate::prefetch::line(last);
    }
}

/// The same for a sequence's data, as long before they are copied as looking up the others takes.
#[inline(always)]
pub(super) fn prefetch_first(view: &SequenceView<'_>) {
    prefetch(view.values, FIRST_LINES);
    prefetch(source_rows(view), FIRST_LINES);
}

/// The same shortly before they are copied, all lines of the values: the processor's own prefetching comes too late. Samples
/// of 600 bytes are copied in nine tenths of the time; decimals would take half as long again with it.
#[inline(always)]
fn prefetch_next(view: &SequenceView<'_>) {
    prefetch(view.values, MOST_LINES);
    prefetch(source_rows(view), FIRST_LINES);
}

/// Copies samples of `column` bytes to columns that lie `stride` bytes apart, the first one at `first`.
pub(super) fn strided(out: &mut [u8], first: usize, stride: usize, column: usize, samples: &[u8]) {
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
pub(super) fn zero_gap(out: &mut [u8], layout: &Layout, gap: &Record, column: usize) {
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

/// Writes dense sequences, `column` bytes a sample and `element` bytes a value. `views` belong to the first records of
/// `layout`, the others are gaps.
pub(super) fn dense(
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
                prefetch_next(next);
            }
            widen::values(target, view.values, view.form, element);
        }
        return;
    }
    let stride = layout.lanes * column;
    let (records, gaps) = layout.records.split_at(views.len());
    for (i, (record, view)) in records.iter().zip(views).enumerate() {
        if let Some(next) = views.get(i + AHEAD_SPREAD) {
            prefetch_next(next);
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

/// Size of the sparse block of `nnz` values of `element` bytes in `columns` columns; `None` if it is beyond all memory.
pub(super) fn block_size(nnz: usize, element: usize, columns: usize) -> Option<usize> {
    let entries = nnz.checked_mul(element + 4)?;
    columns.checked_add(1)?.checked_mul(4)?.checked_add(entries)?.checked_add(8)
}

/// Writes the block of sparse sequences, which has the size that [`block_size`] gives. `nnz` is the sum of the views'
/// values and at most `i32::MAX`; views are consistent in their sizes.
pub(super) fn sparse(
    out: &mut [u8],
    layout: &Layout,
    views: &[SequenceView<'_>],
    element: usize,
    nnz: usize,
) -> Result<()> {
    let (count, rest) = out.split_at_mut(8);
    count.copy_from_slice(&(nnz as u64).to_ne_bytes());
    let (values, rest) = rest.split_at_mut(nnz * element);
    let (rows, starts) = rest.split_at_mut(nnz * 4);
    let starts = starts.as_chunks_mut::<4>().0;
    // The column behind the last one.
    starts[layout.columns()] = (nnz as u32).to_ne_bytes();
    if layout.steps == 1 {
        one_step(values, rows, starts, views, element);
        return Ok(());
    }
    if layout.lanes == 1 {
        return one_row(values, rows, starts, views, element);
    }
    let single = are_single(views);
    column_starts(starts, layout, views, single)?;
    match (element, single) {
        (4, true) => scatter::<4, true>(values, rows, starts, layout, views),
        (4, false) => scatter::<4, false>(values, rows, starts, layout, views),
        (_, true) => scatter::<8, true>(values, rows, starts, layout, views),
        (_, false) => scatter::<8, false>(values, rows, starts, layout, views),
    }
    Ok(())
}

/// Every sequence is one column: values and rows are laid end to end.
fn one_step(
    mut values: &mut [u8],
    mut rows: &mut [u8],
    starts: &mut [[u8; 4]],
    views: &[SequenceView<'_>],
    element: usize,
) {
    let mut at = 0;
    for (i, (view, start)) in views.iter().zip(starts).enumerate() {
        if let Some(next) = views.get(i + AHEAD) {
            prefetch_next(next);
        }
        *start = (at as u32).to_ne_bytes();
        let count = view.values.len() / view.form.size(element);
        let target;
        (target, values) = values.split_at_mut(count * element);
        widen::values(target, view.values, view.form, element);
        let target;
        (target, rows) = rows.split_at_mut(count * 4);
        widen::rows(target, source_rows(view), has_narrow_rows(view));
        at += count;
    }
}

/// The only sequence there is: it lies already as it should.
fn one_row(
    values: &mut [u8],
    rows: &mut [u8],
    starts: &mut [[u8; 4]],
    views: &[SequenceView<'_>],
    element: usize,
) -> Result<()> {
    for view in views {
        widen::values(values, view.values, view.form, element);
        widen::rows(rows, source_rows(view), has_narrow_rows(view));
        let source = source_starts(view);
        ascending(source)?;
        for (start, from) in starts.iter_mut().zip(source) {
            *start = (from - source[0]).to_ne_bytes();
        }
    }
    Ok(())
}

/// Whether all samples have one value. Most sequences are known to; not to read the starts of those of words saves a
/// twentieth of the time.
fn are_single(views: &[SequenceView<'_>]) -> bool {
    views.iter().all(|view| view.sparse.is_some_and(|sparse| sparse.single || counts_by_one(sparse.offsets)))
}

fn counts_by_one(starts: &[u32]) -> bool {
    let first = starts.first().copied().unwrap_or(0);
    // Without an early end, so that it is compiled to vector instructions.
    starts
        .iter()
        .zip(0..)
        .fold(true, |single, (start, number)| single & (start.wrapping_sub(first) == number))
}

/// Fills in the starts of all columns. First each column's number of values is put in its place, sequence by sequence
/// (all at once where each is 1, as for words); columns of gaps have 0. Then one pass sums them up.
fn column_starts(
    starts: &mut [[u8; 4]],
    layout: &Layout,
    views: &[SequenceView<'_>],
    single: bool,
) -> Result<()> {
    let columns = &mut starts[..layout.columns()];
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
            let source = source_starts(view);
            ascending(source)?;
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

/// Copies the values and rows of each sample to where its column starts. `SINGLE`: every sample has one of them.
fn scatter<const E: usize, const SINGLE: bool>(
    values: &mut [u8],
    rows: &mut [u8],
    starts: &[[u8; 4]],
    layout: &Layout,
    views: &[SequenceView<'_>],
) where
    u8: Stored<E>,
{
    let values = values.as_chunks_mut::<E>().0;
    let rows = &mut rows.as_chunks_mut::<4>().0[..values.len()];
    for (i, (record, view)) in layout.records.iter().zip(views).enumerate() {
        if let (false, Some(next)) = (SINGLE, views.get(i + AHEAD_SPREAD)) {
            prefetch_next(next);
        }
        let first = record.begin as usize * layout.lanes + record.lane as usize;
        let columns = Spread { columns: &starts[first..], step: layout.lanes, starts: source_starts(view) };
        let (wide_values, wide_rows) = (view.values.as_chunks::<E>().0, source_rows(view).as_chunks::<4>().0);
        let narrow_rows = source_rows(view).as_chunks::<2>().0;
        match (view.form == ValueForm::Byte, has_narrow_rows(view)) {
            (false, false) => columns.put::<E, SINGLE, _, _>(values, rows, wide_values, wide_rows),
            (false, true) => columns.put::<E, SINGLE, _, _>(values, rows, wide_values, narrow_rows),
            (true, false) => columns.put::<E, SINGLE, _, _>(values, rows, view.values, wide_rows),
            (true, true) => columns.put::<E, SINGLE, _, _>(values, rows, view.values, narrow_rows),
        }
    }
}

/// Where the samples of one sequence go.
struct Spread<'a> {
    /// Starts of the minibatch's columns from the first sample's on; every `step`th is one of this sequence.
    columns: &'a [[u8; 4]],
    step: usize,
    /// Entry numbers of the samples.
    starts: &'a [u32],
}

impl Spread<'_> {
    #[inline(always)]
    fn put<const E: usize, const SINGLE: bool, V: Stored<E>, R: Stored<4>>(
        &self,
        values: &mut [[u8; E]],
        rows: &mut [[u8; 4]],
        source_values: &[V],
        source_rows: &[R],
    ) {
        if SINGLE {
            let columns = self.columns.iter().step_by(self.step);
            for (column, (value, row)) in columns.zip(source_values.iter().zip(source_rows)) {
                let at = u32::from_ne_bytes(*column) as usize;
                values[at] = value.widen();
                rows[at] = row.widen();
            }
            return;
        }
        let mut from = 0;
        for (column, pair) in self.columns.chunks(self.step).zip(self.starts.windows(2)) {
            let at = u32::from_ne_bytes(column[0]) as usize;
            let count = (pair[1] - pair[0]) as usize;
            for (target, value) in values[at..][..count].iter_mut().zip(&source_values[from..][..count]) {
                *target = value.widen();
            }
            for (target, row) in rows[at..][..count].iter_mut().zip(&source_rows[from..][..count]) {
                *target = row.widen();
            }
            from += count;
        }
    }
}

fn has_narrow_rows(view: &SequenceView<'_>) -> bool {
    view.sparse.is_some_and(|sparse| sparse.narrow)
}

fn source_rows<'a>(view: &SequenceView<'a>) -> &'a [u8] {
    view.sparse.map_or(&[], |sparse| sparse.indices)
}

fn source_starts<'a>(view: &SequenceView<'a>) -> &'a [u32] {
    view.sparse.map_or(&[], |sparse| sparse.offsets)
}

/// Fails if entry numbers fall. Together with the check of their first and last this keeps all copies within bounds.
pub(super) fn ascending(starts: &[u32]) -> Result<()> {
    // Without an early end, so that it is compiled to vector instructions.
    let falls = starts.windows(2).fold(false, |falls, pair| falls | (pair[0] > pair[1]));
    if falls { Err(Error::internal("A chunk's sparse entries are out of order.")) } else { Ok(()) }
}

/// Where the columns of an expansion lie.
#[derive(Debug, Clone, Copy)]
pub(super) struct Columns {
    /// Byte at which the first column starts.
    pub first: usize,
    /// Bytes from one column to the next.
    pub stride: usize,
    /// Bytes of a column.
    pub column: usize,
}

/// Writes the samples from `from` on, `count` of them, of a sparse sequence as dense columns. A repeated row takes its
/// last value. Entry numbers have to be [`ascending`].
pub(super) fn expand(
    out: &mut [u8],
    columns: Columns,
    element: usize,
    values: &[u8],
    sparse: &SparseView<'_>,
    from: usize,
    count: usize,
) -> Result<()> {
    let Columns { first, stride, column } = columns;
    if column == 0 {
        return Ok(());
    }
    let rows = sparse.indices.as_chunks::<4>().0;
    for (t, pair) in sparse.offsets[from..=from + count].windows(2).enumerate() {
        let target = &mut out[first + t * stride..][..column];
        target.fill(0);
        for entry in (pair[0] - sparse.offsets[0]) as usize..(pair[1] - sparse.offsets[0]) as usize {
            let row = i32::from_ne_bytes(rows[entry]);
            let place = usize::try_from(row).ok().and_then(|row| target.chunks_exact_mut(element).nth(row));
            let Some(place) = place else {
                return Err(Error::data(format!(
                    "A sparse value has the index {row}, but a sample has {} values.",
                    column / element
                )));
            };
            place.copy_from_slice(&values[entry * element..][..element]);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expansion_zeroes_first_and_the_last_value_wins() {
        let rows: Vec<u8> = [2i32, 0, 2, 1].iter().flat_map(|row| row.to_ne_bytes()).collect();
        let values: Vec<u8> = [1f32, 2.0, 3.0, 4.0].iter().flat_map(|value| value.to_ne_bytes()).collect();
        let sparse = SparseView { indices: &rows, narrow: false, offsets: &[5, 8, 8, 9], single: false };
        let mut out = vec![9; 5 * 12];
        let columns = Columns { first: 0, stride: 24, column: 12 };
        expand(&mut out, columns, 4, &values, &sparse, 0, 3).expect("expansion");
        let out: Vec<f32> = out
            .as_chunks::<4>()
            .0
            .iter()
            .map(|bytes| if bytes[0] == 9 { -1.0 } else { f32::from_ne_bytes(*bytes) })
            .collect();
        assert_eq!(out, [2.0, 0.0, 3.0, -1.0, -1.0, -1.0, 0.0, 0.0, 0.0, -1.0, -1.0, -1.0, 0.0, 4.0, 0.0]);
    }

    #[test]
    fn an_index_outside_of_the_sample_is_an_error() {
        for row in [-1i32, 3] {
            let rows = row.to_ne_bytes();
            let sparse = SparseView { indices: &rows, narrow: false, offsets: &[0, 1], single: false };
            let columns = Columns { first: 0, stride: 12, column: 12 };
            let error =
                expand(&mut [0; 12], columns, 4, &[0; 4], &sparse, 0, 1).expect_err("must be refused");
            assert_eq!(error.kind(), crate::ErrorKind::Data);
        }
    }

    #[test]
    fn samples_of_one_value_go_the_same_two_ways() {
        let lengths = [3, 1, 7, 2, 2, 5, 1, 1, 6, 4];
        let bytes =
            |from: u32, count: u32| -> Vec<u8> { (from..from + count).flat_map(u32::to_ne_bytes).collect() };
        let data: Vec<(Vec<u8>, Vec<u8>, Vec<u32>)> = (lengths.iter().zip(1u32..))
            .map(|(&length, i)| (bytes(100 * i, length), bytes(1000 * i, length), (i..=i + length).collect()))
            .collect();
        let views: Vec<SequenceView<'_>> = (data.iter().zip(lengths))
            .map(|((values, rows, starts), samples)| SequenceView {
                samples,
                values,
                form: ValueForm::Whole,
                sparse: Some(SparseView { indices: rows, narrow: false, offsets: starts, single: false }),
            })
            .collect();
        assert!(are_single(&views));
        let mut layout = Layout::default();
        crate::pack::first_fit::FirstFit::default().lay_out(&lengths, &mut layout);
        let nnz = lengths.iter().sum::<u32>() as usize;
        let [one, other] = [true, false].map(|single| {
            let mut starts = vec![[9; 4]; layout.columns()];
            let (mut values, mut rows) = (vec![0; nnz * 4], vec![0; nnz * 4]);
            column_starts(&mut starts, &layout, &views, single).expect("columns");
            let write = if single { scatter::<4, true> } else { scatter::<4, false> };
            write(&mut values, &mut rows, &starts, &layout, &views);
            (starts, values, rows)
        });
        assert_eq!(one, other);
    }

    #[test]
    fn falling_entry_numbers_are_an_error() {
        let rows = [0; 8];
        let view = SequenceView {
            samples: 3,
            values: &[0; 8],
            form: ValueForm::Whole,
            sparse: Some(SparseView { indices: &rows, narrow: false, offsets: &[0, 2, 1, 2], single: false }),
        };
        let record = Record { id: 0, lane: 0, begin: 0, end: 3 };
        let layout = Layout { steps: 3, lanes: 1, records: vec![record], right_splice: 0 };
        assert!(sparse(&mut [0; 8 + 16 + 16], &layout, &[view], 4, 2).is_err());
        let layout = Layout {
            steps: 3,
            lanes: 2,
            records: vec![record, Record { lane: 1, ..record }],
            right_splice: 0,
        };
        assert!(sparse(&mut [0; 8 + 32 + 28], &layout, &[view, view], 4, 4).is_err());
    }
}
