//! Choices made by an input: each byte is one, so that a mutation can change one and keep the
//! others.

/// The choices of an input, in the order in which they are requested.
#[derive(Debug, Clone)]
pub struct Choices<'a> {
    bytes: &'a [u8],
    at: usize,
    begins_again: bool,
}

impl<'a> Choices<'a> {
    /// Choices from these bytes, followed by zeros.
    pub fn new(bytes: &'a [u8]) -> Choices<'a> {
        Choices { bytes, at: 0, begins_again: false }
    }

    /// Endless choices that cycle through the bytes, from a position that depends on `number`.
    pub fn from_place(bytes: &'a [u8], number: usize) -> Choices<'a> {
        Choices { bytes, at: number.wrapping_mul(7) % bytes.len().max(1), begins_again: true }
    }

    /// Returns the next byte.
    pub fn byte(&mut self) -> u8 {
        let at = if self.begins_again { self.at % self.bytes.len().max(1) } else { self.at };
        self.at += 1;
        self.bytes.get(at).copied().unwrap_or(0)
    }

    /// Whether no byte is left.
    pub fn is_at_end(&self) -> bool {
        !self.begins_again && self.at >= self.bytes.len()
    }

    /// Returns the next 8 bytes as a number.
    pub fn bits(&mut self) -> u64 {
        u64::from_le_bytes(std::array::from_fn(|_| self.byte()))
    }

    /// Returns a number in `[0, end)`, or 0 if `end` is 0.
    pub fn below(&mut self, end: usize) -> usize {
        let number = match end {
            0..=0x100 => usize::from(self.byte()),
            _ => usize::from(u16::from_le_bytes([self.byte(), self.byte()])),
        };
        number % end.max(1)
    }

    /// Returns a number in `[from, to]`.
    pub fn range(&mut self, from: u64, to: u64) -> u64 {
        from + self.below((to - from + 1) as usize) as u64
    }

    /// Returns true for one in `times` values of the next byte, and never for 0.
    pub fn once_in(&mut self, times: u8) -> bool {
        self.byte() % times == times - 1
    }

    /// Returns one of several values.
    pub fn pick<'b, T>(&mut self, of: &'b [T]) -> &'b T {
        &of[self.below(of.len())]
    }
}
