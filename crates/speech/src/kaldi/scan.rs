//! Finding the objects of a script or of an archive, without reading their data.

use super::files::{Files, Paths};
use super::header::{self, Kind, Object};
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

/// Bytes that are read at once where headers are looked for: binary objects are mostly larger, so that more would be in vain.
const BLOCK: usize = 512;

/// Most bytes that are read at once of a text.
const TEXT_BLOCK: usize = 256 << 10;

/// Lines of a script whose headers one task reads.
const TASK: usize = 512;

/// An object with its key.
pub struct Found {
    /// Where its key is in the texts of [`Scan`].
    pub key: std::ops::Range<usize>,
    /// The number of its file.
    pub file: u32,
    pub object: Object,
    /// The first and the last row, if not all rows are meant.
    pub rows: Option<(u32, u32)>,
    /// The line of the script.
    pub line: Option<u32>,
}

/// What was found.
pub struct Scan {
    /// The script, or the keys of the archive one after the other.
    pub texts: Vec<u8>,
    pub found: Vec<Found>,
    pub files: Files,
}

impl Scan {
    /// Whether the first object is a binary vector of integers.
    pub fn has_integers(&self) -> bool {
        self.found.first().is_some_and(|found| found.object.kind == Kind::Integers)
    }

    /// Values of a frame of the first object that has any.
    pub fn columns(&self) -> Option<u32> {
        self.found.iter().map(|found| found.object.columns).find(|&columns| columns > 0)
    }
}

/// Reads a script, and the header of each object that it names. Runs on a thread of the pool, whose threads share the work.
pub fn script(path: &str, integers: bool, confinement: &Confinement) -> Result<Scan> {
    let file = DataFile::open_text(path)?;
    // So that numbers of lines, keys and files fit 32 bits.
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

/// The object of a line. `open` is the file of the line before.
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

/// The error of a line that names an archive, but not the place in it.
fn without_offset() -> Error {
    Error::data("The file is an archive, and the line of the script does not say where its object begins.").with_detail(
        "Without one an object is expected at the beginning of the file, and an archive begins with a key. Give the archive \
         itself as ‹archive_file› in place of ‹script_file›; or have Kaldi write a script with offsets ('key path:offset'): \
         copy-feats ark:OLD.ark ark,scp:NEW.ark,NEW.scp, for labels copy-int-vector.",
    )
}

/// Walks through an archive from one object to the next.
pub fn archive(path: &str, integers: bool) -> Result<Scan> {
    let file = DataFile::open(path)?;
    let mut window = Window::new(file.clone())?;
    let (mut texts, mut found) = (Vec::new(), Vec::new());
    let mut at = window.start(0)?;
    while let Some((start, end)) = window.key(at).map_err(|error| error.in_file(path))? {
        let first = texts.len();
        room::extend(&mut texts, window.bytes(start, (end - start) as usize)?, room::KEYS)?;
        // Objects follow a single blank; in a text there may be more.
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
        "An archive has utterances, each a key, a blank and a matrix or vector. The path of a script file is given as ‹script_file›.",
    )
}

/// A part of a file that was read.
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

    /// Whether the file begins with a key and a blank, as an archive does.
    fn begins_with_key(&mut self, key: &[u8]) -> Result<bool> {
        let bytes = self.bytes(0, key.len() + 1)?;
        Ok(bytes.strip_prefix(key).is_some_and(|rest| matches!(rest, [b' ' | b'\t'])))
    }

    /// The bytes from `at` on: `count` of them, or as many as the file has.
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

    /// Where the first object is: at `at`, or after the byte order mark that a text begins with.
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

    /// Where the first byte is, from `at` on, of which `is_end` holds; `None` if there is none up to the end of the file. Fails if
    /// `limit` bytes and some more have none.
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

    /// Where the next key begins and ends, at or after `at`. `None` at the end of the file.
    fn key(&mut self, at: u64) -> Result<Option<(u64, u64)>> {
        // The line of an object in text ends with a line break.
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

    /// The object that begins at `at`.
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
        // The blank after a key may be the end of the line already: a vector of no integers.
        let at =
            if integers && at > 0 && matches!(self.bytes(at - 1, 1)?, b"\n" | b"\r") { at - 1 } else { at };
        let end = if integers {
            self.find(at, u64::MAX, |byte| matches!(byte, b'\n' | b'\r'))?.unwrap_or(self.size)
        } else {
            let start = self.find(at, LONGEST_KALDI_KEY as u64, |byte| !byte.is_ascii_whitespace())?;
            let opens = start.map(|start| self.bytes(start, 1).map(|bytes| bytes == b"["));
            if !opens.transpose()?.unwrap_or(false) {
                let error = Error::data("An object is neither binary nor the text of a matrix or vector.");
                let detail = "Text of features stands in brackets. Vectors of integers are read by streams with ‹sparse›. \
                              The path of a script file is given as ‹script_file›.";
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
