//! A deserializer's file between two uses: open, or closed to save its descriptor.

use crate::Result;
use crate::file::{DataFile, FileState};

/// A file that is open, or that is opened again for each use. A process may have few descriptors, often 1024, and the list of
/// files of a deserializer may be longer.
pub enum FileHandle {
    /// Stays open.
    Open(DataFile),
    /// Is opened for each use, and refused if it is not what it was.
    Closed {
        /// Its path.
        path: Box<str>,
        /// What it was when it was opened first.
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

    /// The open file. Fails if the file was changed or replaced since it was opened first.
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

    /// Bytes of memory that are held for reading the file.
    pub fn memory(&self) -> u64 {
        match self {
            FileHandle::Open(file) => file.memory(),
            FileHandle::Closed { .. } => 0,
        }
    }

    /// Bytes of the file.
    pub fn size(&self) -> Result<u64> {
        match self {
            FileHandle::Open(file) => file.size(),
            FileHandle::Closed { state, .. } => Ok(state.size),
        }
    }
}
