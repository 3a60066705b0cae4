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

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes 1, 2, then 3, 4, then twice 5.
    fn write(out: &mut impl Output<i32>) {
        out.append(&[1, 2]);
        Output::extend(out, [3, 4].into_iter());
        out.repeat(5, 2);
    }

    #[test]
    #[allow(unsafe_code, reason = "memory that is initialized beforehand")]
    fn slices_drop_excess_elements() {
        for room in 0..=7 {
            let mut memory = [MaybeUninit::new(0); 7];
            let mut rest = &mut memory[..room];
            assert_eq!(rest.room(), room);
            write(&mut rest);
            assert_eq!(rest.room(), room.saturating_sub(6));
            // SAFETY: all elements were initialized with 0.
            let found = memory.map(|element| unsafe { element.assume_init() });
            let mut expected = [1, 2, 3, 4, 5, 5, 0];
            expected[room.min(6)..].fill(0);
            assert_eq!(found, expected);
        }
    }

    #[test]
    fn vectors_grow() {
        let mut list = vec![0];
        assert_eq!(list.room(), usize::MAX);
        write(&mut list);
        assert_eq!(list, [0, 1, 2, 3, 4, 5, 5]);
    }
}
