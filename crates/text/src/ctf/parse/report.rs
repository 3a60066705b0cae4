//! Messages of the parsers, in CNTK's words, and the count of errors up to the limit.

use super::cause::{Cause, IN_LINE};
use super::collect::{Collected, Note, UnknownNames};
use super::found;
use super::number::Flaw;
use super::rules::Rules;
use super::typed::Misfit;
use cntk_reader_core::Error;
use cntk_reader_core::option::FrontEnd;
use cntk_reader_core::runtime::log::Level;
use cntk_reader_core::sequence::SequenceKey;
use cntk_reader_core::stream::ElementType;
use std::fmt;

/// Warnings that are counted together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct WarningKind {
    /// A plural noun.
    pub plural: &'static str,
    /// Number of the stream.
    pub stream: Option<usize>,
}

impl WarningKind {
    /// Returns whether the sequence is delivered all the same.
    fn is_harmless(self) -> bool {
        [Cause::ShortSample { dim: 0, values: 0 }, Cause::NotFinite { is_nan: true }, Cause::Underflow]
            .iter()
            .any(|cause| cause.plural() == self.plural)
    }
}

/// A line for the log.
#[derive(Debug)]
pub(crate) struct Line {
    /// Its level.
    pub level: Level,
    /// Its text.
    pub text: String,
    /// For the first warning of a kind in a segment: the kind, an offset in its line, and the
    /// sequence.
    pub counted: Option<(WarningKind, u64, SequenceKey)>,
}

/// The sequence and the stream that are being read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Context {
    /// Key of the sequence.
    pub key: SequenceKey,
    /// Number of the stream.
    pub stream: Option<usize>,
}

/// Why reading cannot continue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    /// Whether this ends reading whatever the limit of errors. Otherwise this error exceeded the
    /// limit.
    pub fatal: bool,
    /// Number of errors before this one in the report.
    pub errors_before: u64,
    /// Offset of the cause in the file.
    pub offset: u64,
    /// The cause and the remedy in CNTK's words, and in this library's.
    reason: String,
    remedy: &'static str,
    stream: Option<String>,
    key: String,
    cause: Cause,
    /// Number of the stream.
    stream_number: Option<usize>,
    /// Whether the file ends in this sequence without a line break.
    is_cut: bool,
}

impl Failure {
    /// The cause of the failure.
    pub fn cause(&self) -> Cause {
        self.cause
    }

    /// Number of the stream, if it is about one.
    pub fn stream(&self) -> Option<usize> {
        self.stream_number
    }

    /// Whether the file ends in this sequence without a line break.
    pub fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// Converts the failure to the library's error. `line` is the line of `offset` in the file, if
    /// it is known.
    pub fn into_error(self, rules: &Rules, line: Option<u64>) -> Error {
        let text = match self.fatal {
            true => "Malformed input file. Bailing out.".to_owned(),
            false => limit_text(rules),
        };
        let error = Error::data(text).as_cntk().with_detail(self.reason).with_detail(self.remedy);
        let error = error.in_file(&rules.file).at(self.offset, line).for_key(self.key);
        match self.stream {
            Some(stream) => error.in_stream(&stream),
            None => error,
        }
    }
}

/// CNTK's message for too many errors.
pub(crate) fn limit_text(rules: &Rules) -> String {
    format!("Reached the maximum number of allowed errors while reading the input file ({}).", rules.file)
}

/// Returned by a parser that cannot continue. Boxed, so that results stay small.
pub(crate) type Stop = Box<Failure>;

/// Maximum bytes of messages that a report holds back. Beyond that it writes them at once, possibly
/// out of order.
const PENDING_BYTES: usize = 1 << 20;

/// Messages and errors of one segment. Messages are held back until those of earlier segments are
/// written.
#[derive(Debug)]
pub(crate) struct Report<'a> {
    rules: &'a Rules,
    silent: bool,
    lines: Vec<Line>,
    bytes: usize,
    /// Numbers of warnings, by kind.
    counts: Vec<(WarningKind, u64)>,
    errors: u64,
    limit: u64,
    last: (Cause, u64),
    /// Number of messages before those that belong to the next error.
    counted_lines: usize,
    /// The sequence in which the file ends without a line break.
    cut: Option<SequenceKey>,
    /// Notes that a check collects instead of messages.
    collected: Option<Collected>,
}

impl<'a> Report<'a> {
    /// Returns a report that tolerates `limit` errors and stops reading at the next one.
    pub fn new(rules: &'a Rules, limit: u64) -> Self {
        Report {
            rules,
            silent: false,
            lines: Vec::new(),
            bytes: 0,
            counts: Vec::new(),
            errors: 0,
            limit,
            last: (Cause::EmptyLine, 0),
            counted_lines: 0,
            cut: None,
            collected: None,
        }
    }

