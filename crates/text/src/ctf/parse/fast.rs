//! The fast path: a parser for well-formed sequences.
//!
//! Nearly all sequences are well-formed, end with a line break, and cause no message. This parser
//! reads those. It gives up at anything unusual; its caller then rolls back its output and lets the
//! exact parser read the sequence. So this parser never decides what is an error: it only has to be
//! sure that there is none. A text that ends too early is unusual as well, so each access checks
//! its place and bails out by `?`.
//!
//! The text has [`FRONT`] bytes before it and [`PADDING`] bytes after it, so that blocks near its
//! ends are in bounds.

use super::blocks::Place;
use super::collect::UnknownNames;
use super::names::{self, Stream};
use super::output::{Column, Output};
use super::report::Report;
use super::rules::{Rules, ends_name, is_non_printable, is_value_delimiter};
use super::simd::{BLOCK, LEAD, Simd, TAIL, Window};
use super::uniform_lines::{self, Template};
use super::{dense, sparse};
use crate::ctf::index::SequenceSpan;
use cntk_reader_core::cpu::digits::{leading_digits, load8};
use cntk_reader_core::cpu::processor::{Processor, dispatch};
use cntk_reader_core::memory::compact::Value;
use cntk_reader_core::runtime::log::Level;

/// Bytes after a text that this parser may read.
pub(crate) const PADDING: usize = BLOCK + TAIL;

/// Bytes before a text that this parser may read.
pub(crate) const FRONT: usize = LEAD;

/// The parser for one file.
#[derive(Debug)]
pub(crate) struct Fast {
    /// The streams of the file.
    pub streams: Vec<Stream>,
    longest_alias: usize,
    refuses_long_names: bool,
    main: Option<usize>,
    strict: bool,
    /// Whether no warnings are shown, so that text that only causes warnings can be read here.
    quiet: bool,
    /// Whether each sequence causes a message.
    verbose: bool,
    /// The streams whose samples must be a single entry of value 1.
    ids: Vec<usize>,
    /// Whether ids may be text.
    has_text_ids: bool,
    /// Whether lines with textual ids count as errors, although they are read.
    refuses_text_ids: bool,
    processor: Processor,
}

impl Fast {
    /// Prepares the parser of a file with these rules.
    pub fn new(rules: &Rules) -> Fast {
        Fast {
            streams: rules.streams.iter().map(Stream::new).collect(),
            longest_alias: rules.longest_alias,
            refuses_long_names: rules.refuses_long_names,
            main: rules.main,
            strict: rules.strict,
            quiet: !rules.log.shows(Level::Warning),
            verbose: rules.log.shows(Level::Info),
            ids: (0..rules.streams.len()).filter(|&stream| rules.streams[stream].is_ids()).collect(),
            has_text_ids: !rules.corpus.is_numeric(),
            refuses_text_ids: rules.refuses_text_ids,
            processor: Processor::detect(),
        }
    }

    /// Like [`Fast::new`], for another instruction set.
    #[cfg(test)]
    pub fn on(rules: &Rules, processor: Processor) -> Fast {
        Fast { processor, ..Fast::new(rules) }
    }

    /// Returns the parser for the sequences of one segment.
    pub fn segment(&self) -> FastSegment<'_> {
        let count = self.streams.len();
        let following = (1..count).chain([0, 0]).collect();
        FastSegment {
            fast: self,
            template: Template::new(self.has_text_ids),
            following,
            unknown: None,
            lines: 0,
            text_ids: 0,
        }
    }

    /// Whether the lengths of the streams cause no message.
    fn is_complete<T: Value>(&self, expected: u32, output: &Output<T>) -> bool {
        let mut longest = 0;
        for (i, column) in output.columns.iter().enumerate() {
            let samples = column.samples_here();
            if samples == 0 {
                return false;
            }
            if self.main.is_none_or(|main| main == i) {
                longest = longest.max(samples);
            }
        }
        longest == expected as usize || (longest < expected as usize && !self.strict)
    }
}

/// The parser for one segment: it remembers the form of lines.
#[derive(Debug)]
pub(crate) struct FastSegment<'a> {
    fast: &'a Fast,
    template: Template,
    /// The stream that last followed each stream, and the one that last began a run of lines.
    following: Vec<usize>,
    /// Names that belong to no stream, if they are wanted.
    pub unknown: Option<UnknownNames>,
    /// Number of lines of the sequence so far.
    lines: u32,
    /// Number of these lines that begin with a textual id.
    text_ids: u64,
}

