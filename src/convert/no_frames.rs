//! In place of compression: this build of the library has none.

use cntk_reader_core::{Error, Result};
use std::convert::Infallible;

/// Compresses bytes as they come: there is none.
pub struct FrameWriter(Infallible);

impl FrameWriter {
    /// Fails, and says what to build the library with.
    pub fn new(_level: u32) -> Result<FrameWriter> {
        let error = Error::argument("This build of the library cannot compress files by zstd.");
        Err(error.with_detail("Build it with the feature 'compression', which is on by default."))
    }

    pub fn add(&mut self, _bytes: &[u8]) -> Result<Vec<Vec<u8>>> {
        match self.0 {}
    }

    pub fn finish(self) -> Result<Vec<Vec<u8>>> {
        match self.0 {}
    }
}
