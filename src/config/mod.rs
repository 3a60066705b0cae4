//! Configuration: the language, the section tree, and the typed options that the other rooms are built from.

pub mod options;

use crate::Result;
use options::ReaderOptions;
use std::path::Path;

/// Options from the text of a configuration, as CNTK's API hands it to a reader.
pub fn from_text(_text: &str) -> Result<ReaderOptions> {
    Err(crate::Error::internal("not written yet"))
}

/// Options from a configuration file: includes and comments are resolved line by line first.
pub fn from_file(_path: &Path) -> Result<ReaderOptions> {
    Err(crate::Error::internal("not written yet"))
}
