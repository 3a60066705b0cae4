//! A loaded chunk: its rows of one array after another, in one buffer.

use crate::array::Array;
use crate::table::RowTable;
use cntk_reader_core::Result;
use cntk_reader_core::format::buffer::{BufferPool, ChunkBuffer};
use cntk_reader_core::format::{LeafChunk, Loaded};
use cntk_reader_core::memory::room;
use cntk_reader_core::sequence::{ChunkId, SequenceId, SequenceView, ValueForm, ViewKind};
use cntk_reader_core::stream::StreamInfo;
use std::sync::Arc;

/// The open arrays, shared by the deserializer and its chunks.
pub struct Arrays {
    /// One per array.
    pub streams: Vec<StreamInfo>,
    pub arrays: Vec<Array>,
    pub table: RowTable,
    pub buffers: BufferPool,
}

impl Arrays {
    /// Returns the form in which a chunk stores the values of a stream.
    fn form(&self, stream: usize) -> ValueForm {
        let form = self.arrays[stream].value.form(self.streams[stream].element);
        form.unwrap_or(ValueForm::Whole)
    }

    /// Returns the bytes of a row in a chunk.
    fn row_bytes(&self, stream: usize) -> usize {
        self.arrays[stream].row_size * self.form(stream).size(self.streams[stream].element.size())
    }

    /// Returns the bytes of one row of all arrays in a chunk.
    pub fn all_row_bytes(&self) -> u64 {
        (0..self.arrays.len()).map(|stream| self.row_bytes(stream) as u64).fold(0, u64::saturating_add)
    }
}

pub struct ArrayChunk {
    arrays: Arc<Arrays>,
    id: ChunkId,
    data: ChunkBuffer,
    /// Offset of the rows of each array in `data`.
    starts: Vec<usize>,
}

impl ArrayChunk {
    /// Loads a chunk. Runs on a thread of the pool.
    pub fn load(arrays: &Arc<Arrays>, id: ChunkId) -> Result<ArrayChunk> {
        let rows = arrays.table.rows_of(id);
        let bytes = (rows.end - rows.start).saturating_mul(arrays.all_row_bytes());
        // From here on the chunk's destructor returns the buffer to the pool.
        let data = arrays.buffers.take(arrays.arrays[0].file.path(), &(0..bytes))?;
        let starts = room::with_capacity(arrays.arrays.len(), room::CHUNK)?;
        let mut chunk = ArrayChunk { arrays: Arc::clone(arrays), id, data, starts };
        for (array, stream) in arrays.arrays.iter().zip(&arrays.streams) {
            chunk.starts.push(chunk.data.len());
            let read = array.read(rows.clone(), stream.element, &mut chunk.data);
            read.map_err(|error| error.in_stream(&stream.name))?;
        }
        Ok(chunk)
    }
}

impl LeafChunk for ArrayChunk {
    fn sequence(&self, stream: usize, index: u32) -> Loaded<'_> {
        let (arrays, chunk) = (&*self.arrays, self.id);
        let ordinal = arrays.table.ordinal(SequenceId { chunk, index });
        let rows = arrays.table.rows(ordinal..ordinal + 1);
        let (first, samples) = (rows.start - arrays.table.rows_of(chunk).start, rows.end - rows.start);
        let size = arrays.row_bytes(stream);
        let values =
            &self.data.bytes()[self.starts[stream] + first as usize * size..][..samples as usize * size];
        Loaded::Data(SequenceView {
            samples: samples as u32,
            values,
            form: arrays.form(stream),
            kind: ViewKind::Dense,
        })
    }
}

impl Drop for ArrayChunk {
    fn drop(&mut self) {
        self.arrays.buffers.give_back(std::mem::take(&mut self.data));
    }
}
