//! Samples of what data files contain, for checkpoints: other values of the same shape are noticed
//! by them.
//!
//! Data of up to [`WHOLE`] bytes are compared as a whole, larger ones by [`BLOCKS`] blocks spread
//! evenly over them, the first and the last bytes included. Of many files, utterances or images,
//! [`PARTS`] spread evenly are looked at, the first and the last one included. So the cost has a
//! bound whatever the data are. Paths and times do not count: a copy is the same data.

use crate::file::DataFile;
use crate::file::xxh64::Xxh64;
use crate::fingerprint::{SEED, mix};
use crate::memory::room;
use crate::{ErrorKind, Result};
use std::ops::Range;

/// Bytes that are read as a whole.
const WHOLE: u64 = 4 << 20;

/// Blocks that larger data are read in, and the bytes of a block.
const BLOCKS: u64 = 256;
const BLOCK: u64 = 4 << 10;

/// Blocks of a file each read of which may be a request to a server, or unpack a frame.
const COSTLY_BLOCKS: u64 = 16;

/// Files that are looked at.
pub const FILES: usize = 256;

/// Utterances or images that are looked at, each in a file that has to be opened for it.
pub const PARTS: usize = 64;

/// Takes samples.
pub struct Sampler {
    hash: u64,
    /// How many parts share the bytes and blocks.
    share: u64,
    /// Whether nothing is known of some of the data.
    is_partial: bool,
    buffer: Vec<u8>,
}

impl Sampler {
    pub fn new() -> Sampler {
        Sampler { hash: SEED, share: 1, is_partial: false, buffer: Vec::new() }
    }

    /// Nothing is known of the content: it comes from users' code.
    pub fn skip(&mut self) {
        self.is_partial = true;
    }

    /// The samples, as a text to compare; `None` if nothing is known.
    pub fn finish(self) -> Option<String> {
        let rest = if self.is_partial { ", in part" } else { "" };
        (self.hash != SEED).then(|| format!("{:016x}{rest}", self.hash))
    }

    /// Samples some of `count` parts, `most` at most, which share what is read.
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
                // It must not change what is compared.
                Err(error) if error.may_pass() || error.kind() == ErrorKind::Cancelled => return Err(error),
                // A part that stays unreadable is an error of the minibatch that needs it.
                Err(_) => self.bytes(b""),
            }
        }
        self.share = share;
        self.hash = mix(self.hash, count as u64, 1);
        Ok(())
    }

    /// Samples a range of a file, which the file has.
    pub fn file(&mut self, file: &DataFile, range: Range<u64>) -> Result<()> {
        let size = range.end.saturating_sub(range.start);
        if size <= WHOLE / self.share {
            return self.block(file, range.start, size);
        }
        let most = if file.reads_cheaply() { BLOCKS } else { COSTLY_BLOCKS };
        let blocks = (most / self.share).max(2);
        (0..blocks).try_for_each(|block| {
            // The last block ends where the range does.
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

/// Number `index` of `picked` numbers that are spread evenly from 0 to `count - 1`, both included.
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
    fn parts_are_spread_from_the_first_to_the_last() {
        let all = |picked, count| (0..picked).map(|index| spread(index, picked, count)).collect::<Vec<_>>();
        assert_eq!(all(3, 3), [0, 1, 2]);
        assert_eq!(all(3, 101), [0, 50, 100]);
        assert_eq!(all(1, 5), [0]);
        assert_eq!(all(2, u64::MAX), [0, u64::MAX - 1]);
    }

    #[test]
    fn the_first_and_the_last_byte_of_large_files_count() {
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
