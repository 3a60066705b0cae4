//! Tables of contents, which list the lattices and their positions.
//!
//! An index file names tables of contents, one per line. A line of a table is `key=path[offset]`:
//! the lattice begins at `offset` of the file. If the path is empty, the file of the preceding line
//! continues. A lattice ends at the next line's offset, or at the end of its file if that offset is
//! 0 or there is no next line.

use crate::htk::keys;
use cntk_reader_core::corpus::Corpus;
use cntk_reader_core::error::ExceptionClass;
use cntk_reader_core::file::{Bounds, Confinement, DataFile, FileState};
use cntk_reader_core::memory::room;
use cntk_reader_core::message::shown::quoted;
use cntk_reader_core::runtime::log::{Level, Logger};
use cntk_reader_core::sequence::SequenceKey;
use cntk_reader_core::{Error, ErrorKind, Result};
use memchr::memchr;
use std::sync::Arc;

/// Exclusive size limit of a lattice in bytes.
const TOO_LARGE: u64 = 50_000_000;

/// All lattices, as parallel arrays.
#[derive(Debug, Default)]
pub struct Contents {
    /// Keys.
    pub keys: Vec<SequenceKey>,
    /// Offsets in their files.
    pub offsets: Vec<u64>,
    /// Sizes in bytes.
    pub sizes: Vec<u32>,
    /// Runs of lattices of one file, in order.
    pub runs: Vec<Run>,
}

/// Consecutive lattices of one file; only the first one's line has a path. CNTK loads each run
/// separately, so no lattice is followed by bytes of the next run.
#[derive(Debug)]
pub struct Run {
    /// Path of the file.
    pub path: Arc<str>,
    /// Index of its first lattice.
    pub first: usize,
    /// The file's state, including its size.
    pub state: FileState,
}

/// A line of a table of contents.
struct Line<'a> {
    key: &'a [u8],
    offset: u64,
    /// Its run.
    run: usize,
    /// Offset and number (from 1) of the line in the table.
    at: (u64, u64),
}

impl Contents {
    /// Reads an index file and the tables that it names.
    pub fn read(index: &str, corpus: &Corpus, confinement: &Confinement) -> Result<Contents> {
        let text = read_whole(index, |error| {
            error.reworded(format!("Failed to open input file: '{index}'")).in_file(index)
        })?;
        let bounds = confinement.bounds_of(index)?;
        let mut contents = Contents::default();
        for (at, number, line) in lines(&text) {
            let path = String::from_utf8_lossy(line.trim_ascii_end());
            bounds.check(path.as_bytes(), number)?;
            let table = read_whole(&path, |error| {
                Logger::log_always(Level::Error, &format!("Failed to open input file: {path}"));
                let detail = format!("It was expected to be a table of contents. {}", error.message());
                not_open("").with_detail(detail).in_file(index).at(at, Some(number))
            })?;
            contents.add(&path, &table, corpus, &confinement.bounds_of(&path)?)?;
        }
        Ok(contents)
    }

    /// Adds the lattices of a table of contents.
    fn add(&mut self, table: &str, text: &Text, corpus: &Corpus, bounds: &Bounds<'_>) -> Result<()> {
        let first_run = self.runs.len();
        let first = self.keys.len();
        let mut entries = Vec::new();
        for (at, number, line) in lines(text).filter(|(.., line)| !line.is_empty()) {
            let error = |error: Error| error.in_file(table).at(at, Some(number));
            let malformed = || {
                let message = format!("The lattice TOC line is malformed: {}", quoted(line));
                let detail = "A line has the form key=path[offset], with an offset in bytes.";
                error(Error::data(message).with_detail(detail))
            };
            let (parsed, path) = (parse(line), path_of(line));
            // CNTK opens the first line's file before it parses the rest of the line.
            let is_first = self.runs.len() == first_run;
            if !is_first && parsed.is_none() {
                return Err(malformed());
            }
            // A path begins a new run, even if it is the preceding line's.
            if is_first || !path.is_empty() {
                let same = self.runs.last().filter(|run| !is_first && run.path.as_bytes() == path);
                let run = match same {
                    Some(Run { path, state, .. }) => {
                        Run { path: Arc::clone(path), first: first + entries.len(), state: *state }
                    }
                    None => {
                        bounds.check(path, number)?;
                        Run::open(path, first + entries.len()).map_err(error)?
                    }
                };
                room::push(&mut self.runs, run, room::INDEX)?;
            }
            let (key, offset) = parsed.ok_or_else(malformed)?;
            let line = Line { key, offset, run: self.runs.len() - 1, at: (at, number) };
            room::push(&mut entries, line, room::INDEX)?;
        }
        if entries.is_empty() {
            let detail =
                "The table of contents has no lines. Write it again, or remove it from the index file.";
            return Err(not_open("").with_detail(detail).in_file(table));
        }
        keys::number_all(corpus, entries.iter().map(|entry| entry.key), &mut self.keys)
            .map_err(|error| error.in_file(table))?;
        for (number, entry) in entries.iter().enumerate() {
            let next = entries.get(number + 1);
            let size = self.size_of(entry, next, self.keys[first + number]);
            let (at, line) = entry.at;
            let key = quoted(entry.key);
            let size = size.map_err(|error| error.in_file(table).at(at, Some(line)).for_key(key))?;
            room::push(&mut self.offsets, entry.offset, room::INDEX)?;
            room::push(&mut self.sizes, size, room::INDEX)?;
        }
        Ok(())
    }

