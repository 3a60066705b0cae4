//! TIFF pictures: errors, or equal pixels for whole pictures, parts, and all instruction sets.

use super::picture;

/// The input: choices of what to decode, and a picture.
pub fn run(input: &[u8]) {
    picture::run(input, |content| content.starts_with(b"II") || content.starts_with(b"MM"));
}
