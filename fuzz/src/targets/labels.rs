//! Labels (MLF) beside intact features: errors with a location, or data.

use super::speech;
use crate::case::Case;
use crate::test_file;
use std::sync::OnceLock;

/// The input: choices of how to read, and a label file.
pub fn run(input: &[u8]) {
    static STATES: OnceLock<Vec<u8>> = OnceLock::new();
    let mut case = Case::new(input);
    let content = case.content;
    let features = speech::whole_features(&mut case);
    let states = STATES.get_or_init(|| test_file("htk/data/state.list"));
    let labels = speech::labels(&mut case, content, states);
    case.read(&format!("{features} : {labels}"));
}
