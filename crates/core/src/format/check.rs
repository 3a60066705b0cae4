//! Results of checking a chunk: everything that reading it would report, and statistics of its
//! samples.
//!
//! Reading stops after too many errors, and keeps data; a check goes on, and keeps only findings.
//! Formats whose parsers can go on after a failure check chunks themselves
//! ([`Diagnostics::check`](super::diagnostics::Diagnostics::check)). The inspector loads and
//! examines the chunks of other formats.

use super::ChunkSource;
use crate::Error;
use crate::error::{ErrorKind, Location};
use crate::option::FrontEnd;
use crate::runtime::log::{Level, Logger};
use crate::sequence::{SequenceView, ViewKind};
use crate::stream::{Storage, StreamInfo};
use byteorder::{ByteOrder, NativeEndian};

/// How serious a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// The data are valid and read without a message, but may not be as intended.
    Note,
    /// The data are read, with a warning.
    Warning,
    /// Data are lost: an error that counts against `maxErrors`, or one that ends reading.
    Error,
}

/// One thing that a check has found.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Finding {
    /// How serious it is.
    pub severity: Severity,
    /// Describes the problem.
    pub message: String,
    /// The expectation and the remedy, unless the message has them; may be empty.
    pub detail: String,
    /// Where it was found.
    pub location: Location,
    /// The kind of the error that reading would return. `None` for errors that reading only counts,
    /// and for notes and warnings.
    pub kind: Option<ErrorKind>,
}

impl Finding {
    /// A finding without a location.
    pub fn new(severity: Severity, message: impl Into<String>) -> Finding {
        let (detail, location) = (String::new(), Location::default());
        Finding { severity, message: message.into(), detail, location, kind: None }
    }

    /// A note at a location, without a message yet.
    #[doc(hidden)]
    pub fn at(location: Location) -> Finding {
        Finding { location, ..Finding::new(Severity::Note, "") }
    }

    /// Adds detail.
    #[must_use]
    pub fn with_detail(mut self, detail: impl Into<String>) -> Finding {
        self.detail = detail.into();
        self
    }

    /// Sets the location.
    #[must_use]
    pub fn located(mut self, location: Location) -> Finding {
        self.location = location;
        self
    }

    /// Sets the file, if none is set yet.
    #[must_use]
    pub fn in_file(mut self, file: &str) -> Finding {
        self.location.file.get_or_insert_with(|| file.to_owned());
        self
    }

    /// The finding as a line of the log.
    #[doc(hidden)]
    pub(crate) fn log_line(&self) -> String {
        let error = Error::data(&*self.message).with_detail(&self.detail);
        error.completed(self.location.clone()).to_string()
    }

    /// The finding in the words of a front end.
    #[doc(hidden)]
    pub fn in_words_of(self, front_end: FrontEnd) -> Finding {
        let [message, detail] = [&self.message, &self.detail].map(|text| front_end.say(text).into_owned());
        Finding { message, detail, ..self }
    }

    /// Adds the key of the sequence.
    #[must_use]
    pub fn for_key(mut self, key: String) -> Finding {
        self.location.key = Some(key);
        self
    }
}

/// The finding that reading fails with this error.
impl From<Error> for Finding {
    fn from(error: Error) -> Finding {
        let (message, detail) = error.explained();
        Finding {
            severity: Severity::Error,
            message,
            detail,
            location: error.location().clone(),
            kind: Some(error.kind()),
        }
    }
}

/// Logs the remarks about a deserializer that was opened for reading.
pub fn log_remarks(source: &dyn ChunkSource) {
    for remark in source.diagnostics().remarks() {
        Logger::log_always(Level::Warning, &remark.log_line());
    }
}

