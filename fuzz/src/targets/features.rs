//! HTK feature files: errors with a place, or data.

use super::speech;
use crate::case::Case;

/// The input chooses how to read, and is a file of features.
pub fn run(input: &[u8]) {
    let mut case = Case::new(input);
    let content = case.content;
    let section = speech::of_file(&mut case, content);
    case.read(&section);
}
