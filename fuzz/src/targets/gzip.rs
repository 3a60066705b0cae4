//! Text files compressed with gzip: errors with a location, or data.

use super::compressed;
use crate::case::Case;

/// The input: choices of how to read, and a compressed file.
pub fn run(input: &[u8]) {
    compressed::read(&mut Case::new(input), "data.ctf.gz");
}
