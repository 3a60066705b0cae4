//! Numbers in the headers of image files.

/// Reads numbers at any place of a file; places past its end give `None`.
#[derive(Debug, Clone, Copy)]
pub struct Bytes<'a>(pub &'a [u8]);

impl<'a> Bytes<'a> {
    /// `length` bytes from `at` on.
    pub fn slice(self, at: usize, length: usize) -> Option<&'a [u8]> {
        self.0.get(at..at.checked_add(length)?)
    }

    /// Two bytes, least significant first.
    pub fn u16_le(self, at: usize) -> Option<u16> {
        self.slice(at, 2)?.first_chunk().map(|bytes| u16::from_le_bytes(*bytes))
    }

    /// Four bytes, least significant first.
    pub fn u32_le(self, at: usize) -> Option<u32> {
        self.slice(at, 4)?.first_chunk().map(|bytes| u32::from_le_bytes(*bytes))
    }

    /// Four bytes, most significant first.
    pub fn u32_be(self, at: usize) -> Option<u32> {
        self.slice(at, 4)?.first_chunk().map(|bytes| u32::from_be_bytes(*bytes))
    }
}
