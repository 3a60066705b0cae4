//! Declared lengths of sequences, which determine their order and the sizes of minibatches. Each
//! chunk begins with the lengths of its sequences; they are read when the file is opened.

use super::header::{ChunkRecord, Header};
use byteorder::{ByteOrder, LE};
use cntk_reader_core::file::DataFile;
use cntk_reader_core::format::Lengths;
use cntk_reader_core::memory::room;
use cntk_reader_core::runtime::cancel::carried;
use cntk_reader_core::sequence::{ChunkId, SequenceId, SequenceKey};
use cntk_reader_core::{Error, Result};
use rayon::prelude::*;

/// Chunks up to this size are read completely while lengths are collected, many at a time, rather
/// than skipped: in files from CNTK 2.7's converter, nearly every sequence is a separate chunk.
const SMALL_CHUNK: u64 = 64 << 10;

/// Size of a read of small chunks in bytes.
const BLOCK: u64 = 256 << 10;

/// Number of chunks whose tables one task collects.
const TASK: usize = 512;

/// Lengths of all sequences, and the start of each chunk among them.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct LengthTable {
    /// Ordinal of each chunk's first sequence; the last entry is the number of all sequences.
    firsts: Vec<u64>,
    /// Empty if all are 1.
    lengths: Vec<u32>,
}

impl LengthTable {
    /// Creates a table from the lengths of all sequences, in order.
    pub fn new(chunks: &[ChunkRecord], mut lengths: Vec<u32>) -> Result<Self> {
        let mut firsts = room::with_capacity(chunks.len() + 1, room::INDEX)?;
        let mut first = 0;
        firsts.push(first);
        for record in chunks {
            first += u64::from(record.sequences);
            firsts.push(first);
        }
        if lengths.iter().all(|&length| length == 1) {
            lengths = Vec::new();
        }
        Ok(LengthTable { firsts, lengths })
    }

    /// Reads the lengths at the start of each chunk.
    pub fn read(file: &DataFile, header: &Header) -> Result<Self> {
        let pieces = header
            .chunks
            .par_chunks(TASK)
            .enumerate()
            .map(carried(|(task, records): (usize, &[_])| read_tables(file, records, task * TASK)))
            .collect::<Result<Vec<_>>>()?;
        Self::new(&header.chunks, room::concat(&pieces, room::INDEX)?)
    }

    /// Memory in use, in bytes.
    pub fn bytes(&self) -> usize {
        size_of_val(self.firsts.as_slice()) + size_of_val(self.lengths.as_slice())
    }

    /// Number of sequences.
    pub fn total(&self) -> u64 {
        self.firsts.last().copied().unwrap_or(0)
    }

    /// Ordinal of a chunk's first sequence.
    pub fn first(&self, chunk: ChunkId) -> u64 {
        self.firsts[chunk as usize]
    }

    /// Lengths of a chunk's sequences.
    pub fn of(&self, chunk: ChunkId) -> Lengths<'_> {
        if self.lengths.is_empty() {
            return Lengths::Ones;
        }
        let range = self.firsts[chunk as usize] as usize..self.firsts[chunk as usize + 1] as usize;
        Lengths::Each(&self.lengths[range])
    }

    /// Finds the sequence with this ordinal.
    pub fn find(&self, key: SequenceKey) -> Option<SequenceId> {
        if key >= self.total() {
            return None;
        }
        let chunk = self.firsts.partition_point(|&first| first <= key) - 1;
        Some(SequenceId { chunk: chunk as ChunkId, index: (key - self.firsts[chunk]) as u32 })
    }
}

/// Reads the lengths at the start of consecutive chunks, the first of which is chunk `number`.
fn read_tables(file: &DataFile, records: &[ChunkRecord], number: usize) -> Result<Vec<u32>> {
    let count = records.iter().map(|record| record.sequences as usize).sum();
    let mut lengths = room::with_capacity(count, room::INDEX)?;
    let end = records.last().map_or(0, |record| record.end);
    let path = file.path();
    let (mut block, mut block_at) = (Vec::new(), 0);
    for (number, record) in (number..).zip(records) {
        let size = 4 * u64::from(record.sequences);
        let within = record.start >= block_at && record.start + size <= block_at + block.len() as u64;
        if !within {
            let small = record.end - record.start <= SMALL_CHUNK;
            let wanted = if small { BLOCK.min(end - record.start).max(size) } else { size };
            block_at = record.start;
            room::resize(&mut block, wanted as usize, 0, room::FILE)?;
            let count = file.read_at(record.start, &mut block)?;
            block.truncate(count);
            if (count as u64) < size {
                let message = format!("Error reading file '{path}': it ends inside chunk {number}.");
                let detail = format!(
                    "The chunk begins with {size} bytes of lengths: the file is not complete. Write or copy it again."
                );
                return Err(Error::data(message).with_detail(detail).in_file(path).at(record.start, None));
            }
        }
        let table = &block[(record.start - block_at) as usize..][..size as usize];
        let before = lengths.len();
        lengths.resize(before + record.sequences as usize, 0);
        LE::read_u32_into(table, &mut lengths[before..]);
        let samples: u64 = lengths[before..].iter().map(|&length| u64::from(length)).sum();
        if samples != u64::from(record.samples) {
            let message = format!(
                "The chunk table gives chunk {number} {} samples, but the lengths of its {} sequences add up to {samples}.",
                record.samples, record.sequences
            );
            let error = Error::data(message).with_detail("The file is damaged: convert the data again.");
            return Err(error.in_file(path).at(record.start, None));
        }
    }
    Ok(lengths)
}

