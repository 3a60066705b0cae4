//! The index pass over a text file: where each utterance lies, its key, and how many frames it says it has.
//!
//! A file is cut into pieces that are scanned in parallel. Which lines end an utterance depends on what precedes them: a line
//! `.` where a key line should be is itself a (bad) key line, and does not end anything. So pieces begin only after a line
//! `.` whose predecessor is an ordinary line: whatever came before, such a line ends an utterance.

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

/// The line that a file begins with.
pub(super) const HEADER: &[u8] = b"#!MLF!#";

/// Bytes of a piece, about: few enough that they stay in a core's cache between reading and scanning.
const PIECE: u64 = 512 << 10;

/// Bytes in which the beginning of a piece is looked for first.
const FIRST_LOOK: usize = 8 << 10;

/// Where an utterance lies, and what the index pass found out about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Utterance {
    /// Offset of its key line.
    pub offset: u64,
    /// Bytes from its key line to the line that ends it, with both.
    pub size: u32,
    /// The end frame of its last range.
    pub frames: u32,
    /// Where its key ends in [`Scanned::keys`]. It begins where the key before it ends.
    pub key_end: usize,
}

/// Something that was wrong.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// An utterance without ranges, or with a bad key line (`key` is `None`): it is left out.
    Skipped { key: Option<Vec<u8>>, offset: u64 },
    /// Number of frames that cannot be read.
    Failed { flaw: Flaw, key: Vec<u8>, line: u64, after: u64 },
}

/// What scanning a piece found, in the order of the file.
#[derive(Debug, Default)]
pub(super) struct Scanned {
    pub utterances: Vec<Utterance>,
    /// The keys of `utterances`, one after the other.
    pub keys: Vec<u8>,
    /// Each with the number of utterances before it. A failure is the last one, and ends the piece.
    pub events: Vec<(usize, Event)>,
}

impl Scanned {
    /// The keys of the utterances.
    pub fn keys(&self) -> impl Iterator<Item = &[u8]> + Clone {
        let mut start = 0;
        self.utterances.iter().map(move |utterance| {
            let key = &self.keys[start..utterance.key_end];
            start = utterance.key_end;
            key
        })
    }
}

/// A text file that is scanned.
pub(super) struct TextFile<'a> {
    pub file: &'a DataFile,
    /// Its size when it was opened.
    pub size: u64,
    /// What divides the columns of its lines.
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

    /// Where the first line that is not empty begins; a file may have none.
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

    /// Cuts the file into pieces, each of which begins with a key line. Runs on the pool.
    pub fn pieces(&self) -> Result<Vec<Range<u64>>> {
        self.pieces_of(PIECE)
    }

    /// [`TextFile::pieces`] of another size.
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

    /// The first offset after `from` at which an utterance is sure to begin, if it is found before `to`.
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

/// A line without the carriage return that is left of its line break.
fn without_return(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// Where in a text, which may begin inside a line, an utterance is sure to begin: after a line `.` that follows an ordinary
/// line.
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

/// Finds the lines that end utterances.
pub(super) struct EndFinder(Finder<'static>);

impl EndFinder {
    /// A finder.
    pub fn new() -> EndFinder {
        EndFinder(Finder::new(b"\n."))
    }

    /// The first line `.` after the line break at or after `from`: where that line begins, and where the next one does.
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

/// An utterance as it lies in a text.
#[derive(Debug)]
pub(super) struct Found<'a> {
    /// Its key; `None` if the key line is not one.
    pub key: Option<&'a [u8]>,
    /// From its key line to the line that ends it, with both.
    pub place: Range<usize>,
    /// Its last line before the one that ends it, and where it begins.
    pub last: Option<(usize, &'a [u8])>,
}

/// The utterance that begins at or after `from`. What follows the last line `.` is none.
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

/// Whether a text consists of empty lines and headers.
pub(super) fn is_blank(text: &[u8]) -> bool {
    text.split(|&byte| byte == b'\n').map(without_return).all(|line| line.is_empty() || line == HEADER)
}

/// The last line that is not empty, between the beginning of a line and that of another.
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

/// The key of a key line: what is in the quotes, without `*/` in front and without the last dot and what follows it.
fn key_of(line: &[u8]) -> Option<&[u8]> {
    let is_blank = |byte: &u8| byte.is_ascii_whitespace() || *byte == b'\x0b';
    let end = line.iter().rposition(|byte| !is_blank(byte))? + 1;
    key_in_quotes(&line[..end])
}

/// [`key_of`] for a line without white space at its end.
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
    let mut from = 0;
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
                    // The lowest 32 bits, as CNTK takes them; loading the utterance reports what is wrong with the others.
                    frames: bounds.end as u32,
                    key_end: scanned.keys.len(),
                };
                room::push(&mut scanned.utterances, utterance, room::INDEX)?;
            }
            Err(flaw) => {
                let (line, after) = (offset + line as u64, offset + place.end as u64);
                let event = Event::Failed { flaw, key: room::copy(key, room::KEYS)?, line, after };
                scanned.events.push((scanned.utterances.len(), event));
                break;
            }
        }
    }
    Ok(scanned)
}
