//! Opening text files. Every text file of the library is opened here: scripts, label files, lists
//! of states and of files, maps, tables of contents, configurations, mean images.
//!
//! - A UTF-8 byte order mark is not part of the text, which begins at [`DataFile::text_start`].
//!   Byte order marks of other encodings are errors.
//! - Lines end with LF, with CR LF, or, in a file without any LF, with CR alone. Such a file is
//!   read with each CR replaced by LF, so offsets stay the same. In all other files a lone CR is
//!   data, as in CNTK.

use super::{DataFile, FileSource};
use crate::memory::room::{self, Use};
use crate::{Error, Result};
use std::borrow::Cow;
use std::ffi::OsStr;
use std::io;

/// The byte order mark of UTF-8.
pub const MARK: &[u8] = b"\xef\xbb\xbf";

/// Number of bytes that decide how the lines of a file end.
const HEAD: usize = 64 << 10;

/// Properties detected at the start of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct TextStart {
    /// Offset of the text: after the byte order mark.
    at: usize,
    /// Whether a lone CR ends a line.
    has_returns: bool,
}

impl TextStart {
    /// Examines the first bytes of a text; `is_whole` says that they are all of it.
    fn of(head: &[u8], is_whole: bool, path: &str) -> Result<TextStart> {
        if let Some(encoding) = other_encoding(head) {
            return Err(wrong_encoding(encoding, path));
        }
        let at = if head.starts_with(MARK) { MARK.len() } else { 0 };
        Ok(TextStart { at, has_returns: ends_lines_with_returns(&head[at..], is_whole) })
    }
}

/// Returns the encoding that a byte order mark states, unless it is UTF-8.
pub fn other_encoding(head: &[u8]) -> Option<&'static str> {
    match head {
        [0xff, 0xfe, 0, 0, ..] => Some("UTF-32LE"),
        [0, 0, 0xfe, 0xff, ..] => Some("UTF-32BE"),
        [0xff, 0xfe, ..] => Some("UTF-16LE"),
        [0xfe, 0xff, ..] => Some("UTF-16BE"),
        _ => None,
    }
}

/// Returns the error for a text in an encoding other than UTF-8.
pub fn wrong_encoding(encoding: &str, path: &str) -> Error {
    let message = format!("The text file '{path}' is encoded in {encoding}, as its byte order mark says.");
    // Without the byte order suffix, `iconv` removes the mark.
    let name = &encoding[..encoding.len() - 2];
    let detail = format!("UTF-8 was expected. Convert it first: iconv -f {name} -t UTF-8 FILE > NEW.");
    Error::data(message).with_detail(detail).in_file(path).at(0, Some(1))
}

/// Returns whether lines end with CR alone: there is a CR, no LF, and no NUL, which would mean
/// binary data.
fn ends_lines_with_returns(text: &[u8], is_whole: bool) -> bool {
    let inner = if is_whole { text } else { &text[..text.len().saturating_sub(1)] };
    memchr::memchr(b'\r', inner).is_some() && memchr::memchr2(b'\n', 0, text).is_none()
}

/// Decodes the content of a text file in memory: removes the byte order mark, and replaces CR by LF
/// if lines end with CR alone.
pub fn decoded<'a>(bytes: &'a [u8], path: &str) -> Result<Cow<'a, [u8]>> {
    let start = TextStart::of(bytes, true, path)?;
    Ok(with_line_breaks(&bytes[start.at..], true))
}

/// Replaces CR by LF if lines end with CR alone. `is_whole` says that `text` is complete.
pub(crate) fn with_line_breaks(text: &[u8], is_whole: bool) -> Cow<'_, [u8]> {
    if !ends_lines_with_returns(text, is_whole) {
        return Cow::Borrowed(text);
    }
    let mut text = text.to_vec();
    returns_to_line_breaks(&mut text);
    Cow::Owned(text)
}

/// Replaces each CR by LF.
pub(super) fn returns_to_line_breaks(text: &mut [u8]) {
    text.iter_mut().filter(|byte| **byte == b'\r').for_each(|byte| *byte = b'\n');
}

impl DataFile {
    /// Opens a text file.
    pub fn open_text(path: &str) -> Result<DataFile> {
        Self::open(path)?.into_text()
    }

    /// Like [`DataFile::open_text`]; `refuse` makes the error for a file that cannot be opened.
    pub fn open_text_or(path: &str, refuse: impl FnOnce(&io::Error) -> Error) -> Result<DataFile> {
        Self::open_shown(OsStr::new(path), path, refuse)?.into_text()
    }

