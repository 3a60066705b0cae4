//! Sequences of more text than a core's cache holds: read and parsed in pieces of whole lines, so that a thread's buffer stays small.
//!
//! A surprise ends that: the sequence is read as a whole then, for the exact parser, which has to see where it begins.

use super::parse::fast::{FRONT, Fast};
use super::parse::report::Report;
use super::parse::rules::Rules;
use super::segment::Scratch;
use super::{SEGMENT_BYTES, SequenceSpan};
use cntk_reader_core::Result;
use cntk_reader_core::memory::compact::Value;

/// Bytes of text of a sequence that is long.
pub const LONG: u64 = 2 * SEGMENT_BYTES;

/// Bytes of text that are read at once.
pub const PIECE: usize = SEGMENT_BYTES as usize;

/// Reads and parses a sequence as the only one of its segment, `piece` bytes at once; false if it has to be read as a whole. `read` reads
/// from a place of the file on, and says how many bytes there were.
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
    // The bytes of an unfinished line, at the start of the buffer.
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
