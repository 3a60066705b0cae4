//! The index of each one-hot sample: the position of its only value, which is 1. Values with equal
//! indices add up.

use super::samples::{DenseSamples, Samples};
use super::{Forms, Index, Output};
use crate::pack::SparseColumns;
use crate::pack::layout::Run;
use cntk_reader_core::Result;
use cntk_reader_core::stream::Element;

/// One-hot samples in sparse storage.
pub(super) struct SparseOneHot<'m, 'f, T> {
    columns: SparseColumns<'m, T>,
    forms: &'f Forms<'m>,
    /// Every sample is known to be one-hot, so its index needs no further check.
    is_checked: bool,
}

impl<'m, 'f, T: Element> SparseOneHot<'m, 'f, T> {
    /// Checks values and offsets in memory order: the samples of a sequence are far apart, and
    /// reading three arrays for each takes twice as long as reading two.
    pub fn new(columns: SparseColumns<'m, T>, samples: usize, forms: &'f Forms<'m>) -> Self {
        let is_checked = columns.values.len() == samples
            && columns.values.iter().fold(true, |all, &value| all & (value == T::ONE))
            && columns.offsets.windows(2).fold(true, |all, pair| all & (pair[1].wrapping_sub(pair[0]) <= 1));
        SparseOneHot { columns, forms, is_checked }
    }

    /// Returns the index of a sample, or a description of what it has instead of a single 1.
    fn index(&self, column: usize) -> std::result::Result<i32, String> {
        match self.columns.column(column) {
            Some((&[index], &[value])) if value == T::ONE => Ok(index),
            Some((_, [])) => Err("no value".to_owned()),
            Some((_, &[value])) => Err(format!("the value {value:?}")),
            Some((&[index, ref others @ ..], values)) if others.iter().all(|&other| other == index) => {
                let sum = values.iter().fold(T::default(), |sum, &value| sum.plus(value));
                if sum == T::ONE { Ok(index) } else { Err(format!("the value {sum:?}")) }
            }
            Some((_, values)) => Err(format!("{} values", values.len())),
            None => Err("no column".to_owned()),
        }
    }

    fn write_checked<I: Index>(&self, run: Run, out: &mut impl Output<I>) -> Result<()> {
        let SparseColumns { indices, offsets, .. } = self.columns;
        let mut is_broken = false;
        out.extend(run.columns().map(|column| {
            let index = offsets.get(column).and_then(|&offset| indices.get(offset as usize));
            is_broken |= index.is_none();
            I::from(index.copied().unwrap_or(0))
        }));
        if is_broken { Err(self.forms.broken()) } else { Ok(()) }
    }
}

impl<T: Element, I: Index> Samples<I> for SparseOneHot<'_, '_, T> {
    fn width(&self) -> usize {
        1
    }

    fn write(&mut self, run: Run, out: &mut impl Output<I>) -> Result<()> {
        if self.is_checked {
            return self.write_checked(run, out);
        }
        for (sample, column) in run.columns().enumerate() {
            match self.index(column) {
                Ok(index) => out.repeat(index.into(), 1),
                Err(found) => return Err(self.forms.not_one_hot(run.number, sample, &found)),
            }
        }
        Ok(())
    }
}

/// One-hot samples in dense storage, as in truncated minibatches.
pub(super) struct DenseOneHot<'m, 'f, T>(pub DenseSamples<'m, 'f, T>);

impl<T: Element, I: Index> Samples<I> for DenseOneHot<'_, '_, T> {
    fn width(&self) -> usize {
        1
    }

    fn write(&mut self, run: Run, out: &mut impl Output<I>) -> Result<()> {
        for (sample, column) in run.columns().enumerate() {
            let values = self.0.columns(column, 1)?;
            let mut others = values.iter().enumerate().filter(|(_, value)| **value != T::default());
            let found = match (others.next(), others.count()) {
                (Some((index, &value)), 0) if value == T::ONE => {
                    out.repeat((index as i32).into(), 1);
                    continue;
                }
                (Some((_, value)), 0) => format!("the value {value:?}"),
                (None, _) => "no value but 0".to_owned(),
                (Some(_), more) => format!("{} values that are not 0", more + 1),
            };
            return Err(self.0.forms.not_one_hot(run.number, sample, &found));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pack::{Minibatch, StreamMinibatch};

    const RUN: Run = Run { number: 0, first: 0, stride: 1, samples: 2 };

    /// The forms are needed for messages only.
    fn with_forms<R>(use_forms: impl FnOnce(&Forms<'_>) -> R) -> R {
        let (minibatch, stream) = (Minibatch::default(), StreamMinibatch::default());
        use_forms(&Forms::new(&minibatch, &stream, "x", None))
    }

    #[test]
    fn whole_streams_are_checked_at_once() {
        for (values, offsets, expected) in [
            (&[1f32, 1.0][..], &[0, 1, 2][..], true),
            // A gap, which has no value.
            (&[1.0, 1.0], &[0, 1, 1, 2], true),
            (&[1.0, 1.0], &[0, 0, 2], false),
            (&[1.0, 1.0], &[0, 2, 2], false),
            (&[1.0, 2.0], &[0, 1, 2], false),
            (&[2.0, 2.0], &[0, 1, 2], false),
            (&[1.0], &[0, 1, 1], false),
        ] {
            let columns = SparseColumns { values, indices: &[3, 4][..values.len()], offsets };
            let is_checked = with_forms(|forms| SparseOneHot::new(columns, 2, forms).is_checked);
            assert_eq!(is_checked, expected, "{values:?} {offsets:?}");
        }
    }

    #[test]
    fn missing_columns_are_errors() {
        // Values without indices, and columns without offsets.
        let write = |columns: SparseColumns<'_, f32>, samples| {
            with_forms(|forms| {
                let mut samples = SparseOneHot::new(columns, samples, forms);
                samples.write(RUN, &mut Vec::<i32>::new()).expect_err("must be refused").message().to_owned()
            })
        };
        let columns = SparseColumns { values: &[1.0, 1.0], indices: &[], offsets: &[0, 1, 2] };
        assert_eq!(write(columns, 2), "The data of a stream do not match its layout.");
        let columns = SparseColumns { values: &[1.0], indices: &[5], offsets: &[0, 1] };
        assert_eq!(write(columns, 2), "Sample 1 of sequence 0 is not one-hot: it has no column.");
    }
}
