//! The file that is being indexed, with its state when indexing began.

use cntk_reader_core::file::{DataFile, FileState};
use cntk_reader_core::{Error, Result};
use std::sync::atomic::{AtomicBool, Ordering};

/// A file with its state when indexing began.
pub(super) struct SourceFile<'a> {
    pub file: &'a DataFile,
    pub state: FileState,
    /// Set when the index is not needed any more; reads then fail.
    pub cancelled: Option<&'a AtomicBool>,
}

impl<'a> SourceFile<'a> {
    pub fn new(file: &'a DataFile) -> Result<Self> {
        Ok(SourceFile { file, state: file.state()?, cancelled: None })
    }

    /// Size of the file in bytes.
    pub fn size(&self) -> u64 {
        self.state.size
    }

    /// Whether the file is still in that state.
    pub fn is_unchanged(&self) -> bool {
        self.file.state().is_ok_and(|now| now == self.state)
    }

    /// Fills `block` with the bytes from `offset` on. Fails if the file ends before.
    pub fn read(&self, block: &mut [u8], offset: u64) -> Result<()> {
        if self.cancelled.is_some_and(|cancelled| cancelled.load(Ordering::Relaxed)) {
            return Err(Error::state("The reader was closed while its data were indexed."));
        }
        self.file.read_exact_at(offset, block)
    }
}
