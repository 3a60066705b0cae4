//! The header of an object of a binary archive: `\0B`, its kind, and its size.
//!
//! Numbers are little-endian. An `int32` is preceded by a byte 4, its size.
//!
//! | object | bytes after `\0B` |
//! | --- | --- |
//! | matrix of `f32` or `f64` | `FM ` or `DM `, `4` rows, `4` columns, values row by row |
//! | vector of `f32` or `f64` | `FV ` or `DV `, `4` count, values |
//! | compressed matrix | `CM `, `CM2 ` or `CM3 `, then as described in [`super::compressed`] |
//! | vector of `int32` | `4` count, and for each number `4` and the number |

use super::compressed::{self, Compression};
use cntk_reader_core::message::shown::quoted;
use cntk_reader_core::stream::ElementType;
use cntk_reader_core::{Error, Result};
use std::ops::Range;

/// Maximum length of a header.
pub const LONGEST: usize = 22;

/// Bytes per number of an integer vector: its size, and the number.
pub const INTEGER: usize = 5;

/// The kind of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ObjectKind {
    /// Values row by row.
    Values(ElementType),
    /// A compressed matrix.
    Compressed(Compression),
    /// `int32`, each preceded by a byte.
    Integers,
    /// The text of a matrix, or of a vector of numbers.
    Text,
}

/// An object of an archive.
#[derive(Debug, Clone, PartialEq)]
pub struct Object {
    pub kind: ObjectKind,
    /// Frames: rows of a matrix, 1 for a vector of features, the count of an integer vector.
    pub rows: u32,
    /// Values per frame; 1 for an integer vector.
    pub columns: u32,
    /// Rows can be selected only from matrices.
    pub is_matrix: bool,
    /// Its range in the file: the values of matrices and vectors, the sizes and values of
    /// compressed matrices, all of a text.
    pub bytes: Range<u64>,
}

impl Object {
    /// Returns the number of bytes per row, if rows are contiguous.
    pub fn row_bytes(&self) -> Option<u64> {
        match self.kind {
            ObjectKind::Values(element) => Some(u64::from(self.columns) * element.size() as u64),
            ObjectKind::Integers => Some(INTEGER as u64),
            ObjectKind::Compressed(_) | ObjectKind::Text => None,
        }
    }
}

/// Returns whether an object is binary.
pub fn is_binary(bytes: &[u8]) -> bool {
    bytes.starts_with(b"\0B")
}

/// Parses the header of a binary object. `bytes` are those of the file at `offset`: [`LONGEST`]
/// bytes, or fewer at the end of the file.
pub fn read(bytes: &[u8], offset: u64) -> Result<Object> {
    let mut rest = Rest { bytes, offset };
    rest.skip(2)?;
    let (kind, rows, columns, is_matrix) = match bytes.get(2..).unwrap_or_default() {
        [b'F', b'M', b' ', ..] => rest.matrix(ElementType::Float)?,
        [b'D', b'M', b' ', ..] => rest.matrix(ElementType::Double)?,
        [b'F', b'V', b' ', ..] => rest.vector(ElementType::Float)?,
        [b'D', b'V', b' ', ..] => rest.vector(ElementType::Double)?,
        [b'C', b'M', b' ', ..] => rest.compressed(Compression::Columns, 3)?,
        [b'C', b'M', b'2', b' ', ..] => rest.compressed(Compression::TwoBytes, 4)?,
        [b'C', b'M', b'3', b' ', ..] => rest.compressed(Compression::OneByte, 4)?,
        [4, ..] => (ObjectKind::Integers, rest.size()?, 1, false),
        other => return Err(unknown(other).at(offset, None)),
    };
    let size = match kind {
        ObjectKind::Values(element) => element.size() as u64,
        ObjectKind::Integers => INTEGER as u64,
        ObjectKind::Compressed(compression) => {
            // Below 2^63, because rows and columns are below 2^31.
            let size = compressed::HEADER as u64 + compression.bytes(u64::from(rows), u64::from(columns));
            let end = rest.offset.saturating_add(size);
            return Ok(Object { kind, rows, columns, is_matrix, bytes: rest.offset..end });
        }
        ObjectKind::Text => 0,
    };
    // Rows and columns are below 2^31, but the product with the value size may exceed 64 bits.
    let values = u64::from(rows) * u64::from(columns);
    let end = values.checked_mul(size).and_then(|size| rest.offset.checked_add(size));
    let Some(end) = end else {
        let message = format!("An object has {rows} rows of {columns} values, more than any file can hold.");
        return Err(Error::data(message).with_detail(DAMAGED).at(offset, None));
    };
    Ok(Object { kind, rows, columns, is_matrix, bytes: rest.offset..end })
}