/// Statistics of the samples of a stream, as far as they were examined.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StreamStatistics {
    /// Sequences that have data.
    pub sequences: u64,
    /// Number of samples.
    pub samples: u64,
    /// Number of values: all values of dense samples, stored values of sparse ones.
    pub values: u64,
    /// The smallest dimension that fits all samples: one more than the greatest index of sparse
    /// samples, or the number of values in the longest dense sample. Includes samples that are
    /// rejected because they exceed the declared dimension. 0 without any value.
    pub dim: u64,
    /// Dense samples with fewer values than the declared dimension; they are padded with zeros.
    pub shorter: u64,
    /// Samples that exceed the declared dimension, and are rejected.
    pub longer: u64,
    /// The smallest index of sparse samples; `None` if there are no indices.
    pub least_index: Option<u64>,
    /// Sparse samples with exactly one value.
    pub single: u64,
    /// Values of sparse samples that are not 1.
    pub other_values: u64,
}

impl StreamStatistics {
    /// Adds the statistics of other data of the stream.
    pub fn add(&mut self, other: &StreamStatistics) {
        self.sequences += other.sequences;
        self.samples += other.samples;
        self.values += other.values;
        self.dim = self.dim.max(other.dim);
        self.shorter += other.shorter;
        self.longer += other.longer;
        self.see_index(other.least_index);
        self.single += other.single;
        self.other_values += other.other_values;
    }

    fn see_index(&mut self, index: Option<u64>) {
        self.least_index = [self.least_index, index].into_iter().flatten().min();
    }

    /// Adds a sequence. Its dense samples have `size` values each.
    pub fn look_at(&mut self, view: &SequenceView<'_>, size: u64) {
        self.sequences += 1;
        self.samples += u64::from(view.samples);
        match &view.kind {
            ViewKind::Sparse(sparse) => {
                self.values += sparse.count() as u64;
                let range = match sparse.narrow {
                    true => range(sparse.indices.chunks_exact(2).map(|i| NativeEndian::read_u16(i).into())),
                    false => {
                        range(sparse.indices.chunks_exact(4).map(|i| NativeEndian::read_i32(i).max(0) as u64))
                    }
                };
                if let Some((least, greatest)) = range {
                    self.dim = self.dim.max(greatest + 1);
                    self.see_index(Some(least));
                }
                self.single += sparse.offsets.windows(2).filter(|pair| pair[1] - pair[0] == 1).count() as u64;
            }
            ViewKind::Dense | ViewKind::Frames(_) if view.samples > 0 => {
                self.values += u64::from(view.samples) * size;
                self.dim = self.dim.max(size);
            }
            ViewKind::Dense | ViewKind::Frames(_) => {}
        }
    }
}

/// The smallest and the greatest number.
fn range(numbers: impl Iterator<Item = u64>) -> Option<(u64, u64)> {
    numbers.fold(None, |range, number| {
        let (least, greatest) = range.unwrap_or((number, number));
        Some((least.min(number), greatest.max(number)))
    })
}

/// A valid peculiarity that is noted once for each stream of a deserializer, with the number of
/// cases.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoteKind {
    /// A number so small that it becomes 0.
    Underflow,
    /// A sequence in which the stream has fewer samples than the sequence has lines.
    FewerSamples,
}

/// The cases of one [`NoteKind`] in a stream.
#[derive(Debug, Clone)]
pub struct CountedNote {
    /// The peculiarity.
    pub kind: NoteKind,
    /// Number of the stream.
    pub stream: usize,
    /// Number of cases.
    pub count: u64,
    /// Location of the first case.
    pub first: Location,
}

/// Merges notes: adds up the counts of each kind and stream.
pub fn add_notes(notes: &mut Vec<CountedNote>, others: Vec<CountedNote>) {
    for other in others {
        match notes.iter_mut().find(|known| (known.kind, known.stream) == (other.kind, other.stream)) {
            Some(known) => known.count += other.count,
            None => notes.push(other),
        }
    }
}

/// The result of checking a chunk.
#[derive(Debug, Clone, Default)]
pub struct ChunkCheck {
    /// The first findings in file order, limited to the number requested.
    pub findings: Vec<Finding>,
    /// Number of all errors.
    pub errors: u64,
    /// Number of all warnings.
    pub warnings: u64,
    /// Statistics of the samples, by stream.
    pub streams: Vec<StreamStatistics>,
    /// Bytes read from the file; 0 if the format does not know.
    pub bytes: u64,
    /// Names in the file that belong to no stream, each once.
    pub unknown_names: Vec<UnknownName>,
    /// The first line that begins with a textual id, and the number of such lines.
    pub text_ids: Option<(Finding, u64)>,
    /// By stream: the first sample that repeats an index, and the number of such samples.
    pub repeats: Vec<Option<(Finding, u64)>>,
    /// Notes that are counted and reported once.
    pub notes: Vec<CountedNote>,
}

