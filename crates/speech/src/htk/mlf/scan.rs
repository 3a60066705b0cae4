//! The index pass over a text file: finds the position, key and claimed number of frames of each
//! utterance.
//!
//! A file is divided into pieces that are scanned in parallel. Whether a line ends an utterance
//! depends on the preceding lines: a line `.` in place of a key line is itself a (bad) key line and
//! ends nothing. So pieces begin only after a line `.` that follows an ordinary line: such a line
//! ends an utterance whatever came before.

use super::ranges::{self, Columns, Flaw};
use cntk_reader_core::file::DataFile;
use cntk_reader_core::limits::LARGEST_UTTERANCE;
use cntk_reader_core::memory::room;
use cntk_reader_core::message::shown::quoted;
use cntk_reader_core::runtime::cancel::carried;
use cntk_reader_core::{Error, Result};
use memchr::memmem::Finder;
use rayon::prelude::*;
use std::ops::Range;

/// The first line of a file.
pub(super) const HEADER: &[u8] = b"#!MLF!#";

/// Approximate size of a piece, small enough to stay in a core's cache between reading and
/// scanning.
const PIECE: u64 = 512 << 10;

/// Bytes first searched for the beginning of a piece.
const FIRST_LOOK: usize = 8 << 10;

/// The position and index data of an utterance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Utterance {
    /// Offset of its key line.
    pub offset: u64,
    /// Bytes from its key line to its end line, inclusive.
    pub size: u32,
    /// The end frame of its last range.
    pub frames: u32,
    /// End of its key in [`Scanned::keys`]. It begins at the end of the preceding key.
    pub key_end: usize,
}

/// A problem found by the scan.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// An utterance without ranges, or with a bad key line (`key` is `None`). It is skipped.
    Skipped { key: Option<Vec<u8>>, offset: u64 },
    /// The text ends in an utterance, which no line `.` ends. It is not read, as in CNTK.
    Unfinished { key: Option<Vec<u8>>, offset: u64 },
    /// A line whose frame numbers cannot be parsed.
    Failed { flaw: Flaw, key: Vec<u8>, line: u64, after: u64 },
}

/// The result of scanning a piece, in file order.
#[derive(Debug, Default)]
pub(super) struct Scanned {
    pub utterances: Vec<Utterance>,
    /// The keys of `utterances`, concatenated.
    pub keys: Vec<u8>,
    /// Events, each with the number of preceding utterances. A failure is the last event, and ends
    /// the piece.
    pub events: Vec<(usize, Event)>,
}

impl Scanned {
    /// Returns the keys of the utterances.
    pub fn keys(&self) -> impl Iterator<Item = &[u8]> + Clone {
        let mut start = 0;
        self.utterances.iter().map(move |utterance| {
            let key = &self.keys[start..utterance.key_end];
            start = utterance.key_end;
            key
        })
    }
}

/// A text file to scan.
pub(super) struct TextFile<'a> {
    pub file: &'a DataFile,
    /// Its size when it was opened.
    pub size: u64,
    /// The column separator of its lines.
    pub columns: Columns,
}

