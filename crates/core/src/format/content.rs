//! Samples of the content of data files, by which checkpoints notice other values of the same
//! shape.
//!
//! Data of up to [`WHOLE`] bytes are hashed completely; of larger data, [`BLOCKS`] evenly spread
//! blocks, including the first and the last bytes. Of many files, [`FILES`] evenly spread ones are
//! sampled; of many utterances or images, [`PARTS`]; both include the first and the last. So the
//! cost is bounded for any data. Paths and times do not count: a copy is the same data.

use crate::file::DataFile;
use crate::file::xxh64::Xxh64;
use crate::fingerprint::{SEED, mix};
use crate::memory::room;
use crate::{ErrorKind, Result};
use std::ops::Range;

/// Up to this size, data are read completely.
const WHOLE: u64 = 4 << 20;

/// Number and size in bytes of the blocks that are read of larger data.
const BLOCKS: u64 = 256;
const BLOCK: u64 = 4 << 10;

/// Number of blocks for a file each read of which may request data from a server or decompress a
/// frame.
const COSTLY_BLOCKS: u64 = 16;

/// Maximum number of files that are sampled.
pub const FILES: usize = 256;

/// Maximum number of utterances or images that are sampled; each needs its file opened.
pub const PARTS: usize = 64;

/// Takes samples.
pub struct Sampler {
    hash: u64,
    /// Number of parts that share the bytes and blocks.
    share: u64,
    /// Some of the content is unknown.
    is_partial: bool,
    buffer: Vec<u8>,
}

impl Sampler {
    pub fn new() -> Sampler {
        Sampler { hash: SEED, share: 1, is_partial: false, buffer: Vec::new() }
    }

    /// Skips content that is unknown because it comes from users' code.
    pub fn skip(&mut self) {
        self.is_partial = true;
    }

    /// The samples as text to compare; `None` if nothing was sampled.
    pub fn finish(self) -> Option<String> {
        let rest = if self.is_partial { ", in part" } else { "" };
        (self.hash != SEED).then(|| format!("{:016x}{rest}", self.hash))
    }

    /// Samples up to `most` of `count` parts, which share the bytes and blocks.
    pub fn parts(
        &mut self,
        count: usize,
        most: usize,
        mut sample: impl FnMut(&mut Sampler, usize) -> Result<()>,
    ) -> Result<()> {
        let (picked, share) = (count.min(most), self.share);
        self.share = share * picked.max(1) as u64;
        for pick in 0..picked {
            match sample(self, spread(pick as u64, picked as u64, count as u64) as usize) {
                Ok(()) => {}
                // A passing failure must not change the result.
                Err(error) if error.may_pass() || error.kind() == ErrorKind::Cancelled => return Err(error),
                // A part that stays unreadable is an error of the minibatch that needs it.
                Err(_) => self.bytes(b""),
            }
        }
        self.share = share;
        self.hash = mix(self.hash, count as u64, 1);
        Ok(())
    }

    /// Samples a range of a file, which must lie within the file.
    pub fn file(&mut self, file: &DataFile, range: Range<u64>) -> Result<()> {
        let size = range.end.saturating_sub(range.start);
        if size <= WHOLE / self.share {
            return self.block(file, range.start, size);
        }
        let most = if file.reads_cheaply() { BLOCKS } else { COSTLY_BLOCKS };
        let blocks = (most / self.share).max(2);
        (0..blocks).try_for_each(|block| {
            // The last block ends at the end of the range.
            let offset = spread(block, blocks, size - BLOCK.min(size) + 1);
            self.block(file, range.start + offset, BLOCK.min(size))
        })
    }

    /// Samples bytes that are in memory.
    pub fn bytes(&mut self, bytes: &[u8]) {
        self.hash = mix(self.hash, Xxh64::of(bytes), bytes.len() as u64);
    }

    fn block(&mut self, file: &DataFile, offset: u64, size: u64) -> Result<()> {
        let size = size as usize;
        let length = self.buffer.len().max(size);
        room::resize(&mut self.buffer, length, 0, room::FILE)?;
        let mut buffer = std::mem::take(&mut self.buffer);
        let read = file.read_at(offset, &mut buffer[..size]);
        if let Ok(count) = read {
            self.bytes(&buffer[..count]);
        }
        self.buffer = buffer;
        read.map(drop)
    }
}

/// The `index`-th of `picked` numbers spread evenly from 0 to `count - 1`, both included.
fn spread(index: u64, picked: u64, count: u64) -> u64 {
    match picked {
        0 | 1 => 0,
        _ => (u128::from(index) * u128::from(count - 1) / u128::from(picked - 1)) as u64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spread_includes_first_and_last() {
        let all = |picked, count| (0..picked).map(|index| spread(index, picked, count)).collect::<Vec<_>>();
        assert_eq!(all(3, 3), [0, 1, 2]);
        assert_eq!(all(3, 101), [0, 50, 100]);
        assert_eq!(all(1, 5), [0]);
        assert_eq!(all(2, u64::MAX), [0, u64::MAX - 1]);
    }

    #[test]
    fn first_and_last_byte_change_the_sample() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("file");
        let sum = |bytes: &[u8], share: usize| {
            std::fs::write(&path, bytes).expect("a file");
            let file = DataFile::open(&path.display().to_string()).expect("opens");
            let mut sampler = Sampler::new();
            let range = 0..bytes.len() as u64;
            sampler.parts(share, share, |sampler, _| sampler.file(&file, range.clone())).expect("reads");
            sampler.finish()
        };
        for (size, share) in [(10, 1), (WHOLE as usize, 1), (WHOLE as usize + 1, 1), (1 << 20, 100)] {
            let mut bytes = vec![7; size];
            let before = sum(&bytes, share);
            assert_eq!(sum(&bytes, share), before);
            for at in [0, size - 1] {
                bytes[at] = 8;
                assert_ne!(sum(&bytes, share), before, "byte {at} of {size}");
                bytes[at] = 7;
            }
        }
        assert_eq!(Sampler::new().finish(), None);
    }
}