#[cfg(test)]
mod tests {
    use super::super::header::{Layout, VERSION};
    use super::*;
    use cntk_reader_core::file::faults::{Fault, Faults, Operation};

    /// Writes chunks of these sizes and lengths, and returns their header.
    fn written(path: &str, chunks: &[(usize, Vec<u32>)]) -> Header {
        let (mut bytes, mut records) = (vec![7; 12], Vec::new());
        for (size, lengths) in chunks {
            let start = bytes.len() as u64;
            bytes.extend(lengths.iter().flat_map(|length| length.to_le_bytes()));
            bytes.resize(start as usize + size, 0xee);
            let (end, sequences, samples) = (bytes.len() as u64, lengths.len() as u32, lengths.iter().sum());
            records.push(ChunkRecord { start, end, sequences, samples });
        }
        std::fs::write(path, bytes).expect("writing");
        Header { layout: Layout::Cntk, version: VERSION, streams: Vec::new(), chunks: records }
    }

    fn lengths_of(number: usize) -> Vec<u32> {
        (0..1 + number % 4).map(|index| (number + index) as u32 % 5).collect()
    }

    #[test]
    fn small_chunks_are_read_together() {
        const SMALL: usize = SMALL_CHUNK as usize;
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("data.cbf").display().to_string();
        let of_sizes = |sizes: &[usize]| -> Vec<(usize, Vec<u32>)> {
            sizes.iter().enumerate().map(|(number, &size)| (size, lengths_of(number))).collect()
        };
        // Four chunks, and a last one whose lengths begin in the first block.
        let at_the_end = |sequences: usize| {
            let mut chunks = vec![(60_000, vec![3; 15_000]); 4];
            chunks.push((60_000, vec![2; sequences]));
            chunks
        };
        let left = (BLOCK as usize - 240_000) / 4;
        for (chunks, reads) in [
            (of_sizes(&[]), 0),
            (of_sizes(&[100; TASK + 88]), 2),
            (of_sizes(&[SMALL, 100, 100]), 1),
            (of_sizes(&[SMALL + 1, 100, 100]), 2),
            (of_sizes(&[100, SMALL + 1, 100]), 1),
            (at_the_end(left), 1),
            (at_the_end(left + 1), 2),
            (at_the_end(15_000), 2),
        ] {
            let header = written(&path, &chunks);
            let file = DataFile::open(&path).expect("a file");
            let faults = Faults::of(&path);
            faults.inject(Operation::Read, Fault::Reads(usize::MAX), 0, 100);
            let table = LengthTable::read(&file, &header).expect("lengths");
            assert_eq!(100 - faults.left(), reads, "{} chunks", chunks.len());
            let lengths: Vec<u32> = chunks.iter().flat_map(|(_, lengths)| lengths).copied().collect();
            assert_eq!(table, LengthTable::new(&header.chunks, lengths).expect("memory"));
        }
    }

    #[test]
    fn damaged_tables_are_rejected() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("data.cbf").display().to_string();
        let chunks: Vec<_> = (0..TASK + 2).map(|number| (100, lengths_of(number))).collect();
        let header = written(&path, &chunks);
        let read = |header: &Header| LengthTable::read(&DataFile::open(&path).expect("a file"), header);
        let last = header.chunks[TASK + 1];
        let resize = |size: u64| {
            let file = std::fs::File::options().write(true).open(&path).expect("a file");
            file.set_len(size).expect("another size");
        };
        let size = 4 * u64::from(last.sequences);
        resize(last.start + size);
        assert!(read(&header).is_ok());
        resize(last.start + size - 1);
        let error = read(&header).expect_err("an error");
        assert_eq!(error.message(), format!("Error reading file '{path}': it ends inside chunk 513."));
        assert!(error.detail().contains(&format!("begins with {size} bytes of lengths")), "{error}");
        assert_eq!(error.location().offset, Some(last.start));

        let mut header = written(&path, &chunks);
        header.chunks[TASK].samples += 1;
        let error = read(&header).expect_err("an error");
        let (found, sequences): (u32, usize) = (lengths_of(TASK).iter().sum(), lengths_of(TASK).len());
        let expected = format!(
            "The chunk table gives chunk 512 {} samples, but the lengths of its {sequences} sequences add up to {found}.",
            found + 1
        );
        assert_eq!((error.message(), error.location().offset), (&*expected, Some(header.chunks[TASK].start)));
    }

    #[test]
    fn sequences_are_found_by_ordinal() {
        let record = |sequences| ChunkRecord { start: 0, end: 0, sequences, samples: 0 };
        let chunks = [record(2), record(1), record(3)];
        let id = |chunk, index| Some(SequenceId { chunk, index });
        for (lengths, of_chunks, bytes) in [
            (
                vec![5, 1, 7, 1, 0, 2],
                [Lengths::Each(&[5, 1]), Lengths::Each(&[7]), Lengths::Each(&[1, 0, 2])],
                4 * 8 + 6 * 4,
            ),
            (vec![1; 6], [Lengths::Ones; 3], 4 * 8),
        ] {
            let table = LengthTable::new(&chunks, lengths).expect("memory");
            assert_eq!((table.total(), table.bytes()), (6, bytes));
            assert_eq!([0, 1, 2].map(|chunk| table.first(chunk)), [0, 2, 3]);
            assert_eq!([0, 1, 2].map(|chunk| table.of(chunk)), of_chunks);
            let found = [0, 1, 2, 3, 5, 6, u64::MAX].map(|key| table.find(key));
            assert_eq!(found, [id(0, 0), id(0, 1), id(1, 0), id(2, 0), id(2, 2), None, None]);
        }
        let empty = LengthTable::default();
        assert_eq!((empty.total(), empty.find(0)), (0, None));
    }
}
