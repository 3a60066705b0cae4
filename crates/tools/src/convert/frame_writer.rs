//! Bytes to frames of zstd that can be unpacked one by one, in the seekable format.
//!
//! Frames of text begin with a sequence where they can, so that a reader needs few of them in part.

use cntk_reader_core::file::{self, FrameTable};
use cntk_reader_core::memory::room;
use cntk_reader_core::runtime::cancel;
use cntk_reader_core::runtime::pool::Pool;
use cntk_reader_core::{Error, Result};
use cntk_reader_text::cbf::header::MAGIC;
use memchr::memrchr;
use rayon::prelude::*;

/// Bytes of data of a frame: a part of what a thread parses at a time. Smaller frames take more space, and of larger ones more
/// is unpacked that a read does not need.
const FRAME: usize = 256 << 10;

/// Frames for each thread that are compressed at once.
const BATCH: usize = 4;

/// The greatest level that zstd has.
const GREATEST_LEVEL: u32 = 22;

/// Compresses bytes as they come.
pub struct FrameWriter {
    pool: Pool,
    level: u32,
    /// Bytes that are in no frame yet.
    pending: Vec<u8>,
    /// What the data are, once their start is known.
    is_text: Option<bool>,
    table: FrameTable,
}

impl FrameWriter {
    /// `level` is zstd's, from 1 to 22.
    pub fn new(level: u32) -> Result<FrameWriter> {
        if !(1..=GREATEST_LEVEL).contains(&level) {
            let error = Error::argument(format!("zstd has no level {level} of compression."));
            return Err(
                error.with_detail("Levels go from 1, the fastest, to 22, the smallest; 9 is the default.")
            );
        }
        let pool = Pool::shared()?;
        Ok(FrameWriter { pool, level, pending: Vec::new(), is_text: None, table: FrameTable::default() })
    }

    /// Takes the next bytes, and gives the frames that are complete.
    pub fn add(&mut self, bytes: &[u8]) -> Result<Vec<Vec<u8>>> {
        room::extend(&mut self.pending, bytes, room::CONVERSION)?;
        match self.pending.len() > FRAME * BATCH * self.pool.threads() {
            true => self.pack(false),
            false => Ok(Vec::new()),
        }
    }

    /// The frames of what is left, and after them the table that ends the file.
    pub fn finish(mut self) -> Result<Vec<Vec<u8>>> {
        let mut parts = self.pack(true)?;
        parts.push(self.table.finish());
        Ok(parts)
    }

    fn pack(&mut self, is_last: bool) -> Result<Vec<Vec<u8>>> {
        let data = self.pending.as_slice();
        let is_text = *self.is_text.get_or_insert_with(|| !data.starts_with(&MAGIC.to_le_bytes()));
        let frames = cut(data, is_text, is_last);
        let level = self.level;
        // At the highest levels a batch takes seconds, so that cancelling ends it after a frame.
        let pack = cancel::carried(|frame: &&[u8]| cancel::check().and_then(|()| file::pack(frame, level)));
        let packed: Result<Vec<Vec<u8>>> = self.pool.install(|| frames.par_iter().map(pack).collect());
        let packed = packed?;
        for (frame, packed) in frames.iter().zip(&packed) {
            self.table.add(packed.len(), frame.len())?;
        }
        let taken: usize = frames.iter().map(|frame| frame.len()).sum();
        self.pending.drain(..taken);
        Ok(packed)
    }
}

/// Cuts data into frames. What is left at the end belongs to the last frame if no more data follow; else it comes again.
fn cut(mut data: &[u8], is_text: bool, is_last: bool) -> Vec<&[u8]> {
    let mut frames = Vec::new();
    while data.len() > FRAME {
        let at = if is_text { sequence_start(&data[..FRAME]) } else { FRAME };
        let (frame, rest) = data.split_at(at);
        frames.push(frame);
        data = rest;
    }
    if is_last && !data.is_empty() {
        frames.push(data);
    }
    frames
}

/// Where the last sequence begins that begins in the text, but not at its start; else the last line; else the text's end.
fn sequence_start(text: &[u8]) -> usize {
    let line_before = |end: usize| memrchr(b'\n', &text[..end]).map_or(0, |newline| newline + 1);
    let last = line_before(text.len());
    let mut start = last;
    while start > 0 {
        let before = line_before(start - 1);
        let id = id(&text[start..]);
        if !id.is_empty() && id != self::id(&text[before..]) {
            return start;
        }
        start = before;
    }
    if last > 0 { last } else { text.len() }
}

/// The id that a line begins with; empty if there is none.
fn id(line: &[u8]) -> &[u8] {
    let end = line.iter().position(|byte| b"| \t\r\n".contains(byte));
    &line[..end.unwrap_or(line.len())]
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt::Write;

    #[test]
    fn frames_of_text_begin_with_sequences() {
        let mut text = String::new();
        for line in 0..60_000 {
            // Sequences of seven lines, of which the first two have the id.
            let id = if line % 7 < 2 { (line / 7).to_string() } else { String::new() };
            writeln!(text, "{id}|x {line} {}", line * 3).expect("writing to memory");
        }
        let frames = cut(text.as_bytes(), true, true);
        assert!(frames.len() > 3);
        assert_eq!(frames.concat(), text.as_bytes());
        for pair in frames.windows(2) {
            assert!(pair[0].len() > FRAME - 500 && pair[0].ends_with(b"\n"));
            let id = std::str::from_utf8(id(pair[1])).expect("text").parse::<u32>().expect("an id");
            assert!(!pair[0].windows(8).any(|bytes| bytes.starts_with(format!("\n{id}|").as_bytes())));
        }
    }

    #[test]
    fn any_bytes_are_cut_somewhere() {
        for data in [vec![7; 3 * FRAME + 1], vec![b'\n'; FRAME + 5], b"a".to_vec(), Vec::new()] {
            for is_text in [false, true] {
                assert_eq!(cut(&data, is_text, true).concat(), data);
            }
        }
        // More than this follows, so the rest is left for the next time.
        assert_eq!(cut(&[7; FRAME + 1], false, false).concat().len(), FRAME);
    }

    #[test]
    fn levels_are_those_of_zstd() {
        for level in [0, 23, u32::MAX] {
            assert!(FrameWriter::new(level).is_err(), "{level}");
        }
        // Numbers as they are in data: in made-up ones that repeat, a higher level need not be smaller.
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/data/digits.train.ctf");
        let text = std::fs::read(path).expect("the example's data");
        let size = |level| {
            let mut writer = FrameWriter::new(level).expect("a level");
            let mut parts = writer.add(&text).expect("frames");
            parts.extend(writer.finish().expect("the last frames"));
            parts.concat().len()
        };
        assert!(size(19) < size(1), "{} and {}", size(19), size(1));
    }
}
