//! The samples of a sequence as values: copies dense samples, expands sparse ones.

use super::{Forms, Output};
use crate::pack::SparseColumns;
use crate::pack::layout::Run;
use cntk_reader_core::Result;
use cntk_reader_core::memory::room;
use cntk_reader_core::stream::Element;

/// A source of a form's elements for each sample.
pub(super) trait Samples<V> {
    /// Returns the number of elements per sample.
    fn width(&self) -> usize;
    /// Appends the samples of a sequence.
    fn write(&mut self, run: Run, out: &mut impl Output<V>) -> Result<()>
    where
        V: Copy;
}

/// Dense values.
#[derive(Clone, Copy)]
pub(super) struct DenseSamples<'m, 'f, T> {
    pub values: &'m [T],
    pub width: usize,
    pub forms: &'f Forms<'m>,
}

impl<'m, T> DenseSamples<'m, '_, T> {
    /// Returns the values of adjacent columns.
    pub fn columns(&self, first: usize, count: usize) -> Result<&'m [T]> {
        let range = first.checked_mul(self.width).zip((first + count).checked_mul(self.width));
        let values = range.and_then(|(begin, end)| self.values.get(begin..end));
        values.ok_or_else(|| self.forms.broken())
    }
}

impl<T: Element> Samples<T> for DenseSamples<'_, '_, T> {
    fn width(&self) -> usize {
        self.width
    }

    fn write(&mut self, run: Run, out: &mut impl Output<T>) -> Result<()> {
        if run.stride == 1 || run.samples == 1 {
            out.append(self.columns(run.first, run.samples)?);
            return Ok(());
        }
        if self.width == 1 {
            let values = self.values.get(run.first..).ok_or_else(|| self.forms.broken())?;
            out.extend(values.iter().step_by(run.stride).copied().take(run.samples));
            return Ok(());
        }
        for column in run.columns() {
            out.append(self.columns(column, 1)?);
        }
        Ok(())
    }
}

/// Sparse values, written with all zeros. Values with equal indices add up.
pub(super) struct SparseSamples<'m, 'f, T> {
    columns: SparseColumns<'m, T>,
    forms: &'f Forms<'m>,
    /// Buffer for one sample; all zeros between uses.
    sample: Vec<T>,
}

impl<'m, 'f, T: Element> SparseSamples<'m, 'f, T> {
    pub fn new(columns: SparseColumns<'m, T>, width: usize, forms: &'f Forms<'m>) -> Result<Self> {
        Ok(SparseSamples { columns, forms, sample: room::filled(width, T::default(), room::FORM)? })
    }
}

impl<T: Element> Samples<T> for SparseSamples<'_, '_, T> {
    fn width(&self) -> usize {
        self.sample.len()
    }

    fn write(&mut self, run: Run, out: &mut impl Output<T>) -> Result<()> {
        for column in run.columns() {
            let (indices, values) = self.columns.column(column).ok_or_else(|| self.forms.broken())?;
            for (&index, &value) in indices.iter().zip(values) {
                let place = usize::try_from(index).ok().and_then(|index| self.sample.get_mut(index));
                let place = place.ok_or_else(|| self.forms.broken())?;
                *place = place.plus(value);
            }
            out.append(&self.sample);
            for &index in indices {
                self.sample[index as usize] = T::default();
            }
        }
        Ok(())
    }
}
