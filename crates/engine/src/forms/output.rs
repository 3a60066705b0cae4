//! Where a form is written to.

use std::mem::MaybeUninit;

/// Memory that is filled from its start: of the caller's, or a vector, which grows.
pub trait Output<T: Copy> {
    /// How many elements there is room for.
    fn room(&self) -> usize;
    /// Appends elements.
    fn append(&mut self, values: &[T]);
    /// Appends the elements of an iterator.
    fn extend(&mut self, values: impl ExactSizeIterator<Item = T>);
    /// Appends one element several times.
    fn repeat(&mut self, value: T, count: usize);
}

/// The part that is not written yet. What exceeds it is dropped.
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