impl TextFile<'_> {
    /// Checks the file's first line.
    pub fn check_header(&self) -> Result<()> {
        let error = |message: &str| Error::data(message).in_file(self.file.path());
        if self.size == 0 {
            let detail = "Labels were expected, after a first line '#!MLF!#'.";
            return Err(error("Input file is empty").with_detail(detail));
        }
        let Some(start) = self.first_text()? else { return Ok(()) };
        let mut line = [0; HEADER.len() + 2];
        let count = self.file.read_at(start, &mut line)?;
        let line = line[..count].split(|&byte| byte == b'\n').next().map_or(&[][..], without_return);
        if line == HEADER {
            return Ok(());
        }
        let found = quoted(line);
        let detail = format!(
            "The first line must be '#!MLF!#' and nothing else; it begins with '{found}'. Check that this is a file of labels."
        );
        let error = error("Expected MLF header was not found.").with_detail(detail);
        Err(error.at(start, self.file.line_at(start)))
    }

    /// Returns the offset of the first nonempty line, if any.
    fn first_text(&self) -> Result<Option<u64>> {
        let mut head = vec![0; FIRST_LOOK];
        let mut at = self.file.text_start();
        loop {
            let count = self.file.read_at(at, &mut head)?;
            if let Some(text) = head[..count].iter().position(|byte| !matches!(byte, b'\n' | b'\r')) {
                return Ok(Some(at + text as u64));
            }
            if count < head.len() {
                return Ok(None);
            }
            at += count as u64;
        }
    }

    /// Divides the file into pieces that begin with a key line. Runs on the pool.
    pub fn pieces(&self) -> Result<Vec<Range<u64>>> {
        self.pieces_of(PIECE)
    }

    /// Like [`TextFile::pieces`], with another size.
    pub fn pieces_of(&self, size: u64) -> Result<Vec<Range<u64>>> {
        let blocks = 1..self.size.div_ceil(size);
        let begins = blocks.into_par_iter().map(carried(|block| {
            let from = block * size;
            self.sure_start(from, self.size.min(from + size))
        }));
        let begins = begins.collect::<Result<Vec<Option<u64>>>>()?;
        let mut ends = room::collect(begins.into_iter().flatten().chain([self.size]), room::INDEX)?;
        ends.dedup();
        let mut start = self.file.text_start();
        let pieces = ends.into_iter().map(|end| std::mem::replace(&mut start, end)..end);
        let pieces = room::collect(pieces.filter(|piece| !piece.is_empty()), room::INDEX)?;
        match pieces.iter().find(|piece| piece.end - piece.start > LARGEST_UTTERANCE) {
            None => Ok(pieces),
            Some(piece) => {
                let message = "An utterance of a label file has more than 1 GB.";
                let detail = "Each utterance must end with a line that consists of a dot.";
                let error = Error::data(message).with_detail(detail).in_file(self.file.path());
                Err(error.at(piece.start, self.file.line_at(piece.start)))
            }
        }
    }

    /// Returns the first offset after `from` at which an utterance certainly begins, if it is
    /// before `to`.
    fn sure_start(&self, from: u64, to: u64) -> Result<Option<u64>> {
        let most = (to - from) as usize;
        let mut look = FIRST_LOOK.min(most);
        let mut text = room::zeroed(look, room::FILE)?;
        loop {
            self.file.read_exact_at(from, &mut text)?;
            if let Some(at) = sure_start(&text) {
                return Ok(Some(from + at as u64));
            }
            if look == most {
                return Ok(None);
            }
            look = most.min(8 * look);
            room::resize(&mut text, look, 0, room::FILE)?;
        }
    }

    /// Reads a piece into `text`.
    pub fn read<'b>(&self, piece: &Range<u64>, text: &'b mut Vec<u8>) -> Result<&'b [u8]> {
        let size = (piece.end - piece.start) as usize;
        if text.len() < size {
            room::resize(text, size, 0, room::FILE)?;
        }
        self.file.read_exact_at(piece.start, &mut text[..size])?;
        Ok(&text[..size])
    }
}

/// Strips the carriage return of a line break.
fn without_return(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// Returns where in a text, which may begin inside a line, an utterance certainly begins: after a
/// line `.` that follows an ordinary line.
fn sure_start(text: &[u8]) -> Option<usize> {
    let first = memchr::memchr(b'\n', text)? + 1;
    let mut start = first;
    let mut after_ordinary = false;
    for end in memchr::memchr_iter(b'\n', &text[first..]).map(|end| first + end) {
        let line = without_return(&text[start..end]);
        start = end + 1;
        match line {
            b"" => {}
            b"." if after_ordinary => return Some(start),
            line => after_ordinary = line != b"." && line != HEADER,
        }
    }
    None
}

/// A searcher for lines that end utterances.
pub(super) struct EndFinder(Finder<'static>);

impl EndFinder {
    /// Creates a finder.
    pub fn new() -> EndFinder {
        EndFinder(Finder::new(b"\n."))
    }

    /// Finds the first line `.` after the line break at or after `from`. Returns its offset and
    /// that of the next line.
    fn find(&self, text: &[u8], mut from: usize) -> Option<(usize, usize)> {
        loop {
            let dot = from + self.0.find(&text[from..])? + 1;
            match &text[dot + 1..] {
                [] | [b'\r'] => return Some((dot, text.len())),
                [b'\n', ..] => return Some((dot, dot + 2)),
                [b'\r', b'\n', ..] => return Some((dot, dot + 3)),
                _ => from = dot,
            }
        }
    }
}

/// An utterance found in a text.
#[derive(Debug)]
pub(super) struct Found<'a> {
    /// Its key; `None` if the key line is invalid.
    pub key: Option<&'a [u8]>,
    /// The range from its key line to its end line, inclusive.
    pub place: Range<usize>,
    /// Its last line before the end line, with its offset.
    pub last: Option<(usize, &'a [u8])>,
}

/// Finds the next utterance at or after `from`. Text after the last line `.` is ignored.
pub(super) fn next_utterance<'a>(text: &'a [u8], mut from: usize, ends: &EndFinder) -> Option<Found<'a>> {
    let (key_line, body) = loop {
        let end = from + memchr::memchr(b'\n', &text[from..])?;
        let line = without_return(&text[from..end]);
        if !line.is_empty() && line != HEADER {
            break (line, end);
        }
        from = end + 1;
    };
    let (dot, end) = ends.find(text, body)?;
    Some(Found { key: key_of(key_line), place: from..end, last: last_line(text, body + 1, dot) })
}

