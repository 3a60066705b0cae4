//! Memory for chunks. Buffers are reused, because touching fresh pages costs more than reading.
//! Huge pages make the first sweep over dense data about 20 % faster.

#![allow(unsafe_code, reason = "filled without being cleared before")]

use crate::file::DataFile;
use crate::memory::huge::{self, HUGE_PAGE};
use crate::memory::{AlignedBytes, Held, Meter, room};
use crate::runtime::cancel::carried;
use crate::runtime::lock::Mutex;
use crate::{Error, Result, memory};
use rayon::prelude::*;
use std::collections::VecDeque;
use std::mem::MaybeUninit;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes that one thread reads at a time: few enough that fresh pages, which the kernel has just
/// zeroed, are still in its cache when they are filled.
const PIECE: usize = 512 << 10;

/// Bytes of fresh memory that are populated together ahead of small writes.
const STEP: usize = 128 << 10;

/// A chunk's memory: its bytes, and how much has ever been written. Chunks take a buffer from a
/// [`BufferPool`], append to it in any mixture of ways, and return it when they are dropped. An
/// empty buffer ([`Default`]) belongs to no pool.
#[derive(Debug, Default)]
pub struct ChunkBuffer {
    bytes: AlignedBytes,
    /// Leading bytes whose pages are already populated.
    touched: usize,
    /// Counts the memory while it exists.
    _held: Held,
}

