//! The header of an array file.

use cntk_reader_core::message::shown::quoted;
use cntk_reader_core::{Error, Result};

/// The first bytes of an array file.
pub const MAGIC: &[u8] = b"\x93NUMPY";

/// Maximum size of a header, in bytes.
pub const LONGEST: usize = cntk_reader_core::limits::LONGEST_ARRAY_HEADER;

/// Returns the header of an array of this type and shape, in version 1.0 of the format. The values
/// then begin at a multiple of 64 bytes.
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

/// The parsed header of an array.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Described {
    /// Type of the values, such as `<f4`.
    pub element: String,
    /// Whether the last dimension varies fastest. The reverse is called Fortran order.
    pub is_c_order: bool,
    pub shape: Vec<u64>,
    /// Size of the header in bytes.
    pub size: usize,
}

impl Described {
    /// Returns the bytes of a value, for types of a fixed size.
    pub fn element_size(&self) -> Option<u64> {
        let digits = self.element.trim_start_matches(|c: char| !c.is_ascii_digit());
        let size: u64 = digits.parse().ok().filter(|&size| size > 0)?;
        // Texts are stored in four bytes per character.
        if self.element.contains('U') { size.checked_mul(4) } else { Some(size) }
    }

    /// Parses the header at the start of an array: `bytes` are its first [`LONGEST`] bytes, or all
    /// of them. Errors have an offset, but no file yet.
    pub fn read(bytes: &[u8]) -> Result<Described> {
        if !bytes.starts_with(MAGIC) {
            let found = quoted(&bytes[..bytes.len().min(MAGIC.len())]);
            let message = format!("The array has no header: it begins with '{found}'.");
            return Err(damaged(message, "Expected the byte 0x93 and 'NUMPY'.", 0));
        }
        let cut = || {
            let detail = format!("A header states its length, and has at most {LONGEST} bytes.");
            damaged("The array ends inside its header, or the header is too long.", &detail, bytes.len())
        };
        let (length, before) = match bytes.get(MAGIC.len()) {
            Some(1) => (bytes.get(8..10).map(|b| usize::from(u16::from_le_bytes([b[0], b[1]]))), 10),
            Some(2 | 3) => {
                (bytes.get(8..12).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]) as usize), 12)
            }
            Some(version) => {
                let message = format!("The array has version {version} of the format.");
                return Err(damaged(message, "Expected version 1, 2 or 3.", MAGIC.len()));
            }
            None => return Err(cut()),
        };
        let size = length.and_then(|length| length.checked_add(before)).filter(|&size| size <= bytes.len());
        let size = size.ok_or_else(cut)?;
        let mut parser = HeaderParser { bytes: &bytes[..size], at: before };
        let HeaderEntries { element, is_c_order, shape } = parser.entries()?;
        Ok(Described { element, is_c_order, shape, size })
    }

    /// Returns the bytes of all values, each of which takes `value` bytes. Returns `None` if that,
    /// or the size of a row, exceeds 64 bits.
    pub fn bytes(&self, value: u64) -> Option<u64> {
        let (rows, row) = self.shape.split_first().unwrap_or((&1, &[]));
        // Rows last: if there are none, the product of all dimensions would hide the size of a row.
        row.iter().try_fold(value, |size, &dim| size.checked_mul(dim))?.checked_mul(*rows)
    }
}

/// Returns the error for an unreadable header.
fn damaged(message: impl Into<String>, expected: &str, offset: usize) -> Error {
    let error = Error::data(message).with_detail(expected);
    error.with_detail("Write it with numpy.save.").at(offset as u64, None)
}

/// The three entries of a header.
struct HeaderEntries {
    element: String,
    is_c_order: bool,
    shape: Vec<u64>,
}

/// Parses the text of a header, which is a Python dictionary literal.
struct HeaderParser<'b> {
    bytes: &'b [u8],
    at: usize,
}

