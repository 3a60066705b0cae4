//! Bounds-checked reads of numbers in image file headers.

/// A file's bytes, read at any offset; reads past the end return `None`.
#[derive(Debug, Clone, Copy)]
pub struct Bytes<'a>(pub &'a [u8]);

impl<'a> Bytes<'a> {
    /// Returns `length` bytes starting at `at`.
    pub fn slice(self, at: usize, length: usize) -> Option<&'a [u8]> {
        self.0.get(at..at.checked_add(length)?)
    }

    /// Reads a little-endian `u16`.
    pub fn u16_le(self, at: usize) -> Option<u16> {
        self.slice(at, 2)?.first_chunk().map(|bytes| u16::from_le_bytes(*bytes))
    }

    /// Reads a little-endian `u32`.
    pub fn u32_le(self, at: usize) -> Option<u32> {
        self.slice(at, 4)?.first_chunk().map(|bytes| u32::from_le_bytes(*bytes))
    }

    /// Reads a big-endian `u32`.
    pub fn u32_be(self, at: usize) -> Option<u32> {
        self.slice(at, 4)?.first_chunk().map(|bytes| u32::from_be_bytes(*bytes))
    }
}
