//! The index of each one-hot sample: the place of its only value, which is 1.

use super::samples::{DenseSamples, Samples};
use super::{Forms, Output};
use crate::Result;
use crate::pack::SparseColumns;
use crate::pack::layout::Run;
use crate::stream::Element;

/// One-hot samples that are stored sparse.
pub(super) struct SparseOneHot<'m, 'f, T> {
    pub columns: SparseColumns<'m, T>,
    pub forms: &'f Forms<'m>,
}

impl<T: Element> SparseOneHot<'_, '_, T> {
    /// The index of a sample, or what it has instead of a single 1.
    fn index(&self, column: usize) -> std::result::Result<i32, String> {
        match self.columns.column(column) {
            Some((&[index], &[value])) if value == T::from(1) => Ok(index),
            Some((_, [])) => Err("no value".to_owned()),
            Some((_, &[value])) => Err(format!("the value {value:?}")),
            Some((_, values)) => Err(format!("{} values", values.len())),
            None => Err("no column".to_owned()),
        }
    }
}

impl<T: Element> Samples<i32> for SparseOneHot<'_, '_, T> {
    fn width(&self) -> usize {
        1
    }

    fn write(&mut self, run: Run, out: &mut impl Output<i32>) -> Result<()> {
        let mut failed = None;
        out.extend(run.columns().enumerate().map(|(sample, column)| {
            self.index(column).unwrap_or_else(|found| {
                failed.get_or_insert((sample, found));
                0
            })
        }));
        match failed {
            None => Ok(()),
            Some((sample, found)) => Err(self.forms.not_one_hot(run.number, sample, &found)),
        }
    }
}

/// One-hot samples that are stored dense, as truncated minibatches have them.
pub(super) struct DenseOneHot<'m, 'f, T>(pub DenseSamples<'m, 'f, T>);

impl<T: Element> Samples<i32> for DenseOneHot<'_, '_, T> {
    fn width(&self) -> usize {
        1
    }

    fn write(&mut self, run: Run, out: &mut impl Output<i32>) -> Result<()> {
        for (sample, column) in run.columns().enumerate() {
            let values = self.0.columns(column, 1)?;
            let mut others = values.iter().enumerate().filter(|(_, value)| **value != T::default());
            let found = match (others.next(), others.count()) {
                (Some((index, &value)), 0) if value == T::from(1) => {
                    out.repeat(index as i32, 1);
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
