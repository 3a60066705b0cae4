//! The exact parser: reads one sequence by all rules of CNTK 2.7, with all of its messages and
//! quirks.
//!
//! A sequence is a range of bytes. It is read line by line, a line sample by sample, a sample value
//! by value. A part that cannot be read is left out, reported and counted, and reading continues
//! after it. Some rules differ if the range ends without a line break; these places are marked
//! "range's end". CNTK's messages call a line a row.

use super::bad_id::BadId;
use super::cause::{Cause, IN_LINE};
use super::excerpt::Excerpt;
use super::number;
use super::output::{Output, ScratchVec};
use super::report::{Context, Report, Stop};
use super::rules::{Rules, StreamRule, ends_name, is_non_printable, is_value_delimiter};
use super::typed::{Stored, Typed};
use crate::ctf::index::{SequenceSpan, is_space};
use cntk_reader_core::memory::compact::Value;
use cntk_reader_core::runtime::log::Level;

/// Reads one sequence from its bytes, `text`, and commits it. `text` is shorter than the span only
/// if the file ends early.
pub(crate) fn read_sequence<T: Value>(
    rules: &Rules,
    span: &SequenceSpan,
    text: &[u8],
    output: &mut Output<T>,
    report: &mut Report<'_>,
) -> Result<(), Stop> {
    let context = Context { key: span.key, stream: None };
    let mut reader = Reader { rules, span, text, at: 0, context, output, report, unusual: None };
    let lines = reader.lines()?;
    if (text.len() as u64) < u64::from(span.size) {
        // CNTK retries reading a line here, and fails each time, until the errors exceed the limit.
        reader.note(Cause::FileEnded);
        return Err(reader.report.failure(false, context, None));
    }
    reader.check(lines)
}

/// Returns the numbers of a sequence that do not fit the type of their values, which reading
/// delivers without a note: the cause and offset of each, and its stream. Numbers in samples that
/// are left out are not included.
pub(crate) fn unusual_numbers<T: Value>(
    rules: &Rules,
    span: &SequenceSpan,
    text: &[u8],
) -> Vec<(Cause, u64, Context)> {
    let mut output = Output::<T>::default();
    output.reset(rules);
    let mut report = Report::silent(rules, u64::MAX);
    let context = Context { key: span.key, stream: None };
    let unusual = Some(Vec::new());
    let mut reader =
        Reader { rules, span, text, at: 0, context, output: &mut output, report: &mut report, unusual };
    // Without a limit of errors, the reader stops only at the end of the text.
    let _lines = reader.lines();
    reader.unusual.unwrap_or_default()
}

struct Reader<'a, 'r, T> {
    rules: &'a Rules,
    span: &'a SequenceSpan,
    text: &'a [u8],
    at: usize,
    context: Context,
    output: &'a mut Output<T>,
    report: &'a mut Report<'r>,
    /// Numbers that do not fit the type of their values, if they are wanted.
    unusual: Option<Vec<(Cause, u64, Context)>>,
}

impl<T: Value> Reader<'_, '_, T> {
    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn offset(&self) -> u64 {
        self.span.offset + self.at as u64
    }

    fn note(&mut self, cause: Cause) {
        let offset = self.offset();
        self.report.note(cause, offset, self.context);
    }

    /// Counts an error at the offset of the last recorded cause.
    fn error(&mut self) -> Result<(), Stop> {
        self.report.count(self.context, None)
    }

    fn skip_digits(&mut self) {
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
    }

    /// Skips the id of a line. CNTK skips only digits, so textual ids are errors if its rules
    /// apply.
    fn skip_id(&mut self) {
        let start = self.at;
        self.skip_digits();
        if self.rules.refuses_text_ids || self.rules.corpus.is_numeric() {
            return;
        }
        let line = &self.text[start..];
        let length = line.iter().position(|&byte| byte == b'|' || is_space(byte)).unwrap_or(line.len());
        // A `|` right after the id belongs to it and cannot begin a sample: an error, as in CNTK.
        if length > self.at - start && line.get(length).is_some_and(|&byte| byte != b'|') {
            if self.report.is_collected() {
                self.note(Cause::TextId(line[0]));
            }
            self.at = start + length;
        }
    }

    /// Reads all lines and returns the number of good ones.
    fn lines(&mut self) -> Result<usize, Stop> {
        let (mut line, mut good) = (0, 0);
        while self.at < self.text.len() {
            line += 1;
            let start = self.offset();
            if self.line()? {
                good += 1;
            } else {
                self.note(Cause::BadLine { line });
                self.report.count(self.context, Some(start))?;
            }
        }
        if good < self.span.samples as usize {
            self.note(Cause::FewLines { lines: good, expected: self.span.samples });
        }
        Ok(good)
    }

