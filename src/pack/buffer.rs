//! Aligned memory for the data of minibatches.

use crate::Result;
use crate::memory::room;
use std::cell::UnsafeCell;

/// The unit of allocation. Its alignment is the buffers' alignment: a cache line, and the widest vector register. In a cell,
/// because those who hold a minibatch by the C ABI may write to it through [`AlignedBuffer::pointer`].
#[derive(Debug)]
#[repr(C, align(64))]
struct CacheLine(UnsafeCell<[u8; 64]>);

// SAFETY: this library only reads what is shared. Who writes through `AlignedBuffer::pointer` answers for it that nobody else
// uses the bytes meanwhile.
unsafe impl Sync for CacheLine {}

/// A growing run of bytes, aligned to 64 bytes.
///
/// All memory is zeroed once, when it is allocated. A buffer that is used again still has its old content: stale, but never
/// uninitialized.
#[derive(Debug, Default)]
pub(super) struct AlignedBuffer {
    lines: Vec<CacheLine>,
    /// At most `lines.len() * 64`: only `resize` sets it.
    size: usize,
}

impl AlignedBuffer {
    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: `lines` owns `lines.len() * 64` bytes in one allocation. All are initialized, because `resize` fills new
        // lines with zeros and `CacheLine` has no padding (its one member has its size). `size` is at most that number:
        // `resize` sets it after growing `lines` to `size.div_ceil(64)` or more. The result borrows `self`, and nobody writes
        // meanwhile: in this library that takes `&mut self`, and others have the contract of `pointer`.
        unsafe { std::slice::from_raw_parts(self.lines.as_ptr().cast(), self.size) }
    }

    /// The bytes, for writing.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: the first `size` bytes of `lines` are allocated and initialized, for the reasons given in `bytes`. Any
        // bytes that the caller writes make valid `CacheLine`s, and `&mut self` keeps everyone else from `lines`.
        unsafe { std::slice::from_raw_parts_mut(self.lines.as_mut_ptr().cast(), self.size) }
    }

    /// The address of the bytes, for callers of the C ABI. Where the buffer is shared, they may write there as long as nobody
    /// else reads or writes.
    pub fn pointer(&self) -> *mut u8 {
        UnsafeCell::raw_get(self.lines.as_ptr().cast())
    }

    /// Sets the length to `size` bytes. The content is unspecified afterwards. Fails if there is not enough memory.
    pub fn resize(&mut self, size: usize) -> Result<()> {
        let needed = size.div_ceil(size_of::<CacheLine>());
        if needed > self.lines.len() {
            // A buffer that was too small grows to half as much again, so that sizes settle after a few minibatches. The
            // old memory is freed first: its content is of no use.
            let grown = if self.lines.is_empty() { needed } else { needed + needed / 2 };
            *self = AlignedBuffer::default();
            room::reserve_exact(&mut self.lines, grown, room::MINIBATCH)?;
            self.lines.resize_with(grown, || CacheLine(UnsafeCell::new([0; 64])));
        }
        self.size = size;
        Ok(())
    }

    /// Bytes of memory that the buffer holds, used or not.
    pub fn capacity(&self) -> usize {
        self.lines.capacity() * size_of::<CacheLine>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_aligned_zeroed_and_grow() {
        let mut buffer = AlignedBuffer::default();
        assert!(buffer.bytes().is_empty());
        for size in [1, 63, 64, 65, 1000, 10, 100_000] {
            buffer.resize(size).expect("memory");
            assert_eq!(buffer.bytes().len(), size);
            assert_eq!(buffer.bytes().as_ptr() as usize % 64, 0);
        }
        assert!(buffer.resize(isize::MAX as usize).is_err());
        assert!(buffer.bytes().is_empty());
        buffer.resize(100_000).expect("memory");
        assert!(buffer.bytes().iter().all(|&byte| byte == 0));
        buffer.bytes_mut().fill(7);
        buffer.resize(50_000).expect("memory");
        buffer.resize(100_000).expect("memory");
        assert!(buffer.bytes().iter().all(|&byte| byte == 7));
    }
}