impl FastSegment<'_> {
    /// Reads the sequence that begins at byte `at` of the text and commits it. If anything is
    /// unusual, returns false, with part of it written and nothing committed.
    pub fn read_sequence<T: Value>(
        &mut self,
        span: &SequenceSpan,
        text: &[u8],
        at: usize,
        output: &mut Output<T>,
        report: &mut Report<'_>,
    ) -> bool {
        let end = at + span.size as usize;
        self.begin();
        span.size > 0 && self.read_lines(text, at, end, output) && self.finish(span, output, report)
    }

    /// Begins a sequence.
    pub fn begin(&mut self) {
        (self.lines, self.text_ids) = (0, 0);
    }

    /// Reads the sequence's next lines, between bytes `at` and `end` of the text. Returns false at
    /// anything unusual.
    pub fn read_lines<T: Value>(
        &mut self,
        text: &[u8],
        mut at: usize,
        end: usize,
        output: &mut Output<T>,
    ) -> bool {
        let processor = self.fast.processor;
        if self.fast.verbose || text.get(end - 1) != Some(&b'\n') {
            return false;
        }
        while at < end {
            let read = match self.template.is_known() {
                true => lines_by_template(processor, self, text, at, end, output),
                false => lines(processor, self, text, at, end, output),
            };
            let Some(after) = read else { return false };
            at = after;
        }
        true
    }

    /// Commits the sequence, if it causes no message.
    pub fn finish<T: Value>(
        &mut self,
        span: &SequenceSpan,
        output: &mut Output<T>,
        report: &mut Report<'_>,
    ) -> bool {
        let fast = self.fast;
        let is_whole = (self.lines >= span.samples || fast.quiet) && fast.is_complete(span.samples, output);
        let are_ids = |&stream: &usize| output.columns.get(stream).is_some_and(Column::is_one_hot_here);
        if !is_whole || !fast.ids.iter().all(are_ids) || self.text_ids > 0 && !self.count_text_ids(report) {
            return false;
        }
        output.commit();
        true
    }

    /// Counts the lines of the sequence that begin with textual ids. Returns false if one of them
    /// needs a message.
    fn count_text_ids(&self, report: &mut Report<'_>) -> bool {
        if self.fast.refuses_text_ids { report.count_text_ids(self.text_ids) } else { !report.is_collected() }
    }
}

dispatch! {
    /// Reads lines up to byte `end` of the text, or until the template is known. Returns the place
    /// after them, or `None` at anything unusual.
    fn lines<T: Value>(
        segment: &mut FastSegment<'_>,
        text: &[u8],
        at: usize,
        end: usize,
        output: &mut Output<T>,
    ) -> Option<usize> = lines_with::<false>;
}

dispatch! {
    /// Reads lines up to byte `end` of the text, or as long as the template is known. Returns the
    /// place after them, or `None` at anything unusual.
    fn lines_by_template<T: Value>(
        segment: &mut FastSegment<'_>,
        text: &[u8],
        at: usize,
        end: usize,
        output: &mut Output<T>,
    ) -> Option<usize> = lines_with::<true>;
}

/// Body of [`lines`] and [`lines_by_template`]. One function for both would load the constants of
/// templates for all lines.
#[inline(always)]
fn lines_with<const BY_TEMPLATE: bool>(
    simd: impl Simd,
    segment: &mut FastSegment<'_>,
    text: &[u8],
    mut at: usize,
    end: usize,
    output: &mut Output<impl Value>,
) -> Option<usize> {
    let mut before = segment.fast.streams.len();
    while at < end && segment.template.is_known() == BY_TEMPLATE {
        if BY_TEMPLATE {
            let taken = uniform_lines::read(simd, text, at, end, &mut segment.template, output)?;
            if taken.lines > 0 {
                at = taken.end;
                segment.lines += taken.lines;
                segment.text_ids += taken.text_ids;
                continue;
            }
        }
        at = line(simd, segment, text, at, end, &mut before, output)?;
    }
    Some(at)
}

