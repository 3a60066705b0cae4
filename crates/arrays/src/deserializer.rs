//! The deserializer of arrays: row `i` of each array is a sample of sequence `i`, or of the
//! sequence to which a file of lengths assigns it.

use crate::array::Array;
use crate::chunk::{ArrayChunk, Arrays};
use crate::table::{RowTable, read_lengths};
use cntk_reader_core::corpus::Corpus;
use cntk_reader_core::error::Location;
use cntk_reader_core::format::buffer::BufferPool;
use cntk_reader_core::format::content::{FILES, Sampler};
use cntk_reader_core::format::diagnostics::{Diagnostics, LeafDiagnostics};
use cntk_reader_core::format::loading::{Load, Starter};
use cntk_reader_core::format::{
    Chunk, ChunkInfo, ChunkSource, ChunkTable, Deserializer, IncrementalTable, JoinedByKey, Lengths,
    SequenceFacts, SourceFacts, SourceMemory,
};
use cntk_reader_core::sequence::{ChunkId, SequenceId, SequenceKey};
use cntk_reader_core::stream::{ElementType, Storage, StreamInfo};
use cntk_reader_core::{Error, Result};
use std::sync::Arc;

/// An array to open.
pub struct ArraySource<'s> {
    /// The name of its stream.
    pub name: &'s str,
    pub path: &'s str,
    pub defines_mb_size: bool,
}

/// The deserializer of one or more arrays with equal numbers of rows.
pub struct ArrayDeserializer {
    shared: Arc<Arrays>,
}

impl ArrayDeserializer {
    /// Opens arrays. `lengths` is the path of an array with the lengths of sequences; `precision`
    /// is the element type of streams from float32 arrays.
    pub fn open<'s>(
        sources: impl Iterator<Item = ArraySource<'s>>,
        lengths: Option<&str>,
        chunk_bytes: u64,
        precision: ElementType,
        corpus: &Corpus,
    ) -> Result<ArrayDeserializer> {
        let (mut streams, mut arrays) = (Vec::new(), Vec::<Array>::new());
        for ArraySource { name, path, defines_mb_size } in sources {
            let array = Array::open(path).map_err(|error| error.in_stream(name))?;
            if let Some(first) = arrays.first().filter(|first| first.rows != array.rows) {
                let message = format!("The array has {} rows.", array.rows);
                let detail = format!(
                    "Expected {}, as in '{}': the arrays of a deserializer must have equal numbers of rows.",
                    first.rows,
                    first.file.path()
                );
                return Err(Error::data(message).with_detail(detail).in_file(path).in_stream(name));
            }
            // The first dimension of a stream varies fastest, but the last one of an array.
            let shape = array.row_shape.iter().rev().copied().collect();
            let element = array.value.element(precision);
            let mut stream = StreamInfo::new(name, Storage::Dense, element, shape);
            stream.defines_mb_size = defines_mb_size;
            streams.push(stream);
            arrays.push(array);
        }
        let Some(first) = arrays.first() else {
            return Err(Error::argument("There is no array to read.").with_detail("Add a stream."));
        };
        if !corpus.is_numeric() {
            let error = Error::argument("The keys of arrays are the numbers of their rows.");
            let detail =
                "Remove ‹numeric_keys = false›, or write the data with textual keys in another format.";
            return Err(error.with_detail(detail).in_file(first.file.path()));
        }
        let (rows, path) = (first.rows, first.file.path().to_owned());
        let lengths = match lengths {
            Some(path) => read_lengths(&Array::open(path)?, rows)?,
            None => Vec::new(),
        };
        let none = RowTable::new(0, Vec::new(), 1, 1)?;
        let mut arrays = Arrays { streams, arrays, table: none, buffers: BufferPool::new(0) };
        let row_bytes = arrays.all_row_bytes();
        arrays.table =
            RowTable::new(rows, lengths, row_bytes, chunk_bytes).map_err(|error| error.in_file(&path))?;
        let largest = arrays.table.chunks.iter().map(|chunk| chunk.samples).max().unwrap_or(0);
        arrays.buffers.expect(largest.saturating_mul(row_bytes));
        Ok(ArrayDeserializer { shared: Arc::new(arrays) })
    }

    /// Loads a chunk.
    pub fn load(&self, chunk: ChunkId) -> Result<Arc<dyn Chunk>> {
        Ok(Arc::new(ArrayChunk::load(&self.shared, chunk)?))
    }
}

impl ChunkTable for ArrayDeserializer {
    fn chunks(&self) -> &[ChunkInfo] {
        &self.shared.table.chunks
    }

    fn lengths(&self, chunk: ChunkId) -> Lengths<'_> {
        self.shared.table.lengths(chunk)
    }

    fn incremental(&self) -> Option<&dyn IncrementalTable> {
        None
    }
}

impl ChunkSource for ArrayDeserializer {
    fn streams(&self) -> &[StreamInfo] {
        &self.shared.streams
    }

    fn facts(&self) -> SourceFacts {
        SourceFacts::ON_POOL
    }

    fn start(self: Arc<Self>, chunk: ChunkId, on: &Starter) -> Load {
        on.on_pool(&self, chunk, Self::load)
    }

    fn reported_keys(&self, sequences: &[SequenceId], _truncated: bool, keys: &mut Vec<SequenceKey>) {
        self.keys(sequences, keys);
    }

    fn fingerprint(&self, _chunks: Option<usize>) -> u64 {
        self.shared.table.fingerprint()
    }

    fn sample_content(&self, _chunks: Option<usize>, sampler: &mut Sampler) -> Result<()> {
        let arrays = &self.shared.arrays;
        sampler.parts(arrays.len(), FILES, |sampler, number| {
            let file = &arrays[number].file;
            sampler.file(file, 0..file.size()?)
        })
    }

    fn memory(&self) -> SourceMemory {
        let files: u64 = self.shared.arrays.iter().map(|array| array.file.memory()).sum();
        SourceMemory { chunks: self.shared.buffers.held(), index: self.shared.table.memory() + files }
    }

    fn file_bytes(&self) -> Option<u64> {
        let arrays = self.shared.arrays.iter();
        Some(arrays.map(|array| array.rows * array.row_bytes()).fold(0, u64::saturating_add))
    }

    fn diagnostics(&self) -> &dyn Diagnostics {
        self
    }
}

impl LeafDiagnostics for ArrayDeserializer {
    fn location(&self, sequence: SequenceId, stream: usize) -> Location {
        let Some(array) = self.shared.arrays.get(stream) else { return Location::default() };
        let ordinal = self.shared.table.ordinal(sequence);
        let row = self.shared.table.rows(ordinal..ordinal + 1).start;
        Location::in_file(array.file.path(), Some(array.offset_of(row)), None)
    }
}

impl JoinedByKey for ArrayDeserializer {}

impl Deserializer for ArrayDeserializer {
    fn sequence_facts(&self) -> SequenceFacts {
        SequenceFacts { counts_keys: true, ..SequenceFacts::PLAIN }
    }

    fn keys(&self, sequences: &[SequenceId], keys: &mut Vec<SequenceKey>) {
        keys.extend(sequences.iter().map(|&id| self.shared.table.ordinal(id)));
    }

    fn find(&self, key: SequenceKey) -> Option<SequenceId> {
        self.shared.table.find(key)
    }

    fn prepare_to_find(&self) -> Result<()> {
        Ok(())
    }
}
