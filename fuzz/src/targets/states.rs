//! State lists beside intact labels and features: errors with a location, or data.

use super::speech;
use crate::case::Case;
use crate::test_file;
use std::sync::OnceLock;

/// The input: choices of how to read, and a state list.
pub fn run(input: &[u8]) {
    static LABELS: OnceLock<Vec<u8>> = OnceLock::new();
    let mut case = Case::new(input);
    let content = case.content;
    let features = speech::whole_features(&mut case);
    let labels = LABELS.get_or_init(|| test_file("htk/data/lab.mlf"));
    let labels = speech::labels(&mut case, labels, content);
    case.read(&format!("{features} : {labels}"));
}
