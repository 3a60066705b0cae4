//! User text in messages: invisible characters are shown as escapes.
//!
//! A byte order mark, a zero-width space or a NUL in a key is invisible, and makes it a different
//! key. [`quoted`] shows user text: a line, a key, a path, a name. [`visible`] is applied last to
//! every message and log line, for unquoted text; it leaves tabs and line breaks alone, because
//! messages contain them. Escapes are printable, so applying both has no further effect.

use std::borrow::Cow;
use std::fmt::Write;

/// The set of characters to escape.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Strictness {
    /// Characters that hide or reorder text.
    Message,
    /// Also all other invisible characters, and those that look like a blank but are not.
    Quoted,
}

/// Returns user text as messages show it. Bytes that are not UTF-8 become `\xff`.
pub fn quoted(text: &[u8]) -> Cow<'_, str> {
    match std::str::from_utf8(text) {
        Ok(text) => escaped(text, Strictness::Quoted),
        Err(_) => {
            let mut shown = String::with_capacity(text.len() + 16);
            for chunk in text.utf8_chunks() {
                shown.push_str(&escaped(chunk.valid(), Strictness::Quoted));
                for byte in chunk.invalid() {
                    // Writing to a string cannot fail.
                    let _ = write!(shown, "\\x{byte:02x}");
                }
            }
            Cow::Owned(shown)
        }
    }
}

/// Returns a size as its user wrote it: greater ones than any real size are negative numbers that
/// were converted.
pub fn signed(size: u64) -> String {
    size.cast_signed().to_string()
}

/// Returns a whole message without hidden characters.
pub(crate) fn visible(text: &str) -> Cow<'_, str> {
    escaped(text, Strictness::Message)
}

fn escaped(text: &str, strictness: Strictness) -> Cow<'_, str> {
    // Only control and non-ASCII characters are escaped.
    let is_plain = |byte: u8| (b' '..0x7f).contains(&byte);
    let Some(first) = text.bytes().position(|byte| !is_plain(byte)) else { return Cow::Borrowed(text) };
    // A character boundary: the first byte that is not plain begins a character.
    let (start, rest) = text.split_at(first);
    if !rest.chars().any(|c| is_escaped(c, strictness)) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    shown.push_str(start);
    for c in rest.chars() {
        // Writing to a string cannot fail.
        let _ = match c {
            c if !is_escaped(c, strictness) => {
                shown.push(c);
                Ok(())
            }
            '\t' => write!(shown, "\\t"),
            '\n' => write!(shown, "\\n"),
            '\r' => write!(shown, "\\r"),
            '\0' => write!(shown, "\\0"),
            c if (c as u32) < 0x80 => write!(shown, "\\x{:02x}", c as u32),
            c => write!(shown, "\\u{{{:x}}}", c as u32),
        };
    }
    Cow::Owned(shown)
}

fn is_escaped(c: char, strictness: Strictness) -> bool {
    match c {
        '\t' | '\n' => strictness == Strictness::Quoted,
        c if c.is_control() => true,
        // Soft hyphen; non-breaking blanks; line and paragraph separators.
        '\u{ad}' | '\u{a0}' | '\u{2007}' | '\u{202f}' | '\u{2028}' | '\u{2029}' => true,
        // Zero-width characters, directional marks, the byte order mark.
        '\u{180e}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' => true,
        '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' => true,
        // Blanks of other widths, and the joiners, which some scripts need in plain text.
        '\u{1680}' | '\u{2000}'..='\u{200d}' | '\u{205f}' | '\u{3000}' => strictness == Strictness::Quoted,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invisible_characters_are_shown() {
        for (text, expected) in [
            ("plain ünïcode \\ 'x'", "plain ünïcode \\ 'x'"),
            ("\u{feff}a", "\\u{feff}a"),
            ("a\u{200b}b\u{200d}c", "a\\u{200b}b\\u{200d}c"),
            ("a\0b\x1b[0m\x7f", "a\\0b\\x1b[0m\\x7f"),
            ("a\tb\r\n", "a\\tb\\r\\n"),
            ("a\u{a0}b\u{3000}c\u{85}", "a\\u{a0}b\\u{3000}c\\u{85}"),
            ("\u{202e}evil", "\\u{202e}evil"),
        ] {
            let shown = quoted(text.as_bytes());
            assert_eq!(shown, expected);
            assert_eq!(quoted(shown.as_bytes()), expected, "once is enough");
            assert_eq!(visible(&shown), expected);
        }
        assert_eq!(quoted(b"a\xff\xfeb\xc3"), "a\\xff\\xfeb\\xc3");
        assert_eq!(visible("a\tb\nc\rd\u{feff}"), "a\tb\nc\\rd\\u{feff}");
    }
}
