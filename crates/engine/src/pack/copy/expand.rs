//! Expands sparse sequences to dense columns, for truncated minibatches.

use super::{Columns, Repeats};
use cntk_reader_core::memory::compact::decimal::{self, Decimals};
use cntk_reader_core::memory::compact::narrow::{One, Stored};
use cntk_reader_core::sequence::{SequenceView, SparseView, ValueForm};
use cntk_reader_core::{Error, Result};
use std::ops::Range;

/// Writes samples `from .. from + count` of a sparse sequence as dense columns. `repeats`
/// determines the value of an index that occurs several times in a sample. The view must have
/// passed [`check::sizes`](crate::pack::check::sizes) and
/// [`check::ascending`](crate::pack::check::ascending).
#[expect(clippy::too_many_arguments, reason = "a run of samples, and where it goes")]
pub(super) fn expand(
    out: &mut [u8],
    columns: Columns,
    element: usize,
    view: &SequenceView<'_>,
    sparse: &SparseView<'_>,
    from: usize,
    count: usize,
    repeats: Repeats,
) -> Result<()> {
    if columns.column == 0 {
        return Ok(());
    }
    let run =
        Run { columns, offsets: &sparse.offsets[from..=from + count], base: sparse.offsets[0], repeats };
    match (element, view.form) {
        (4, ValueForm::Decimal(form)) if sparse.narrow => {
            run.put_decimals(out, view.values, form, sparse.indices.as_chunks::<2>().0)
        }
        (4, ValueForm::Decimal(form)) => {
            run.put_decimals(out, view.values, form, sparse.indices.as_chunks::<4>().0)
        }
        (4, _) => run.of_form::<4>(out, view, sparse),
        _ => run.of_form::<8>(out, view, sparse),
    }
}

/// Number of decimals widened together, with vector instructions, while staying in the L1 cache.
const BLOCK: usize = 64;

/// The samples to write, and their destination.
struct Run<'a> {
    columns: Columns,
    /// Offsets of the samples, relative to `base`.
    offsets: &'a [u32],
    base: u32,
    repeats: Repeats,
}

impl Run<'_> {
    /// Dispatches on the form of the values.
    #[inline(always)]
    fn of_form<const E: usize>(
        &self,
        out: &mut [u8],
        view: &SequenceView<'_>,
        sparse: &SparseView<'_>,
    ) -> Result<()>
    where
        u8: Stored<E>,
        One: Stored<E>,
    {
        match view.form {
            ValueForm::Byte => self.of_indices(out, view.values, sparse),
            ValueForm::Ones => self.of_indices(out, One::EVER, sparse),
            // Integers (`Narrow`, `Int`) are never sparse.
            ValueForm::Whole | ValueForm::Decimal(_) | ValueForm::Narrow | ValueForm::Int => {
                self.of_indices(out, view.values.as_chunks::<E>().0, sparse)
            }
        }
    }

    /// Dispatches on the width of the indices.
    #[inline(always)]
    fn of_indices<const E: usize, V: Stored<E>>(
        &self,
        out: &mut [u8],
        values: &[V],
        sparse: &SparseView<'_>,
    ) -> Result<()> {
        if sparse.narrow {
            self.put(out, values, sparse.indices.as_chunks::<2>().0)
        } else {
            self.put(out, values, sparse.indices.as_chunks::<4>().0)
        }
    }

    #[inline(always)]
    fn put<const E: usize, V: Stored<E>, R: Stored<4>>(
        &self,
        out: &mut [u8],
        values: &[V],
        indices: &[R],
    ) -> Result<()> {
        self.each_sample(out, |target, entries| {
            put_entries(target, &values[entries.clone()], &indices[entries], self.repeats)
        })
    }

    fn put_decimals<R: Stored<4>>(
        &self,
        out: &mut [u8],
        stored: &[u8],
        form: Decimals,
        indices: &[R],
    ) -> Result<()> {
        let (mut block, size) = ([[0; 4]; BLOCK], form.size());
        self.each_sample(out, |target, entries| {
            for first in entries.clone().step_by(BLOCK) {
                let end = entries.end.min(first + BLOCK);
                let values = &mut block[..end - first];
                decimal::load(values.as_flattened_mut(), &stored[first * size..end * size], form);
                put_entries(target, values, &indices[first..end], self.repeats)?;
            }
            Ok(())
        })
    }

    /// Calls `put` with each sample, zeroed, and the range of its entries.
    #[inline(always)]
    fn each_sample<const E: usize>(
        &self,
        out: &mut [u8],
        mut put: impl FnMut(&mut [[u8; E]], Range<usize>) -> Result<()>,
    ) -> Result<()> {
        let Columns { first, stride, column } = self.columns;
        for (t, pair) in self.offsets.windows(2).enumerate() {
            let target = out[first + t * stride..][..column].as_chunks_mut::<E>().0;
            target.fill([0; E]);
            put(target, (pair[0] - self.base) as usize..(pair[1] - self.base) as usize)?;
        }
        Ok(())
    }
}

