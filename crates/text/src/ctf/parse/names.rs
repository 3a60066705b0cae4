//! Names of streams in a line, compared eight bytes at a time.

use super::rules::{StreamRule, ends_name};
use super::typed::Typed;
use cntk_reader_core::cpu::digits::load8;

/// Data of a stream's rule that the fast parser needs.
#[derive(Debug)]
pub struct Stream {
    /// Up to 8 bytes of the name, the first one lowest.
    pub name: u64,
    /// Mask of the bytes of `name` that are compared; 0 if no name in a text can match.
    pub mask: u64,
    /// The last 8 bytes of a longer name.
    last: u64,
    /// The whole name.
    pub alias: Vec<u8>,
    /// Number of values in a sample.
    pub dim: usize,
    /// Whether samples are written as `index:value`.
    pub sparse: bool,
    /// Reader of the values, if the stream has its own type.
    pub typed: Option<Typed>,
}

impl Stream {
    /// Prepares the stream with this rule.
    pub fn new(rule: &StreamRule) -> Stream {
        let (mut name, mut mask) = word(&rule.alias);
        // A name that the parser cannot read (for example, one with a space in it) never matches.
        let is_readable = !rule.alias.is_empty()
            && rule.alias[0] != b'#'
            && !rule.alias.iter().any(|&byte| ends_name(byte));
        if !is_readable {
            (name, mask) = (u64::MAX, 0);
        }
        Stream {
            name,
            mask,
            last: rule.alias.last_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes)),
            alias: rule.alias.clone(),
            dim: rule.dim,
            sparse: rule.sparse,
            typed: rule.typed,
        }
    }
}

/// Returns up to eight bytes as a word, the first one lowest, and a mask of the bytes that exist.
pub fn word(bytes: &[u8]) -> (u64, u64) {
    let bytes = bytes.iter().take(8).rev();
    bytes.fold((0, 0), |(word, mask), &byte| (word << 8 | u64::from(byte), mask << 8 | 0xff))
}

/// Returns the stream whose name begins at byte `at` of the text, and the name's length. `guess` is
/// the stream to try first.
#[inline(always)]
pub fn find(streams: &[Stream], text: &[u8], at: usize, guess: usize) -> Option<(usize, usize)> {
    let word = load8(text, at)?;
    let count = streams.len();
    let mut number = guess;
    for _ in 0..count {
        let stream = streams.get(number)?;
        if (word ^ stream.name) & stream.mask == 0 && stream.mask != 0 {
            let length = stream.alias.len();
            let is_found = length <= 8
                || load8(text, at + length - 8)? == stream.last
                    && (length <= 16 || text.get(at + 8..at + length) == stream.alias.get(8..));
            if is_found && ends_name(*text.get(at + length)?) {
                return Some((number, length));
            }
        }
        number = if number + 1 == count { 0 } else { number + 1 };
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ctf::tests::rules;

    fn streams(names: &[&str]) -> Vec<Stream> {
        let all: Vec<_> = names.iter().map(|name| format!("{name}:1")).collect();
        rules(&all.join(" "), 0).streams.iter().map(Stream::new).collect()
    }

    fn found(streams: &[Stream], text: &[u8], guess: usize) -> Option<(usize, usize)> {
        let padded = [b"|", text, &[b'7'; 8]].concat();
        find(streams, &padded, 1, guess)
    }

    #[test]
    fn names_are_found_from_any_guess() {
        let streams = streams(&["x", "xy", "y", "eight888", "seventeen17letter"]);
        for guess in 0..5 {
            for (number, stream) in streams.iter().enumerate() {
                for end in [&b" "[..], b"|", b"\t", b"\n", b"\r", b"\0", b"\x80"] {
                    let text = [&stream.alias, end].concat();
                    assert_eq!(found(&streams, &text, guess), Some((number, stream.alias.len())));
                }
                for end in [&b"x"[..], b"7", b"\x7f", b"#"] {
                    let text = [&stream.alias, end].concat();
                    assert_eq!(found(&streams, &text, guess), None, "{}", text.escape_ascii());
                }
            }
            assert_eq!(found(&streams, b"z ", guess), None);
            assert_eq!(found(&streams, b" ", guess), None);
        }
        assert_eq!(found(&streams, b"x ", 5), None);
    }

    #[test]
    fn every_byte_of_a_name_counts() {
        let letters = "abcdefghijklmnopqrstuvwxyzabcd";
        for length in 1..=letters.len() {
            let streams = streams(&[&letters[..length]]);
            let text = format!("{} 1", &letters[..length]);
            assert_eq!(found(&streams, text.as_bytes(), 0), Some((0, length)));
            for other in 0..=length {
                let mut text = text.clone().into_bytes();
                text[other] ^= 0x40;
                assert_eq!(found(&streams, &text, 0), None, "{}", text.escape_ascii());
            }
        }
    }

    #[test]
    fn names_that_cannot_be_read_are_not_found() {
        for name in ["", "#x", "x y", "x|y", "x\u{e9}", "x\t"] {
            let mut rule = rules("x:1", 0).streams.remove(0);
            rule.alias = name.as_bytes().to_vec();
            let stream = Stream::new(&rule);
            assert_eq!((stream.name, stream.mask), (u64::MAX, 0), "{name:?}");
            assert_eq!(found(&[stream], &[name.as_bytes(), b" "].concat(), 0), None, "{name:?}");
        }
        assert_eq!(word(b""), (0, 0));
        assert_eq!(word(b"ab"), (0x6261, 0xffff));
        assert_eq!(word(b"abcdefghi"), (u64::from_le_bytes(*b"abcdefgh"), u64::MAX));
    }
}
