//! Sequences with more text than fits into a core's cache: read and parsed in pieces of whole
//! lines, so that a thread's buffer stays small.
//!
//! Anything unusual ends this: the sequence is then read as a whole, for the exact parser has to
//! see where it begins.

use super::parse::fast::{FRONT, Fast};
use super::parse::report::Report;
use super::parse::rules::Rules;
use super::segment::Scratch;
use super::{SEGMENT_BYTES, SequenceSpan};
use cntk_reader_core::Result;
use cntk_reader_core::memory::compact::Value;

/// Sequences with more bytes of text than this are long.
pub const LONG: u64 = 2 * SEGMENT_BYTES;

/// Bytes of text read at once.
pub const PIECE: usize = SEGMENT_BYTES as usize;

/// Reads and parses a sequence that is alone in its segment, `piece` bytes at a time. Returns false
/// if the sequence has to be read as a whole. `read` reads from an offset of the file and returns
/// the number of bytes that it read.
pub fn parse<T: Value>(
    rules: &Rules,
    fast: &Fast,
    span: &SequenceSpan,
    (mut read, piece): (impl FnMut(u64, &mut [u8]) -> Result<usize>, usize),
    scratch: &mut Scratch<T>,
    report: &mut Report<'_>,
) -> Result<bool> {
    scratch.output.reset(rules);
    let mut fast = fast.segment();
    fast.unknown = report.wants_names();
    fast.begin();
    let (mut offset, end) = (span.offset, span.offset + u64::from(span.size));
    // Number of bytes of an unfinished line, at the start of the buffer.
    let mut kept = 0;
    while offset < end {
        let size = piece.min((end - offset) as usize);
        let new = &mut scratch.text_mut(kept + size)?[kept..];
        if read(offset, new)? < size {
            return Ok(false);
        }
        offset += size as u64;
        let Some(last) = memchr::memrchr(b'\n', new) else {
            kept += size;
            continue;
        };
        let (lines, text) = (FRONT + kept + last + 1, FRONT + kept + size);
        if !fast.read_lines(&scratch.text, FRONT, lines, &mut scratch.output) {
            return Ok(false);
        }
        scratch.text.copy_within(lines..text, FRONT);
        kept = text - lines;
    }
    if kept > 0 || !fast.finish(span, &mut scratch.output, report) {
        return Ok(false);
    }
    fast.unknown.into_iter().for_each(|names| report.add_names(names));
    scratch.output.check_memory()?;
    Ok(true)
}
