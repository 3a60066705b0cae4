//! Writes CBF, in the layout that CNTK 2.7 reads.

use super::data::Batch;
use super::output::Output;
use cntk_reader_core::memory::room;
use cntk_reader_core::stream::{ElementType, Storage, StreamInfo};
use cntk_reader_core::{Error, Result};
use cntk_reader_text::cbf::header::{MAGIC, TYPED_VERSION, VERSION};

/// Size of an entry of the chunk table: offset, sequences, samples.
const ENTRY: usize = 16;

/// A stream of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct BinaryStream {
    pub name: String,
    pub storage: Storage,
    /// Number of values of a sample.
    pub dim: u32,
    pub element: ElementType,
    /// The number of classes if values are class numbers, otherwise 0.
    pub classes: u32,
}

impl BinaryStream {
    /// Returns the stream of the file for a stream of the data.
    pub fn of(stream: &StreamInfo) -> Result<BinaryStream> {
        let size = stream.sample_size();
        let dim = u32::try_from(size).ok().filter(|&dim| dim <= i32::MAX as u32).ok_or_else(|| {
            let message = format!("The stream '{}' has samples of {size} values.", stream.name);
            Error::argument(message)
                .with_detail("The binary format holds samples of at most 2147483647 values.")
                .in_stream(&stream.name)
        })?;
        let (name, storage, element) = (stream.name.clone(), stream.storage, stream.element);
        // Never out of range: the text format allows at most 2147483647 classes.
        let classes = stream.classes.and_then(|classes| classes.try_into().ok()).unwrap_or(0);
        Ok(BinaryStream { name, storage, dim, element, classes })
    }
}

/// Returns the version of a file with these streams: CNTK's, if it can represent them. A file of
/// CNTK's version has a single float type.
fn version_of(streams: &[BinaryStream]) -> u32 {
    let first = streams.first().map(|stream| stream.element);
    let is_of_cntk = |stream: &BinaryStream| {
        stream.element.is_real() && stream.classes == 0 && Some(stream.element) == first
    };
    if streams.iter().all(is_of_cntk) { VERSION } else { TYPED_VERSION }
}

/// The part of the open chunk that belongs to one stream.
#[derive(Default)]
pub(super) struct BinaryColumn {
    /// Finished sequences, in the format of the file.
    block: Vec<u8>,
    /// Number of samples, values, indices and counts of the open sequence.
    pub samples: u32,
    pub values: Vec<u8>,
    pub indices: Vec<u8>,
    pub counts: Vec<u8>,
}

impl BinaryColumn {
    /// Counts a sample of the open sequence.
    pub fn end_sample(&mut self) -> Result<()> {
        self.samples = self.samples.checked_add(1).ok_or_else(|| Error::data("The sequence is too long."))?;
        Ok(())
    }
}

/// Writes a file sequence by sequence, chunk by chunk.
pub(super) struct BinaryWriter {
    output: Output,
    streams: Vec<BinaryStream>,
    columns: Vec<BinaryColumn>,
    /// Lengths of the finished sequences of the open chunk.
    lengths: Vec<u32>,
    samples: u64,
    sequences: u64,
    /// Offset, sequences and samples of the finished chunks.
    table: Vec<(u64, u32, u32)>,
}

impl BinaryWriter {
    pub fn create(mut output: Output, streams: Vec<BinaryStream>) -> Result<BinaryWriter> {
        output.write(&MAGIC.to_le_bytes())?;
        output.write(&version_of(&streams).to_le_bytes())?;
        let columns = streams.iter().map(|_| BinaryColumn::default()).collect();
        Ok(BinaryWriter {
            output,
            streams,
            columns,
            lengths: Vec::new(),
            samples: 0,
            sequences: 0,
            table: Vec::new(),
        })
    }

    /// Returns the number of finished sequences.
    pub fn sequences(&self) -> u64 {
        self.sequences
    }

    /// Returns the data of the open sequence in a stream.
    pub fn column(&mut self, stream: usize) -> &mut BinaryColumn {
        &mut self.columns[stream]
    }

    /// Moves the open sequence to the chunk.
    pub fn end_sequence(&mut self) -> Result<()> {
        let mut length = 0;
        for (column, stream) in self.columns.iter_mut().zip(&self.streams) {
            length = length.max(column.samples);
            let parts = column.values.len() + column.indices.len() + column.counts.len();
            room::reserve(&mut column.block, 2 * size_of::<u32>() + parts, room::CONVERSION)?;
            column.block.extend(column.samples.to_le_bytes());
            if stream.storage == Storage::SparseCsc {
                column.block.extend(((column.indices.len() / 4) as u32).to_le_bytes());
            }
            for part in [&mut column.values, &mut column.indices, &mut column.counts] {
                column.block.append(part);
            }
            column.samples = 0;
        }
        self.sequences += 1;
        self.samples += u64::from(length);
        room::push(&mut self.lengths, length, room::CONVERSION)
    }

