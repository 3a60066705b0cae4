//! Malformed ids of sequences: how they are recognized, and what to do about them.

use super::rules::{is_non_printable, is_value_delimiter};

/// The mistake in an id at the start of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BadId {
    /// Blanks or control characters precede it.
    Hidden,
    /// A byte order mark precedes it, as in concatenated files.
    Mark,
    /// It ends in something other than digits, as `0.0` does.
    Tail,
    /// The line begins with something other than digits.
    NoDigits,
    /// It is text, followed by a `|` without a blank.
    Glued,
    /// The previous line ends in a carriage return alone, which does not end a line.
    LoneReturn,
}

impl BadId {
    /// Classifies the text from the start of a line, `before`, and the character after it, `found`,
    /// which is the first one that is neither blank nor `|`. `None` if the line has a proper id, or
    /// if `found` comes after a sample.
    pub fn of(before: &[u8], found: u8) -> Option<BadId> {
        let digits = before.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let ends_sample = |&byte: &u8| is_value_delimiter(byte) || is_non_printable(byte);
        let gap = before.iter().rev().take_while(|byte| ends_sample(byte)).count();
        if before[before.len() - gap..].contains(&b'\r') && found.is_ascii_digit() {
            return Some(BadId::LoneReturn);
        }
        match (before.is_empty(), digits == before.len(), gap == before.len()) {
            (true, ..) => Some(BadId::NoDigits),
            // A table with commas has no ids.
            (_, true, _) => (!b",;".contains(&found)).then_some(BadId::Tail),
            (_, _, true) if before.ends_with(b"\xef\xbb\xbf") => Some(BadId::Mark),
            (_, _, true) if found.is_ascii_digit() => Some(BadId::Hidden),
            _ => None,
        }
    }

    /// Returns a plural noun for ids with this mistake.
    pub(super) fn plural(self) -> &'static str {
        match self {
            BadId::Hidden => "ids behind blanks, which do not count",
            BadId::Mark => "ids behind byte order marks, which do not count",
            BadId::Tail => "ids that end in something other than digits",
            BadId::NoDigits => "lines that begin with neither '|' nor a number",
            BadId::Glued => "ids without a blank after them",
            BadId::LoneReturn => "lines that end in a carriage return alone",
        }
    }

    /// Says what to do, in one or two sentences.
    pub(super) fn remedy(self) -> &'static str {
        match self {
            BadId::Hidden => {
                "An id counts only at the very beginning of its line: this line belongs to the sequence before it, as in CNTK. \
                 Remove everything before the id."
            }
            BadId::Mark => {
                "A byte order mark stands before the id, so that it does not count, and this line belongs to the sequence before \
                 it: remove the mark. It comes from concatenating files."
            }
            BadId::Tail => {
                "An id is digits only, and what follows them cannot be read: lines with 0.0 and 0.5 are one sequence, and so \
                 are lines with 1089-0 and 1089-1. Write whole numbers with a blank after them, or have the ids read as text by \
                 ‹numeric_keys = false›."
            }
            BadId::NoDigits => {
                "A line begins with the id of its sequence, digits without a sign, or with '|': this line belongs to the sequence \
                 before it. Labels are samples: '|label 3:1'."
            }
            BadId::Glued => {
                "A textual id ends at the first blank, so the '|' after it belongs to it: write a blank between them."
            }
            BadId::LoneReturn => {
                "A carriage return alone ends no line, as in CNTK: what follows it belongs to the same line. Convert the file's \
                 line ends: tr '\\r' '\\n' < FILE > NEW."
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mistakes_are_told_apart() {
        for (before, found, why) in [
            (&b""[..], b'a', Some(BadId::NoDigits)),
            (b"", b'-', Some(BadId::NoDigits)),
            (b"", b'7', Some(BadId::NoDigits)),
            (b"10", b'.', Some(BadId::Tail)),
            (b"10", b'a', Some(BadId::Tail)),
            (b"10", b',', None),
            (b"10", b';', None),
            (b" ", b'7', Some(BadId::Hidden)),
            (b" \t\x01", b'7', Some(BadId::Hidden)),
            (b" ", b'a', None),
            (b"\xef\xbb\xbf", b'7', Some(BadId::Mark)),
            (b"\xef\xbb\xbf", b'a', Some(BadId::Mark)),
            (b"\xef\xbb ", b'a', None),
            (b"10 ", b'7', None),
            (b"10 |x 1 ", b'a', None),
            (b"10 |x 1\r", b'7', Some(BadId::LoneReturn)),
            (b"10 |x 1 \r ", b'7', Some(BadId::LoneReturn)),
            (b"10 |x 1\r", b'a', None),
            (b"10 |x\r1 ", b'7', None),
        ] {
            assert_eq!(BadId::of(before, found), why, "{} {}", before.escape_ascii(), found as char);
        }
    }
}
