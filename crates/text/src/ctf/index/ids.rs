//! Id mode: consecutive lines with the same id, together with the lines without an id after them,
//! are one sequence.

use super::breaks::Breaks;
use super::known_id::KnownId;
use super::main_stream::{Needle, Search};
use super::number::Digits;
use super::scan::Scanner;
use super::start::{LINE_UNKNOWN, Start, is_space};
use super::table::{Record, TableBuilder};
use cntk_reader_core::corpus::Corpus;
use cntk_reader_core::memory::room;
use cntk_reader_core::sequence::SequenceKey;
use cntk_reader_core::{Error, Result};
use memchr::memchr;
use std::ops::Range;

/// Scanner of id mode, with the runs of lines under one id that it found in its range.
pub(super) struct IdScanner<'a> {
    corpus: &'a Corpus,
    search: Option<Search<'a>>,
    state: IdState,
    range: Range<u64>,
    /// Offset of the next block.
    at: u64,
    /// Number of counted lines before the first id: they belong to the last run of an earlier
    /// range.
    head: u32,
    /// Starts of the runs, relative to the range.
    starts: Vec<u32>,
    /// Numbers of counted lines of the runs.
    samples: Vec<u32>,
    /// Keys of the runs ...
    keys: Vec<SequenceKey>,
    /// ... or, if they are symbolic, their texts and the ends of these. They are numbered when
    /// ranges are joined, in the order of the file.
    texts: Vec<u8>,
    text_ends: Vec<usize>,
    /// The id of the last run, if it has several lines.
    known: KnownId,
    /// Number of lines that start in the range.
    lines: u32,
    /// Start of the line whose id is too large.
    overflow: Option<u64>,
    /// An error if there was no memory for all runs.
    memory: Result<()>,
}

#[derive(Debug)]
enum IdState {
    /// In a line that started before the range.
    Before,
    /// At the first byte of a line.
    Start,
    /// In a numeric id; its digits so far have this value.
    Number { value: u64, start: u32 },
    /// In a textual id; its text so far.
    Text { text: Vec<u8>, start: u32 },
    /// After the id of a line that started in an earlier block.
    Within {
        /// Whether the line has been counted.
        counted: bool,
    },
    /// At a line of the next range.
    Done,
}

impl<'a> IdScanner<'a> {
    pub fn new(corpus: &'a Corpus, main_stream: Option<&'a Needle>) -> Self {
        IdScanner {
            corpus,
            search: main_stream.map(Search::new),
            state: IdState::Done,
            range: 0..0,
            at: 0,
            head: 0,
            starts: Vec::new(),
            samples: Vec::new(),
            keys: Vec::new(),
            texts: Vec::new(),
            text_ends: Vec::new(),
            known: KnownId::default(),
            lines: 0,
            overflow: None,
            memory: Ok(()),
        }
    }

    /// Enters a numeric id at the start of a line. Returns whether it is the id of the last run.
    #[inline]
    fn enter_key(&mut self, key: SequenceKey, start: u32) -> bool {
        if self.keys.last() == Some(&key) {
            return true;
        }
        let entered = room::push(&mut self.keys, key, room::INDEX).and_then(|()| self.begin_run(start));
        self.note(entered);
        false
    }

    /// Begins a run without samples.
    #[inline]
    fn begin_run(&mut self, start: u32) -> Result<()> {
        self.known = KnownId::default();
        room::push(&mut self.starts, start, room::INDEX)?;
        room::push(&mut self.samples, 0, room::INDEX)
    }

    /// Records that there was no memory: [`Scanner::feed`] fails once it has read its block.
    #[inline]
    fn note(&mut self, outcome: Result<()>) {
        if outcome.is_err() {
            self.memory = outcome;
        }
    }

    /// Enters a textual id at the start of a line. Returns whether it is the id of the last run.
    fn enter_text(&mut self, text: &[u8], start: u32) -> bool {
        if self.corpus.is_hashed() {
            // A hash takes no memory, and every text has one.
            let hash = self.corpus.number_of(text).ok().flatten().unwrap_or_default();
            return self.enter_key(hash, start);
        }
        if self.last_text() == Some(text) {
            return true;
        }
        let entered = room::extend(&mut self.texts, text, room::KEYS)
            .and_then(|()| room::push(&mut self.text_ends, self.texts.len(), room::KEYS))
            .and_then(|()| self.begin_run(start));
        self.note(entered);
        false
    }

    /// Remembers the first `len` bytes of a line, which are the id of the last run, if more lines
    /// with it are likely.
    #[inline]
    fn learn_id(&mut self, line: &[u8], len: usize) {
        if self.samples.last().is_some_and(|&samples| samples > 1) {
            self.known = KnownId::new(line, len);
        }
    }

    /// Returns the textual id of the last run, if there is one and its text is kept.
    #[inline]
    fn last_text(&self) -> Option<&[u8]> {
        match *self.text_ends.as_slice() {
            [] => None,
            [end] => Some(&self.texts[..end]),
            [.., begin, end] => Some(&self.texts[begin..end]),
        }
    }

