//! Compressed files: which files these are, and in which of two ways each is read.

use super::DataFile;
#[cfg(feature = "compression")]
use super::{Source, unpacked};
use crate::{Error, Result};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

/// How a file is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compression {
    /// gzip: one stream, or several that follow each other.
    Gzip,
    /// zstd: one frame, or several that follow each other.
    Zstd,
}

/// The endings of the names of compressed files.
const ENDINGS: [(&[u8], Compression); 4] = [
    (b".gz", Compression::Gzip),
    (b".gzip", Compression::Gzip),
    (b".zst", Compression::Zstd),
    (b".zstd", Compression::Zstd),
];

/// Names of the files that this process has open.
const DESCRIPTORS: &[u8] = b"/proc/self/fd/";

/// Whether the name of a file is one of those that files compressed by zstd have.
pub fn is_named_as_zstd(path: &str) -> bool {
    ENDINGS.iter().any(|(ending, kind)| *kind == Compression::Zstd && path.as_bytes().ends_with(ending))
}

impl Compression {
    /// How a file is compressed, if it is. Both its name and its first bytes have to say so: other files cost no look at their
    /// bytes, and a plain file is read as it is whatever its name, as CNTK reads it. An open file that is named by its descriptor
    /// has no name of its own, so its bytes alone say it.
    pub(super) fn of(file: &DataFile, path: &OsStr) -> Result<Option<Compression>> {
        let path = path.as_bytes();
        let named = ENDINGS.iter().find(|(ending, _)| path.ends_with(ending));
        let compression = match named {
            Some(&(_, compression)) => compression,
            None if path.starts_with(DESCRIPTORS) => Compression::Zstd,
            None => return Ok(None),
        };
        let mut magic = [0; 4];
        let count = file.read_at(0, &mut magic)?;
        Ok((count == magic.len() && compression.begins_with(magic)).then_some(compression))
    }

    fn begins_with(self, magic: [u8; 4]) -> bool {
        match self {
            Compression::Gzip => magic.starts_with(&[0x1f, 0x8b, 8]),
            // A frame with data, or one to be skipped, which some tools put in front.
            Compression::Zstd => {
                let magic = u32::from_le_bytes(magic);
                magic == 0xfd2f_b528 || magic & 0xffff_fff0 == 0x184d_2a50
            }
        }
    }
}

/// The unpacked data of a compressed file.
#[cfg(feature = "compression")]
pub(super) fn open(file: DataFile, compression: Compression) -> Result<DataFile> {
    let path = file.path().to_owned();
    if compression == Compression::Zstd
        && let Some(frames) = super::frames::Frames::open(&file)?
    {
        return Ok(DataFile::from_source(Source::Frames(Box::new(frames)), &path));
    }
    let unpacked = unpacked::open(&file, compression)?;
    Ok(DataFile::from_source(Source::Unpacked(file, unpacked), &path))
}

/// Refuses a compressed file.
#[cfg(not(feature = "compression"))]
pub(super) fn open(file: DataFile, _compression: Compression) -> Result<DataFile> {
    let path = file.path();
    let error = Error::data(format!("Cannot read '{path}': it is compressed."));
    let error = error.with_detail(
        "This build of the library lacks the feature 'compression'. Build it with the feature, or decompress the file first.",
    );
    Err(error.in_file(path))
}

/// The error of a compressed file that is damaged at `offset`, counted in the compressed bytes.
#[cfg(feature = "compression")]
pub(super) fn damaged(path: &str, offset: u64, what: &str) -> Error {
    let error = Error::data(format!("Error reading file '{path}': {what}."));
    let error = error.with_detail(
        "The offset counts compressed bytes. The file is damaged or not complete: copy it again, or compress the data again.",
    );
    error.in_file(path).at(offset, None)
}
