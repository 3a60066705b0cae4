//! Options of the binary format.

use crate::stream::ElementType;

/// Options of the binary deserializer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BinaryOptions {
    /// Path of the file; or a pattern, or a list of both.
    pub file: String,
    /// Several files share one numbering of sequences (`sharedIds`).
    pub shared_ids: bool,
    /// New names of streams with their names in the file.
    pub renamed: Vec<(String, String)>,
    /// Of several new names for one stream the last one counts, and those of streams that the file
    /// does not have mean nothing, as in CNTK. Otherwise both are errors.
    pub ignores_unmatched: bool,
    /// Keep every chunk that was loaded once.
    pub keep_data_in_memory: bool,
    /// What is logged.
    pub trace_level: u32,
    /// Type of the values; the file's must be the same.
    pub element: ElementType,
}