    /// Counts the current line as one sample.
    #[inline]
    fn count(&mut self) {
        *self.samples.last_mut().unwrap_or(&mut self.head) += 1;
    }

    /// Reads the id at the start of a line, whose first byte is `block[from]`. Returns the position
    /// after the id, or `None` if the block ends first.
    #[inline]
    fn read_id(&mut self, block: &[u8], from: usize, start: u32) -> Option<usize> {
        let rest = &block[from..];
        // Most lines have the same id as the previous line.
        if let Some(len) = self.known.find(rest) {
            return Some(from + len);
        }
        if !self.corpus.is_numeric() {
            // A stored text is recognized at any length.
            if let Some(last) = self.last_text()
                && let Some(&[next, ..]) = rest.strip_prefix(last)
                && is_space(next)
            {
                return Some(from + last.len());
            }
            let len = rest.iter().position(|&byte| is_space(byte));
            match len {
                Some(0) => {}
                Some(len) => {
                    if self.enter_text(&rest[..len], start) {
                        self.learn_id(rest, len);
                    }
                }
                None => {
                    let text = room::copy(rest, room::KEYS);
                    let kept = text.map(|text| self.state = IdState::Text { text, start });
                    self.note(kept);
                }
            }
            return len.map(|len| from + len);
        }
        match Digits::read(rest) {
            Digits { value: None, .. } => {
                self.fail(start);
                None
            }
            Digits { value: Some(value), len } if len == rest.len() => {
                self.state = IdState::Number { value, start };
                None
            }
            Digits { value: Some(value), len } => {
                if len > 0 && self.enter_key(value, start) {
                    self.learn_id(rest, len);
                }
                Some(from + len)
            }
        }
    }

    /// Continues an id that began in an earlier block.
    fn continue_id(&mut self, block: &[u8]) -> Option<usize> {
        match &mut self.state {
            IdState::Number { value, start } => {
                let start = *start;
                match Digits::continue_from(*value, block) {
                    Digits { value: None, .. } => {
                        self.fail(start);
                        None
                    }
                    Digits { value: Some(now), len } if len == block.len() => {
                        *value = now;
                        None
                    }
                    Digits { value: Some(now), len } => {
                        self.enter_key(now, start);
                        Some(len)
                    }
                }
            }
            IdState::Text { text, start } => {
                let len = block.iter().position(|&byte| is_space(byte));
                let kept = room::extend(text, &block[..len.unwrap_or(block.len())], room::KEYS);
                let (text, start) = (len.map(|_| std::mem::take(text)), *start);
                self.note(kept);
                let (len, text) = (len?, text?);
                self.enter_text(&text, start);
                Some(len)
            }
            _ => None,
        }
    }

    fn fail(&mut self, start: u32) {
        self.overflow = Some(self.range.start + u64::from(start));
        self.state = IdState::Done;
    }

    /// Reads a line from the end of its id to its end, and counts it. Returns the start of the next
    /// line, or `None` if the block ends first.
    #[inline]
    fn read_body(&mut self, block: &[u8], from: usize, line_end: Option<usize>) -> Option<usize> {
        let counted = match &mut self.search {
            None => true,
            Some(search) => {
                let found = search.finds(block, from, line_end.unwrap_or(block.len()));
                if !found && line_end.is_none() {
                    search.leave_line(&block[from..]);
                }
                found
            }
        };
        if counted {
            self.count();
        }
        self.end_line(line_end, counted)
    }

    /// Continues a line whose id ended in an earlier block.
    fn continue_body(&mut self, block: &[u8], counted: bool) -> Option<usize> {
        let line_end = memchr(b'\n', block);
        let across = match &mut self.search {
            Some(search) if !counted => search.finds_across(block, line_end.unwrap_or(block.len())),
            _ => false,
        };
        if across {
            self.count();
        }
        self.end_line(line_end, counted || across)
    }

    #[inline]
    fn end_line(&mut self, line_end: Option<usize>, counted: bool) -> Option<usize> {
        if line_end.is_none() {
            self.state = IdState::Within { counted };
        }
        line_end.map(|end| end + 1)
    }
}

impl Scanner for IdScanner<'_> {
    fn begin(&mut self, range: Range<u64>, at_line: bool) {
        self.at = if at_line { range.start } else { range.start - 1 };
        self.range = range;
        self.state = if at_line { IdState::Start } else { IdState::Before };
        self.head = 0;
        self.starts.clear();
        self.samples.clear();
        self.keys.clear();
        self.texts.clear();
        self.text_ends.clear();
        self.known = KnownId::default();
        self.lines = 0;
        self.overflow = None;
        self.memory = Ok(());
    }

    fn wants(&self, offset: u64) -> bool {
        match self.state {
            IdState::Before => offset + 1 < self.range.end,
            // The end of a counted line matters only as the start of the next one.
            IdState::Within { counted: true } => offset + 1 < self.range.end,
            IdState::Start | IdState::Number { .. } | IdState::Text { .. } | IdState::Within { .. } => true,
            IdState::Done => false,
        }
    }

    fn feed(&mut self, block: &[u8]) -> Result<()> {
        self.read(block);
        std::mem::replace(&mut self.memory, Ok(()))
    }

    fn finish(&mut self, _offset: u64) -> Result<()> {
        // Digits that end with the file are no id, and their line does not count.
        if let (IdState::Within { counted: false }, Some(search)) = (&self.state, &self.search)
            && search.ends_with_name()
        {
            self.count();
        }
        self.state = IdState::Done;
        Ok(())
    }
}

