//! Compresses bytes to zstd frames that can be decompressed one by one, in the seekable format.
//!
//! Frames of text begin with a sequence where possible, so that a reader rarely needs only a part
//! of a frame.

use cntk_reader_core::file::{self, FrameTable};
use cntk_reader_core::memory::room;
use cntk_reader_core::runtime::cancel;
use cntk_reader_core::runtime::pool::Pool;
use cntk_reader_core::{Error, Result};
use cntk_reader_text::cbf::header::MAGIC;
use memchr::memrchr;
use rayon::prelude::*;

/// Uncompressed bytes of a frame: a part of what a thread parses at a time. Smaller frames compress
/// worse; larger frames make readers decompress more than they need.
const FRAME: usize = 256 << 10;

/// Number of frames per thread that are compressed at once.
const BATCH: usize = 4;

/// The greatest level of zstd.
const GREATEST_LEVEL: u32 = 22;

/// Compresses a stream of bytes.
pub struct FrameWriter {
    pool: Pool,
    level: u32,
    /// Bytes that are not in a frame yet.
    pending: Vec<u8>,
    /// Whether the data are text; known after their first bytes.
    is_text: Option<bool>,
    table: FrameTable,
}

impl FrameWriter {
    /// Creates a writer. `level` is the level of zstd, from 1 to 22.
    pub fn new(level: u32) -> Result<FrameWriter> {
        if !(1..=GREATEST_LEVEL).contains(&level) {
            let error = Error::argument(format!("zstd has no compression level {level}."));
            return Err(
                error.with_detail("Levels go from 1, the fastest, to 22, the smallest; 9 is the default.")
            );
        }
        let pool = Pool::shared()?;
        Ok(FrameWriter { pool, level, pending: Vec::new(), is_text: None, table: FrameTable::default() })
    }

    /// Adds the next bytes. Returns the frames that are complete.
    pub fn add(&mut self, bytes: &[u8]) -> Result<Vec<Vec<u8>>> {
        room::extend(&mut self.pending, bytes, room::CONVERSION)?;
        match self.pending.len() > FRAME * BATCH * self.pool.threads() {
            true => self.pack(false),
            false => Ok(Vec::new()),
        }
    }

    /// Returns the remaining frames, and after them the table that ends the file.
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
        // A batch takes seconds at the highest levels: check for cancellation at each frame.
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

/// Cuts data into frames. If `is_last`, the rest is the last frame; otherwise the rest stays for
/// the next call.
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

/// Returns the start of the last sequence that begins inside the text; else the start of the last
/// line; else the end of the text.
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

/// Returns the id at the start of a line, or an empty slice.
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
            // Sequences of seven lines; only the first two lines have the id.
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
    fn binary_data_are_cut_at_frame_size() {
        for data in [vec![7; 3 * FRAME + 1], vec![b'\n'; FRAME + 5], b"a".to_vec(), Vec::new()] {
            for is_text in [false, true] {
                assert_eq!(cut(&data, is_text, true).concat(), data);
            }
        }
        // More data follow, so the rest is kept for the next call.
        assert_eq!(cut(&[7; FRAME + 1], false, false).concat().len(), FRAME);
    }

    #[test]
    fn levels_out_of_range_are_errors() {
        for level in [0, 23, u32::MAX] {
            assert!(FrameWriter::new(level).is_err(), "{level}");
        }
        // Real data: for repetitive made-up numbers, a higher level need not be smaller.
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
