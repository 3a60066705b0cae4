//! Growable arrays that are filled repeatedly.
//!
//! The code that fills such an array asks for more room than it finally uses. With mapped pages
//! that is free: the system clears a page when it is first written, and growing moves page mappings
//! instead of copying bytes. A `Vec` would write zeros to the spare room, and the C library would
//! keep its smaller blocks: parsing text with two threads took 20 % more memory with vectors.

#![allow(unsafe_code, reason = "memory of mapped pages")]

use super::pages::Pages;
use bytemuck::Zeroable;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

/// Minimum size in bytes of a non-empty array. Few arrays ever grow beyond it, and growing blocks
/// other threads' page faults.
const LEAST: usize = 256 << 10;

/// An array of numbers, initially zero.
#[derive(Debug)]
pub struct Zeros<T> {
    /// The start of `pages`; dangling if there are none.
    start: NonNull<T>,
    /// At most the number that fit into `pages`; 0 if there are none.
    count: usize,
    /// Keeps the memory alive.
    pages: Option<Pages>,
    numbers: PhantomData<T>,
}

impl<T> Default for Zeros<T> {
    fn default() -> Zeros<T> {
        Zeros { start: NonNull::dangling(), count: 0, pages: None, numbers: PhantomData }
    }
}

impl<T: Zeroable> Zeros<T> {
    /// Grows the array to at least `count` numbers. Returns `None`, without any change, if memory
    /// is exhausted.
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
        // SAFETY: with pages, `count` numbers fit into them from `start` on, which is page-aligned
        // and so aligned for them. All bytes are initialized: the system has cleared them, which
        // makes valid numbers by `Zeroable` (only `grow`, which requires it, creates pages), and
        // only numbers are written over them. Without pages the slice is empty. This object alone
        // owns the pages, and the result borrows it.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.count) }
    }
}

impl<T> DerefMut for Zeros<T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as above; `&mut self` gives exclusive access to the pages.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.count) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growing_keeps_numbers_and_adds_zeros() {
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