    /// Returns the size of a lattice in bytes.
    fn size_of(&self, entry: &Line<'_>, next: Option<&Line<'_>>, key: SequenceKey) -> Result<u32> {
        let run = &self.runs[entry.run];
        let end = next.map(|next| next.offset).filter(|&offset| offset != 0).unwrap_or(run.state.size);
        // CNTK computes modulo 2^64 here, so it reports a lattice that ends before it begins as too
        // large. It misses a lattice that begins just below 2^64 and ends just above 0, which no
        // file can contain; here that is the same error.
        let size = end.checked_sub(entry.offset).unwrap_or(u64::MAX);
        if size >= TOO_LARGE {
            let next = next.map_or("last_sequence".into(), |next| quoted(next.key));
            let message = format!(
                "ERROR: Lattice with the next key '{next}' inside the TOC file '{}' is larger than 50MB",
                run.path
            );
            let detail = format!(
                "A lattice begins at {} and ends at {end} of '{}'. Lattices must be listed in the order of their offsets, with less than 50 MB \
                 each: correct the offsets, or prune the lattice.",
                entry.offset, run.path
            );
            let error = Error::new(ErrorKind::Data, ExceptionClass::Logic, message).as_cntk();
            return Err(error.with_detail(detail));
        }
        if size == 0 {
            let message = format!(
                "Invalid sequence: number of samples == 0 (key = {key}, offset = {}, size = 0)",
                entry.offset
            );
            let error = Error::data(message).as_cntk();
            let error = error.with_detail("The next lattice begins where this one does.");
            return Err(error.with_detail("Correct the offsets, or remove the line."));
        }
        Ok(size as u32)
    }
}

impl Run {
    fn open(path: &[u8], first: usize) -> Result<Run> {
        let path = String::from_utf8_lossy(path).into_owned();
        let file = DataFile::open_or(&path, |cause| {
            Error::io("Error opening file", &path, cause).reworded(not_open(&path).message().to_owned())
        })?;
        Ok(Run { state: file.first_state()?, path: path.into(), first })
    }
}

/// Returns CNTK's error for a file that cannot be opened.
fn not_open(path: &str) -> Error {
    Error::new(ErrorKind::Io, ExceptionClass::Runtime, format!("Input file '{path}' is not open."))
}

/// Reads a text file. `refuse` words the error if it cannot be opened.
fn read_whole(path: &str, refuse: impl FnOnce(Error) -> Error) -> Result<Text> {
    let file = DataFile::open_text_or(path, |cause| refuse(Error::io("Error opening file", path, cause)))?;
    Ok(Text { bytes: file.read_text(room::FILE)?, start: file.text_start() })
}

/// A text, and its offset in the file.
struct Text {
    bytes: Vec<u8>,
    start: u64,
}

/// Returns the lines of a text, with offsets and numbers (from 1).
fn lines(text: &Text) -> impl Iterator<Item = (u64, u64, &[u8])> {
    let mut at = 0;
    (1..).map_while(move |number| {
        let rest = text.bytes.get(at..).filter(|rest| !rest.is_empty())?;
        let end = memchr(b'\n', rest).unwrap_or(rest.len());
        let offset = text.start + at as u64;
        at += end + 1;
        Some((offset, number, &rest[..end]))
    })
}

/// Returns the path of a line; may be empty.
fn path_of(line: &[u8]) -> &[u8] {
    let path = &line[memchr(b'=', line).map_or(0, |equals| equals + 1)..];
    &path[..memchr(b'[', path).unwrap_or(path.len())]
}

/// Parses key and offset of a line.
fn parse(line: &[u8]) -> Option<(&[u8], u64)> {
    let equals = memchr(b'=', line)?;
    let (key, rest) = (&line[..equals], &line[equals + 1..]);
    let offset = &rest[memchr(b'[', rest)? + 1..];
    let offset = offset[..memchr(b']', offset)?].trim_ascii_start();
    // Anything after the digits is ignored.
    let digits = offset.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let digits = std::str::from_utf8(&offset[..digits]).ok()?;
    Some((key, digits.parse().ok()?))
}
