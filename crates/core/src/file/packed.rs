//! Compressed files: how they are recognized, and which of two ways of reading applies.

use super::DataFile;
use super::new_file::is_temporary;
#[cfg(feature = "compression")]
use super::{FileSource, unpacked};
use crate::{Error, Result, system};
use std::ffi::OsStr;

/// A compression format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compression {
    /// gzip: one or more concatenated members.
    Gzip,
    /// zstd: one or more concatenated frames.
    Zstd,
}

/// File name extensions of compressed files.
const ENDINGS: [(&[u8], Compression); 4] = [
    (b".gz", Compression::Gzip),
    (b".gzip", Compression::Gzip),
    (b".zst", Compression::Zstd),
    (b".zstd", Compression::Zstd),
];

/// Returns whether a file name has an extension of zstd files.
pub fn is_named_as_zstd(path: &str) -> bool {
    ENDINGS.iter().any(|(ending, kind)| *kind == Compression::Zstd && path.as_bytes().ends_with(ending))
}

impl Compression {
    /// Returns the compression of a file, if any. Both its name and its first bytes must match:
    /// other files cost no read, and a plain file is read as it is whatever its name, as CNTK does.
    /// The path of an open descriptor, or of a file that is being written, says nothing about the
    /// file, so there the bytes alone decide.
    pub(super) fn of(file: &DataFile, path: &OsStr) -> Result<Option<Compression>> {
        let path = path.as_encoded_bytes();
        let named = ENDINGS.iter().find(|(ending, _)| path.ends_with(ending));
        let compression = match named {
            Some(&(_, compression)) => compression,
            None if system::is_path_of_open(path) || is_temporary(path) => Compression::Zstd,
            None => return Ok(None),
        };
        let mut magic = [0; 4];
        let count = file.read_at(0, &mut magic)?;
        Ok((count == magic.len() && compression.begins_with(magic)).then_some(compression))
    }

    fn begins_with(self, magic: [u8; 4]) -> bool {
        match self {
            Compression::Gzip => magic.starts_with(&[0x1f, 0x8b, 8]),
            // A frame with data, or a skippable frame, which some tools put in front.
            Compression::Zstd => {
                let magic = u32::from_le_bytes(magic);
                magic == 0xfd2f_b528 || magic & 0xffff_fff0 == 0x184d_2a50
            }
        }
    }
}

/// Opens a compressed file for reads of its unpacked data.
#[cfg(feature = "compression")]
pub(super) fn open(file: DataFile, compression: Compression) -> Result<DataFile> {
    let path = file.path().to_owned();
    if compression == Compression::Zstd
        && let Some(frames) = super::frames::Frames::open(&file)?
    {
        return Ok(DataFile::from_source(FileSource::Frames(Box::new(frames)), &path));
    }
    let unpacked = unpacked::open(&file, compression)?;
    Ok(DataFile::from_source(FileSource::Unpacked(file, unpacked), &path))
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

/// Returns the error for a compressed file that is damaged at `offset`, counted in compressed
/// bytes.
#[cfg(feature = "compression")]
pub(super) fn damaged(path: &str, offset: u64, what: &str) -> Error {
    let error = Error::data(format!("Error reading file '{path}': {what}."));
    let error = error.with_detail(
        "The offset counts compressed bytes. The file is damaged or not complete: copy it again, or compress the data again.",
    );
    error.in_file(path).at(offset, None)
}