    /// Reads one line: an id, which is skipped, and samples up to the line break. Returns false if
    /// the line has no sample.
    fn line(&mut self) -> Result<bool, Stop> {
        self.skip_id();
        let mut samples = 0;
        while let Some(byte) = self.peek() {
            if byte == b'\n' {
                self.at += 1;
                if samples == 0 {
                    self.note(Cause::EmptyLine);
                    return Ok(false);
                }
                if samples > self.rules.streams.len() {
                    self.note(Cause::CrowdedLine { samples });
                }
                return Ok(true);
            }
            if is_value_delimiter(byte) || is_non_printable(byte) {
                self.at += 1;
            } else if self.sample()? {
                samples += 1;
            } else {
                self.skip_sample();
            }
        }
        // Range's end: a line is good even without a sample.
        self.note(Cause::Ended(IN_LINE));
        Ok(true)
    }

    fn skip_sample(&mut self) {
        let rest = &self.text[self.at..];
        self.at += memchr::memchr2(b'|', b'\n', rest).unwrap_or(rest.len());
    }

    /// Reads one sample; returns false if there is none to keep.
    fn sample(&mut self) -> Result<bool, Stop> {
        let stream = match self.name() {
            Name::Stream(stream) => stream,
            Name::Unknown => return Ok(false),
            Name::Error => {
                self.error()?;
                return Ok(false);
            }
        };
        self.context.stream = Some(stream);
        let (before, typed) = {
            let column = &self.output.columns[stream];
            (column.values.len(), column.typed.len())
        };
        let unusual = self.unusual.as_ref().map_or(0, Vec::len);
        let rule = &self.rules.streams[stream];
        let good = match rule.sparse {
            true => self.sparse(stream) && (!rule.is_ids() || self.is_id(stream, before)),
            false => self.dense(stream),
        };
        let column = &mut self.output.columns[stream];
        if good {
            column.samples += 1;
            if self.rules.streams[stream].sparse {
                column.offsets.push(column.values.len() as u32);
            }
        } else {
            column.truncate(before);
            column.typed.truncate(typed);
            if let Some(all) = &mut self.unusual {
                all.truncate(unusual);
            }
            self.error()?;
        }
        self.context.stream = None;
        Ok(good)
    }

    fn name(&mut self) -> Name {
        match self.peek() {
            Some(b'|') => self.at += 1,
            Some(found) => {
                let line = memchr::memrchr(b'\n', &self.text[..self.at]).map_or(0, |end| end + 1);
                let before = &self.text[line..self.at];
                let is_text = before.is_empty() && !self.rules.corpus.is_numeric();
                self.note(match (is_text, BadId::of(before, found)) {
                    (true, _) if self.rules.refuses_text_ids => Cause::TextId(found),
                    (true, _) => Cause::BadId { found, why: BadId::Glued },
                    (false, Some(why)) => Cause::BadId { found, why },
                    (false, None) => Cause::NoPrefix(found),
                });
                return Name::Error;
            }
            None => return Name::Error,
        }
        if self.peek() == Some(b'#') {
            self.at += 1;
            return Name::Unknown;
        }
        let (text, start) = (self.text, self.at);
        while let Some(byte) = self.peek() {
            let name = &text[start..self.at];
            if ends_name(byte) || byte == b'\t' {
                if name.is_empty() {
                    self.note(Cause::NoName(byte));
                    return Name::Error;
                }
                return match self.rules.streams.iter().position(|stream| stream.alias == name) {
                    Some(stream) => Name::Stream(stream),
                    None => {
                        self.report.unknown_name(sample_at(text, start));
                        self.skipping(name, false);
                        Name::Unknown
                    }
                };
            }
            if name.len() == self.rules.longest_alias {
                self.report.unknown_name(sample_at(text, start));
                if self.rules.refuses_long_names {
                    self.note(Cause::LongName);
                    return Name::Error;
                }
                self.skipping(name, true);
                return Name::Unknown;
            }
            self.at += 1;
        }
        // Range's end: even a name that matches no stream is an error.
        self.note(Cause::Ended("an input name"));
        Name::Error
    }

    fn skipping(&mut self, name: &[u8], is_prefix: bool) {
        if self.report.shows(Level::Info) {
            let at = format!("at offset {} in the input file ({})", self.offset(), self.rules.file);
            let (name, length) = (String::from_utf8_lossy(name), name.len());
            let line = if is_prefix {
                format!(
                    "Skipping unknown input {at}. Input name (with the {length}-character prefix '{name}') exceeds \
                     the maximum expected length ({length})."
                )
            } else {
                format!(
                    "Skipping unknown input ('{name}') {at}. Input name '{name}' was not specified in the reader \
                     config section."
                )
            };
            self.report.line(Level::Info, line);
        }
    }

