//! Line mode: every line is a sequence, or every line that contains the main stream. Its key is its
//! line number.

use super::breaks::Breaks;
use super::main_stream::{Needle, Search};
use super::scan::Scanner;
use super::start::Start;
use super::table::{Record, TableBuilder};
use cntk_reader_core::Result;
use cntk_reader_core::file::DataFile;
use cntk_reader_core::memory::room;
use memchr::{memchr, memchr_iter};
use std::ops::Range;

/// Returns the number of lines from `offset`, the start of a line, to the end of a file.
pub(super) fn count(file: &DataFile, offset: u64) -> Result<u64> {
    let mut block = room::zeroed(64 << 10, room::FILE)?;
    let (mut at, mut lines, mut is_within) = (offset, 0, false);
    loop {
        let count = file.read_at(at, &mut block)?;
        let Some(last) = block[..count].last() else { return Ok(lines + u64::from(is_within)) };
        lines += memchr_iter(b'\n', &block[..count]).count() as u64;
        is_within = *last != b'\n';
        at += count as u64;
    }
}

/// Scanner of line mode, with the lines that it found in its range.
pub(super) struct LineScanner<'a> {
    search: Option<Search<'a>>,
    state: LineState,
    range: Range<u64>,
    /// Offset of the next block.
    at: u64,
    /// Starts of the counted lines, relative to the range.
    starts: Vec<u32>,
    /// With a main stream: the numbers of these lines within the range, and their sizes.
    numbers: Vec<u32>,
    sizes: Vec<u32>,
    /// Number of lines that start in the range.
    lines: u32,
    /// Start of a line that is too long, relative to the range, and its size.
    oversize: Option<(u32, u64)>,
}

#[derive(Debug, Clone, Copy)]
enum LineState {
    /// In a line that started before the range.
    Before,
    /// At the first byte of a line.
    Start,
    /// In a line that started in an earlier block.
    Within {
        /// Start of the line, relative to the range.
        start: u32,
        /// Whether the main stream has been found.
        counts: bool,
    },
    /// At a line of the next range.
    Done,
}

impl<'a> LineScanner<'a> {
    pub fn new(main_stream: Option<&'a Needle>) -> Self {
        LineScanner {
            search: main_stream.map(Search::new),
            state: LineState::Done,
            range: 0..0,
            at: 0,
            starts: Vec::new(),
            numbers: Vec::new(),
            sizes: Vec::new(),
            lines: 0,
            oversize: None,
        }
    }

    /// Ends a line whose last byte is before `offset`. Returns the next state.
    fn end_line(&mut self, start: u32, counts: bool, offset: u64) -> Result<LineState> {
        if counts {
            let begin = self.range.start + u64::from(start);
            match u32::try_from(offset - begin) {
                Ok(size) => {
                    room::push(&mut self.starts, start, room::INDEX)?;
                    room::push(&mut self.numbers, self.lines, room::INDEX)?;
                    room::push(&mut self.sizes, size, room::INDEX)?;
                }
                Err(_) => {
                    self.oversize = Some((start, offset - begin));
                    return Ok(LineState::Done);
                }
            }
        }
        self.lines += 1;
        Ok(if offset < self.range.end { LineState::Start } else { LineState::Done })
    }
}

impl Scanner for LineScanner<'_> {
    fn begin(&mut self, range: Range<u64>, at_line: bool) {
        self.at = if at_line { range.start } else { range.start - 1 };
        self.range = range;
        self.state = if at_line { LineState::Start } else { LineState::Before };
        self.starts.clear();
        self.numbers.clear();
        self.sizes.clear();
        self.lines = 0;
        self.oversize = None;
        if at_line && self.search.is_none() {
            self.starts.push(0);
        }
    }

    fn wants(&self, offset: u64) -> bool {
        match self.state {
            _ if self.search.is_none() => offset + 1 < self.range.end,
            LineState::Before => offset + 1 < self.range.end,
            LineState::Start | LineState::Within { .. } => true,
            LineState::Done => false,
        }
    }

    fn feed(&mut self, block: &[u8]) -> Result<()> {
        let at = self.at;
        self.at += block.len() as u64;
        let Some(search) = &mut self.search else {
            // Line starts are relative to the range, positions of line breaks to the block.
            let shift = at.wrapping_sub(self.range.start).wrapping_add(1) as u32;
            for position in Breaks::new(block, 0) {
                room::push(&mut self.starts, shift.wrapping_add(position as u32), room::INDEX)?;
            }
            if self.at == self.range.end && block.last() == Some(&b'\n') {
                self.starts.pop();
            }
            return Ok(());
        };
        search.enter_block();
        let mut from = 0;
        while let Some(search) = &mut self.search
            && from < block.len()
        {
            let line_end = memchr(b'\n', &block[from..]).map(|length| from + length);
            let end = line_end.unwrap_or(block.len());
            let (start, counts) = match self.state {
                LineState::Done => return Ok(()),
                LineState::Before => (None, false),
                LineState::Within { start, counts } => {
                    (Some(start), counts || search.finds_across(block, end))
                }
                LineState::Start => {
                    let counts = search.finds(block, from, end);
                    if line_end.is_none() && !counts {
                        search.leave_line(&block[from..]);
                    }
                    (Some((at + from as u64 - self.range.start) as u32), counts)
                }
            };
            let next = end + 1;
            self.state = match (start, line_end) {
                (None, None) => LineState::Before,
                (None, Some(_)) if at + (next as u64) < self.range.end => LineState::Start,
                (None, Some(_)) => LineState::Done,
                (Some(start), None) => LineState::Within { start, counts },
                (Some(start), Some(_)) => self.end_line(start, counts, at + next as u64)?,
            };
            from = next;
        }
        Ok(())
    }

    fn finish(&mut self, offset: u64) -> Result<()> {
        if let (LineState::Within { start, counts }, Some(search)) = (self.state, &self.search) {
            let counts = counts || search.ends_with_name();
            self.end_line(start, counts, offset)?;
            self.state = LineState::Done;
        }
        Ok(())
    }
}