    /// Returns a report for a check: it tolerates every error, writes nothing, and collects at most
    /// `most` notes.
    pub fn collecting(rules: &'a Rules, most: usize) -> Self {
        let collected = Collected::new(most, rules.streams.len());
        Report { collected: Some(collected), ..Report::silent(rules, u64::MAX) }
    }

    /// Whether this is a report for a check, which needs each line.
    pub fn is_collected(&self) -> bool {
        self.collected.is_some()
    }

    /// Takes the collected notes. Empty unless this is a report for a check.
    pub fn take_collected(&mut self) -> Collected {
        self.collected.take().unwrap_or_default()
    }

    /// For a check: the failure that was reported last does not end parsing.
    pub fn tolerate_stop(&mut self) {
        if let Some(collected) = &mut self.collected {
            collected.mark_error(None);
        }
    }

    /// Returns the message for a note, without its location.
    pub fn message(&self, note: &Note) -> String {
        self.message_of(note.cause, note.context)
    }

    /// Returns the message for a cause: in CNTK's place CNTK's, otherwise one that names the
    /// options.
    fn message_of(&self, cause: Cause, context: Context) -> String {
        let stream = || context.stream.map_or("", |stream| self.rules.streams[stream].name.as_str());
        match found::in_own_words(cause, stream()) {
            Some(found) if self.rules.log.front_end != FrontEnd::Cntk => found,
            _ => self.words(cause, context, ""),
        }
    }

    /// Returns a report without messages, for parsing a second time to locate an error.
    pub fn silent(rules: &'a Rules, limit: u64) -> Self {
        Report { silent: true, ..Report::new(rules, limit) }
    }

    /// Number of errors so far.
    pub fn errors(&self) -> u64 {
        self.errors
    }

    /// Takes the messages.
    pub fn take_lines(&mut self) -> Vec<Line> {
        self.bytes = 0;
        self.counted_lines = 0;
        std::mem::take(&mut self.lines)
    }

    /// Takes the numbers of warnings of the counted kinds.
    pub fn take_counts(&mut self) -> Vec<(WarningKind, u64)> {
        std::mem::take(&mut self.counts)
    }

    /// Whether messages of this level are wanted.
    pub fn shows(&self, level: Level) -> bool {
        !self.silent && self.rules.log.shows(level)
    }

    /// Records a cause at this offset, and logs it as a warning. If [`Report::count`] follows, the
    /// cause is the reason of that error.
    pub fn note(&mut self, cause: Cause, offset: u64, context: Context) {
        self.note_as(Level::Warning, cause, offset, context);
    }

    /// Like [`Report::note`], with another level.
    pub fn note_as(&mut self, level: Level, cause: Cause, offset: u64, context: Context) {
        self.last = (cause, offset);
        // CNTK reports a missing line break up to three times.
        let is_known = matches!(cause, Cause::Ended(_)) && self.cut.replace(context.key) == Some(context.key);
        if let Some(collected) = &mut self.collected {
            if is_known {
                return;
            }
            return collected.note(Note { is_error: level == Level::Error, cause, offset, context });
        }
        if !self.shows(level) {
            return;
        }
        let words = |report: &Self| {
            let at = format!(" at offset {offset} in the input file ({})", report.rules.file);
            report.words(cause, context, &at)
        };
        // Only warnings are counted, and only below trace level 2.
        if level != Level::Warning || self.shows(Level::Info) {
            return self.line(level, words(self));
        }
        if is_known {
            return;
        }
        let kind = WarningKind { plural: cause.plural(), stream: context.stream };
        if let Some((_, count)) = self.counts.iter_mut().find(|(other, _)| *other == kind) {
            *count += 1;
            return;
        }
        self.counts.push((kind, 1));
        let place = if cause.follows_its_line() { offset.saturating_sub(1) } else { offset };
        let mut text = words(self);
        let advice = cause.advice();
        if !advice.is_empty() {
            text.push(' ');
            text.push_str(&advice);
        }
        self.lines.push(Line { level, text, counted: Some((kind, place, context.key)) });
    }

    /// Counts further warnings of a kind that was noted before, if they are counted and not listed.
    pub fn count_more(&mut self, cause: Cause, stream: usize, more: u64) {
        let kind = WarningKind { plural: cause.plural(), stream: Some(stream) };
        if let Some((_, count)) = self.counts.iter_mut().find(|(other, _)| *other == kind) {
            *count += more;
        }
    }