    fn dense(&mut self, stream: usize) -> bool {
        let StreamRule { dim, typed, .. } = self.rules.streams[stream];
        let mut count = 0;
        while let Some(byte) = self.peek() {
            if is_value_delimiter(byte) {
                self.at += 1;
                continue;
            }
            if is_non_printable(byte) || byte == b'|' {
                if count > dim {
                    self.note(Cause::LongSample { dim, values: count });
                    return false;
                }
                if count < dim {
                    self.note(Cause::ShortSample { dim, values: count });
                }
                self.fill(stream);
                return true;
            }
            let read = match typed {
                None => self.number().map(|value| self.output.columns[stream].values.push(value)),
                Some(typed) => self.typed_number(typed, stream),
            };
            if read.is_none() {
                return false;
            }
            count += 1;
        }
        // Range's end: any number of values is good except none. CNTK drops values beyond the
        // dimension, and delivers uninitialised memory for missing ones; here these are zeros.
        self.note(Cause::Ended("a dense sample"));
        self.fill(stream);
        count > 0
    }

    /// Adds zeros to the last sample of a dense stream, or drops values, to give it the right size.
    fn fill(&mut self, stream: usize) {
        let rule = &self.rules.streams[stream];
        let column = &mut self.output.columns[stream];
        let length = column.samples.saturating_add(1).saturating_mul(rule.dim);
        match rule.typed {
            None => fill(&mut column.values, length),
            Some(typed) => fill(&mut column.typed, length.saturating_mul(typed.element().size())),
        }
    }

    /// Whether a sample of ids is valid. Its entries follow the first `before` entries.
    fn is_id(&mut self, stream: usize, before: usize) -> bool {
        let cause = match self.output.columns[stream].values.get(before..) {
            Some([value]) if *value == T::from_u16(1) => return true,
            Some([_]) => Cause::WeightedId,
            entries => Cause::NoId { entries: entries.map_or(0, <[T]>::len) },
        };
        self.note(cause);
        false
    }

    /// Reads a value of a stream with its own type.
    fn typed_number(&mut self, typed: Typed, stream: usize) -> Option<()> {
        let start = self.at;
        let number = self.read_number()?;
        let text = &self.text[start..self.at];
        match typed.push(text, number, &mut self.output.columns[stream].typed) {
            Ok(Stored { is_finite, is_zero }) => {
                if self.unusual.is_some() {
                    self.look_at(is_finite, is_zero, number, start);
                }
                Some(())
            }
            Err(misfit) => {
                let cause = Cause::Misfit { misfit, element: typed.element(), found: Excerpt::new(text) };
                // Report the offset at which the value begins.
                self.at = start;
                self.note(cause);
                None
            }
        }
    }

    fn sparse(&mut self, stream: usize) -> bool {
        let dim = self.rules.streams[stream].dim;
        while let Some(byte) = self.peek() {
            if is_value_delimiter(byte) {
                self.at += 1;
                continue;
            }
            if is_non_printable(byte) || byte == b'|' {
                return true;
            }
            let Some(index) = self.integer() else { return false };
            if index >= dim as u64 {
                self.note(Cause::IndexTooLarge { index, dim });
                return false;
            }
            match self.peek() {
                Some(b':') => self.at += 1,
                found => {
                    self.note(Cause::NoColon { index, found: found.unwrap_or(b' ') });
                    return false;
                }
            }
            let Some(value) = self.number() else { return false };
            let column = &mut self.output.columns[stream];
            column.values.push(value);
            column.indices.push(index as i32);
        }
        // Range's end: the sample is good if the stream has any entry in this sequence, in any of
        // its samples.
        self.note(Cause::Ended("a sparse sample"));
        self.output.columns[stream].values_here() > 0
    }

    fn number(&mut self) -> Option<T> {
        let start = self.at;
        let number = self.read_number()?;
        let value = T::from_f64(number);
        if self.unusual.is_some() {
            self.look_at(value.is_finite(), value == T::default(), number, start);
        }
        Some(value)
    }

    fn read_number(&mut self) -> Option<f64> {
        let reading = number::read(&self.text[self.at..]);
        self.at += reading.length;
        if reading.at_end {
            self.note(Cause::Ended(IN_LINE));
        }
        match reading.value {
            Ok(number) => Some(number),
            Err(flaw) => {
                self.note(Cause::Number(flaw));
                None
            }
        }
    }

