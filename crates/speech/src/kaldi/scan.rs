//! Search for the objects of a script or archive, without reading their data.

use super::files::{Files, Paths};
use super::header::{self, Object, ObjectKind};
use super::{script, text};
use cntk_reader_core::file::text::{MARK, other_encoding, wrong_encoding};
use cntk_reader_core::file::{Confinement, DataFile};
use cntk_reader_core::format::recognize::FileFormat;
use cntk_reader_core::limits::LONGEST_KALDI_KEY;
use cntk_reader_core::memory::room;
use cntk_reader_core::message::shown::quoted;
use cntk_reader_core::runtime::cancel::carried;
use cntk_reader_core::{Error, Result};
use rayon::prelude::*;

/// Bytes per read when searching for headers: binary objects are mostly larger, so reading more
/// would be wasted.
const BLOCK: usize = 512;

/// Maximum number of bytes per read of text.
const TEXT_BLOCK: usize = 256 << 10;

/// Number of script lines whose headers are read by one task.
const TASK: usize = 512;

/// An object with its key.
pub struct Found {
    /// Range of its key in the texts of [`Scan`].
    pub key: std::ops::Range<usize>,
    /// The number of its file.
    pub file: u32,
    pub object: Object,
    /// The first and the last row, unless all rows are selected.
    pub rows: Option<(u32, u32)>,
    /// The line of the script.
    pub line: Option<u32>,
}

/// The result of a scan.
pub struct Scan {
    /// The script, or the keys of the archive, concatenated.
    pub texts: Vec<u8>,
    pub found: Vec<Found>,
    pub files: Files,
}

impl Scan {
    /// Returns whether the first object is a binary vector of integers.
    pub fn has_integers(&self) -> bool {
        self.found.first().is_some_and(|found| found.object.kind == ObjectKind::Integers)
    }

    /// Returns the number of values per frame of the first nonempty object.
    pub fn columns(&self) -> Option<u32> {
        self.found.iter().map(|found| found.object.columns).find(|&columns| columns > 0)
    }
}

