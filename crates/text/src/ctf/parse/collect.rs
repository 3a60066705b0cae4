//! What a check collects of the parsers' notes, in place of messages and a limit of errors.

use super::report::{Cause, Context};
use super::rules::ends_name;
use cntk_reader_core::limits::{LONGEST_NAME, MOST_NAMES};

/// One note of a parser.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Note {
    /// It counts against `maxErrors`, or ends reading; otherwise it is a warning.
    pub is_error: bool,
    /// What was found.
    pub cause: Cause,
    /// Where in the file.
    pub offset: u64,
    /// In which sequence and stream.
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
    /// By stream: the dimension that its refused and incomplete samples ask for.
    pub dims: Vec<u64>,
    /// By stream: samples with fewer values than the dimension, which are kept.
    pub shorter: Vec<u64>,
    /// By stream: samples that do not fit the dimension, which are refused.
    pub longer: Vec<u64>,
    /// The first line that begins with an id that is text, and the number of these lines. They are counted apart: a file has
    /// ids in all lines or in none.
    pub text_ids: Option<(Note, u64)>,
    /// Names that no stream has.
    pub unknown: UnknownNames,
    most: usize,
    /// Whether the last note counts as an error already.
    last_is_error: bool,
}

impl Collected {
    /// Room for `most` notes about these streams.
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
        // One note more than is asked for is kept, because the last one may still become an error.
        if self.notes.len() <= self.most {
            self.notes.push(note);
        }
    }

    /// The last note is an error. `place` is its offset if it differs from the note's.
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

/// Names in a file that no stream has, each once.
#[derive(Debug, Default)]
pub(crate) struct UnknownNames {
    /// The names, and whether a sample with that name is sparse: has a `:`.
    pub names: Vec<(Vec<u8>, bool)>,
    /// Which one was seen last.
    last: usize,
}

impl UnknownNames {
    /// Adds the name that a sample begins with. `sample` ends before the next name.
    pub fn see(&mut self, sample: &[u8]) {
        let end = sample.iter().position(|&byte| ends_name(byte) || byte == b'\t');
        let (name, values) = sample.split_at(end.unwrap_or(sample.len()));
        if let Some(known) = self.find(name) {
            self.last = known;
            let is_sparse = &mut self.names[known].1;
            *is_sparse = *is_sparse || memchr::memchr(b':', values).is_some();
        } else if self.names.len() < MOST_NAMES && name.len() <= LONGEST_NAME {
            self.names.push((name.to_owned(), memchr::memchr(b':', values).is_some()));
        }
    }

    fn find(&self, name: &[u8]) -> Option<usize> {
        // Lines are alike: the name that follows the last one is the likeliest.
        let next = self.last + 1;
        let is = |&place: &usize| self.names.get(place).is_some_and(|(known, _)| known == name);
        Some(next).filter(is).or_else(|| self.names.iter().position(|(known, _)| known == name))
    }

    /// Adds other names.
    pub fn append(&mut self, others: UnknownNames) {
        for (name, is_sparse) in others.names {
            match self.find(&name) {
                Some(known) => self.names[known].1 |= is_sparse,
                None if self.names.len() < MOST_NAMES => self.names.push((name, is_sparse)),
                None => {}
            }
        }
    }
}
