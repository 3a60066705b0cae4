//! Reads the lines of a file.

use cntk_reader_core::file::{DataFile, Sequential};
use cntk_reader_core::memory::room;
use cntk_reader_core::{Error, Result};
use memchr::memchr;
use std::io::Read;

/// Number of bytes read at once.
const BLOCK: usize = 1 << 20;

/// Reads a file line by line.
pub(super) struct Lines<'a> {
    file: &'a DataFile,
    input: Sequential<'a>,
    block: Vec<u8>,
    /// The unconsumed part of `block`.
    at: usize,
    end: usize,
}

impl<'a> Lines<'a> {
    /// Starts at the first line of a text file.
    pub fn new(file: &'a DataFile) -> Result<Lines<'a>> {
        let block = room::zeroed(BLOCK, room::FILE)?;
        Ok(Lines { file, input: file.sequential_from(file.text_start()), block, at: 0, end: 0 })
    }

    /// Replaces `line` with the next line, including its line break. Returns its number of bytes, 0
    /// at the end.
    pub fn read(&mut self, line: &mut Vec<u8>) -> Result<usize> {
        line.clear();
        loop {
            if self.at == self.end {
                let count = self.input.read(&mut self.block);
                let count =
                    count.map_err(|cause| Error::io("Error reading file", self.file.path(), &cause))?;
                (self.at, self.end) = (0, count);
                if count == 0 {
                    return Ok(line.len());
                }
            }
            let rest = &self.block[self.at..self.end];
            let line_break = memchr(b'\n', rest);
            let part = &rest[..line_break.map_or(rest.len(), |at| at + 1)];
            room::extend(line, part, room::CONVERSION)?;
            self.at += part.len();
            if line_break.is_some() {
                return Ok(line.len());
            }
        }
    }
}