/// Writes entries to their positions in a sample.
#[inline(always)]
fn put_entries<const E: usize, V: Stored<E>, R: Stored<4>>(
    target: &mut [[u8; E]],
    values: &[V],
    indices: &[R],
    repeats: Repeats,
) -> Result<()> {
    for (value, index) in values.iter().zip(indices) {
        let index = i32::from_ne_bytes(index.widen());
        let size = target.len();
        let Some(place) = usize::try_from(index).ok().and_then(|index| target.get_mut(index)) else {
            return Err(Error::data(format!(
                "A sparse value has the index {index}, but a sample has {size} values."
            )));
        };
        let value = value.widen();
        // A single value keeps its bits: adding -0 to 0 would lose the sign.
        let is_sum = repeats == Repeats::Sum && *place != [0; E];
        *place = if is_sum { sum(*place, value) } else { value };
    }
    Ok(())
}

/// Adds two values of the floating-point type of this size.
fn sum<const E: usize>(one: [u8; E], other: [u8; E]) -> [u8; E] {
    let mut sum = other;
    if let (Ok(one), Ok(other)) = (one.as_slice().try_into(), other.as_slice().try_into()) {
        sum.copy_from_slice(&(f32::from_ne_bytes(one) + f32::from_ne_bytes(other)).to_ne_bytes());
    } else if let (Ok(one), Ok(other)) = (one.as_slice().try_into(), other.as_slice().try_into()) {
        sum.copy_from_slice(&(f64::from_ne_bytes(one) + f64::from_ne_bytes(other)).to_ne_bytes());
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pack::copy::running_sums;
    use cntk_reader_core::sequence::ViewKind;

    #[test]
    fn expansion_zeroes_and_handles_repeats() {
        let indices: Vec<u8> = [2i32, 0, 2, 1].iter().flat_map(|index| index.to_ne_bytes()).collect();
        let values: Vec<u8> = [1f32, 2.0, 3.0, 4.0].iter().flat_map(|value| value.to_ne_bytes()).collect();
        let sparse = SparseView { indices: &indices, narrow: false, offsets: &[5, 8, 8, 9], single: false };
        let columns = Columns { first: 0, stride: 24, column: 12 };
        let (form, kind) = (ValueForm::Whole, ViewKind::Sparse(sparse));
        let view = SequenceView { samples: 3, values: &values, form, kind };
        for (repeats, third) in [(Repeats::Sum, 4.0), (Repeats::Last, 3.0)] {
            let mut out = vec![9; 5 * 12];
            expand(&mut out, columns, 4, &view, &sparse, 0, 3, repeats).expect("expansion");
            let out: Vec<f32> = out
                .as_chunks::<4>()
                .0
                .iter()
                .map(|bytes| if bytes[0] == 9 { -1.0 } else { f32::from_ne_bytes(*bytes) })
                .collect();
            let expected =
                [2.0, 0.0, third, -1.0, -1.0, -1.0, 0.0, 0.0, 0.0, -1.0, -1.0, -1.0, 0.0, 4.0, 0.0];
            assert_eq!(out, expected);
        }
    }

    /// Full-width values, bytes, ones and decimals, in single and double precision.
    #[test]
    fn repeats_add_up_in_every_form_of_values() {
        let expanded = |values: &[u8], form, element: usize| {
            let indices = [1u16, 0, 1, 1].map(u16::to_ne_bytes).concat();
            let sparse = SparseView { indices: &indices, narrow: true, offsets: &[0, 4], single: false };
            let columns = Columns { first: 0, stride: 2 * element, column: 2 * element };
            let view = SequenceView { samples: 1, values, form, kind: ViewKind::Sparse(sparse) };
            let mut out = vec![9; 2 * element];
            expand(&mut out, columns, element, &view, &sparse, 0, 1, Repeats::Sum).expect("expansion");
            out
        };
        let floats = |values: [f32; 2]| values.map(f32::to_ne_bytes).concat();
        let doubles = |values: [f64; 2]| values.map(f64::to_ne_bytes).concat();
        let whole = [1.5f32, -0.0, 2.0, 4.0];
        let bytes = whole.map(f32::to_ne_bytes).concat();
        assert_eq!(expanded(&bytes, ValueForm::Whole, 4), floats([-0.0, 7.5]));
        let bytes = whole.map(|value| f64::from(value).to_ne_bytes()).concat();
        assert_eq!(expanded(&bytes, ValueForm::Whole, 8), doubles([-0.0, 7.5]));
        assert_eq!(expanded(&[1, 5, 2, 4], ValueForm::Byte, 4), floats([5.0, 7.0]));
        assert_eq!(expanded(&[], ValueForm::Ones, 4), floats([1.0, 3.0]));
        let mut stored = Vec::new();
        let form = decimal::store(&[1.5, 0.25, 2.0, 4.0], 2, &mut stored).expect("memory").expect("decimals");
        assert_eq!(expanded(&stored, ValueForm::Decimal(form), 4), floats([0.25, 7.5]));
    }

    #[test]
    fn decimals_are_widened() {
        let few = [2i32, 0, 2, 1].map(i32::to_ne_bytes).concat();
        for (values, size) in
            [([1.0f32, -2.0, 3.0, -0.0], 1), ([1.5, -0.25, 3.0, -0.0], 2), ([1.5, -20.25, 3.0, 0.0625], 3)]
        {
            let mut stored = Vec::new();
            let form = decimal::store(&values, size, &mut stored).expect("memory").expect("decimals");
            assert_eq!(form.size(), size);
            let sparse = SparseView { indices: &few, narrow: false, offsets: &[5, 8, 8, 9], single: false };
            let columns = Columns { first: 0, stride: 12, column: 12 };
            let (form, kind) = (ValueForm::Decimal(form), ViewKind::Sparse(sparse));
            let view = SequenceView { samples: 3, values: &stored, form, kind };
            let mut out = vec![9; 24];
            expand(&mut out, columns, 4, &view, &sparse, 1, 2, Repeats::Last).expect("expansion");
            assert_eq!(out.as_chunks().0, [0.0, 0.0, 0.0, 0.0, values[3], 0.0].map(f32::to_ne_bytes));
            let mut out = vec![9; 12];
            expand(&mut out, columns, 4, &view, &sparse, 0, 1, Repeats::Last).expect("expansion");
            assert_eq!(out.as_chunks().0, [values[1], 0.0, values[2]].map(f32::to_ne_bytes));
        }
    }

    /// Samples of less than a block, one block, and several blocks.
    #[test]
    fn all_blocks_of_decimals_are_widened() {
        let counts = [BLOCK as u32, BLOCK as u32 + 1, 0, 3 * BLOCK as u32 - 1, 1];
        let offsets = running_sums(&counts);
        let entries = offsets[counts.len()] as usize;
        let values: Vec<f32> = (0..entries).map(|i| (i as f32 - 150.0) / 10.0).collect();
        let indices: Vec<u8> = (0..entries as u16).flat_map(|i| (i % 200).to_ne_bytes()).collect();
        let mut stored = Vec::new();
        let form = decimal::store(&values, 2, &mut stored).expect("memory").expect("decimals");
        let whole: Vec<u8> = values.iter().flat_map(|value| value.to_ne_bytes()).collect();
        let sparse = SparseView { indices: &indices, narrow: true, offsets: &offsets, single: false };
        let columns = Columns { first: 0, stride: 800, column: 800 };
        let [expected, found] =
            [(&whole, ValueForm::Whole), (&stored, ValueForm::Decimal(form))].map(|(values, form)| {
                let view = SequenceView { samples: 5, values, form, kind: ViewKind::Sparse(sparse) };
                let mut out = vec![9; 4000];
                expand(&mut out, columns, 4, &view, &sparse, 0, 5, Repeats::Last).expect("expansion");
                out
            });
        assert_eq!(found, expected);
    }

    #[test]
    fn out_of_bounds_index_is_an_error() {
        for index in [-1i32, 3] {
            let indices = index.to_ne_bytes();
            let sparse = SparseView { indices: &indices, narrow: false, offsets: &[0, 1], single: false };
            let columns = Columns { first: 0, stride: 12, column: 12 };
            let (form, kind) = (ValueForm::Whole, ViewKind::Sparse(sparse));
            let view = SequenceView { samples: 1, values: &[0; 4], form, kind };
            let error = expand(&mut [0; 12], columns, 4, &view, &sparse, 0, 1, Repeats::Sum)
                .expect_err("must be refused");
            assert_eq!(error.kind(), cntk_reader_core::ErrorKind::Data);
        }
    }
}