    /// Records the number that begins at byte `start` if it does not fit the type of its value.
    #[cold]
    fn look_at(&mut self, is_finite: bool, is_zero: bool, number: f64, start: usize) {
        let digits = self.text[start..self.at].iter().take_while(|byte| !matches!(byte, b'e' | b'E'));
        let cause = match is_finite {
            false => Cause::NotFinite { is_nan: number.is_nan() },
            true if is_zero && digits.clone().any(|byte| (b'1'..=b'9').contains(byte)) => Cause::Underflow,
            true => return,
        };
        let found = (cause, self.span.offset + start as u64, self.context);
        self.unusual.get_or_insert_default().push(found);
    }

    fn integer(&mut self) -> Option<u64> {
        let mut value = None;
        while let Some(byte) = self.peek() {
            if !byte.is_ascii_digit() {
                if value.is_none() {
                    self.note(Cause::NoIndex(byte));
                }
                return value;
            }
            let sum = value.unwrap_or(0u64);
            // CNTK's overflow check, which misses some overflows.
            let next = sum.wrapping_mul(10).wrapping_add(u64::from(byte - b'0'));
            if next < sum {
                self.note(Cause::IndexOverflow);
                return None;
            }
            value = Some(next);
            self.at += 1;
        }
        self.note(Cause::Ended("a uint64 value"));
        None
    }

    /// Checks the lengths of the streams after all lines are read, and commits the sequence or
    /// leaves it out.
    fn check(&mut self, lines: usize) -> Result<(), Stop> {
        let start = Some(self.span.offset);
        let expected = self.span.samples;
        let mut empty = None;
        for stream in 0..self.rules.streams.len() {
            if self.output.columns[stream].samples_here() == 0 {
                let level = if self.rules.strict { Level::Error } else { Level::Warning };
                let context = Context { stream: Some(stream), ..self.context };
                let offset = self.offset();
                self.report.note_as(level, Cause::EmptyStream, offset, context);
                empty = empty.or(Some(context));
            }
        }
        if let Some(context) = empty {
            if self.rules.strict {
                return Err(self.report.failure(true, context, start));
            }
            // Leaving the sequence out is no error: the chunk counts these sequences separately.
            self.output.skip();
            return Ok(());
        }

        let considered = match self.rules.main {
            Some(main) => main..main + 1,
            None => 0..self.rules.streams.len(),
        };
        let mut longest = 0;
        let mut too_long = None;
        for stream in considered {
            let samples = self.output.columns[stream].samples_here();
            longest = longest.max(samples);
            if samples > expected as usize {
                let context = Context { stream: Some(stream), ..self.context };
                let offset = self.offset();
                let follows = |at: usize| self.text.get(at + 1).is_some_and(|next| !b"\r\n".contains(next));
                let lone_returns = memchr::memchr_iter(b'\r', self.text).any(follows);
                let cause = Cause::TooManySamples { samples, expected, lone_returns };
                self.report.note(cause, offset, context);
                too_long = Some(context);
            }
        }
        if let Some(context) = too_long {
            self.report.count(context, start)?;
        } else if longest < expected as usize && self.rules.strict {
            self.note(Cause::TooFewSamples { samples: longest, expected });
            self.report.count(self.context, start)?;
        }
        if self.report.shows(Level::Info) {
            let line = format!(
                "Finished loading sequence (id = {}) at offset {} in the input file ({}), successfully read {lines} out \
                 of expected {expected} rows.",
                self.rules.key_text(self.span.key),
                self.offset(),
                self.rules.file
            );
            self.report.line(Level::Info, line);
        }
        self.output.commit();
        Ok(())
    }
}

/// Adds zeros, or drops values, to make `length` values.
fn fill<V: bytemuck::Zeroable + Clone>(values: &mut ScratchVec<V>, length: usize) {
    values.truncate(length);
    let missing = length - values.len();
    // If there is no memory for them, `check_memory` rejects the whole output.
    if let Some(spare) = values.spare(missing).and_then(|spare| spare.get_mut(..missing)) {
        spare.fill(V::zeroed());
        values.advance(missing);
    }
}

/// Returns the bytes from `start` up to the next name or the end of the line.
fn sample_at(text: &[u8], start: usize) -> &[u8] {
    let rest = text.get(start..).unwrap_or_default();
    &rest[..memchr::memchr2(b'|', b'\n', rest).unwrap_or(rest.len())]
}

enum Name {
    Stream(usize),
    /// An unknown name or a comment, which is skipped without an error.
    Unknown,
    /// An error whose cause has been recorded.
    Error,
}