impl IdScanner<'_> {
    /// Reads a block; sets `memory` if there is no room for its content.
    fn read(&mut self, block: &[u8]) {
        let at = self.at;
        self.at += block.len() as u64;
        if let Some(search) = &mut self.search {
            search.enter_block();
        }
        // First finish the line in which the previous block ended.
        let next = match self.state {
            IdState::Start => Some(0),
            IdState::Before => memchr(b'\n', block).map(|end| end + 1),
            IdState::Within { counted } => self.continue_body(block, counted),
            IdState::Number { .. } | IdState::Text { .. } => match self.continue_id(block) {
                Some(after_id) => {
                    let line_end = memchr(b'\n', &block[after_id..]).map(|length| after_id + length);
                    self.read_body(block, after_id, line_end)
                }
                None => None,
            },
            IdState::Done => None,
        };
        let Some(mut from) = next else { return };
        // Ids have no line breaks, so each line uses up one.
        let mut breaks = Breaks::new(block, from);
        loop {
            let offset = at + from as u64;
            if offset >= self.range.end {
                self.state = IdState::Done;
                return;
            }
            if from == block.len() {
                self.state = IdState::Start;
                return;
            }
            self.lines += 1;
            let Some(after_id) = self.read_id(block, from, (offset - self.range.start) as u32) else {
                return;
            };
            match self.read_body(block, after_id, breaks.next()) {
                Some(next) => from = next,
                None => return,
            }
        }
    }
}

/// Joins the results of the scanners of id mode.
pub(super) struct IdJoiner {
    /// The sequence that the next lines of the file may belong to.
    open: Option<OpenSequence>,
    /// Number of the first line of the next range.
    line: u64,
}

struct OpenSequence {
    key: SequenceKey,
    offset: u64,
    samples: u64,
}

impl IdJoiner {
    pub fn new(start: &Start) -> Self {
        IdJoiner { open: None, line: start.line }
    }

    /// Adds the runs of a range.
    pub fn take(&mut self, piece: &mut IdScanner<'_>, builder: &mut TableBuilder) -> Result<()> {
        if let Some(open) = &mut self.open {
            open.samples += u64::from(piece.head);
        }
        if !piece.text_ends.is_empty() {
            let (texts, mut from) = (&piece.texts, 0);
            let texts = piece.text_ends.iter().map(|&end| &texts[std::mem::replace(&mut from, end)..end]);
            piece.corpus.number_all(texts, &mut piece.keys)?;
        }
        for (i, (&start, &samples)) in piece.starts.iter().zip(&piece.samples).enumerate() {
            let key = piece.keys.get(i).copied();
            let key = key.ok_or_else(|| Error::internal("a textual key that has no number in the corpus"))?;
            let offset = piece.range.start + u64::from(start);
            match &mut self.open {
                Some(open) if open.key == key => open.samples += u64::from(samples),
                _ => {
                    self.finish(offset, builder)?;
                    self.open = Some(OpenSequence { key, offset, samples: u64::from(samples) });
                }
            }
        }
        let line = self.line.saturating_add(u64::from(piece.lines));
        self.line = line;
        match piece.overflow.take() {
            None => Ok(()),
            Some(offset) => Err(Digits::overflow().at(offset, (line < LINE_UNKNOWN).then_some(line))),
        }
    }

    /// Ends the open sequence at `end`. It is added only if it has counted lines.
    pub fn finish(&mut self, end: u64, builder: &mut TableBuilder) -> Result<()> {
        match self.open.take() {
            Some(OpenSequence { key, offset, samples }) if samples > 0 => {
                // Each sample takes at least a byte, and `add` checks that sizes fit into 32 bits.
                builder.add(Record { key, samples: samples as u32, offset, size: end - offset })
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The last byte of a range can only end its last line.
    #[test]
    fn ranges_are_read_as_far_as_needed() {
        let needle = Needle::new("x");
        let needs = |main_stream, text: &[u8], at_line| {
            let mut scanner = IdScanner::new(&Corpus::Numeric, main_stream);
            scanner.begin(20..30, at_line);
            scanner.feed(text).expect("memory");
            (28..31).map(|offset| scanner.wants(offset)).collect::<Vec<_>>()
        };
        assert_eq!(needs(None, b"7 |y", false), [true, false, false]);
        assert_eq!(needs(None, b"7 |y", true), [true, false, false]);
        assert_eq!(needs(None, b"7", true), [true; 3]);
        assert_eq!(needs(None, b"7 |y\n", true), [true; 3]);
        assert_eq!(needs(None, b"7 |y5678\n\n", true), [false; 3]);
        assert_eq!(needs(Some(&needle), b"7 |y", true), [true; 3]);
        assert_eq!(needs(Some(&needle), b"7 |x 1", true), [true, false, false]);
    }
}
