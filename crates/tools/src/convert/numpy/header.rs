//! The description that an array in a file begins with.

use cntk_reader_core::{Error, Result};

const MAGIC: &[u8] = b"\x93NUMPY";

/// Bytes at the start of an array that its description fits into, or the array is refused.
pub const LONGEST: usize = cntk_reader_core::limits::LONGEST_ARRAY_HEADER;

/// The description of an array of this type and shape, as version 1.0 of the format has it. Values follow at a multiple of 64
/// bytes.
pub fn header(element: &str, shape: &[u64]) -> Vec<u8> {
    let dims: String = shape.iter().map(|dim| format!("{dim}, ")).collect();
    let dims = if shape.len() == 1 { dims.trim_end() } else { dims.trim_end_matches(", ") };
    let text = format!("{{'descr': '{element}', 'fortran_order': False, 'shape': ({dims}), }}");
    let prefix = MAGIC.len() + 4;
    let size = (prefix + text.len() + 1).next_multiple_of(64);
    let mut bytes = MAGIC.to_vec();
    bytes.extend([1, 0]);
    bytes.extend(((size - prefix) as u16).to_le_bytes());
    bytes.extend_from_slice(text.as_bytes());
    bytes.resize(size - 1, b' ');
    bytes.push(b'\n');
    bytes
}

/// The description of an array.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Described {
    /// Type of the values, such as `<f4`.
    pub element: String,
    /// The last dimension varies fastest. The reverse is called Fortran's order.
    pub is_c_order: bool,
    pub shape: Vec<u64>,
    /// Bytes before the values.
    pub size: usize,
}

impl Described {
    /// Bytes of a value, for types of a fixed size.
    pub fn element_size(&self) -> Option<u64> {
        let digits = self.element.trim_start_matches(|c: char| !c.is_ascii_digit());
        let size: u64 = digits.parse().ok().filter(|&size| size > 0)?;
        // Texts are stored in four bytes a character.
        if self.element.contains('U') { size.checked_mul(4) } else { Some(size) }
    }

    /// Reads the description at the start of an array.
    pub fn read(bytes: &[u8]) -> Result<Described> {
        let wrong = |what: &str| {
            Error::data(format!("The array {what}.")).with_detail("Write it with numpy.save or numpy.savez.")
        };
        let version =
            bytes.get(6).filter(|_| bytes.starts_with(MAGIC)).ok_or_else(|| wrong("has no header"))?;
        let (length, before): (Option<usize>, usize) = match version {
            1 => (bytes.get(8..10).map(|b| usize::from(u16::from_le_bytes([b[0], b[1]]))), 10),
            2 | 3 => (bytes.get(8..12).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]) as usize), 12),
            _ => return Err(wrong("has a version of the format that is not known")),
        };
        let text = length.and_then(|length| bytes.get(before..before.checked_add(length)?));
        let text = text.ok_or_else(|| wrong("ends inside its header, or the header is longer than 64 KB"))?;
        let size = before + text.len();
        let text = std::str::from_utf8(text).map_err(|_| wrong("has a header that is no text"))?;
        let after = |key: &str| {
            let at = text.find(&format!("'{key}'"))? + key.len() + 2;
            Some(text[at..].trim_start().strip_prefix(':')?.trim_start())
        };
        let element = after("descr").and_then(|text| text.strip_prefix('\'')?.split_once('\''));
        let (element, _) = element.ok_or_else(|| wrong("has records or objects for values"))?;
        let order = after("fortran_order").ok_or_else(|| wrong("has a header without an order"))?;
        let shape = after("shape").and_then(|text| text.strip_prefix('(')?.split_once(')'));
        let (shape, _) = shape.ok_or_else(|| wrong("has a header without a shape"))?;
        let dims = shape.split(',').map(str::trim).filter(|dim| !dim.is_empty());
        let shape = dims.map(|dim| dim.parse().ok()).collect::<Option<Vec<u64>>>();
        Ok(Described {
            element: element.to_owned(),
            is_c_order: order.starts_with("False"),
            shape: shape.ok_or_else(|| wrong("has a shape that is not of numbers"))?,
            size,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_read_back() {
        for shape in [&[][..], &[7], &[0, 3], &[1, 2, 3]] {
            let bytes = header("<f4", shape);
            assert!(bytes.len().is_multiple_of(64) && bytes.ends_with(b"\n"));
            let read = Described::read(&bytes).expect("a header");
            assert_eq!(
                read,
                Described {
                    element: "<f4".into(),
                    is_c_order: true,
                    shape: shape.to_vec(),
                    size: bytes.len()
                }
            );
        }
        let text = header("<f4", &[7]);
        assert!(String::from_utf8_lossy(&text).contains("'shape': (7,), }"));
    }

    #[test]
    fn damaged_headers_are_errors() {
        let good = header("<f4", &[7, 2]);
        for end in 0..good.len() {
            assert!(Described::read(&good[..end]).is_err(), "{end}");
        }
        for (from, to) in
            [("shape", "shade"), ("'<f4'", "[('a'"), ("(7", "(x"), ("7", "99999999999999999999")]
        {
            let text = String::from_utf8_lossy(&good[10..]).replacen(from, to, 1);
            let mut bytes = good[..8].to_vec();
            bytes.extend((text.len() as u16).to_le_bytes());
            bytes.extend(text.as_bytes());
            assert!(Described::read(&bytes).is_err(), "{to}");
        }
    }
}
