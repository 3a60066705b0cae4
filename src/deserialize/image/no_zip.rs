//! Zip files in a library without the feature `images`: a map that names one is refused.

use super::map::Map;
use super::paths;
use cntk_reader_core::error::ExceptionClass;
use cntk_reader_core::message::shown::quoted;
use cntk_reader_core::{Error, Result};

/// What unpacking would need.
#[derive(Default)]
pub(super) struct Inflater;

/// The images that lie in zip files: none.
pub(super) struct Members;

/// Refuses a zip file.
pub(super) fn names(path: &str) -> Result<Vec<Box<[u8]>>> {
    let error = Error::argument(format!("Failed to open {path}: it is a zip file."));
    let detail = "The library was built without zip files; build it with `cargo build --features images`.";
    Err(error.with_detail(detail).in_file(path))
}

impl Members {
    /// Refuses a map that names zip files.
    pub fn find(map: &Map, _as_cntk: bool, _is_tolerant: bool) -> Result<Members> {
        let mut path = Vec::new();
        for line in 0..map.len() as u32 {
            path.clear();
            map.expand_path(line, &mut path);
            if let Some((archive, _)) = paths::split_member(&path) {
                let message = format!("Failed to open {}: it is a zip file.", quoted(archive));
                let detail = "The library was built without zip files; build it with the feature 'images', or unpack the zip file.";
                let error = Error::config(ExceptionClass::Runtime, message).with_detail(detail);
                return Err(error.in_file(map.file()).in_line(u64::from(line) + 1));
            }
        }
        Ok(Members)
    }

    /// Whether the image of a line lies in a zip file.
    pub fn has(&self, _line: u32) -> bool {
        false
    }

    /// Reads no image.
    pub fn read(
        &self,
        _line: u32,
        _most: u64,
        _inflater: &mut Inflater,
        _file: &mut Vec<u8>,
    ) -> Option<Result<()>> {
        None
    }

    /// Number of images that lie in zip files.
    pub fn len(&self) -> usize {
        0
    }

    /// Bytes of memory.
    pub fn bytes(&self) -> usize {
        0
    }
}
