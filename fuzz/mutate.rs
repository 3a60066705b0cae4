//! Damage to bytes: flips, cuts, copies, and pieces that have a meaning in the format.

use crate::common::rng::Rng;

/// Pieces of the text format.
pub const TEXT: &[&[u8]] = &[
    b"|",
    b"||",
    b"|#",
    b"\n",
    b"\n\n",
    b"\r\n",
    b" ",
    b"\t",
    b"\0",
    b"\xff",
    b"\xc3\xa9",
    b":",
    b"-",
    b"+",
    b".",
    b"e",
    b"1e999",
    b"-0",
    b"nan",
    b"99999999999999999999999",
    b"18446744073709551616 ",
    b"0.",
    b".5",
    b"3:1",
    b"-1:1",
    b"|x",
    b"|s 0:1",
    b"|x 1 2",
    b"\n9 ",
    b"1e-400 ",
];

/// Pieces of the configuration language.
pub const CONFIGURATION: &[&[u8]] = &[
    b"[",
    b"]",
    b"(",
    b")",
    b"{",
    b"}",
    b"\"",
    b"=",
    b":",
    b";",
    b",",
    b"\n",
    b"\r\n",
    b" # ",
    b"#",
    b"$a$",
    b"$",
    b"$randomize$",
    b"x = ",
    b"default",
    b"-1",
    b"0",
    b"99999999999999999999",
    b"1e3",
    b"true",
    b"*3",
    b"\0",
    b"\xff",
    b"readerType = \"CNTKBinaryReader\"\n",
    b"include=",
];

/// Extreme values of counts, lengths and offsets.
pub const WORDS: &[&[u8]] = &[
    &[0; 4],
    &[0; 8],
    &[0xff; 4],
    &[0xff; 8],
    &[0xff, 0xff, 0xff, 0x7f],
    &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f],
    &[1, 0, 0, 0],
    &[1, 0, 0, 0, 0, 0, 0, 0],
    &[0, 0, 0, 0x80],
    &[12, 0, 0, 0, 0, 0, 0, 0],
    b"nib_ktnc",
];

/// Damages bytes in up to four places.
pub fn mutate(rng: &mut Rng, bytes: &mut Vec<u8>, pieces: &[&[u8]]) {
    for _ in 0..rng.range(1, 4) {
        if bytes.is_empty() {
            return;
        }
        let at = rng.below(bytes.len());
        match rng.below(7) {
            0 => bytes[at] = rng.bits() as u8,
            1 => bytes[at] ^= 1 << rng.below(8),
            2 => _ = bytes.remove(at),
            3 => bytes.truncate(at),
            4 => {
                let to = at + rng.below((bytes.len() - at).min(20));
                bytes.drain(at..to);
            }
            5 => {
                let to = at + rng.below((bytes.len() - at).min(30));
                let copy = bytes[at..to].to_vec();
                let into = rng.below(bytes.len());
                bytes.splice(into..into, copy);
            }
            _ => {
                let piece = *rng.pick(pieces);
                bytes.splice(at..at, piece.iter().copied());
            }
        }
    }
}

/// Damages bytes of a binary format: replaces whole words, or damages anything.
pub fn mutate_words(rng: &mut Rng, bytes: &mut Vec<u8>) {
    if rng.once_in(3) || bytes.len() < 8 {
        return mutate(rng, bytes, WORDS);
    }
    for _ in 0..rng.range(1, 2) {
        let at = rng.below(bytes.len() / 4) * 4;
        let word = *rng.pick(WORDS);
        let end = (at + word.len()).min(bytes.len());
        bytes.splice(at..end, word.iter().copied());
    }
}
