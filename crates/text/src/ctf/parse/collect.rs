//! Notes of the parsers that a check collects, instead of messages and a limit of errors.

use super::cause::Cause;
use super::report::Context;
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

#[cfg(test)]
mod tests {
    use super::*;

    fn note(cause: Cause, offset: u64, stream: Option<usize>) -> Note {
        Note { is_error: false, cause, offset, context: Context { key: 7, stream } }
    }

    #[test]
    fn notes_are_counted_and_some_are_kept() {
        let mut collected = Collected::new(2, 1);
        for offset in 0..5 {
            collected.note(note(Cause::EmptyLine, offset, None));
            if offset % 2 == 0 {
                collected.mark_error((offset == 2).then_some(20));
                // The last note is an error already.
                collected.mark_error(Some(99));
            }
        }
        assert_eq!((collected.errors, collected.warnings), (3, 2));
        // One more than two, which may still become an error.
        let kept: Vec<_> = collected.notes.iter().map(|note| (note.is_error, note.offset)).collect();
        assert_eq!(kept, [(true, 0), (false, 1), (true, 20)]);
        collected.note(Note { is_error: true, ..note(Cause::EmptyStream, 5, Some(0)) });
        collected.mark_error(None);
        assert_eq!((collected.errors, collected.warnings, collected.notes.len()), (4, 2, 3));
    }

    #[test]
    fn dimensions_are_collected_by_stream() {
        let mut collected = Collected::new(9, 3);
        for (cause, stream) in [
            (Cause::ShortSample { dim: 5, values: 3 }, 0),
            (Cause::ShortSample { dim: 5, values: 2 }, 0),
            (Cause::LongSample { dim: 5, values: 7 }, 0),
            (Cause::LongSample { dim: 5, values: 6 }, 0),
            (Cause::LongSample { dim: 5, values: 6 }, 0),
            (Cause::IndexTooLarge { index: 11, dim: 5 }, 1),
            (Cause::IndexTooLarge { index: 9, dim: 5 }, 1),
            (Cause::WeightedId, 1),
            (Cause::IndexTooLarge { index: u64::MAX, dim: 5 }, 2),
        ] {
            collected.note(note(cause, 0, Some(stream)));
        }
        assert_eq!(collected.dims, [7, 12, u64::MAX]);
        assert_eq!(collected.shorter, [2, 0, 0]);
        assert_eq!(collected.longer, [3, 2, 1]);
    }

    #[test]
    fn textual_ids_are_counted_apart() {
        let mut collected = Collected::new(9, 1);
        for offset in [3, 4, 5] {
            collected.note(note(Cause::TextId(b'u'), offset, None));
            collected.mark_error(Some(99));
        }
        assert_eq!(collected.text_ids, Some((note(Cause::TextId(b'u'), 3, None), 3)));
        assert_eq!((collected.errors, collected.warnings, collected.notes.len()), (0, 0, 0));
    }

    #[test]
    fn unknown_names_are_listed_once() {
        let mut names = UnknownNames::default();
        let samples = ["a 1 2", "b 1:2", "c", "a 1", "b 1", "c\t1:2", "d\r", "a:b 1", "a 1", "b", "e\u{e9}:"];
        samples.iter().for_each(|sample| names.see(sample.as_bytes()));
        let listed = |names: &UnknownNames| -> Vec<(String, bool)> {
            names
                .names
                .iter()
                .map(|(name, is_sparse)| (name.escape_ascii().to_string(), *is_sparse))
                .collect()
        };
        let expected = [("a", false), ("b", true), ("c", true), ("d", false), ("a:b", false), ("e", true)];
        assert_eq!(listed(&names), expected.map(|(name, is_sparse)| (name.to_owned(), is_sparse)));
        let mut others = UnknownNames::default();
        ["z", "a 1:2", "b"].iter().for_each(|sample| others.see(sample.as_bytes()));
        names.append(others);
        let expected =
            [("a", true), ("b", true), ("c", true), ("d", false), ("a:b", false), ("e", true), ("z", false)];
        assert_eq!(listed(&names), expected.map(|(name, is_sparse)| (name.to_owned(), is_sparse)));
    }

    #[test]
    fn unknown_names_are_limited() {
        let mut names = UnknownNames::default();
        names.see("n".repeat(LONGEST_NAME + 1).as_bytes());
        assert_eq!(names.names.len(), 0);
        names.see("n".repeat(LONGEST_NAME).as_bytes());
        assert_eq!(names.names.len(), 1);
        let many = || (0..2 * MAX_NAMES).map(|number| format!("n{number} 1"));
        many().for_each(|sample| names.see(sample.as_bytes()));
        assert_eq!(names.names.len(), MAX_NAMES);
        let mut others = UnknownNames::default();
        many().rev().take(3).for_each(|sample| others.see(sample.as_bytes()));
        names.append(others);
        assert_eq!(names.names.len(), MAX_NAMES);
        let mut few = UnknownNames::default();
        few.append(names);
        assert_eq!(few.names.len(), MAX_NAMES);
    }
}