/// A name in a file that belongs to no stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownName {
    /// The name.
    pub name: String,
    /// Samples with this name have the form `index:value`.
    pub is_sparse: bool,
}

/// Merges names, so that each occurs once.
pub fn add_names(names: &mut Vec<UnknownName>, others: Vec<UnknownName>) {
    for other in others {
        match names.iter_mut().find(|known| known.name == other.name) {
            Some(known) => known.is_sparse |= other.is_sparse,
            None => names.push(other),
        }
    }
}

impl ChunkCheck {
    /// Adds a finding. Only the first `most` are kept.
    pub fn push(&mut self, finding: Finding, most: usize) {
        match finding.severity {
            Severity::Error => self.errors += 1,
            Severity::Warning => self.warnings += 1,
            Severity::Note => {}
        }
        if self.findings.len() < most {
            self.findings.push(finding);
        }
    }

    /// Appends the result of checking the data that follow. Only the first `most` findings are
    /// kept.
    pub fn append(&mut self, next: ChunkCheck, most: usize) {
        let room = most.saturating_sub(self.findings.len());
        self.findings.extend(next.findings.into_iter().take(room));
        self.errors += next.errors;
        self.warnings += next.warnings;
        self.bytes += next.bytes;
        if self.streams.len() < next.streams.len() {
            self.streams.resize_with(next.streams.len(), StreamStatistics::default);
        }
        self.streams.iter_mut().zip(&next.streams).for_each(|(own, next)| own.add(next));
        add_names(&mut self.unknown_names, next.unknown_names);
        add_notes(&mut self.notes, next.notes);
        match (&mut self.text_ids, next.text_ids) {
            (Some((_, count)), Some((_, next))) => *count += next,
            (own, next) => *own = own.take().or(next),
        }
        add_repeats(&mut self.repeats, next.repeats);
    }
}

/// Appends the repeated indices of the data that follow.
pub fn add_repeats(repeats: &mut Vec<Option<(Finding, u64)>>, others: Vec<Option<(Finding, u64)>>) {
    if repeats.len() < others.len() {
        repeats.resize_with(others.len(), || None);
    }
    for (own, next) in repeats.iter_mut().zip(others) {
        match (&mut *own, next) {
            (Some((_, count)), Some((_, next))) => *count += next,
            (None, next) => *own = next,
            (Some(_), None) => {}
        }
    }
}

/// Creates the note that a sample of this stream repeats an index.
pub fn repeated_index(stream: &str, index: u64) -> Finding {
    let mut finding =
        Finding::new(Severity::Note, format!("A sparse sample has the index {index} more than once."));
    "The values of an index add up wherever a sample becomes dense. Write each index of a sample once if that is not meant."
        .clone_into(&mut finding.detail);
    finding.location.stream = Some(stream.to_owned());
    finding
}

/// Finds repeated indices in samples; keeps its memory between calls.
#[derive(Debug, Default)]
pub struct RepeatFinder(Vec<u64>);

impl RepeatFinder {
    /// Returns an index that the sample repeats.
    pub fn find(&mut self, indices: impl Iterator<Item = u64> + Clone) -> Option<u64> {
        if indices.clone().is_sorted_by(|one, next| one < next) {
            return None;
        }
        self.0.clear();
        self.0.extend(indices);
        self.0.sort_unstable();
        self.0.windows(2).find(|pair| pair[0] == pair[1]).map(|pair| pair[0])
    }
}

/// Upper bound on the memory that a stream's samples take, in bytes: chunks store many of them more
/// compactly.
pub fn memory_of(statistics: &StreamStatistics, info: &StreamInfo) -> u64 {
    let element = info.element.size() as u64;
    match info.storage {
        Storage::Dense => statistics.values * element,
        Storage::SparseCsc => statistics.values * (element + 4) + statistics.samples * 4,
    }
}
