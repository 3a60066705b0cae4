//! The beginning of a text, for messages.

use std::fmt;

/// The first bytes of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Excerpt {
    bytes: [u8; Excerpt::LONGEST],
    /// Length of the whole text.
    length: usize,
}

impl Excerpt {
    const LONGEST: usize = 24;

    /// Returns the beginning of `text`.
    pub(crate) fn new(text: &[u8]) -> Excerpt {
        let mut bytes = [0; Excerpt::LONGEST];
        bytes.iter_mut().zip(text).for_each(|(byte, found)| *byte = *found);
        Excerpt { bytes, length: text.len() }
    }
}

impl fmt::Display for Excerpt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = &self.bytes[..self.length.min(Excerpt::LONGEST)];
        let more = if self.length > shown.len() { "..." } else { "" };
        write!(f, "{}{more}", shown.escape_ascii())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_are_cut() {
        for (text, shown) in [
            ("", ""),
            ("1.5", "1.5"),
            ("123456789012345678901234", "123456789012345678901234"),
            ("1234567890123456789012345", "123456789012345678901234..."),
            ("\t\u{e9}", "\\t\\xc3\\xa9"),
        ] {
            assert_eq!(Excerpt::new(text.as_bytes()).to_string(), shown);
        }
    }
}
