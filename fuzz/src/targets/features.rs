//! HTK feature files: errors with a location, or data.

use super::speech;
use crate::case::Case;

/// The input: choices of how to read, and a feature file.
pub fn run(input: &[u8]) {
    let mut case = Case::new(input);
    let content = case.content;
    let section = speech::of_file(&mut case, content);
    case.read(&section);
}
