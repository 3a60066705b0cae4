//! Arrays that grow, and are filled again and again.
//!
//! Whoever fills such an array asks for more room than it needs in the end. Here that costs nothing: the system has cleared the memory, and
//! gives each page when it is first written. A growing array keeps its pages, which may get other addresses; their bytes are not copied. A
//! `Vec` has to write zeros to spare memory before it hands it out, and the C library keeps the smaller blocks that the vector used before:
//! with vectors, two threads that parse text took 45 MB instead of 38 for samples of 1081 decimals and 30 entries, and 86 instead of 70 for
//! sequences of some MB.

#![allow(unsafe_code, reason = "memory of mapped pages")]

use super::pages::Pages;
use bytemuck::Zeroable;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

/// The least number of bytes of an array that is not empty. Few arrays ever grow further: while one grows, other threads get no pages.
const LEAST: usize = 256 << 10;

/// An array of numbers, which are zero at first.
#[derive(Debug)]
pub struct Zeros<T> {
    /// Dangling without `pages`, else where these begin.
    start: NonNull<T>,
    /// Without `pages` 0, else at most as many as fit into them.
    count: usize,
    /// Keeps the memory.
    pages: Option<Pages>,
    numbers: PhantomData<T>,
}

impl<T> Default for Zeros<T> {
    fn default() -> Zeros<T> {
        Zeros { start: NonNull::dangling(), count: 0, pages: None, numbers: PhantomData }
    }
}

impl<T: Zeroable> Zeros<T> {
    /// Makes the array at least `count` numbers long. `None`, and nothing has changed, if there is no memory for that.
    pub fn grow(&mut self, count: usize) -> Option<()> {
        if count <= self.count {
            return Some(());
        }
        let bytes = count.checked_mul(size_of::<T>())?.max(LEAST);
        let pages = match &mut self.pages {
            Some(pages) => {
                pages.grow(bytes)?;
                pages
            }
            none => none.insert(Pages::new(bytes)?),
        };
        (self.start, self.count) = (pages.start().cast(), pages.size() / size_of::<T>());
        Some(())
    }
}

impl<T> Deref for Zeros<T> {
    type Target = [T];

    #[inline(always)]
    fn deref(&self) -> &[T] {
        // SAFETY: with pages, `count` numbers fit into them from `start` on, which begins a page and so is aligned for them. All
        // bytes are initialized: the system has cleared them, and only numbers are written over zeros, which are numbers by `Zero`:
        // without that trait there is no way to have pages. Without pages the slice is empty. The pages are this object's alone and
        // live as long; the result borrows it.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.count) }
    }
}

impl<T> DerefMut for Zeros<T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as above; `&mut self` keeps everyone else from the pages.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.count) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stay_and_new_ones_are_zero() {
        let mut numbers = Zeros::<u32>::default();
        assert!(numbers.is_empty() && numbers.grow(0).is_some());
        let mut filled = 0;
        for count in [1, 100_000, 100_001, 3_000_000, 2] {
            numbers.grow(count).expect("memory");
            assert!(numbers.len() >= count);
            assert!((0..).zip(&numbers[..filled]).all(|(expected, &number)| expected == number));
            assert!(numbers[filled..].iter().all(|&number| number == 0));
            filled = numbers.len();
            (0..).zip(&mut *numbers).for_each(|(value, number)| *number = value);
        }
        let count = numbers.len();
        assert!(numbers.grow(usize::MAX).is_none() && numbers.grow(usize::MAX / 8).is_none());
        assert_eq!((numbers.len(), numbers[count - 1]), (count, count as u32 - 1));
    }
}
