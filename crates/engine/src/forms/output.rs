//! Destinations of forms.

use std::mem::MaybeUninit;

/// Memory that is filled from its start: the caller's, or a growing vector.
pub trait Output<T: Copy> {
    /// Returns the number of elements that still fit.
    fn room(&self) -> usize;
    /// Appends elements.
    fn append(&mut self, values: &[T]);
    /// Appends the elements of an iterator.
    fn extend(&mut self, values: impl ExactSizeIterator<Item = T>);
    /// Appends one element several times.
    fn repeat(&mut self, value: T, count: usize);
}

/// The part not yet written. Excess elements are dropped.
impl<T: Copy> Output<T> for &mut [MaybeUninit<T>] {
    fn room(&self) -> usize {
        self.len()
    }

    fn append(&mut self, values: &[T]) {
        self.extend(values.iter().copied());
    }

    fn extend(&mut self, values: impl ExactSizeIterator<Item = T>) {
        let count = values.len().min(self.len());
        let Some(places) = self.split_off_mut(..count) else { return };
        for (place, value) in places.iter_mut().zip(values) {
            place.write(value);
        }
    }

    fn repeat(&mut self, value: T, count: usize) {
        let count = count.min(self.len());
        let Some(places) = self.split_off_mut(..count) else { return };
        places.fill(MaybeUninit::new(value));
    }
}

impl<T: Copy> Output<T> for Vec<T> {
    fn room(&self) -> usize {
        usize::MAX
    }

    fn append(&mut self, values: &[T]) {
        self.extend_from_slice(values);
    }

    fn extend(&mut self, values: impl ExactSizeIterator<Item = T>) {
        Extend::extend(self, values);
    }

    fn repeat(&mut self, value: T, count: usize) {
        self.resize(self.len() + count, value);
    }
}
