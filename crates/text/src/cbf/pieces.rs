//! A chunk's bytes from front to back, piece by piece, in memory that each thread reuses.

#![allow(unsafe_code, reason = "reads into uninitialized memory")]

use super::context::ChunkContext;
use cntk_reader_core::Result;
use cntk_reader_core::memory::room;
use std::cell::Cell;

/// Bytes that are read at a time: few enough to be examined and copied while they are in the cache.
const PIECE: usize = 256 << 10;

/// Maximum amount of memory that a thread keeps, in bytes.
const KEPT: usize = 8 << 20;

thread_local! {
    static SCRATCH: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// A position in a chunk, and the bytes from there on that are in memory.
pub struct Pieces<'a> {
    pub chunk: &'a ChunkContext<'a>,
    scratch: Vec<u8>,
    /// The position in `scratch`.
    here: usize,
    /// Offset in the chunk of the first byte in `scratch`.
    base: usize,
    /// Size of the chunk in bytes.
    size: usize,
}

impl<'a> Pieces<'a> {
    /// Starts at a chunk's first byte.
    pub fn new(chunk: &'a ChunkContext<'a>) -> Self {
        let size = (chunk.record.end - chunk.record.start) as usize;
        // Taken and put back, so that nested use gets separate memory and a panic leaves none.
        let mut scratch = SCRATCH.try_with(Cell::take).unwrap_or_default();
        scratch.clear();
        Pieces { chunk, scratch, here: 0, base: 0, size }
    }

    /// The position, as an offset in the chunk.
    #[inline(always)]
    pub fn at(&self) -> usize {
        self.base + self.here
    }

    /// Bytes from here to the end of the chunk.
    #[inline(always)]
    pub fn left(&self) -> usize {
        self.size - self.at()
    }

    /// Returns the bytes from the position on: at least `count`, unless the chunk ends first.
    #[inline(always)]
    pub fn look(&mut self, count: usize) -> Result<&[u8]> {
        if count > self.scratch.len() - self.here {
            self.refill(count)?;
        }
        Ok(&self.scratch[self.here..])
    }

    /// Advances by `count` bytes, all of which [`Pieces::look`] has returned.
    #[inline(always)]
    pub fn pass(&mut self, count: usize) {
        self.here += count;
    }

    /// Moves to an offset in the chunk.
    pub fn seek(&mut self, at: usize) {
        (self.base, self.here) = (at, 0);
        self.scratch.clear();
    }

    #[cold]
    fn refill(&mut self, count: usize) -> Result<()> {
        let rest = self.scratch.len() - self.here;
        self.base += self.here;
        self.scratch.copy_within(self.here.., 0);
        self.scratch.truncate(rest);
        self.here = 0;
        let wanted = count.max(PIECE).min(self.left());
        let missing = wanted.saturating_sub(rest);
        room::reserve(&mut self.scratch, missing, room::CHUNK)?;
        let from = self.chunk.record.start + (self.base + rest) as u64;
        let spare = &mut self.scratch.spare_capacity_mut()[..missing];
        self.chunk.file.fill_at(from, spare)?;
        // SAFETY: `spare` is the first `missing` bytes past the `rest` initialized ones, within the
        // capacity that `reserve` has ensured, and `fill_at` has written all of them.
        unsafe { self.scratch.set_len(rest + missing) };
        Ok(())
    }
}

impl Drop for Pieces<'_> {
    fn drop(&mut self) {
        if self.scratch.capacity() <= KEPT {
            let scratch = std::mem::take(&mut self.scratch);
            let _ = SCRATCH.try_with(|place| place.set(scratch));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::context::with_chunk;
    use super::super::header::ChunkRecord;
    use super::*;
    use cntk_reader_core::file::DataFile;
    use std::io::Write;

    /// Runs `test` with a chunk from byte `start` on, and its bytes, on a thread of its own.
    fn with_pieces(size: usize, start: usize, test: impl FnOnce(Pieces<'_>, &[u8]) + Send) {
        let data: Vec<u8> = (0..start + size + 1000).map(|at| (at % 251) as u8).collect();
        let mut file = tempfile::tempfile().expect("a file");
        file.write_all(&data).expect("writing");
        let file = DataFile::from_file(file, "data.cbf");
        let record =
            ChunkRecord { start: start as u64, end: (start + size) as u64, sequences: 0, samples: 0 };
        std::thread::scope(|scope| {
            scope.spawn(|| {
                with_chunk(&file, Vec::new(), record, |chunk| {
                    test(Pieces::new(chunk), &data[start..][..size]);
                });
            });
        });
    }

    #[test]
    fn pieces_are_the_bytes_of_the_chunk() {
        let size = 3 * PIECE + 500;
        with_pieces(size, 70, |mut pieces, data| {
            let mut at = 0;
            for (count, passed) in [
                (0, 0),
                (4, 4),
                (PIECE - 4, 100),
                (PIECE, 7),
                (PIECE + 9, PIECE + 9),
                (1, 1),
                (8, 0),
                (usize::MAX, 300),
                (usize::MAX, usize::MAX),
                (1, 0),
            ] {
                assert_eq!((pieces.at(), pieces.left()), (at, size - at));
                let expected = count.min(size - at);
                let seen = pieces.look(count.min(size)).expect("bytes");
                assert!(seen.len() >= expected && *seen == data[at..][..seen.len()], "{count} bytes at {at}");
                let passed = passed.min(size - at);
                pieces.pass(passed);
                at += passed;
            }
            pieces.seek(PIECE);
            assert!(*pieces.look(10).expect("bytes") == data[PIECE..2 * PIECE]);
            pieces.seek(3);
            assert!(*pieces.look(10).expect("bytes") == data[3..][..PIECE]);
            pieces.pass(100);
            // Nothing is read while the bytes at hand suffice.
            assert_eq!(pieces.look(PIECE - 100).expect("bytes").len(), PIECE - 100);
            assert_eq!(pieces.look(PIECE - 99).expect("bytes").len(), PIECE);
        });
    }

    #[test]
    fn memory_is_kept_for_the_thread_unless_it_is_large() {
        for (size, is_kept) in [(1000, true), (KEPT, true), (KEPT + 1, false)] {
            with_pieces(size, 0, |mut pieces, data| {
                pieces.look(size).expect("bytes");
                drop(pieces);
                let scratch = SCRATCH.take();
                assert_eq!(scratch.capacity() > 0, is_kept, "{size}");
                assert!(!is_kept || scratch == data);
            });
        }
    }
}
