//! Open feature files.

use super::header::{Header, in_cntks_words};
use super::paths::Paths;
use cntk_reader_core::file::DataFile;
use cntk_reader_core::{Error, Result, system};
use std::ops::Range;

/// An open feature file and its header.
pub struct HtkFile {
    pub file: DataFile,
    pub header: Header,
}

impl HtkFile {
    /// Opens the file with this path and reads its header. Fails if the file differs from the one
    /// that was opened first.
    pub fn open(paths: &Paths, path: u32) -> Result<HtkFile> {
        let bytes = paths.bytes_of(path);
        let shown = String::from_utf8_lossy(&bytes);
        let file = DataFile::open_shown(&system::path_from_bytes(&bytes), &shown, |cause| {
            Error::io("error opening file", &shown, cause).without_full_stop()
        });
        let file = file.map_err(in_cntks_words)?;
        paths.check_unchanged(path, &file)?;
        // If the header is incomplete, the file may be being written to.
        let header = Header::read(&file).or_else(|error| file.if_unchanged(Err(error)))?;
        Ok(HtkFile { header, file })
    }

    /// Returns the size of a stored frame in bytes.
    pub fn frame_bytes(&self) -> usize {
        self.header.facts.dim * self.header.encoding.size()
    }

    /// Returns the range of frames in the file.
    pub fn range(&self, first: u32, count: u64) -> Range<u64> {
        let size = self.frame_bytes() as u64;
        let start = self.header.start + u64::from(first) * size;
        start..start + count * size
    }

    /// Checks that the header claims the frames from `first` to `last`.
    pub fn check_range(&self, first: u32, last: u32) -> Result<()> {
        self.header.check_range(first, last, self.file.path())
    }

    /// Checks that the file is long enough for at least half of `count` frames from `first` on.
    pub fn check_half(&self, first: u32, count: u64) -> Result<()> {
        if self.range(first, count.div_ceil(2)).end <= self.file.size()? {
            return Ok(());
        }
        self.check_size(first, count)
    }

    /// Checks that the file is long enough for `count` frames from `first` on.
    pub fn check_size(&self, first: u32, count: u64) -> Result<()> {
        let (size, end) = (self.file.size()?, self.range(first, count).end);
        if end <= size {
            return Ok(());
        }
        let error = Error::data("error reading from file: Success").as_cntk();
        let found = format!("The file ends at {size}, but its frames end at {end}: it is not complete.");
        let error = error.with_detail(found).with_detail("Write or copy it again.");
        Err(error.in_file(self.file.path()).at(size, None))
    }
}

#[cfg(test)]
mod tests {
    use super::super::paths::PathPool;
    use super::*;

    /// Opens a file of `frames` frames of two values, whose header claims `claimed`.
    fn open(frames: usize, claimed: u32) -> HtkFile {
        let mut bytes = [claimed.to_be_bytes(), 100_000u32.to_be_bytes()].concat();
        bytes.extend([0, 8, 0, 9]);
        bytes.resize(12 + 8 * frames, 0);
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), bytes).expect("writing");
        let mut pool = PathPool::default();
        pool.add(file.path().as_os_str().as_encoded_bytes()).expect("memory");
        HtkFile::open(&pool.finish().expect("memory").0, 0).expect("it opens")
    }

    #[test]
    fn frames_have_ranges_in_the_file() {
        let file = open(5, 5);
        assert_eq!((file.frame_bytes(), file.range(0, 5), file.range(2, 1)), (8, 12..52, 28..36));
        assert!(file.check_range(0, 4).is_ok() && file.check_range(0, 5).is_err());
        assert!(open(5, u32::MAX).check_range(0, u32::MAX - 1).is_ok());
        assert!(file.check_size(0, 5).is_ok() && file.check_size(4, 1).is_ok());
        let error = file.check_size(1, 5).expect_err("too few frames");
        assert_eq!(
            (error.message(), error.location().offset),
            ("error reading from file: Success", Some(52))
        );
        assert!(error.detail().starts_with("The file ends at 52, but its frames end at 60:"), "{error}");
        // Half of the frames, rounded up, are there.
        assert!([8, 9, 10].iter().all(|&count| file.check_half(0, count).is_ok()));
        assert!([11, 12, u64::from(u32::MAX) + 1].iter().all(|&count| file.check_half(0, count).is_err()));
        assert!(file.check_half(4, 2).is_ok() && file.check_half(5, 1).is_err());
    }
}
