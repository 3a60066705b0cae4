//! The start of a text file: byte order mark, leading white space, and whether lines or ids
//! separate sequences.

use super::IndexOptions;
use super::number::{Digits, step};
use super::source::SourceFile;
use cntk_reader_core::corpus::Corpus;
use cntk_reader_core::file::text::{MARK, other_encoding, wrong_encoding};
use cntk_reader_core::format::recognize::FileFormat;
use cntk_reader_core::message::shown::quoted;
use cntk_reader_core::{Error, Result};

/// Facts that the start of a file decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Start {
    /// Offset of the first byte that is not white space.
    pub content: u64,
    /// Number of line breaks before it, which is its line number, counted from 0.
    pub line: u64,
    /// Whether every line is a sequence; otherwise lines begin with ids.
    pub by_line: bool,
}

/// An unknown line number.
pub(super) const LINE_UNKNOWN: u64 = u64::MAX;

/// CNTK's message for lines without keys where keys are texts.
pub const LACKS_KEYS: &str = "Corpus expects non-numeric sequence keys present but the input file does not have them.\
                              Please use the configuration to enable numeric keys instead.";

/// White space between lines and after textual ids.
pub fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r')
}

impl Start {
    /// Reads the start of a file. Fails if no sequence can begin there.
    pub fn read(source: &SourceFile<'_>, options: &IndexOptions, corpus: &Corpus) -> Result<Start> {
        let skip_sequence_ids = options.skip_sequence_ids;
        let mut bytes = Bytes::new(source, 0);
        if bytes.fill()?.starts_with(b"\xff\xfe") {
            return Err(Error::data(format!(
                "Found a UTF-16 BOM at the beginning of the input file ({}). UTF-16 encoding is currently not supported.",
                source.file.path()
            ))
            .with_detail(FileFormat::Utf16.remedy())
            .at(0, Some(1)));
        }
        if let Some(encoding) = other_encoding(bytes.fill()?) {
            return Err(wrong_encoding(encoding, source.file.path()));
        }
        if source.size() == 0 {
            return Err(Error::data("Input file is empty").with_detail("Lines of samples were expected."));
        }
        // CNTK skips as much of the mark as there is.
        for &byte in MARK {
            if bytes.peek()? == Some(byte) {
                bytes.advance(1);
            } else {
                break;
            }
        }
        if bytes.peek()?.is_none() {
            return Err(Error::data("Buffer is empty.")
                .as_cntk()
                .with_detail("The file ends after its byte order mark.")
                .with_detail("Lines of samples were expected.")
                .at(bytes.offset(), Some(1)));
        }
        let mut line = 0;
        let first = loop {
            match bytes.peek()? {
                None => {
                    let error = Error::data("Input file is empty");
                    let error =
                        error.with_detail("The file has only white space: lines of samples were expected.");
                    return Err(error.at(bytes.offset(), Some(line + 1)));
                }
                Some(byte) if is_space(byte) && !options.quirks.refuses_leading_space => {
                    line += u64::from(byte == b'\n');
                }
                Some(byte) => break byte,
            }
            bytes.advance(1);
        };
        let content = bytes.offset();
        let by_line = skip_sequence_ids || first == b'|';
        if by_line && !corpus.is_numeric() {
            return Err(Error::data(LACKS_KEYS).as_cntk().with_detail(match skip_sequence_ids {
                true => {
                    "‹skip_sequence_ids = true› makes each line a sequence without a key, so it cannot be joined by keys that are \
                     text: leave it out, and begin each line with the key of its sequence. In frame mode the lines of an \
                     utterance go with its frames, one by one."
                }
                false => {
                    "The lines begin with '|' instead of a key. Put the key of its sequence and a blank before each line, \
                     the same key before all lines of an utterance; or set ‹numeric_keys = true›, if no other deserializer has keys that are text."
                }
            })
            .at(content, Some(line + 1)));
        }
        if !by_line && !bytes.skip_id(corpus.is_numeric(), line)? {
            let message = format!("Expected a sequence id at the offset {content}, none was found.");
            let (found, remedy) = without_id(source, content);
            let error = Error::data(message).as_cntk().with_detail(found).with_detail(remedy);
            return Err(error.at(content, Some(line + 1)));
        }
        Ok(Start { content, line, by_line })
    }
}

/// Explains a file that has neither an id nor a sample at `start`: what was found, and what to do.
fn without_id(source: &SourceFile<'_>, start: u64) -> (String, String) {
    const BEGIN: &str = "Begin the file with an id, that is digits and white space, or with '|', which makes each line a sequence.";
    match FileFormat::of_data(source.file) {
        Ok(FileFormat::CtfTextIds) => (
            "The ids of the file are text, but numbers were expected.".to_owned(),
            "Set ‹numeric_keys = false› ‹in_the_reader›, or number the sequences.".to_owned(),
        ),
        Ok(FileFormat::Bytes) => (
            "The file is binary; a text file in CNTK's format was expected.".to_owned(),
            "Check that this is the intended file, and that it was copied completely.".to_owned(),
        ),
        Ok(format) if format != FileFormat::Text && !format.is_ctf() => (
            format!("The file looks like {}; a text file in CNTK's format was expected.", format.describe()),
            format.remedy_for(source.file.path()).to_owned(),
        ),
        _ => {
            let mut text = [0; 40];
            let count = source.file.read_at(start, &mut text).unwrap_or(0);
            let line = text[..count].split(|&byte| matches!(byte, b'\n' | b'\r')).next().unwrap_or_default();
            (
                format!("The file begins with '{}', neither an id nor a sample.", quoted(line)),
                BEGIN.to_owned(),
            )
        }
    }
}

/// Reads a file byte by byte.
struct Bytes<'a> {
    source: &'a SourceFile<'a>,
    block: Vec<u8>,
    /// Offset of the block in the file.
    base: u64,
    at: usize,
}

impl<'a> Bytes<'a> {
    const BLOCK: u64 = 4096;

    fn new(source: &'a SourceFile<'a>, offset: u64) -> Self {
        Bytes { source, block: Vec::new(), base: offset, at: 0 }
    }

    /// Returns the bytes at hand; none at the end of the file.
    fn fill(&mut self) -> Result<&[u8]> {
        if self.at == self.block.len() {
            self.base = self.offset();
            self.at = 0;
            self.block.resize(Self::BLOCK.min(self.source.size() - self.base) as usize, 0);
            self.source.read(&mut self.block, self.base)?;
        }
        Ok(&self.block[self.at..])
    }

    fn peek(&mut self) -> Result<Option<u8>> {
        Ok(self.fill()?.first().copied())
    }

    fn advance(&mut self, bytes: usize) {
        self.at += bytes;
    }

    fn offset(&self) -> u64 {
        self.base + self.at as u64
    }

    /// Skips an id and returns whether there is one. An id that ends with the file does not count.
    fn skip_id(&mut self, numeric: bool, line: u64) -> Result<bool> {
        let start = self.offset();
        let mut value = 0;
        while let Some(byte) = self.peek()? {
            if numeric && byte.is_ascii_digit() {
                value = step(value, byte).ok_or_else(|| Digits::overflow().at(start, Some(line + 1)))?;
            } else if numeric || is_space(byte) {
                return Ok(self.offset() > start);
            }
            self.advance(1);
        }
        Ok(false)
    }
}