/// Joins the results of the scanners of line mode.
pub(super) struct LineJoiner {
    /// Number of the first line of the next range.
    line: u64,
    /// Offset of the last line, which ends where the next one starts. Only without a main stream.
    open: Option<u64>,
}

impl LineJoiner {
    pub fn new(start: &Start) -> Self {
        LineJoiner { line: start.line, open: None }
    }

    /// Adds the sequences of a range.
    pub fn take(&mut self, piece: &mut LineScanner<'_>, builder: &mut TableBuilder) -> Result<()> {
        let base = piece.range.start;
        if piece.search.is_none() {
            if let (Some(&first), Some(&last)) = (piece.starts.first(), piece.starts.last()) {
                self.end_line(base + u64::from(first), builder)?;
                builder.add_lines(self.line, base, &piece.starts)?;
                self.line += piece.starts.len() as u64 - 1;
                self.open = Some(base + u64::from(last));
            }
            return Ok(());
        }
        let sequences = piece.starts.iter().zip(&piece.numbers).zip(&piece.sizes);
        for ((&start, &number), &size) in sequences {
            let key = self.line + u64::from(number);
            let offset = base + u64::from(start);
            builder.add(Record { key, samples: 1, offset, size: u64::from(size) })?;
        }
        self.line += u64::from(piece.lines);
        if let Some((start, size)) = piece.oversize {
            let offset = base + u64::from(start);
            builder.add(Record { key: self.line, samples: 1, offset, size })?;
        }
        Ok(())
    }

    /// Ends the file at `offset`.
    pub fn finish(&mut self, offset: u64, builder: &mut TableBuilder) -> Result<()> {
        self.end_line(offset, builder)
    }

    fn end_line(&mut self, end: u64, builder: &mut TableBuilder) -> Result<()> {
        if let Some(offset) = self.open.take() {
            builder.add(Record { key: self.line, samples: 1, offset, size: end - offset })?;
            self.line += 1;
        }
        Ok(())
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
            let mut scanner = LineScanner::new(main_stream);
            scanner.begin(20..30, at_line);
            scanner.feed(text).expect("memory");
            (28..31).map(|offset| scanner.wants(offset)).collect::<Vec<_>>()
        };
        for text in [&b""[..], b"|x", b"|x\n"] {
            assert_eq!(needs(None, text, true), [true, false, false]);
            assert_eq!(needs(Some(&needle), text, true), [true; 3]);
        }
        assert_eq!(needs(Some(&needle), b"|x", false), [true, false, false]);
        assert_eq!(needs(Some(&needle), b"|x45678\n|x", true), [true; 3]);
        assert_eq!(needs(Some(&needle), b"|x456789\n\n", true), [false; 3]);
    }

    #[test]
    fn a_line_of_4_gib_is_refused() {
        let needle = Needle::new("x");
        let mut scanner = LineScanner::new(Some(&needle));
        let start = Start { content: 0, line: 2, by_line: true };
        let mut builder = TableBuilder::new(1 << 20, true);
        scanner.begin(15..1000, true);
        scanner.feed(b"|x 1\n|x 2").expect("memory");
        scanner.at = 20 + 4294967310;
        scanner.feed(b"\n|x 3\n").expect("memory");
        let error = LineJoiner::new(&start).take(&mut scanner, &mut builder).expect_err("too long");
        assert_eq!(error.message(), "Sequence size overflows uint32_t type: 4294967311 vs 15.");
        assert_eq!((error.location().offset, error.location().line), (Some(20), Some(4)));
        assert_eq!(builder.len(), 1);
    }
}
