//! Compresses any file with zstd, in frames that can be decompressed one by one.

use super::frame_writer::FrameWriter;
use super::output::Output;
use super::{Listener, Progress, check_different, report};
use cntk_reader_core::file::DataFile;
use cntk_reader_core::memory::room;
use cntk_reader_core::runtime::pool::Pool;
use cntk_reader_core::{Error, Result};

/// Number of bytes read at once.
const BLOCK: usize = 4 << 20;

/// Options of [`compress_with`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct CompressOptions {
    /// The level of zstd, from 1, the fastest, to 22, the smallest.
    pub level: u32,
    /// Whether the output is decompressed and compared with the input before it gets its name.
    pub verify: bool,
}

impl CompressOptions {
    /// The default level. Numbers in text decompress 20 % faster than with level 3, and are
    /// smaller.
    pub const DEFAULT_LEVEL: u32 = 9;
}

impl Default for CompressOptions {
    fn default() -> CompressOptions {
        CompressOptions { level: CompressOptions::DEFAULT_LEVEL, verify: true }
    }
}

/// Compresses a file with zstd. Returns its size; `sequences` counts frames. A compressed input is
/// decompressed first.
///
/// The output has frames of 256 KiB with checksums, and ends with the table of the seekable format.
/// Every tool for zstd can decompress it, and a reader reads it like the plain file, from any
/// position. It gets its name when it is complete and verified against the input.
pub fn compress(input: &str, output: &str, listener: &mut Listener<'_>) -> Result<Progress> {
    compress_with(input, output, &CompressOptions::default(), listener)
}

/// [`compress`] with options.
pub fn compress_with(
    input: &str,
    output: &str,
    options: &CompressOptions,
    listener: &mut Listener<'_>,
) -> Result<Progress> {
    let pool = Pool::shared()?;
    let file = DataFile::open(input)?;
    check_different(&file, output)?;
    let mut frames = FrameWriter::new(options.level)?;
    let mut out = Output::create(output)?;
    let mut progress = Progress { bytes: 0, total: file.size()?, sequences: 0 };
    let mut buffer = room::zeroed(BLOCK, room::CONVERSION)?;
    loop {
        let count = pool.install(|| file.read_at(progress.bytes, &mut buffer))?;
        if count == 0 {
            break;
        }
        for frame in frames.add(&buffer[..count])? {
            out.write(&frame)?;
            progress.sequences += 1;
        }
        progress.bytes += count as u64;
        report(listener, progress)?;
    }
    let last = frames.finish()?;
    last.iter().try_for_each(|part| out.write(part))?;
    // The last part is the table, not a frame.
    progress.sequences += last.len() as u64 - 1;
    if options.verify {
        out.read_again(|path| {
            let packed = DataFile::open(path)?;
            pool.install(|| compare(&file, &packed, &mut buffer)).map_err(|error| error.in_file(output))
        })?;
    }
    report(listener, progress)?;
    out.commit()?;
    Ok(progress)
}

/// Fails if two files have different contents.
fn compare(file: &DataFile, packed: &DataFile, buffer: &mut [u8]) -> Result<()> {
    let differs = |offset: u64| {
        let error = Error::data("The output differs from the data.");
        error.with_detail(format!(
            "After decompression it differs from byte {offset} on: the input has changed, or memory or disk is damaged. The \
             output was not kept."
        ))
    };
    let mut unpacked = room::zeroed(buffer.len(), room::CONVERSION)?;
    let mut offset = 0;
    loop {
        let count = file.read_at(offset, buffer)?;
        if packed.read_at(offset, &mut unpacked)? != count || unpacked[..count] != buffer[..count] {
            return Err(differs(offset));
        }
        if count == 0 {
            return Ok(());
        }
        offset += count as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ops::ControlFlow;

    /// Size of a frame.
    const FRAME: usize = 256 << 10;

    #[test]
    fn compressed_files_round_trip() {
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