    /// Treats the file as a text file.
    pub fn into_text(self) -> Result<DataFile> {
        let size = self.size()?;
        let mut head = room::zeroed(size.min(HEAD as u64) as usize, room::FILE)?;
        let count = self.read_at(0, &mut head)?;
        let start = TextStart::of(&head[..count], count as u64 >= size, self.path())?;
        if start == (TextStart { at: 0, has_returns: false }) {
            return Ok(self);
        }
        let path = self.path().to_owned();
        let text = FileSource::Text { file: self, start: start.at as u64, has_returns: start.has_returns };
        Ok(DataFile::from_source(text, &path))
    }

    /// Returns the offset of the text in a file that was opened as text.
    pub fn text_start(&self) -> u64 {
        match &self.0.source {
            FileSource::Text { start, .. } => *start,
            _ => 0,
        }
    }

    /// Returns the whole text of a file that was opened as text, from [`DataFile::text_start`] on.
    pub fn read_text(&self, purpose: Use) -> Result<Vec<u8>> {
        let start = self.text_start();
        let size = self.size()?.saturating_sub(start);
        let size = usize::try_from(size).map_err(|_| room::missing(usize::MAX, purpose));
        let mut text = size.and_then(|size| room::zeroed(size, purpose)).map_err(|error| {
            let error = error.with_detail("All of the file has to be in memory: check the path.");
            error.in_file(self.path())
        })?;
        let count = self.if_unchanged(self.read_at(start, &mut text))?;
        text.truncate(count);
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};

    fn open(bytes: &[u8]) -> Result<DataFile> {
        let mut file = tempfile::tempfile().expect("a file");
        file.write_all(bytes).expect("writing");
        DataFile::from_file(file, "f").into_text()
    }

    #[test]
    fn bom_is_skipped_and_lone_cr_ends_lines() {
        for (bytes, start, text) in [
            (&b"a\nb"[..], 0, &b"a\nb"[..]),
            (b"\xef\xbb\xbfa\r\nb", 3, b"a\r\nb"),
            (b"a\rb\r", 0, b"a\nb\n"),
            (b"\xef\xbb\xbfa\rb", 3, b"a\nb"),
            // A CR within lines is data.
            (b"a\rb\nc", 0, b"a\rb\nc"),
            // Binary data have no lines.
            (b"a\r\0b", 0, b"a\r\0b"),
            (b"\xef\xbb", 0, b"\xef\xbb"),
            (b"", 0, b""),
        ] {
            let file = open(bytes).expect("a text");
            assert_eq!(file.text_start(), start, "{bytes:?}");
            assert_eq!(file.read_text(room::FILE).expect("a text"), text, "{bytes:?}");
            assert_eq!(decoded(bytes, "f").expect("a text"), text, "{bytes:?}");
            let mut rest = Vec::new();
            file.sequential_from(start).read_to_end(&mut rest).expect("a text");
            assert_eq!((rest.as_slice(), file.size().expect("a size")), (text, bytes.len() as u64));
        }
    }

    #[test]
    fn cr_at_end_of_head_may_be_crlf() {
        let mut bytes = vec![b'a'; HEAD - 1];
        bytes.extend(b"\r\nb");
        assert_eq!(open(&bytes).expect("a text").read_text(room::FILE).expect("a text"), bytes);
        bytes.truncate(HEAD);
        assert_eq!(open(&bytes).expect("a text").read_text(room::FILE).expect("a text")[HEAD - 1], b'\n');
    }

    #[test]
    fn other_encodings_are_named() {
        for (bytes, encoding, tool) in [
            (&b"\xff\xfea\0"[..], "UTF-16LE", "iconv -f UTF-16 -t UTF-8"),
            (b"\xfe\xff\0a", "UTF-16BE", "iconv -f UTF-16 -t UTF-8"),
            (b"\xff\xfe\0\0a\0\0\0", "UTF-32LE", "iconv -f UTF-32 -t UTF-8"),
            (b"\0\0\xfe\xff\0\0\0a", "UTF-32BE", "iconv -f UTF-32 -t UTF-8"),
        ] {
            let error = open(bytes).expect_err("another encoding");
            assert!(error.message().contains(encoding) && error.detail().contains(tool), "{error}");
            assert!(decoded(bytes, "f").is_err());
        }
    }
}