pub const DAMAGED: &str = "The archive is damaged, or the script names another offset: write them again.";

/// The unread part of a header.
struct Rest<'a> {
    bytes: &'a [u8],
    offset: u64,
}

type Found = (ObjectKind, u32, u32, bool);

impl Rest<'_> {
    fn matrix(&mut self, element: ElementType) -> Result<Found> {
        self.skip(3)?;
        Ok((ObjectKind::Values(element), self.size()?, self.size()?, true))
    }

    fn vector(&mut self, element: ElementType) -> Result<Found> {
        self.skip(3)?;
        let columns = self.size()?;
        // A vector without values counts as a matrix without rows.
        Ok((ObjectKind::Values(element), u32::from(columns > 0), columns, false))
    }

    fn compressed(&mut self, compression: Compression, token: usize) -> Result<Found> {
        self.skip(token)?;
        let header = self.bytes.first_chunk::<{ compressed::HEADER }>().ok_or_else(|| self.ended())?;
        let header = compressed::Header::read(header);
        let (rows, columns) = (self.checked(header.rows)?, self.checked(header.columns)?);
        Ok((ObjectKind::Compressed(compression), rows, columns, true))
    }

    fn skip(&mut self, count: usize) -> Result<()> {
        self.bytes = self.bytes.get(count..).ok_or_else(|| self.ended())?;
        self.offset += count as u64;
        Ok(())
    }

    /// Reads a number of rows, columns or values.
    fn size(&mut self) -> Result<u32> {
        let &[size, a, b, c, d] = self.bytes.first_chunk::<5>().ok_or_else(|| self.ended())?;
        if size != 4 {
            let message = format!("A number of {size} bytes was found where one of 4 bytes was expected.");
            return Err(Error::data(message).with_detail(DAMAGED).at(self.offset, None));
        }
        let number = self.checked(i32::from_le_bytes([a, b, c, d]))?;
        self.skip(5)?;
        Ok(number)
    }

    fn checked(&self, number: i32) -> Result<u32> {
        u32::try_from(number).map_err(|_| {
            let message = format!("A matrix or vector has the negative size {number}.");
            Error::data(message).with_detail(DAMAGED).at(self.offset, None)
        })
    }

    fn ended(&self) -> Error {
        let detail = "The archive is not complete: write or copy it again.";
        Error::data("The file ends within an object.").with_detail(detail).at(self.offset, None)
    }
}

fn unknown(bytes: &[u8]) -> Error {
    let end = bytes.iter().position(|byte| !byte.is_ascii_graphic()).unwrap_or(bytes.len());
    let found = quoted(&bytes[..end]);
    Error::data(format!("An object of an unsupported kind was found: '{found}'.")).with_detail(
        "Matrices and vectors of float or double (FM, DM, FV, DV), compressed matrices (CM, CM2, CM3) and vectors of int32 \
         are supported: write the data as one of these.",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_sizes(token: &[u8], sizes: &[i32]) -> Vec<u8> {
        let mut bytes = [b"\0B", token].concat();
        for size in sizes {
            bytes.push(4);
            bytes.extend(size.to_le_bytes());
        }
        bytes
    }

    #[test]
    fn headers_locate_the_values() {
        let object = read(&with_sizes(b"FM ", &[7, 3]), 100).expect("a header");
        assert_eq!((object.rows, object.columns, object.bytes.clone()), (7, 3, 115..115 + 84));
        assert_eq!((object.row_bytes(), object.is_matrix), (Some(12), true));
        let object = read(&with_sizes(b"DV ", &[6]), 0).expect("a header");
        assert_eq!((object.rows, object.columns, object.bytes), (1, 6, 10..58));
        let object = read(&with_sizes(b"FV ", &[0]), 0).expect("a header");
        assert_eq!((object.rows, object.columns), (0, 0));
        let object = read(&with_sizes(b"", &[9]), 0).expect("a header");
        assert_eq!((object.kind, object.rows, object.bytes), (ObjectKind::Integers, 9, 7..52));
    }

    #[test]
    fn damaged_headers_are_errors_with_an_offset() {
        for (bytes, offset) in [
            (with_sizes(b"FM ", &[7]), 20),
            (with_sizes(b"FM ", &[7, -1]), 20),
            (with_sizes(b"DM ", &[i32::MAX, i32::MAX]), 10),
            (with_sizes(b"CM ", &[1, 1]), 15),
            (b"\0BFM \x08\x01\0\0\0\0\0\0\0".to_vec(), 15),
            (b"\0BSPN something".to_vec(), 10),
            (b"\0B".to_vec(), 10),
            (b"\0".to_vec(), 10),
        ] {
            let error = read(&bytes, 10).expect_err("an error");
            assert_eq!(error.location().offset, Some(offset), "{error}");
        }
    }
}