impl HeaderParser<'_> {
    fn entries(&mut self) -> Result<HeaderEntries> {
        let (mut element, mut is_c_order, mut shape) = (None, None, None);
        self.expect(b"{", "a dictionary")?;
        while !self.take(b"}") {
            let at = self.at;
            let key = self.text("the name of an entry")?;
            self.expect(b":", "a colon")?;
            let is_new = match key.as_str() {
                "descr" => {
                    if self.peek() == Some(b'[') {
                        return Err(self.wrong("the type of a number: records cannot be read"));
                    }
                    element.replace(self.text("a type of values")?).is_none()
                }
                "fortran_order" => {
                    let is_fortran = self.take(b"True");
                    if !is_fortran {
                        self.expect(b"False", "True or False")?;
                    }
                    is_c_order.replace(!is_fortran).is_none()
                }
                "shape" => shape.replace(self.shape()?).is_none(),
                _ => false,
            };
            if !is_new {
                self.at = at;
                return Err(self.wrong("the entries 'descr', 'fortran_order' and 'shape', once each"));
            }
            if !self.take(b",") {
                self.expect(b"}", "a comma or the end of the dictionary")?;
                break;
            }
        }
        match (element, is_c_order, shape) {
            (Some(element), Some(is_c_order), Some(shape)) => {
                Ok(HeaderEntries { element, is_c_order, shape })
            }
            _ => Err(self.wrong("the entries 'descr', 'fortran_order' and 'shape' before")),
        }
    }

    fn shape(&mut self) -> Result<Vec<u64>> {
        self.expect(b"(", "the sizes of the dimensions in parentheses")?;
        let mut shape = Vec::new();
        while !self.take(b")") {
            let digits = self.peek().map_or(&[][..], |_| &self.bytes[self.at..]);
            let digits = &digits[..digits.iter().take_while(|byte| byte.is_ascii_digit()).count()];
            let dim = std::str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok());
            shape.push(dim.ok_or_else(|| self.wrong("the size of a dimension, a 64-bit number"))?);
            self.at += digits.len();
            // Python 2 wrote an L after long integers.
            self.take(b"L");
            if !self.take(b",") {
                self.expect(b")", "a comma or the end of the shape")?;
                break;
            }
        }
        Ok(shape)
    }

    fn text(&mut self, expected: &str) -> Result<String> {
        let quote = self.peek().filter(|byte| matches!(byte, b'\'' | b'"'));
        let quote = quote.ok_or_else(|| self.wrong(expected))?;
        let inside = &self.bytes[self.at + 1..];
        let length = inside.iter().position(|&byte| byte == quote).ok_or_else(|| self.wrong(expected))?;
        let text = std::str::from_utf8(&inside[..length]).map_err(|_| self.wrong(expected))?;
        self.at += length + 2;
        Ok(text.to_owned())
    }

    /// Skips white space, and returns the next byte.
    fn peek(&mut self) -> Option<u8> {
        let rest = &self.bytes[self.at..];
        self.at += rest.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
        self.bytes.get(self.at).copied()
    }

    fn take(&mut self, token: &[u8]) -> bool {
        let is_there = self.peek().is_some() && self.bytes[self.at..].starts_with(token);
        self.at += if is_there { token.len() } else { 0 };
        is_there
    }

    fn expect(&mut self, token: &[u8], expected: &str) -> Result<()> {
        if self.take(token) { Ok(()) } else { Err(self.wrong(expected)) }
    }

    fn wrong(&self, expected: &str) -> Error {
        let rest = &self.bytes[self.at..];
        let message = match rest.is_empty() {
            true => "The header of the array ends too early.".to_owned(),
            false => format!("The header of the array has '{}'.", quoted(&rest[..rest.len().min(20)])),
        };
        damaged(message, &format!("Expected {expected}."), self.at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn headers_round_trip() {
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

    #[test]
    fn headers_of_other_programs_are_read() {
        let of = |version: u8, text: &str| {
            let length = (text.len() as u32).to_le_bytes();
            let length = if version == 1 { &length[..2] } else { &length };
            Described::read(&[MAGIC, &[version, 0], length, text.as_bytes()].concat())
        };
        for version in 1..=3 {
            // Other quotes, another order, no last comma, and long integers of Python 2.
            let text = "{ \"shape\":(3L,\n4), \"descr\" : \"|u1\",\"fortran_order\":True}  \n";
            let read = of(version, text).expect("a header");
            let size = if version == 1 { 10 } else { 12 } + text.len();
            assert_eq!(read, Described { element: "|u1".into(), is_c_order: false, shape: vec![3, 4], size });
        }
        for text in [
            "",
            "{",
            "{}",
            "{'descr': '<f4', 'fortran_order': False}",
            "{'descr': '<f4', 'fortran_order': 0, 'shape': ()}",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (), 'more': 1}",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (1 2)}",
            "{'descr': '<f4', 'fortran_order': False, 'shape': 3}",
            "{'descr': '<f4 , 'fortran_order': False, 'shape': (3,)}",
        ] {
            let error = of(1, text).expect_err(text);
            assert!(error.location().offset.is_some() && error.to_string().contains("Expected"), "{error}");
        }
    }

    #[test]
    fn sizes_do_not_overflow() {
        let bytes = |shape: &[u64]| {
            let (element, shape) = ("<f4".into(), shape.to_vec());
            Described { element, is_c_order: true, shape, size: 0 }.bytes(4)
        };
        assert_eq!(bytes(&[]), Some(4));
        assert_eq!(bytes(&[3, 2]), Some(24));
        assert_eq!(bytes(&[0, 7]), Some(0));
        assert_eq!(bytes(&[0, u64::MAX]), None);
        assert_eq!(bytes(&[1 << 32, 1 << 30]), None);
    }

    proptest! {
        #[test]
        fn any_header_round_trips(element in "[<|][a-z][0-9]{1,3}", shape: Vec<u64>) {
            let bytes = header(&element, &shape);
            let size = bytes.len();
            let expected = Described { element, is_c_order: true, shape, size };
            prop_assert_eq!(Described::read(&bytes).ok(), Some(expected).filter(|_| size <= LONGEST));
        }

        #[test]
        fn any_bytes_are_a_header_or_an_error(version in 0u8..5, length in 0u8..80, text in "[{}(),:'0-9a-z TFL\\[é]{0,80}") {
            let bytes = [MAGIC, &[version, 0, length, 0], text.as_bytes()].concat();
            if let Err(error) = Described::read(&bytes) {
                prop_assert!(error.location().offset.is_some_and(|offset| offset <= bytes.len() as u64));
            }
        }
    }
}
