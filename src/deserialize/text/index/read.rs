//! Reading the bytes of a file at given offsets, with errors in CNTK's words.

use crate::error::ExceptionClass;
use crate::{Error, ErrorKind, Result};
use std::fs::File;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::sync::atomic::{AtomicBool, Ordering};

/// A file as it was when it was opened.
pub(super) struct Source<'a> {
    pub file: &'a File,
    /// Its path, for messages.
    pub name: &'a str,
    pub size: u64,
    /// Time of its last change: seconds and nanoseconds.
    pub modified: (i64, i64),
    /// Set as soon as nobody wants to know any more: reading fails then.
    pub abandoned: Option<&'a AtomicBool>,
}

impl<'a> Source<'a> {
    pub fn new(file: &'a File, name: &'a str) -> Result<Self> {
        let (size, modified) = state(file).map_err(|cause| error(name, &cause))?;
        Ok(Source { file, name, size, modified, abandoned: None })
    }

    /// Whether the file is still as it was.
    pub fn is_unchanged(&self) -> bool {
        state(self.file).is_ok_and(|now| now == (self.size, self.modified))
    }

    /// Fills `block` from `offset` on; the file must have that much.
    pub fn read(&self, block: &mut [u8], offset: u64) -> Result<()> {
        if self.abandoned.is_some_and(|abandoned| abandoned.load(Ordering::Relaxed)) {
            return Err(Error::state("The reader was closed while its data were indexed."));
        }
        self.file.read_exact_at(block, offset).map_err(|cause| error(self.name, &cause).at(offset, None))
    }
}

fn state(file: &File) -> std::io::Result<(u64, (i64, i64))> {
    let metadata = file.metadata()?;
    Ok((metadata.len(), (metadata.mtime(), metadata.mtime_nsec())))
}

fn error(name: &str, cause: &std::io::Error) -> Error {
    let text = cause.to_string();
    let text = text.split(" (os error").next().unwrap_or_default();
    let message = format!("Error reading file '{name}': {text}.");
    Error::new(ErrorKind::Io, ExceptionClass::Runtime, message).in_file(name)
}
