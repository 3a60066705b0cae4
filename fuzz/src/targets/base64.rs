//! Images as lines of Base64: errors with a location, or data.

use super::images;
use crate::case::Case;

/// The input: choices of how to read, and a file of Base64.
pub fn run(input: &[u8]) {
    let mut case = Case::new(input);
    let transforms = images::transforms(&mut case);
    let lines = case.write("lines.txt", case.content);
    images::read(&mut case, "Base64ImageDeserializer", &lines, &transforms);
}
