//! A deserializer's file between uses: open, or closed to save a file descriptor.

use crate::Result;
use crate::file::{DataFile, FileState};

/// A file that stays open or is reopened for each use. A process may be limited to few descriptors,
/// often 1024, and a deserializer may have more files.
pub enum FileHandle {
    /// Stays open.
    Open(DataFile),
    /// Reopened for each use, and rejected if it has changed.
    Closed {
        /// Its path.
        path: Box<str>,
        /// Its state when it was first opened.
        state: FileState,
    },
}

impl FileHandle {
    /// Keeps a file open, or closes it.
    pub fn new(file: DataFile, stays_open: bool) -> Result<FileHandle> {
        if stays_open {
            return Ok(FileHandle::Open(file));
        }
        Ok(FileHandle::Closed { path: file.path().into(), state: file.state()? })
    }

    /// Returns the open file. Fails if the file was changed or replaced since it was first opened.
    pub fn get(&self) -> Result<DataFile> {
        match self {
            FileHandle::Open(file) => Ok(file.clone()),
            FileHandle::Closed { path, state } => DataFile::reopen(path, state),
        }
    }

    /// The path as the configuration wrote it.
    pub fn path(&self) -> &str {
        match self {
            FileHandle::Open(file) => file.path(),
            FileHandle::Closed { path, .. } => path,
        }
    }

    /// Bytes of memory held for reading the file.
    pub fn memory(&self) -> u64 {
        match self {
            FileHandle::Open(file) => file.memory(),
            FileHandle::Closed { .. } => 0,
        }
    }

    /// Size of the file in bytes.
    pub fn size(&self) -> Result<u64> {
        match self {
            FileHandle::Open(file) => file.size(),
            FileHandle::Closed { state, .. } => Ok(state.size),
        }
    }
}
