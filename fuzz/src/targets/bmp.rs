//! BMP pictures: errors, or pixels that are the same in whole and in part, with each set of instructions.

use super::picture;

/// The input chooses what to decode, and is a picture.
pub fn run(input: &[u8]) {
    picture::run(input, |content| content.starts_with(b"BM"));
}