impl ChunkBuffer {
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.bytes
    }

    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    pub fn truncate(&mut self, length: usize) {
        self.bytes.truncate(length);
    }

    /// Returns `count` bytes of memory past the end, not yet part of the buffer.
    #[inline(always)]
    fn spare(&mut self, count: usize) -> Result<&mut [MaybeUninit<u8>]> {
        if self.bytes.len() + count > self.touched || count > self.bytes.capacity() - self.bytes.len() {
            self.grow(count)?;
        }
        Ok(&mut self.bytes.spare_capacity_mut()[..count])
    }

    #[cold]
    fn grow(&mut self, count: usize) -> Result<()> {
        // A no-op for buffers from `BufferPool::take`, which are large enough for their chunk.
        self.bytes.reserve(count)?;
        let length = self.bytes.len();
        let spare = self.bytes.spare_capacity_mut();
        let end = count.max(STEP).min(spare.len());
        memory::populate(&mut spare[self.touched.saturating_sub(length).min(end)..end]);
        self.touched = self.touched.max(length + end);
        Ok(())
    }

    /// Appends the result of `bytes_of` for each number.
    #[inline(always)]
    pub fn extend<T: Copy, const N: usize>(
        &mut self,
        numbers: &[T],
        bytes_of: impl Fn(T) -> [u8; N],
    ) -> Result<()> {
        let count = numbers.len() * N;
        let spare = self.spare(count)?.as_chunks_mut::<N>().0;
        for (target, &number) in spare.iter_mut().zip(numbers) {
            *target = bytes_of(number).map(MaybeUninit::new);
        }
        // SAFETY: `spare` was the `count` bytes past the end, within the capacity. `count` is
        // `numbers.len() * N`, so `spare` consists of exactly `numbers.len()` chunks of `N` bytes,
        // and the loop has written every one.
        unsafe { self.bytes.set_len(self.bytes.len() + count) };
        Ok(())
    }

    /// Appends bytes.
    pub fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.extend(bytes, |byte| [byte])
    }

    /// Appends a range of the file. Must run on a thread of the pool, whose threads share the work.
    pub fn read(&mut self, file: &DataFile, range: Range<u64>) -> Result<()> {
        let (length, size) = (self.bytes.len(), (range.end - range.start) as usize);
        self.bytes.reserve(size)?;
        let touched = self.touched.saturating_sub(length);
        let read = |first: usize, piece: &mut [MaybeUninit<u8>]| {
            let is_huge = touched <= first && huge::populate(piece);
            for (first, piece) in (first..).step_by(PIECE).zip(piece.chunks_mut(PIECE)) {
                if !is_huge {
                    let fresh = touched.saturating_sub(first).min(piece.len());
                    memory::populate(&mut piece[fresh..]);
                }
                file.fill_at(range.start + first as u64, piece)?;
            }
            Ok(())
        };
        let spare = &mut self.bytes.spare_capacity_mut()[..size];
        if size <= PIECE {
            read(0, spare)?;
        } else {
            let address = spare.as_ptr().addr();
            let before = size.min(address.next_multiple_of(HUGE_PAGE) - address);
            let (head, rest) = spare.split_at_mut(before);
            let pieces = rest.par_chunks_mut(HUGE_PAGE).enumerate();
            let pieces = pieces.map(|(number, piece)| (before + number * HUGE_PAGE, piece));
            let pieces = rayon::iter::once((0, head)).chain(pieces);
            // One task per piece, so that all threads finish at about the same time.
            let results: Vec<Result<()>> = pieces
                .with_max_len(1)
                .map(carried(|(first, piece): (usize, &mut [MaybeUninit<u8>])| read(first, piece)))
                .collect();
            // The first failure in file order, whichever thread failed first.
            results.into_iter().collect::<Result<()>>()?;
        }
        // SAFETY: `spare` was the `size` bytes past the end, within the capacity that `reserve` has
        // ensured. The pieces cover it, and `fill_at` has written all of each: a failed one has
        // returned above.
        unsafe { self.bytes.set_len(length + size) };
        self.touched = self.touched.max(length + size);
        Ok(())
    }

    /// Appends parts of the given sizes. `fill` fills each part, given its number; the rest of the
    /// part is zeroed. Returns the results of `fill`, or the first failure, in the order of the
    /// parts. Must run on a thread of the pool, whose threads share the work.
    pub fn fill_parts<R: Send>(
        &mut self,
        sizes: impl Iterator<Item = usize>,
        fill: impl Fn(usize, &mut BufferPart<'_>) -> Result<R> + Sync,
    ) -> Result<Vec<R>> {
        let (length, mut end) = (self.bytes.len(), self.bytes.len());
        let sizes = room::collect(sizes.inspect(|size| end += size), room::CHUNK)?;
        self.bytes.reserve(end - length)?;
        let (mut spare, mut first) = (&mut self.bytes.spare_capacity_mut()[..end - length], length);
        populate_huge_pages(&mut spare[self.touched.saturating_sub(length).min(end - length)..]);
        let mut parts = room::with_capacity(sizes.len(), room::CHUNK)?;
        for size in sizes {
            let (memory, rest) = spare.split_at_mut(size);
            parts.push(BufferPart {
                memory,
                filled: 0,
                touched: self.touched.saturating_sub(first).min(size),
            });
            (spare, first) = (rest, first + size);
        }
        let fill_one = |(number, mut part): (usize, BufferPart<'_>)| {
            let result = fill(number, &mut part)?;
            part.zero_until(part.memory.len());
            Ok(result)
        };
        let mut results = room::with_capacity(parts.len(), room::CHUNK)?;
        parts.into_par_iter().enumerate().map(carried(fill_one)).collect_into_vec(&mut results);
        let results = room::try_collect(results, room::CHUNK)?;
        // SAFETY: the parts were the bytes from `length` to `end`, within the capacity that
        // `reserve` has ensured. No part has failed, or the line above would have returned, so
        // `zero_until` has run for each part and written everything after its first `filled` bytes.
        // Those are written too: only `BufferPart::read` and `zero_until` raise `filled`, after
        // writing that far.
        unsafe { self.bytes.set_len(end) };
        self.touched = self.touched.max(end);
        Ok(results)
    }
}

/// Gets huge pages for the whole huge pages in memory that is about to be written for the first
/// time. Packing picks single frames of utterances from all over a chunk; with small pages it would
/// spend most of its time on TLB misses.
fn populate_huge_pages(memory: &mut [MaybeUninit<u8>]) {
    let address = memory.as_ptr().addr();
    let before = memory.len().min(address.next_multiple_of(HUGE_PAGE) - address);
    memory[before..].par_chunks_exact_mut(HUGE_PAGE).for_each(|page| {
        huge::populate(page);
    });
}

