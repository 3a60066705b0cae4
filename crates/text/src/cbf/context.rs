//! The position of a read in a file, for errors: a chunk, or a stream of a chunk.

use super::header::{ChunkRecord, Header, StreamHeader};
use super::layout_cntk::Tally;
use cntk_reader_core::file::DataFile;
use cntk_reader_core::stream::ElementType;
use cntk_reader_core::{Error, Result};

/// A chunk that is being read.
pub struct ChunkContext<'a> {
    pub file: &'a DataFile,
    pub header: &'a Header,
    /// See [`BinaryFile::ids`](super::BinaryFile).
    pub ids: &'a [Option<ElementType>],
    pub record: &'a ChunkRecord,
    /// Ordinal of the chunk's first sequence in the file, which is its key.
    pub first_key: u64,
}

impl ChunkContext<'_> {
    /// Creates an error at a byte of the chunk, in a stream and a sequence if they are known.
    pub fn error(&self, at: usize, stream: Option<usize>, index: Option<u32>, message: String) -> Error {
        let mut error = Error::data(message)
            .with_detail("The file is damaged: convert the data again.")
            .in_file(self.file.path())
            .at(self.record.start + at as u64, None);
        if let Some(stream) = stream {
            error = error.in_stream(&self.header.streams[stream].name);
        }
        match index {
            Some(index) => error.for_key((self.first_key + u64::from(index)).to_string()),
            None => error,
        }
    }
}

/// A stream of a chunk that is being read.
#[derive(Clone, Copy)]
pub struct StreamContext<'a> {
    pub chunk: &'a ChunkContext<'a>,
    /// Number of the stream.
    pub number: usize,
}

impl StreamContext<'_> {
    /// The stream as the file's header describes it.
    pub fn stream(&self) -> &StreamHeader {
        &self.chunk.header.streams[self.number]
    }

    /// Whether samples are delivered as class numbers: each must have one entry, with the value 1.
    pub fn is_ids(&self) -> bool {
        self.chunk.ids.get(self.number).is_some_and(Option::is_some)
    }

    /// The error of a sample that is not a class number.
    #[cold]
    pub fn no_id(&self, at: usize, index: u32, found: &str) -> Error {
        let message = format!("A sample of ids has {found}. Expected one entry with the value 1.");
        self.error(at, index, message).with_detail("Without ‹ids› the stream is delivered sparse, as it is.")
    }

    /// Number of sequences in the chunk.
    pub fn sequences(&self) -> u32 {
        self.chunk.record.sequences
    }

    /// Creates an error at a byte of the chunk, in a sequence.
    #[cold]
    pub fn error(&self, at: usize, index: u32, message: String) -> Error {
        self.chunk.error(at, Some(self.number), Some(index), message)
    }

    /// The error of a sequence that does not end within the chunk.
    #[cold]
    pub fn ended(&self, at: usize, index: u32) -> Error {
        let record = self.chunk.record;
        let (start, end) = (record.start, record.end);
        self.error(
            at,
            index,
            format!("A sequence extends past the end of its chunk, which is from {start} to {end}."),
        )
    }

    /// Adds the number of samples of the next sequence, which the file stores before `at`.
    #[inline(always)]
    pub fn tally(&self, tally: &mut Tally<'_>, at: usize, index: u32, samples: u32) -> Result<()> {
        tally.take(index, samples).map_err(|length| {
            let message = format!("A sequence has {samples} samples, but its declared length is {length}.");
            self.error(at, index, message)
        })
    }
}

/// Runs `test` with a chunk of a file; its first sequence has the key 100.
#[cfg(test)]
pub fn with_chunk<R>(
    file: &DataFile,
    streams: Vec<StreamHeader>,
    record: ChunkRecord,
    test: impl FnOnce(&ChunkContext<'_>) -> R,
) -> R {
    use super::header::{Layout, VERSION};
    let header = Header { layout: Layout::Cntk, version: VERSION, streams, chunks: vec![record] };
    test(&ChunkContext { file, header: &header, ids: &[], record: &record, first_key: 100 })
}