    /// Whether the chunk has to end, because another sequence could overflow the 32-bit fields of
    /// the chunk table.
    pub fn is_chunk_full(&self) -> bool {
        self.samples > u64::from(u32::MAX / 2) || self.lengths.len() >= i32::MAX as usize
    }

    pub fn end_chunk(&mut self) -> Result<()> {
        let samples = u32::try_from(self.samples)
            .map_err(|_| Error::data("A chunk has more than 4294967295 samples."))?;
        let chunk = (self.output.at(), self.lengths.len() as u32, samples);
        room::push(&mut self.table, chunk, room::CONVERSION)?;
        for length in self.lengths.drain(..) {
            self.output.write(&length.to_le_bytes())?;
        }
        for column in &mut self.columns {
            self.output.write(&column.block)?;
            column.block.clear();
        }
        self.samples = 0;
        Ok(())
    }

    /// Appends sequences; a chunk ends with the sequence that reaches `chunk_size` bytes. `chunk`
    /// counts the bytes of the open chunk.
    pub fn append(&mut self, batch: &Batch, chunk_size: u64, chunk: &mut u64) -> Result<()> {
        let mut at: Vec<_> = batch.columns.iter().map(|_| (0, 0, 0)).collect();
        for number in 0..batch.keys.len() {
            // End chunks only before another sequence: `finish` ends the last one.
            if *chunk >= chunk_size && !self.lengths.is_empty() || self.is_chunk_full() {
                self.end_chunk()?;
                *chunk = 0;
            }
            let streams = self.columns.iter_mut().zip(&self.streams).zip(&batch.columns).zip(&mut at);
            for (((out, stream), column), (samples, entries, bytes)) in streams {
                let length = column.lengths[number] as usize;
                let size = stream.element.size();
                out.samples = length as u32;
                let count = match stream.storage {
                    Storage::Dense => length * stream.dim as usize,
                    Storage::SparseCsc => {
                        let counts = &column.counts[*samples..*samples + length];
                        let count = counts.iter().map(|&count| count as usize).sum::<usize>();
                        if count > i32::MAX as usize {
                            return Err(Error::data("The sequence has too many values.")
                                .for_key(batch.keys[number].as_str()));
                        }
                        room::reserve(&mut out.counts, size_of_val(counts), room::CONVERSION)?;
                        out.counts.extend(counts.iter().flat_map(|count| count.to_le_bytes()));
                        let indices = &column.indices[*entries..*entries + count];
                        room::reserve(&mut out.indices, size_of_val(indices), room::CONVERSION)?;
                        out.indices.extend(indices.iter().flat_map(|index| index.to_le_bytes()));
                        *chunk += 4 * (length + count) as u64;
                        *entries += count;
                        count
                    }
                };
                let values = &column.values[*bytes..*bytes + count * size];
                room::extend(&mut out.values, values, room::CONVERSION)?;
                *chunk += (count * size) as u64;
                *bytes += count * size;
                *samples += length;
            }
            self.end_sequence()?;
        }
        Ok(())
    }

    /// Writes the last chunk, header, table and trailer. Returns the file and the number of
    /// sequences.
    pub fn finish(mut self) -> Result<(Output, u64)> {
        self.end_chunk()?;
        let header = self.output.at();
        let mut out = MAGIC.to_le_bytes().to_vec();
        let chunks =
            u32::try_from(self.table.len()).map_err(|_| Error::data("There are too many chunks."))?;
        out.extend(chunks.to_le_bytes());
        out.extend((self.streams.len() as u32).to_le_bytes());
        let is_typed = version_of(&self.streams) == TYPED_VERSION;
        for stream in &self.streams {
            out.push(stream.storage as u8);
            out.extend((stream.name.len() as u32).to_le_bytes());
            out.extend(stream.name.as_bytes());
            if is_typed {
                out.push(stream.element as u8);
                out.extend(stream.dim.to_le_bytes());
                out.extend(stream.classes.to_le_bytes());
            } else {
                out.push(stream.element as u8 - 1);
                out.extend(stream.dim.to_le_bytes());
            }
        }
        room::reserve(&mut out, self.table.len() * ENTRY + size_of::<u64>(), room::CONVERSION)?;
        for (offset, sequences, samples) in &self.table {
            out.extend(offset.to_le_bytes());
            out.extend(sequences.to_le_bytes());
            out.extend(samples.to_le_bytes());
        }
        out.extend(header.to_le_bytes());
        self.output.write(&out)?;
        Ok((self.output, self.sequences))
    }
}