/// A part of a chunk's memory that is filled from front to back, from one or more files.
#[derive(Debug)]
pub struct BufferPart<'a> {
    memory: &'a mut [MaybeUninit<u8>],
    /// Leading bytes that have been written.
    filled: usize,
    /// Leading bytes whose pages are already populated.
    touched: usize,
}

impl BufferPart<'_> {
    /// Fills the next bytes with a range of the file.
    pub fn read(&mut self, file: &DataFile, range: Range<u64>) -> Result<()> {
        let size = (range.end - range.start) as usize;
        let Some(target) = self.memory[self.filled..].get_mut(..size) else {
            return Err(Error::internal("A file has more bytes for a part of a chunk than were planned."));
        };
        let touched = self.touched.saturating_sub(self.filled);
        for (first, piece) in (0..).step_by(PIECE).zip(target.chunks_mut(PIECE)) {
            let fresh = touched.saturating_sub(first).min(piece.len());
            memory::populate(&mut piece[fresh..]);
            file.fill_at(range.start + first as u64, piece)?;
        }
        self.filled += size;
        Ok(())
    }

    /// Zeroes the bytes from the filled ones up to `end`.
    pub fn zero_until(&mut self, end: usize) {
        let end = end.clamp(self.filled, self.memory.len());
        self.memory[self.filled..end].fill(MaybeUninit::new(0));
        self.filled = end;
    }
}

/// Maximum number of idle buffers. A window of one chunk, or chunks loaded ahead, return one buffer
/// at a time; when a window of many chunks moves, it returns as many buffers as it takes.
const KEPT: usize = 4;

/// Empty buffers for reuse.
#[derive(Debug)]
pub struct BufferPool {
    waiting: Mutex<VecDeque<ChunkBuffer>>,
    /// Size of the largest chunk, in bytes.
    largest: AtomicU64,
    /// Bytes of all buffers, in use or idle.
    meter: Meter,
}

impl BufferPool {
    /// Creates a pool without buffers, for chunks of up to `largest` bytes.
    pub fn new(largest: u64) -> Self {
        BufferPool { waiting: Mutex::default(), largest: AtomicU64::new(largest), meter: Meter::default() }
    }

    /// Prepares for chunks of up to `largest` bytes, if they are larger than expected so far.
    pub fn expect(&self, largest: u64) {
        self.largest.fetch_max(largest, Ordering::Relaxed);
    }

    /// Bytes of all buffers, in use or idle.
    pub fn held(&self) -> u64 {
        self.meter.bytes()
    }

    /// Bytes to reserve for a chunk: the size of the largest chunk, if this one is at least half as
    /// large. So nearly all chunks of a file fit into the same buffers; memory beyond a buffer's
    /// data is never touched.
    fn capacity_for(&self, size: u64) -> u64 {
        let largest = self.largest.load(Ordering::Relaxed);
        if size >= largest / 2 { largest.max(size) } else { size }
    }

    /// Takes an empty buffer with memory for the chunk that is `range` of the file. For a chunk
    /// that is not a range of one file, pass `0..size`. Fails if memory is exhausted; only that
    /// error uses `path` and the start of the range.
    pub fn take(&self, path: &str, range: &Range<u64>) -> Result<ChunkBuffer> {
        let size = range.end - range.start;
        let capacity = usize::try_from(self.capacity_for(size)).unwrap_or(usize::MAX);
        let fits =
            |buffer: &ChunkBuffer| (capacity..=capacity.saturating_mul(2)).contains(&buffer.bytes.capacity());
        let mut waiting = self.waiting.lock();
        if let Some(found) = waiting.iter().position(fits).and_then(|at| waiting.remove(at)) {
            return Ok(found);
        }
        drop(waiting);
        let bytes = AlignedBytes::with_capacity(capacity);
        let bytes = bytes.map_err(|error| error.in_file(path).at(range.start, None))?;
        let held = self.meter.hold(bytes.capacity());
        Ok(ChunkBuffer { bytes, touched: 0, _held: held })
    }