/// Returns whether a text consists of empty lines and headers only.
pub(super) fn is_blank(text: &[u8]) -> bool {
    text.split(|&byte| byte == b'\n').map(without_return).all(|line| line.is_empty() || line == HEADER)
}

/// Returns the last nonempty line between the beginnings of two lines.
fn last_line(text: &[u8], first: usize, end: usize) -> Option<(usize, &[u8])> {
    let mut end = end;
    while end > first {
        let lines = &text[first..end - 1];
        let start = first + memchr::memrchr(b'\n', lines).map_or(0, |before| before + 1);
        let line = without_return(&text[start..end - 1]);
        if !line.is_empty() {
            return Some((start, line));
        }
        end = start;
    }
    None
}

/// Returns the key of a key line: the text in quotes, without a leading `*/` and without the last
/// dot and everything after it.
fn key_of(line: &[u8]) -> Option<&[u8]> {
    let is_blank = |byte: &u8| byte.is_ascii_whitespace() || *byte == b'\x0b';
    let end = line.iter().rposition(|byte| !is_blank(byte))? + 1;
    key_in_quotes(&line[..end])
}

/// Like [`key_of`], for a line without trailing white space.
pub(super) fn key_in_quotes(line: &[u8]) -> Option<&[u8]> {
    let [b'"', name @ .., b'"'] = line else { return None };
    if name.is_empty() {
        return None;
    }
    let name = match name {
        [b'*', b'/', rest @ ..] if !rest.is_empty() => rest,
        name => name,
    };
    Some(&name[..memchr::memrchr(b'.', name).unwrap_or(name.len())])
}

/// Scans a piece that begins at `offset`.
pub(super) fn scan(text: &[u8], offset: u64, ends: &EndFinder, columns: Columns) -> Result<Scanned> {
    let mut scanned = Scanned::default();
    let (mut from, mut is_failed) = (0, false);
    while let Some(Found { key, place, last }) = next_utterance(text, from, ends) {
        from = place.end;
        let start = offset + place.start as u64;
        let (Some(key), Some((line, last))) = (key, last) else {
            let key = key.map(|key| room::copy(key, room::KEYS)).transpose()?;
            let event = (scanned.utterances.len(), Event::Skipped { key, offset: start });
            room::push(&mut scanned.events, event, room::INDEX)?;
            continue;
        };
        match ranges::bounds(&columns.single(last)) {
            Ok(bounds) => {
                room::extend(&mut scanned.keys, key, room::KEYS)?;
                let utterance = Utterance {
                    offset: start,
                    size: place.len() as u32,
                    // The lowest 32 bits, as in CNTK; loading the utterance reports invalid upper
                    // bits.
                    frames: bounds.end as u32,
                    key_end: scanned.keys.len(),
                };
                room::push(&mut scanned.utterances, utterance, room::INDEX)?;
            }
            Err(flaw) => {
                let (line, after) = (offset + line as u64, offset + place.end as u64);
                let event = Event::Failed { flaw, key: room::copy(key, room::KEYS)?, line, after };
                scanned.events.push((scanned.utterances.len(), event));
                is_failed = true;
                break;
            }
        }
    }
    if is_failed {
        return Ok(scanned);
    }
    if let Some((at, line)) = key_line(text, from) {
        let key = key_of(line).map(|key| room::copy(key, room::KEYS)).transpose()?;
        scanned
            .events
            .push((scanned.utterances.len(), Event::Unfinished { key, offset: offset + at as u64 }));
    }
    Ok(scanned)
}

/// Returns the first line at or after `from` that is neither empty nor a header, and its offset.
fn key_line(text: &[u8], mut from: usize) -> Option<(usize, &[u8])> {
    while from < text.len() {
        let end = memchr::memchr(b'\n', &text[from..]).map_or(text.len(), |end| from + end);
        let line = without_return(&text[from..end]);
        if !line.is_empty() && line != HEADER {
            return Some((from, line));
        }
        from = end + 1;
    }
    None
}
