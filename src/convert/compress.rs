//! Any file to zstd: frames that can be unpacked one by one, in the seekable format.
//!
//! Frames of text begin with a sequence where they can, so that a reader needs few of them in part.

use super::output::Output;
use super::{Listener, Progress, check_different, report};
use crate::Result;
use crate::deserialize::binary::header::MAGIC;
use crate::file::{self, DataFile, FrameTable};
use crate::pool::Pool;
use memchr::memrchr;
use rayon::prelude::*;

/// Bytes of data of a frame: a part of what a thread parses at a time. Smaller frames take more space, and of larger ones more
/// is unpacked that a read does not need.
const FRAME: usize = 256 << 10;

/// Frames for each thread that are compressed at once.
const BATCH: usize = 4;

/// Compresses a file by zstd. Returns its size; `sequences` counts frames. An input that is compressed itself is unpacked first.
///
/// The output has frames of 256 KB with checksums, and at its end the table of the seekable format. Every tool for zstd
/// unpacks it, and a reader reads it like the plain file, from any place.
pub fn compress(input: &str, output: &str, listener: &mut Listener<'_>) -> Result<Progress> {
    let pool = Pool::shared()?;
    let file = DataFile::open(input)?;
    check_different(&file, output)?;
    let mut out = Output::create(output)?;
    let mut table = FrameTable::default();
    let mut progress = Progress { bytes: 0, total: file.size()?, sequences: 0 };
    let mut is_text = true;
    let mut buffer = vec![0; FRAME * (BATCH * pool.threads() + 1)];
    loop {
        let count = pool.install(|| file.read_at(progress.bytes, &mut buffer))?;
        if count == 0 {
            break;
        }
        let data = &buffer[..count];
        if progress.bytes == 0 {
            is_text = !data.starts_with(&MAGIC.to_le_bytes());
        }
        let frames = cut(data, is_text, count < buffer.len());
        let packed: Result<Vec<_>> =
            pool.install(|| frames.par_iter().map(|frame| file::pack(frame)).collect());
        for (frame, packed) in frames.iter().zip(packed?) {
            out.write(&packed)?;
            table.add(packed.len(), frame.len())?;
            progress.bytes += frame.len() as u64;
            progress.sequences += 1;
        }
        report(listener, progress)?;
    }
    out.write(&table.finish())?;
    out.commit()?;
    Ok(progress)
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
    use std::ops::ControlFlow;

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
    fn what_is_compressed_reads_back() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name).to_str().expect("a path").to_owned();
        for size in [0, 1, 3 * FRAME, 20 * FRAME + 77] {
            let data: Vec<u8> =
                (0..size as u32).map(|n| b"0123 456\n"[((n % 7) * (n % 11) % 9) as usize]).collect();
            std::fs::write(path("data"), &data).expect("a file");
            let mut last = Progress::default();
            let mut listener = |progress| {
                last = progress;
                ControlFlow::Continue(())
            };
            let progress = compress(&path("data"), &path("data.zst"), &mut listener).expect("it compresses");
            assert_eq!((progress.bytes, progress.total), (size as u64, size as u64));
            let file = DataFile::open(&path("data.zst")).expect("a compressed file");
            let mut read = vec![1; size];
            if size > 0 {
                assert_eq!(last, progress);
                assert_eq!(file.size().expect("a size"), size as u64);
                file.read_exact_at(0, &mut read).expect("it reads");
                assert_eq!(read, data);
            }
        }
        let same = compress(&path("data.zst"), &path("data.zst"), &mut |_| ControlFlow::Continue(()));
        assert!(same.expect_err("the same file").to_string().contains("same file"));
    }
}
