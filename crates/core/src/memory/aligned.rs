//! A byte vector that is aligned to a huge page once it is that large.
//!
//! The allocator places a large `Vec` anywhere between two huge pages, so small pages have to cover
//! both ends: of a 14 MB chunk of speech features, two of seven huge pages would be lost.

#![allow(unsafe_code, reason = "memory with an alignment of its own")]

use super::huge::HUGE_PAGE;
use super::room;
use crate::Result;
use std::alloc::{Layout, alloc, dealloc};
use std::mem::MaybeUninit;
use std::ptr::NonNull;

/// Like `Vec<u8>`, but 2 MiB-aligned once it is that large.
pub struct AlignedBytes {
    /// Dangling if the capacity is 0, otherwise allocated with [`AlignedBytes::layout`].
    start: NonNull<u8>,
    /// At most `capacity`; the first `length` bytes are initialized.
    length: usize,
    capacity: usize,
}

// SAFETY: this object alone owns the memory, as a `Vec<u8>` does.
unsafe impl Send for AlignedBytes {}
// SAFETY: as above; a shared reference only gives shared access to bytes.
unsafe impl Sync for AlignedBytes {}

impl AlignedBytes {
    /// Creates an empty vector with memory for `capacity` bytes.
    pub(crate) fn with_capacity(capacity: usize) -> Result<AlignedBytes> {
        if capacity == 0 {
            return Ok(AlignedBytes::default());
        }
        // SAFETY: the size of the layout is `capacity`, which is not 0.
        let start = Self::layout(capacity).and_then(|layout| NonNull::new(unsafe { alloc(layout) }));
        let start = start.ok_or_else(|| room::missing(capacity, room::CHUNK))?;
        Ok(AlignedBytes { start, length: 0, capacity })
    }

    fn layout(capacity: usize) -> Option<Layout> {
        let align = if capacity >= HUGE_PAGE { HUGE_PAGE } else { 1 };
        Layout::from_size_align(capacity, align).ok()
    }

    /// Returns the capacity in bytes.
    pub(crate) fn capacity(&self) -> usize {
        self.capacity
    }

    /// Keeps the first `length` bytes.
    pub(crate) fn truncate(&mut self, length: usize) {
        self.length = self.length.min(length);
    }

    /// Makes room for `count` more bytes; reallocates if necessary.
    pub(crate) fn reserve(&mut self, count: usize) -> Result<()> {
        if count <= self.capacity - self.length {
            return Ok(());
        }
        let capacity = self.length.saturating_add(count).max(2 * self.capacity);
        let mut larger = Self::with_capacity(capacity)?;
        for (new, &old) in larger.spare_capacity_mut().iter_mut().zip(&**self) {
            new.write(old);
        }
        // SAFETY: the loop has written `self.length` bytes, and the capacity of `larger` is not
        // less.
        unsafe { larger.set_len(self.length) };
        *self = larger;
        Ok(())
    }

    /// Returns the unused memory after the last byte.
    pub(crate) fn spare_capacity_mut(&mut self) -> &mut [MaybeUninit<u8>] {
        let spare = self.capacity - self.length;
        // SAFETY: `length <= capacity`, so the slice is the end of the allocated memory, or empty
        // at a dangling pointer. `self` is borrowed exclusively, and the bytes need not be
        // initialized.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr().add(self.length).cast(), spare) }
    }

    /// Sets the number of bytes.
    ///
    /// # Safety
    ///
    /// `length` must be at most the capacity, and the first `length` bytes must be initialized.
    pub(crate) unsafe fn set_len(&mut self, length: usize) {
        self.length = length;
    }
}

impl Default for AlignedBytes {
    fn default() -> Self {
        AlignedBytes { start: NonNull::dangling(), length: 0, capacity: 0 }
    }
}

impl Drop for AlignedBytes {
    fn drop(&mut self) {
        if let Some(layout) = Self::layout(self.capacity).filter(|layout| layout.size() > 0) {
            // SAFETY: memory of a capacity other than 0 was allocated with this layout, which
            // depends on the capacity alone.
            unsafe { dealloc(self.start.as_ptr(), layout) };
        }
    }
}

impl std::ops::Deref for AlignedBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the first `length` bytes are allocated and initialized; the pointer only dangles
        // if there are none.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.length) }
    }
}

impl std::ops::DerefMut for AlignedBytes {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`; `self` is borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.length) }
    }
}

impl std::fmt::Debug for AlignedBytes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AlignedBytes").field("len", &self.length).field("capacity", &self.capacity).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grows_and_keeps_its_bytes() {
        let mut bytes = AlignedBytes::default();
        let mut expected = Vec::new();
        for count in [0, 1, 100, HUGE_PAGE, 5, 3 * HUGE_PAGE] {
            bytes.reserve(count).expect("memory");
            let number = expected.len() as u8;
            bytes.spare_capacity_mut()[..count].fill(MaybeUninit::new(number));
            // SAFETY: `reserve` has made room for `count` more bytes, and `fill` has written them.
            unsafe { bytes.set_len(bytes.len() + count) };
            expected.resize(expected.len() + count, number);
            assert!(*bytes == expected[..]);
            assert!(bytes.capacity() < HUGE_PAGE || bytes.as_ptr().addr().is_multiple_of(HUGE_PAGE));
        }
        bytes[3] = 7;
        bytes.truncate(4);
        assert_eq!((bytes.len(), bytes[3]), (4, 7));
        assert!(AlignedBytes::with_capacity(usize::MAX).is_err());
        assert_eq!(AlignedBytes::with_capacity(0).expect("memory").capacity(), 0);
    }
}
