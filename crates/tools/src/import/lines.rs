//! Reads a file from front to back, as bytes or line by line.

use cntk_reader_core::file::DataFile;
use cntk_reader_core::message::shown::quoted;
use cntk_reader_core::{Error, Result};
use std::io::{self, BufRead, BufReader, Read};

/// Number of bytes read at once.
pub(super) const BLOCK: usize = 1 << 20;

/// Reads the bytes of a text file, after a byte order mark.
pub(super) struct Bytes {
    file: DataFile,
    at: u64,
}

impl Bytes {
    /// Opens a file, which may be compressed.
    pub fn open(path: &str) -> Result<Bytes> {
        let file = DataFile::open_text(path)?;
        Ok(Bytes { at: file.text_start(), file })
    }
}

impl Read for Bytes {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.file.sequential_from(self.at).read(buffer)?;
        self.at += count as u64;
        Ok(count)
    }
}

/// Makes an error of a failure to read.
pub(super) fn failure(cause: io::Error, path: &str) -> Error {
    match cause.downcast::<Error>() {
        Ok(error) => error,
        Err(cause) => Error::io("Error reading file", path, &cause),
    }
}

/// The error for a line that is not UTF-8.
pub(super) fn not_text(path: &str, line: u64, bytes: &[u8]) -> Error {
    let at = std::str::from_utf8(bytes).map_or_else(|error| error.valid_up_to(), |_| 0);
    let part = &bytes[at..(at + 12).min(bytes.len())];
    let message = format!("Byte {} of the text is not UTF-8: '{}'.", at + 1, quoted(part));
    let detail = "Convert the file first, such as: iconv -f LATIN1 -t UTF-8 FILE > NEW";
    Error::data(message).with_detail(detail).in_file(path).in_line(line)
}

/// Reads lines.
pub(super) struct Lines {
    path: String,
    input: BufReader<Bytes>,
    line: Vec<u8>,
    number: u64,
    position: u64,
}

impl Lines {
    /// Opens a file, which may be compressed.
    pub fn open(path: &str) -> Result<Lines> {
        let input = BufReader::with_capacity(BLOCK, Bytes::open(path)?);
        Ok(Lines { path: path.to_owned(), input, line: Vec::new(), number: 0, position: 0 })
    }

    /// Returns the next line without its end, and its number from 1.
    pub fn next(&mut self) -> Result<Option<(&str, u64)>> {
        self.line.clear();
        let count = self.input.read_until(b'\n', &mut self.line);
        let count = count.map_err(|cause| failure(cause, &self.path))?;
        if count == 0 {
            return Ok(None);
        }
        self.position += count as u64;
        self.number += 1;
        let line = self.line.strip_suffix(b"\n").unwrap_or(&self.line);
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        match std::str::from_utf8(line) {
            Ok(line) => Ok(Some((line, self.number))),
            Err(_) => Err(not_text(&self.path, self.number, line)),
        }
    }

    /// Path of the file.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Bytes read so far.
    pub fn position(&self) -> u64 {
        self.position
    }
}