/// Reads a script, and the header of each object that it names. Runs on a thread of the pool, which
/// shares the work with the others.
pub fn script(path: &str, integers: bool, confinement: &Confinement) -> Result<Scan> {
    let file = DataFile::open_text(path)?;
    // Limits the numbers of lines, keys and files to 32 bits.
    if file.size()? >= u64::from(u32::MAX) {
        let detail = "Divide it among several deserializers.";
        let message = "A script file of 4 GB or more cannot be read.";
        return Err(Error::data(message).with_detail(detail).in_file(path));
    }
    let texts = file.read_text(room::FILE)?;
    let bounds = confinement.bounds_of(path)?;
    let mut paths = Paths::default();
    let mut lines = Vec::new();
    let (mut at, mut checked) = (file.text_start() as usize, 0);
    for (number, line) in (1..).zip(texts.split(|&byte| byte == b'\n')) {
        let here = at;
        at += line.len() + 1;
        if line.trim_ascii().is_empty() {
            continue;
        }
        let line = script::parse(line).map_err(|error| error.in_file(path).at(here as u64, Some(number)))?;
        let file = paths.number(line.path)?;
        if paths.count() > checked {
            bounds.check(line.path.as_bytes(), number)?;
            checked += 1;
        }
        room::push(&mut lines, (number as u32, file, line), room::INDEX)?;
    }
    let files = paths.finish()?;
    let read = |part: &[(u32, u32, script::Line<'_>)]| {
        let mut open = None;
        let mut found = room::with_capacity(part.len(), room::INDEX)?;
        for (number, file, line) in part {
            let object = object(&files, *file, line, integers, &mut open).map_err(|error| {
                let (key, number) = (quoted(line.key), *number);
                error.for_key(key).with_detail(format!("Line {number} of '{path}' names this object."))
            })?;
            let start = line.key.as_ptr().addr() - texts.as_ptr().addr();
            let key = start..start + line.key.len();
            found.push(Found { key, file: *file, object, rows: line.rows, line: Some(*number) });
        }
        Ok(found)
    };
    let mut parts = room::with_capacity(lines.len().div_ceil(TASK), room::INDEX)?;
    lines.par_chunks(TASK).map(carried(read)).collect_into_vec(&mut parts);
    let mut found = room::with_capacity(lines.len(), room::INDEX)?;
    for part in parts {
        found.append(&mut part?);
    }
    drop(lines);
    Ok(Scan { texts, found, files })
}

/// Reads the object header of a line. `open` is the preceding line's file.
fn object(
    files: &Files,
    number: u32,
    line: &script::Line<'_>,
    integers: bool,
    open: &mut Option<(u32, Window)>,
) -> Result<Object> {
    let window = match open {
        Some((last, window)) if *last == number => window,
        _ => &mut open.insert((number, Window::new(files.get(number)?)?)).1,
    };
    if line.offset == 0 && window.begins_with_key(line.key)? {
        return Err(without_offset().in_file(window.file.path()).at(0, None));
    }
    let found = window.object(line.offset, integers);
    found.map_err(|error| {
        let is_archive = || {
            FileFormat::of_data(&window.file)
                .is_ok_and(|format| matches!(format, FileFormat::KaldiArchive | FileFormat::KaldiText))
        };
        let error = if line.offset == 0 && is_archive() { without_offset() } else { error };
        error.in_file(window.file.path())
    })
}

/// Returns the error for a line that names an archive without an offset.
fn without_offset() -> Error {
    Error::data("The file is an archive, but the line of the script does not say where its object begins.").with_detail(
        "Without an offset, an object is expected at the beginning of the file, but an archive begins with a key. Pass the \
         archive itself as ‹archive_file› instead of ‹script_file›; or have Kaldi write a script with offsets ('key path:offset'): \
         copy-feats ark:OLD.ark ark,scp:NEW.ark,NEW.scp, for labels copy-int-vector.",
    )
}

/// Walks an archive from object to object.
pub fn archive(path: &str, integers: bool) -> Result<Scan> {
    let file = DataFile::open(path)?;
    let mut window = Window::new(file.clone())?;
    let (mut texts, mut found) = (Vec::new(), Vec::new());
    let mut at = window.start(0)?;
    while let Some((start, end)) = window.key(at).map_err(|error| error.in_file(path))? {
        let first = texts.len();
        room::extend(&mut texts, window.bytes(start, (end - start) as usize)?, room::KEYS)?;
        // Objects follow a single space; in text form there may be more.
        let object = window
            .object(end + 1, integers)
            .map_err(|error| error.in_file(path).for_key(quoted(&texts[first..])))?;
        at = object.bytes.end;
        let one = Found { key: first..texts.len(), file: 0, object, rows: None, line: None };
        room::push(&mut found, one, room::INDEX)?;
    }
    Ok(Scan { texts, found, files: Files::of(file)? })
}

fn no_archive() -> Error {
    Error::data("No key was found: this is not a Kaldi archive.").with_detail(
        "An archive has utterances, each a key, a space and a matrix or vector. Pass a script file as ‹script_file›.",
    )
}

/// A part of a file in memory.
struct Window {
    file: DataFile,
    size: u64,
    start: u64,
    bytes: Vec<u8>,
}

impl Window {
    fn new(file: DataFile) -> Result<Window> {
        let size = file.size()?;
        Ok(Window { file, size, start: 0, bytes: Vec::new() })
    }

    /// Returns whether the file begins with a key and a space or tab, like an archive.
    fn begins_with_key(&mut self, key: &[u8]) -> Result<bool> {
        let bytes = self.bytes(0, key.len() + 1)?;
        Ok(bytes.strip_prefix(key).is_some_and(|rest| matches!(rest, [b' ' | b'\t'])))
    }

    /// Returns `count` bytes at `at`, or fewer at the end of the file.
    fn bytes(&mut self, at: u64, count: usize) -> Result<&[u8]> {
        let count = self.size.saturating_sub(at).min(count as u64) as usize;
        let skipped = at.checked_sub(self.start).and_then(|skipped| usize::try_from(skipped).ok());
        let known = skipped.and_then(|skipped| self.bytes.len().checked_sub(skipped)).unwrap_or(0);
        if known < count {
            let most = self.size.saturating_sub(at).min(count.max(BLOCK) as u64) as usize;
            room::resize(&mut self.bytes, most, 0, room::FILE)?;
            self.start = at;
            self.file.read_exact_at(at, &mut self.bytes)?;
        }
        let skipped = (at - self.start.min(at)) as usize;
        Ok(self.bytes.get(skipped..skipped + count).unwrap_or_default())
    }

    /// Returns the offset of the first object: `at`, or the end of a byte order mark at the
    /// beginning of a text.
    fn start(&mut self, at: u64) -> Result<u64> {
        if at > 0 {
            return Ok(at);
        }
        let head = self.bytes(0, MARK.len() + 1)?;
        let (encoding, has_mark) = (other_encoding(head), head.starts_with(MARK));
        match encoding {
            Some(encoding) => Err(wrong_encoding(encoding, self.file.path())),
            None => Ok(if has_mark { MARK.len() as u64 } else { 0 }),
        }
    }

    /// Returns the offset of the first byte from `at` on for which `is_end` holds; `None` if there
    /// is none before the end of the file. Fails if there is none in slightly more than `limit`
    /// bytes.
    fn find(&mut self, at: u64, limit: u64, is_end: impl Fn(u8) -> bool) -> Result<Option<u64>> {
        let (mut from, mut block) = (at, BLOCK);
        loop {
            let bytes = self.bytes(from, block)?;
            if let Some(found) = bytes.iter().position(|&byte| is_end(byte)) {
                return Ok(Some(from + found as u64));
            }
            from += bytes.len() as u64;
            if from - at > limit {
                return Err(no_archive().at(at, None));
            }
            if from >= self.size {
                return Ok(None);
            }
            block = (4 * block).min(TEXT_BLOCK);
        }
    }

    /// Returns the range of the next key at or after `at`. `None` at the end of the file.
    fn key(&mut self, at: u64) -> Result<Option<(u64, u64)>> {
        // Text objects end with a line break.
        let Some(start) = self.find(at, LONGEST_KALDI_KEY as u64, |byte| !byte.is_ascii_whitespace())? else {
            return Ok(None);
        };
        let end =
            self.find(start, LONGEST_KALDI_KEY as u64, |byte| byte.is_ascii_whitespace() || byte == 0)?;
        let end = end.ok_or_else(|| {
            Error::data("The file ends after a key.")
                .with_detail("The archive is not complete: write or copy it again.")
                .at(start, None)
        })?;
        match self.bytes(end, 1)? {
            [0] => Err(no_archive().at(start, None)),
            _ => Ok(Some((start, end))),
        }
    }

    /// Reads the header of the object at `at`.
    fn object(&mut self, at: u64, integers: bool) -> Result<Object> {
        let (at, size) = (self.start(at)?, self.size);
        let bytes = self.bytes(at, header::LONGEST)?;
        let object = if header::is_binary(bytes) {
            header::read(bytes, at)?
        } else if bytes.is_empty() && (!integers || at > size) {
            let detail = "The archive is not complete, or the script names another offset: write them again.";
            return Err(Error::data("The file ends where an object was expected.")
                .with_detail(detail)
                .at(at, None));
        } else {
            return self.text(at, integers);
        };
        if object.bytes.end > size {
            let missing = object.bytes.end - size;
            return Err(Error::data("The file ends within an object.")
                .with_detail(format!(
                    "{missing} more bytes were expected: the archive is not complete. Write or copy it again."
                ))
                .at(at, None));
        }
        Ok(object)
    }

    fn text(&mut self, at: u64, integers: bool) -> Result<Object> {
        // The white space after a key may already be the end of the line: an empty vector of
        // integers.
        let at =
            if integers && at > 0 && matches!(self.bytes(at - 1, 1)?, b"\n" | b"\r") { at - 1 } else { at };
        let end = if integers {
            self.find(at, u64::MAX, |byte| matches!(byte, b'\n' | b'\r'))?.unwrap_or(self.size)
        } else {
            let start = self.find(at, LONGEST_KALDI_KEY as u64, |byte| !byte.is_ascii_whitespace())?;
            let opens = start.map(|start| self.bytes(start, 1).map(|bytes| bytes == b"["));
            if !opens.transpose()?.unwrap_or(false) {
                let error = Error::data("An object is neither binary nor the text of a matrix or vector.");
                let detail = "Features as text are enclosed in brackets. For vectors of integers, set ‹sparse›. \
                              Pass a script file as ‹script_file›.";
                return Err(error.with_detail(detail).at(at, None));
            }
            let end = self.find(at, u64::MAX, |byte| byte == b']')?;
            1 + end.ok_or_else(|| {
                Error::data("The file ends within an object.")
                    .with_detail("There is no ']': write or copy the archive again.")
                    .at(at, None)
            })?
        };
        let count = usize::try_from(end - at).unwrap_or(usize::MAX);
        text::measure(self.bytes(at, count)?, at, integers)
    }
}
