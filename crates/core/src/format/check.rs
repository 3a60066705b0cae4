//! What a check of a chunk finds: everything that reading it would report, and what its samples are like.
//!
//! Reading stops where too much is wrong, and keeps data; a check goes on, and keeps only findings.
//! Formats whose parsers can go on after a failure check chunks themselves
//! ([`Diagnostics::check`](super::diagnostics::Diagnostics::check)). Chunks of other formats are
//! loaded and then examined by the inspector.

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
    /// The data are legal and read without a message, but may not be what was meant.
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
    /// What was found: CNTK's own words where CNTK has them.
    pub message: String,
    /// What was expected and what to do, where the message does not say it; else empty.
    pub detail: String,
    /// Where it was found.
    pub location: Location,
    /// The kind of the error that reading would return. `None` for errors that reading only counts, and for lesser findings.
    pub kind: Option<ErrorKind>,
}

impl Finding {
    /// A finding without a location.
    pub fn new(severity: Severity, message: impl Into<String>) -> Finding {
        let (detail, location) = (String::new(), Location::default());
        Finding { severity, message: message.into(), detail, location, kind: None }
    }

    /// A note at a place, still without words.
    #[doc(hidden)]
    pub fn at(location: Location) -> Finding {
        Finding { location, ..Finding::new(Severity::Note, "") }
    }

    /// Says more about it.
    #[must_use]
    pub fn with_detail(mut self, detail: impl Into<String>) -> Finding {
        self.detail = detail.into();
        self
    }

    /// Says where it was found.
    #[must_use]
    pub fn located(mut self, location: Location) -> Finding {
        self.location = location;
        self
    }

    /// Names the file, if no file is named yet.
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
        let (message, detail) = error.templates();
        Finding {
            severity: Severity::Error,
            message: message.to_owned(),
            detail: detail.to_owned(),
            location: error.location().clone(),
            kind: Some(error.kind()),
        }
    }
}

/// Logs the remarks of a deserializer that was opened to be read.
pub fn log_remarks(source: &dyn ChunkSource) {
    for remark in source.diagnostics().remarks() {
        Logger::log_always(Level::Warning, &remark.log_line());
    }
}

/// What the samples of a stream are like, as far as they were looked at.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StreamStatistics {
    /// Sequences that have data.
    pub sequences: u64,
    /// Samples.
    pub samples: u64,
    /// Values: all values of dense samples, the stored ones of sparse samples.
    pub values: u64,
    /// The least dimension that all samples fit into: of sparse samples the greatest index and 1, of dense ones the most
    /// values that one has. Samples that are refused because they do not fit the declared dimension count as well. 0 without
    /// any value.
    pub dim: u64,
    /// Dense samples with fewer values than the declared dimension, which are filled up with zeros.
    pub shorter: u64,
    /// Samples that do not fit the declared dimension, and are refused.
    pub longer: u64,
    /// The least index of sparse samples; `None` if there is none.
    pub least_index: Option<u64>,
    /// Sparse samples with exactly one value.
    pub single: u64,
    /// Values of sparse samples other than 1.
    pub other_values: u64,
}

impl StreamStatistics {
    /// Adds those of other data of the stream.
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

    /// Adds a sequence, whose dense samples have `size` values.
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

/// The least and the greatest of some numbers.
fn range(numbers: impl Iterator<Item = u64>) -> Option<(u64, u64)> {
    numbers.fold(None, |range, number| {
        let (least, greatest) = range.unwrap_or((number, number));
        Some((least.min(number), greatest.max(number)))
    })
}

/// A legal peculiarity that is noted once for each stream of a deserializer, with the number of its
/// cases.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoteKind {
    /// A number that is so small that it becomes 0.
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
    /// Number of the cases.
    pub count: u64,
    /// Where the first one is.
    pub first: Location,
}

/// Adds notes to others, of each kind and stream once.
pub fn add_notes(notes: &mut Vec<CountedNote>, others: Vec<CountedNote>) {
    for other in others {
        match notes.iter_mut().find(|known| (known.kind, known.stream) == (other.kind, other.stream)) {
            Some(known) => known.count += other.count,
            None => notes.push(other),
        }
    }
}

/// What a check of a chunk has found.
#[derive(Debug, Clone, Default)]
pub struct ChunkCheck {
    /// The first findings, in the order of the file: at most as many as were asked for.
    pub findings: Vec<Finding>,
    /// Number of all errors.
    pub errors: u64,
    /// Number of all warnings.
    pub warnings: u64,
    /// The samples, by stream.
    pub streams: Vec<StreamStatistics>,
    /// Bytes of the file that were read; 0 if the format does not know.
    pub bytes: u64,
    /// Names in the file that no stream has, each once.
    pub unknown_names: Vec<UnknownName>,
    /// The first line that begins with an id that is text, and the number of these lines.
    pub text_ids: Option<(Finding, u64)>,
    /// By stream: the first sample that has an index more than once, and the number of these
    /// samples.
    pub repeats: Vec<Option<(Finding, u64)>>,
    /// Notes that are counted, and reported once.
    pub notes: Vec<CountedNote>,
}

/// A name in a file that no stream has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownName {
    /// The name.
    pub name: String,
    /// Samples with this name are written as `index:value`.
    pub is_sparse: bool,
}

/// Adds names to others, each once.
pub fn add_names(names: &mut Vec<UnknownName>, others: Vec<UnknownName>) {
    for other in others {
        match names.iter_mut().find(|known| known.name == other.name) {
            Some(known) => known.is_sparse |= other.is_sparse,
            None => names.push(other),
        }
    }
}

impl ChunkCheck {
    /// Adds a finding, of which at most the first `most` are kept.
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

    /// Adds what was found in the data that follow. At most the first `most` findings are kept.
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

/// Adds what was found of repeated indices in data that follow.
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

/// The note that a sample of this stream has an index more than once.
pub fn repeated_index(stream: &str, index: u64) -> Finding {
    let mut finding =
        Finding::new(Severity::Note, format!("A sparse sample has the index {index} more than once."));
    "The values of an index add up wherever a sample becomes dense. Write each index of a sample once if that is not meant."
        .clone_into(&mut finding.detail);
    finding.location.stream = Some(stream.to_owned());
    finding
}

/// Finds indices that samples repeat; keeps its memory.
#[derive(Debug, Default)]
pub struct RepeatFinder(Vec<u64>);

impl RepeatFinder {
    /// An index that the sample has more than once.
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

/// Bytes that the samples of a stream take in memory, at most: chunks keep many of them in less.
pub fn memory_of(statistics: &StreamStatistics, info: &StreamInfo) -> u64 {
    let element = info.element.size() as u64;
    match info.storage {
        Storage::Dense => statistics.values * element,
        Storage::SparseCsc => statistics.values * (element + 4) + statistics.samples * 4,
    }
}