    /// Whether each warning is listed with its place. Otherwise the first one is, and the others
    /// are counted.
    pub fn lists_all(&self) -> bool {
        self.collected.is_some() || self.shows(Level::Info)
    }

    /// Returns an empty list for names that belong to no stream, if these are collected.
    pub fn wants_names(&self) -> Option<UnknownNames> {
        self.collected.as_ref().map(|_| UnknownNames::default())
    }

    /// Records names in the file that belong to no stream.
    pub fn add_names(&mut self, names: UnknownNames) {
        if let Some(collected) = &mut self.collected {
            collected.unknown.append(names);
        }
    }

    /// Records the name at the beginning of `sample`, which belongs to no stream.
    pub fn unknown_name(&mut self, sample: &[u8]) {
        if let Some(collected) = &mut self.collected {
            collected.unknown.see(sample);
        }
    }

    /// Adds a message.
    pub fn line(&mut self, level: Level, line: String) {
        self.bytes += line.len();
        self.lines.push(Line { level, text: line, counted: None });
        // A file with a message for every sample must not exhaust the memory.
        if self.bytes > PENDING_BYTES {
            for Line { level, text, .. } in self.lines.extract_if(.., |line| line.counted.is_none()) {
                self.rules.log.write(level, &text);
            }
            self.bytes = 0;
        }
    }

    /// Counts an error whose reason is the last recorded cause. `place` is the error's offset if it
    /// differs from the cause's.
    pub fn count(&mut self, context: Context, place: Option<u64>) -> std::result::Result<(), Stop> {
        if self.errors == self.limit {
            return Err(self.failure(false, context, place));
        }
        if let Some(collected) = &mut self.collected {
            collected.mark_error(place);
        }
        self.errors += 1;
        self.counted_lines = self.lines.len();
        Ok(())
    }

    /// Counts `count` lines that begin with a textual id, as [`Report::note`] and [`Report::count`]
    /// do one by one. Returns false without counting if one of them needs a message or exceeds the
    /// limit.
    pub fn count_text_ids(&mut self, count: u64) -> bool {
        if self.collected.is_some() || self.shows(Level::Info) || self.limit - self.errors < count {
            return false;
        }
        if self.shows(Level::Warning) {
            let kind = WarningKind { plural: Cause::TextId(0).plural(), stream: None };
            let Some((_, counted)) = self.counts.iter_mut().find(|(other, _)| *other == kind) else {
                return false;
            };
            *counted += count;
        }
        self.errors += count;
        true
    }

    /// Returns a failure whose reason is the last recorded cause. `place` is its offset if it
    /// differs from the cause's.
    pub fn failure(&mut self, fatal: bool, context: Context, place: Option<u64>) -> Stop {
        let (cause, offset) = self.last;
        if self.rules.log.front_end != FrontEnd::Cntk {
            // The error says it, so it is neither written nor counted as a warning.
            let of_error = self.lines.split_off(self.counted_lines.min(self.lines.len()));
            for line in of_error {
                match line.counted {
                    Some((kind, ..)) if !kind.is_harmless() => {
                        let counts = self.counts.iter_mut().filter(|(other, _)| *other == kind);
                        counts.for_each(|(_, count)| *count -= 1);
                    }
                    Some(_) => self.lines.push(line),
                    None => {}
                }
            }
        }
        Box::new(Failure {
            fatal,
            errors_before: self.errors,
            offset: place.unwrap_or(offset),
            reason: self.message_of(cause, context),
            remedy: cause.remedy(),
            stream: context.stream.map(|stream| self.rules.streams[stream].name.clone()),
            key: self.rules.key_text(context.key),
            cause,
            stream_number: context.stream,
            is_cut: self.cut == Some(context.key),
        })
    }

