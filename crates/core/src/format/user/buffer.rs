//! The user's memory, read in place while a chunk lives.

#![allow(unsafe_code, reason = "memory of a user's program, used without a copy")]

use crate::stream::{Element, ElementType};
use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;

/// A run of numbers with an owner. Cheap to clone; clones share the memory, and dropping the last
/// one releases it. The memory may have any alignment.
#[derive(Clone)]
pub struct Buffer {
    start: NonNull<u8>,
    bytes: usize,
    element: ElementType,
    /// Releases the memory when it is dropped.
    _owner: Arc<dyn Send + Sync>,
}

// SAFETY: a buffer only reads its memory, which does not change while the buffer exists: callers of
// `from_raw` promise this, and the safe constructors own their memory.
unsafe impl Send for Buffer {}
// SAFETY: as above.
unsafe impl Sync for Buffer {}

impl Buffer {
    /// Creates a buffer for memory that `owner` keeps alive.
    ///
    /// # Safety
    /// `bytes` bytes from `start` on must be readable and must not change until `owner` is dropped.
    /// `start` may be any pointer if `bytes` is 0.
    pub unsafe fn from_raw(
        start: *const u8,
        bytes: usize,
        element: ElementType,
        owner: Arc<dyn Send + Sync>,
    ) -> Buffer {
        let start = NonNull::new(start.cast_mut()).filter(|_| bytes > 0).unwrap_or(NonNull::dangling());
        Buffer { start, bytes, element, _owner: owner }
    }

    /// The bytes of all numbers.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: the bytes are readable and unchanged while the owner lives, by the contract of
        // `from_raw`, and `self` keeps the owner. Without bytes, `start` is dangling but not null.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.bytes) }
    }

    /// Type of the numbers.
    pub fn element(&self) -> ElementType {
        self.element
    }

    /// Number of numbers.
    pub fn len(&self) -> usize {
        self.bytes / self.element.size()
    }

    /// Whether there are no numbers.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The numbers, if they are integers of 32 or 64 bits.
    pub(super) fn integers(&self) -> Option<impl Iterator<Item = i64> + '_> {
        let (narrow, wide): (&[[u8; 4]], &[[u8; 8]]) = match self.element {
            ElementType::Int32 => (self.bytes().as_chunks().0, &[]),
            ElementType::Int64 => (&[], self.bytes().as_chunks().0),
            _ => return None,
        };
        let narrow = narrow.iter().map(|bytes| i64::from(i32::from_ne_bytes(*bytes)));
        Some(narrow.chain(wide.iter().map(|bytes| i64::from_ne_bytes(*bytes))))
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buffer({} of {})", self.len(), self.element.name())
    }
}

impl<T: Element> From<Arc<[T]>> for Buffer {
    fn from(numbers: Arc<[T]>) -> Buffer {
        let (start, bytes) = (numbers.as_ptr().cast(), size_of_val(&*numbers));
        // SAFETY: the memory belongs to the `Arc`, which the buffer keeps. It cannot change,
        // because there is no `&mut` to the inside of a shared `Arc`, and the buffer never makes
        // one.
        unsafe { Buffer::from_raw(start, bytes, T::TYPE, Arc::new(numbers)) }
    }
}

impl<T: Element> From<Vec<T>> for Buffer {
    fn from(numbers: Vec<T>) -> Buffer {
        let (start, bytes) = (numbers.as_ptr().cast(), size_of_val(&*numbers));
        // SAFETY: moving the vector does not move its memory. The buffer keeps the vector, and
        // nothing else can reach it.
        unsafe { Buffer::from_raw(start, bytes, T::TYPE, Arc::new(numbers)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_expose_their_values() {
        let buffer = Buffer::from(vec![1f64, 2.0]);
        assert_eq!((buffer.len(), buffer.element()), (2, ElementType::Double));
        assert_eq!(buffer.bytes()[8..], 2f64.to_ne_bytes());
        assert!(buffer.integers().is_none());
        let shared: Arc<[i64]> = vec![-1, 1 << 40].into();
        assert!(Buffer::from(shared).integers().expect("integers").eq([-1, 1 << 40]));
        assert!(Buffer::from(vec![7i32]).clone().integers().expect("integers").eq([7]));
    }

    #[test]
    fn empty_buffers_may_be_null() {
        // SAFETY: there are no bytes.
        let buffer = unsafe { Buffer::from_raw(std::ptr::null(), 0, ElementType::Float, Arc::new(())) };
        assert!(buffer.is_empty() && buffer.bytes().is_empty());
    }
}
