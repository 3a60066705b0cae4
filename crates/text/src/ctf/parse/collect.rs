//! Notes of the parsers that a check collects, instead of messages and a limit of errors.

use super::report::{Cause, Context};
use super::rules::ends_name;
use cntk_reader_core::limits::{LONGEST_NAME, MAX_NAMES};

/// One note of a parser.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Note {
    /// Whether it counts against `maxErrors` or ends reading; otherwise it is a warning.
    pub is_error: bool,
    /// The finding.
    pub cause: Cause,
    /// Offset in the file.
    pub offset: u64,
    /// Sequence and stream.
    pub context: Context,
}

/// The notes of one segment.
#[derive(Debug, Default)]
pub(crate) struct Collected {
    /// The first notes, in the order in which they were made.
    pub notes: Vec<Note>,
    /// Number of all errors.
    pub errors: u64,
    /// Number of all warnings.
    pub warnings: u64,
    /// By stream: the dimension that its rejected and incomplete samples need.
    pub dims: Vec<u64>,
    /// By stream: number of samples with fewer values than the dimension, which are kept.
    pub shorter: Vec<u64>,
    /// By stream: number of samples that do not fit the dimension, which are left out.
    pub longer: Vec<u64>,
    /// The first line that begins with a textual id, and the number of these lines. They are
    /// counted separately: a file has such ids in all lines or in none.
    pub text_ids: Option<(Note, u64)>,
    /// Names that belong to no stream.
    pub unknown: UnknownNames,
    most: usize,
    /// Whether the last note already counts as an error.
    last_is_error: bool,
}

impl Collected {
    /// Collects at most `most` notes about `streams` streams.
    pub fn new(most: usize, streams: usize) -> Collected {
        Collected {
            most,
            dims: vec![0; streams],
            shorter: vec![0; streams],
            longer: vec![0; streams],
            ..Collected::default()
        }
    }

    /// Adds a note.
    pub fn note(&mut self, note: Note) {
        if let Cause::TextId(_) = note.cause {
            self.text_ids.get_or_insert((note, 0)).1 += 1;
            self.last_is_error = true;
            return;
        }
        match note.is_error {
            true => self.errors += 1,
            false => self.warnings += 1,
        }
        self.last_is_error = note.is_error;
        if let Some(stream) = note.context.stream {
            let dim = match note.cause {
                Cause::ShortSample { values, .. } => {
                    self.shorter[stream] += 1;
                    values as u64
                }
                Cause::LongSample { values, .. } => {
                    self.longer[stream] += 1;
                    values as u64
                }
                Cause::IndexTooLarge { index, .. } => {
                    self.longer[stream] += 1;
                    index.saturating_add(1)
                }
                _ => 0,
            };
            self.dims[stream] = self.dims[stream].max(dim);
        }
        // Keep one note more than requested, because the last one may still become an error.
        if self.notes.len() <= self.most {
            self.notes.push(note);
        }
    }

    /// Turns the last note into an error. `place` is its offset if it differs from the note's.
    pub fn mark_error(&mut self, place: Option<u64>) {
        if self.last_is_error {
            return;
        }
        self.last_is_error = true;
        self.errors += 1;
        self.warnings = self.warnings.saturating_sub(1);
        let is_kept = self.errors + self.warnings == self.notes.len() as u64;
        if let (true, Some(last)) = (is_kept, self.notes.last_mut()) {
            last.is_error = true;
            last.offset = place.unwrap_or(last.offset);
        }
    }
}

/// Names in a file that belong to no stream, each once.
#[derive(Debug, Default)]
pub(crate) struct UnknownNames {
    /// The names, and whether a sample with the name is sparse, that is, contains a `:`.
    pub names: Vec<(Vec<u8>, bool)>,
    /// Index of the name that was seen last.
    last: usize,
}

impl UnknownNames {
    /// Adds the name at the beginning of `sample`, which ends before the next name.
    pub fn see(&mut self, sample: &[u8]) {
        let end = sample.iter().position(|&byte| ends_name(byte) || byte == b'\t');
        let (name, values) = sample.split_at(end.unwrap_or(sample.len()));
        if let Some(known) = self.find(name) {
            self.last = known;
            let is_sparse = &mut self.names[known].1;
            *is_sparse = *is_sparse || memchr::memchr(b':', values).is_some();
        } else if self.names.len() < MAX_NAMES && name.len() <= LONGEST_NAME {
            self.names.push((name.to_owned(), memchr::memchr(b':', values).is_some()));
        }
    }

    fn find(&self, name: &[u8]) -> Option<usize> {
        // Lines are similar: the name after the last one is the most likely.
        let next = self.last + 1;
        let is = |&place: &usize| self.names.get(place).is_some_and(|(known, _)| known == name);
        Some(next).filter(is).or_else(|| self.names.iter().position(|(known, _)| known == name))
    }

    /// Adds other names.
    pub fn append(&mut self, others: UnknownNames) {
        for (name, is_sparse) in others.names {
            match self.find(&name) {
                Some(known) => self.names[known].1 |= is_sparse,
                None if self.names.len() < MAX_NAMES => self.names.push((name, is_sparse)),
                None => {}
            }
        }
    }
}
