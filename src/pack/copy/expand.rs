//! Writing sparse sequences as dense columns, as truncated minibatches have them.

use super::Columns;
use crate::compact::decimal::DecimalValues;
use crate::compact::narrow::{One, Stored, Values};
use crate::sequence::{SequenceView, SparseView, ValueForm};
use crate::{Error, Result};

/// Writes samples `from .. from + count` of a sparse sequence as dense columns. A repeated index takes its last value. The
/// view must have passed [`check::sizes`](crate::pack::check::sizes) and [`check::ascending`](crate::pack::check::ascending).
pub(super) fn expand(
    out: &mut [u8],
    columns: Columns,
    element: usize,
    view: &SequenceView<'_>,
    sparse: &SparseView<'_>,
    from: usize,
    count: usize,
) -> Result<()> {
    if columns.column == 0 {
        return Ok(());
    }
    let run = Run { columns, offsets: &sparse.offsets[from..=from + count], base: sparse.offsets[0] };
    match (element, view.form) {
        (4, ValueForm::Decimal(form)) => {
            run.of_indices(out, DecimalValues { stored: view.values, form }, sparse)
        }
        (4, _) => run.of_form::<4>(out, view, sparse),
        _ => run.of_form::<8>(out, view, sparse),
    }
}

/// The samples that are written, and where they go.
struct Run<'a> {
    columns: Columns,
    /// Offsets of the samples, which count from `base`.
    offsets: &'a [u32],
    base: u32,
}

impl Run<'_> {
    /// Finds out how values are stored.
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
            ValueForm::Whole | ValueForm::Decimal(_) => {
                self.of_indices(out, view.values.as_chunks::<E>().0, sparse)
            }
        }
    }

    /// Finds out how indices are stored.
    #[inline(always)]
    fn of_indices<const E: usize>(
        &self,
        out: &mut [u8],
        values: impl Values<E>,
        sparse: &SparseView<'_>,
    ) -> Result<()> {
        if sparse.narrow {
            self.put(out, values, sparse.indices.as_chunks::<2>().0)
        } else {
            self.put(out, values, sparse.indices.as_chunks::<4>().0)
        }
    }

    #[inline(always)]
    fn put<const E: usize, R: Stored<4>>(
        &self,
        out: &mut [u8],
        values: impl Values<E>,
        indices: &[R],
    ) -> Result<()> {
        let Columns { first, stride, column } = self.columns;
        for (t, pair) in self.offsets.windows(2).enumerate() {
            let target = out[first + t * stride..][..column].as_chunks_mut::<E>().0;
            target.fill([0; E]);
            let entries = (pair[0] - self.base) as usize..(pair[1] - self.base) as usize;
            for (value, index) in values.of(entries.clone()).zip(&indices[entries]) {
                let index = i32::from_ne_bytes(index.widen());
                let size = target.len();
                let Some(place) = usize::try_from(index).ok().and_then(|index| target.get_mut(index)) else {
                    return Err(Error::data(format!(
                        "A sparse value has the index {index}, but a sample has {size} values."
                    )));
                };
                *place = value;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compact::decimal;
    use crate::sequence::ViewKind;

    #[test]
    fn expansion_zeroes_first_and_the_last_value_wins() {
        let indices: Vec<u8> = [2i32, 0, 2, 1].iter().flat_map(|index| index.to_ne_bytes()).collect();
        let values: Vec<u8> = [1f32, 2.0, 3.0, 4.0].iter().flat_map(|value| value.to_ne_bytes()).collect();
        let sparse = SparseView { indices: &indices, narrow: false, offsets: &[5, 8, 8, 9], single: false };
        let mut out = vec![9; 5 * 12];
        let columns = Columns { first: 0, stride: 24, column: 12 };
        let (form, kind) = (ValueForm::Whole, ViewKind::Sparse(sparse));
        let view = SequenceView { samples: 3, values: &values, form, kind };
        expand(&mut out, columns, 4, &view, &sparse, 0, 3).expect("expansion");
        let out: Vec<f32> = out
            .as_chunks::<4>()
            .0
            .iter()
            .map(|bytes| if bytes[0] == 9 { -1.0 } else { f32::from_ne_bytes(*bytes) })
            .collect();
        assert_eq!(out, [2.0, 0.0, 3.0, -1.0, -1.0, -1.0, 0.0, 0.0, 0.0, -1.0, -1.0, -1.0, 0.0, 4.0, 0.0]);
    }

    #[test]
    fn decimals_are_widened() {
        let indices: Vec<u8> = [2i32, 0, 2, 1].iter().flat_map(|index| index.to_ne_bytes()).collect();
        for (values, size) in
            [([1.0f32, -2.0, 3.0, -0.0], 1), ([1.5, -0.25, 3.0, -0.0], 2), ([1.5, -20.25, 3.0, 0.0625], 3)]
        {
            let mut stored = Vec::new();
            let form = decimal::store(&values, size, &mut stored).expect("memory").expect("decimals");
            assert_eq!(form.size(), size);
            let sparse =
                SparseView { indices: &indices, narrow: false, offsets: &[5, 8, 8, 9], single: false };
            let mut out = vec![9; 24];
            let columns = Columns { first: 0, stride: 12, column: 12 };
            let (form, kind) = (ValueForm::Decimal(form), ViewKind::Sparse(sparse));
            let view = SequenceView { samples: 3, values: &stored, form, kind };
            expand(&mut out, columns, 4, &view, &sparse, 1, 2).expect("expansion");
            let expected = [0.0, 0.0, 0.0, 0.0, values[3], 0.0].map(f32::to_ne_bytes);
            assert_eq!(out.as_chunks().0, expected);
            let mut out = vec![9; 12];
            expand(&mut out, columns, 4, &view, &sparse, 0, 1).expect("expansion");
            assert_eq!(out.as_chunks().0, [values[1], 0.0, values[2]].map(f32::to_ne_bytes));
        }
    }

    #[test]
    fn an_index_outside_of_the_sample_is_an_error() {
        for index in [-1i32, 3] {
            let indices = index.to_ne_bytes();
            let sparse = SparseView { indices: &indices, narrow: false, offsets: &[0, 1], single: false };
            let columns = Columns { first: 0, stride: 12, column: 12 };
            let (form, kind) = (ValueForm::Whole, ViewKind::Sparse(sparse));
            let view = SequenceView { samples: 1, values: &[0; 4], form, kind };
            let error = expand(&mut [0; 12], columns, 4, &view, &sparse, 0, 1).expect_err("must be refused");
            assert_eq!(error.kind(), crate::ErrorKind::Data);
        }
    }
}