    /// Returns the message for a cause. `at` is inserted where the message names the location.
    fn words(&self, cause: Cause, context: Context, at: &str) -> String {
        let key = || format!("(id = {})", self.rules.key_text(context.key));
        let stream = || context.stream.map_or("", |stream| self.rules.streams[stream].name.as_str());
        match cause {
            Cause::EmptyLine => format!("Empty input row{at}."),
            Cause::CrowdedLine { samples } => {
                let streams = self.rules.streams.len();
                format!("Input row{at} contains more samples than expected ({samples} vs. {streams}).")
            }
            Cause::BadLine { line } => {
                format!("Could not read a row (# {line}) while loading sequence {}{at}.", key())
            }
            Cause::Ended(what) => {
                let hint = if what == IN_LINE { " Possibly, a trailing newline is missing." } else { "" };
                format!(
                    "Exhausted all input expected for the current sequence while reading {what}{at}.{hint}"
                )
            }
            Cause::FewLines { lines, expected } => format!(
                "Exhausted all input expected for the current sequence {}{at}, but only read {lines} out of {expected} \
                 expected rows.",
                key()
            ),
            Cause::FileEnded => {
                format!("The file ends in sequence {}{at}: it is shorter than its index.", key())
            }
            Cause::NoPrefix(found) | Cause::TextId(found) | Cause::BadId { found, .. } => format!(
                "Unexpected character('{}') in place of a name prefix ('|') in an input name{at}.",
                Shown(found)
            ),
            Cause::NoName(found) => {
                format!(
                    "Input name prefix ('|') is followed by an invalid character ('{}'){at}.",
                    Shown(found)
                )
            }
            Cause::LongName => format!("Did not find a valid input name{at}."),
            Cause::ShortSample { dim, values } => format!(
                "A dense sample{at} has a sparse suffix (expected size = {dim}, actual size = {values})."
            ),
            Cause::LongSample { dim, values } => {
                format!("Dense sample (size = {values}){at} exceeds the expected size ({dim}).")
            }
            Cause::Number(flaw) => match flaw {
                Flaw::Start(found) => {
                    format!("Unexpected character ('{}') in a floating point value{at}.", Shown(found))
                }
                Flaw::Sign(found) => {
                    format!(
                        "A sign symbol is followed by an invalid character('{}') in a floating point value{at}.",
                        Shown(found)
                    )
                }
                Flaw::Exponent(found) => {
                    format!(
                        "An exponent symbol is followed by an invalid character('{}') in a floating point value{at}.",
                        Shown(found)
                    )
                }
                Flaw::ExponentSign(found) => format!(
                    "An exponent sign symbol followed by an unexpected character('{}') in a floating point value{at}.",
                    Shown(found)
                ),
                Flaw::Ended => format!("Reached an invalid state while reading a floating point value{at}."),
            },
            Cause::NoIndex(_) => format!("Expected a uint64 value, but none found{at}."),
            Cause::IndexOverflow => format!("Overflow while reading a uint64 value{at}."),
            Cause::IndexTooLarge { index, dim } => format!(
                "Sparse index value ({index}){at} exceeds the maximum expected value ({}).",
                (dim as u64).wrapping_sub(1)
            ),
            Cause::NoColon { index, found } => format!(
                "Unexpected character('{}') in place of the index delimiter (':') after a sparse value index \
                 ({index}){at}.",
                Shown(found)
            ),
            Cause::TooManySamples { samples, expected, .. } => format!(
                "Input ('{}') contains more samples than expected ({samples} vs. {expected}) for sequence {}{at}.",
                stream(),
                key()
            ),
            Cause::TooFewSamples { samples, expected } => format!(
                "Number of samples for sequence {}{at} is less than expected ({samples} vs. {expected}).",
                key()
            ),
            Cause::EmptyStream => format!("Input ('{}') is empty in sequence {}{at}.", stream(), key()),
            Cause::NotFinite { is_nan: false } => {
                format!("A number is too large for the type of the values{at}.")
            }
            Cause::NotFinite { is_nan: true } => {
                format!("A number with an exponent or with very many digits gives NaN{at}.")
            }
            Cause::Underflow => {
                format!("A number is too small for the type of the values, and becomes 0{at}.")
            }
            Cause::Misfit { misfit, element, found } => {
                let why = match misfit {
                    Misfit::Fraction => "is not an integer",
                    Misfit::Range => "does not fit",
                };
                format!("A value{at} {why}: {found}. Expected {} ({}).", range_of(element), element.name())
            }
            Cause::NoId { entries } => {
                format!("A sample of ids{at} has {entries} entries. Expected one, 'index:1'.")
            }
            Cause::WeightedId => {
                format!("A sample of ids{at} has an entry with a value other than 1. Expected 'index:1'.")
            }
        }
    }
}

/// Describes the values of a type.
fn range_of(element: ElementType) -> &'static str {
    match element {
        ElementType::UInt8 => "an integer from 0 to 255",
        ElementType::Int16 => "an integer from -32768 to 32767",
        ElementType::Int32 => "an integer from -2147483648 to 2147483647",
        ElementType::Int64 => "an integer from -9223372036854775808 to 9223372036854775807",
        ElementType::Bool => "0 or 1",
        ElementType::Float | ElementType::Double | ElementType::Float16 | ElementType::BFloat16 => "a number",
    }
}

/// A byte in a message: printable ASCII unchanged, other bytes escaped.
pub(super) struct Shown(pub u8);

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            byte @ 0x20..0x7f => write!(f, "{}", byte as char),
            byte => write!(f, "{}", byte.escape_ascii()),
        }
    }
}
