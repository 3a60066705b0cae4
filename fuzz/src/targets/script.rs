//! Scripts (scp) of HTK features: errors with a location, or data.

use super::speech;
use crate::case::Case;

/// The input: choices of how to read, and a script.
pub fn run(input: &[u8]) {
    let mut case = Case::new(input);
    let content = case.content;
    let section = speech::features(&mut case, content);
    case.read(&section);
}