/// Reads the line at byte `at` of the text, in a sequence that ends at byte `end`, and returns the
/// place after it. Every scan (digits, names, samples, comments) ends at the end of the line at the
/// latest. `before` is the stream of the previous sample.
#[inline(always)]
fn line<T: Value, S: Simd>(
    simd: S,
    segment: &mut FastSegment<'_>,
    text: &[u8],
    mut at: usize,
    end: usize,
    before: &mut usize,
    output: &mut Output<T>,
) -> Option<usize> {
    let FastSegment { fast, template, following, unknown, lines, text_ids } = segment;
    let streams = &fast.streams[..];
    let start = at;
    // The id.
    loop {
        let (digits, _) = leading_digits(load8(text, at)?);
        at += digits as usize;
        if digits < 8 {
            break;
        }
    }
    if fast.has_text_ids && at == start && begins_text(*text.get(at)?) {
        *text_ids += 1;
        let after = skip(simd, text, at, end)?;
        // Only blanks may be between the id and the first `|`; `exact` reads anything else.
        let id = text.get(at..after)?;
        let is_space = |byte: &u8| is_value_delimiter(*byte);
        let length = id.iter().position(is_space)?;
        if !id.get(length..)?.iter().all(is_space) {
            return None;
        }
        at = after;
    }
    let mut samples = 0;
    loop {
        let byte = *text.get(at)?;
        if byte == b'|' {
            at += 1;
            if text.get(at) == Some(&b'#') {
                at = skip(simd, text, at, end)?;
                continue;
            }
            let guess = following.get_mut(*before)?;
            let Some((stream, length)) = names::find(streams, text, at, *guess) else {
                at = fast.unknown(text, at, end, unknown)?;
                continue;
            };
            *guess = stream;
            *before = stream;
            let (rule, column) = (streams.get(stream)?, output.columns.get_mut(stream)?);
            at += length;
            at = if rule.sparse {
                sparse::read(simd, text, at, end, rule.dim, column)?
            } else if rule.typed.is_some() {
                fast.typed(simd, rule, text, at, end, column)?
            } else {
                fast.dense(simd, text, at, end, rule.dim, column)?
            };
            column.samples += 1;
            samples += 1;
        } else if byte == b'\n' {
            at += 1;
            break;
        } else if byte == b' ' || is_non_printable(byte) {
            at += 1;
        } else {
            return None;
        }
    }
    if samples == 0 || (samples > streams.len() && !fast.quiet) {
        return None;
    }
    *lines += 1;
    if S::UNIFORM_LINES {
        template.see(text.get(start..at)?, streams);
    }
    Some(at)
}

impl Fast {
    /// Skips an unknown input: a name at byte `at` of the text and its sample. `None` if there is
    /// no name, or one that may be an error.
    #[cold]
    fn unknown(
        &self,
        text: &[u8],
        at: usize,
        end: usize,
        unknown: &mut Option<UnknownNames>,
    ) -> Option<usize> {
        if ends_name(*text.get(at)?) || self.longest_alias == 0 || self.refuses_long_names {
            return None;
        }
        let after = at + memchr::memchr2(b'|', b'\n', text.get(at..end)?)?;
        if let Some(unknown) = unknown {
            unknown.see(text.get(at..after)?);
        }
        Some(after)
    }

    /// Like [`Fast::dense`], for a stream with its own type. Cold, so that the loop over lines
    /// keeps its registers.
    #[cold]
    #[inline(never)]
    fn typed<T: Value>(
        &self,
        simd: impl Simd,
        stream: &Stream,
        text: &[u8],
        at: usize,
        end: usize,
        column: &mut Column<T>,
    ) -> Option<usize> {
        let (dim, typed) = (stream.dim, stream.typed?);
        if dim > (end - at) / 2 && !self.quiet {
            return None;
        }
        typed.read(simd, text, at, dim, self.quiet, (&mut column.numbers, &mut column.typed))
    }

    /// Reads one dense sample from byte `at` of the text into `column`, and returns the place after
    /// it.
    #[inline(always)]
    fn dense<T: Value, S: Simd>(
        &self,
        simd: S,
        text: &[u8],
        at: usize,
        end: usize,
        dim: usize,
        column: &mut Column<T>,
    ) -> Option<usize> {
        // Each value takes at least two bytes. This keeps an absurd dimension from allocating
        // memory.
        if dim > (end - at) / 2 && !self.quiet {
            return None;
        }
        let out = column.values.spare(dim.checked_add(dense::SLACK)?)?;
        let Place { at, count } = dense::read(simd, text, at, out, dim)?;
        if count < dim {
            if !self.quiet {
                return None;
            }
            out.get_mut(count..dim)?.fill(T::default());
        }
        column.values.advance(dim);
        Some(at)
    }
}

/// Whether a byte at the start of a line begins a textual id.
#[inline(always)]
fn begins_text(byte: u8) -> bool {
    !ends_name(byte)
}

/// Returns the place of the next `|` or line break. Comments are short: most of them end in the
/// current block, and looking there is faster than a call.
#[inline(always)]
fn skip<S: Simd>(simd: S, text: &[u8], at: usize, end: usize) -> Option<usize> {
    let window = Window::at(text, at)?;
    let ends = simd.equal(window, b'|') | simd.equal(window, b'\n');
    if ends != 0 {
        return Some(at + ends.trailing_zeros() as usize);
    }
    let at = at + BLOCK;
    Some(at + memchr::memchr2(b'|', b'\n', text.get(at..end)?)?)
}
