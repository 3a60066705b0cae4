//! Finds keys that return after other keys.

use cntk_reader_core::memory::room;
use cntk_reader_core::{Error, Result};
use std::collections::HashMap;

/// The keys of the sequences that have begun so far.
///
/// Records with one key are one sequence only while they follow each other. A key that returns
/// begins a second sequence with the same key, which a reader joins with the first one, or drops.
#[derive(Debug, Default)]
pub(super) struct Keys {
    /// The line in which the sequence of each key begins.
    lines: HashMap<Box<str>, u64>,
}

impl Keys {
    /// Adds the key of a new sequence. `column` has the keys.
    pub fn add(&mut self, key: &str, line: u64, column: &str, path: &str) -> Result<()> {
        if let Some(first) = self.lines.get(key) {
            let message = format!("The key '{key}' of the column '{column}' returns after other keys.");
            let detail = format!(
                "It was first in line {first}. Consecutive records with one key are a sequence, and two sequences cannot have one key: \
                 a reader would join or drop them. Sort the file by the column '{column}', or convert with \
                 --number-ids, which numbers the sequences instead."
            );
            return Err(Error::data(message).with_detail(detail).in_file(path).in_line(line));
        }
        room::reserve(&mut self.lines, 1, room::CONVERSION)?;
        self.lines.insert(key.into(), line);
        Ok(())
    }
}
