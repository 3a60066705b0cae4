//! Text files that gzip has compressed: errors with a place, or data.

use super::compressed;
use crate::case::Case;

/// The input chooses how to read, and is a compressed file.
pub fn run(input: &[u8]) {
    compressed::read(&mut Case::new(input), "data.ctf.gz");
}