    /// Returns a buffer to the pool.
    pub fn give_back(&self, mut buffer: ChunkBuffer) {
        if buffer.bytes.capacity() == 0 {
            return;
        }
        buffer.bytes.truncate(0);
        let mut waiting = self.waiting.lock();
        waiting.push_back(buffer);
        let dropped = if waiting.len() > KEPT { waiting.pop_front() } else { None };
        // Free the memory outside the lock.
        drop(waiting);
        drop(dropped);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_reused_and_bounded() {
        let buffers = BufferPool::new(10_000);
        let take = |size| buffers.take("file", &(7..7 + size));
        let first = take(9_000).expect("memory");
        assert!(first.bytes.capacity() >= 10_000);
        let address = first.bytes.as_ptr();
        buffers.give_back(first);
        let again = take(9_500).expect("memory");
        assert_eq!(again.bytes.as_ptr(), address);
        for _ in 0..9 {
            buffers.give_back(ChunkBuffer {
                bytes: AlignedBytes::with_capacity(100).expect("memory"),
                ..ChunkBuffer::default()
            });
        }
        assert_eq!(buffers.waiting.lock().len(), KEPT);
        assert!((200..10_000).contains(&take(200).expect("memory").bytes.capacity()));
        assert!(take(u64::MAX - 7).is_err());
    }

    #[test]
    fn appended_and_read_bytes_stay_in_order() {
        let mut file = tempfile::tempfile().expect("a file");
        let data: Vec<u8> = (0..(2 * HUGE_PAGE + 3 * PIECE + 5) as u32).map(|n| (n % 251) as u8).collect();
        std::io::Write::write_all(&mut file, &data).expect("writing");
        let file = DataFile::from_file(file, "file");
        let mut buffer = ChunkBuffer::default();
        let mut expected = Vec::new();
        for round in 0..3u8 {
            let numbers: Vec<u16> = (0..40_000).map(|number| number ^ u16::from(round)).collect();
            buffer.extend(&numbers, u16::to_le_bytes).expect("memory");
            expected.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
            let from = usize::from(round) * 1000;
            buffer.read(&file, from as u64..data.len() as u64).expect("reading");
            expected.extend(&data[from..]);
            buffer.append(&[round]).expect("memory");
            expected.push(round);
            assert!(buffer.bytes() == expected);
            assert!(buffer.touched >= buffer.len());
        }
        for round in 0..2 {
            let sizes = [10, 0, 700_000, 33];
            let fill = |number: usize, part: &mut BufferPart<'_>| {
                let size = sizes[number] as u64 / (1 + round);
                part.read(&file, 5..5 + size / 2)?;
                part.read(&file, 5 + size / 2..5 + size)?;
                Ok(number)
            };
            assert_eq!(buffer.fill_parts(sizes.into_iter(), fill).expect("reading"), [0, 1, 2, 3]);
            for size in sizes {
                let read = size / (1 + round as usize);
                expected.extend(&data[5..5 + read]);
                expected.resize(expected.len() + size - read, 0);
            }
            assert!(buffer.bytes() == expected);
            let too_much = |_: usize, part: &mut BufferPart<'_>| part.read(&file, 0..11);
            assert!(buffer.fill_parts([10, 10].into_iter(), too_much).is_err());
            let failing = |number: usize, _: &mut BufferPart<'_>| match number {
                0 => Ok(()),
                number => Err(Error::data(number.to_string())),
            };
            let error = buffer.fill_parts([10; 9].into_iter(), failing).expect_err("an error");
            assert_eq!(error.message(), "1");
            assert!(buffer.bytes() == expected);
        }
        let error = buffer.read(&file, 7..data.len() as u64 + 1).expect_err("an error");
        assert_eq!(error.location().offset, Some(data.len() as u64));
        buffer.truncate(10);
        assert_eq!(buffer.bytes(), &expected[..10]);
    }
}
