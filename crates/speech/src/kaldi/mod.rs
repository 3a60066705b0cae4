//! Kaldi archives: matrices and vectors of features, and vectors of class numbers (alignments).
//!
//! An archive (`.ark`) is a sequence of keys and objects; a script (`.scp`) has one line per object
//! with its key and position. [`scan`] finds the objects without reading their data, through the
//! script or by walking the archive. [`index`] builds utterances and chunks from them, and
//! [`chunk`] loads their data.
//!
//! Values are bitwise equal to Kaldi's: compressed matrices are decoded with its arithmetic
//! ([`compressed`]), and doubles for a stream of floats are rounded in the same way. A vector of
//! features is a matrix of one frame.
//!
//! Repeated keys are an error, because either utterance could be the intended one.

mod chunk;
mod compressed;
mod files;
mod header;
mod index;
mod options;
mod scan;
mod script;
#[cfg(test)]
mod tests;
mod text;

use chunk::KaldiChunk;
use cntk_reader_core::corpus::Corpus;
use cntk_reader_core::error::{ExceptionClass, Location};
use cntk_reader_core::format::buffer::BufferPool;
use cntk_reader_core::format::content::{PARTS, Sampler};
use cntk_reader_core::format::diagnostics::{Diagnostics, LeafDiagnostics};
use cntk_reader_core::format::loading::{Load, Starter};
use cntk_reader_core::format::{
    Chunk, ChunkInfo, ChunkSource, ChunkTable, Deserializer, InFrameMode, IncrementalTable, JoinedByKey,
    Lengths, SequenceFacts, SourceFacts, SourceMemory,
};
use cntk_reader_core::sequence::{ChunkId, FrameEncoding, FrameSpec, SequenceId, SequenceKey};
use cntk_reader_core::stream::{ElementType, Storage, StreamInfo};
use cntk_reader_core::{Error, Result};
use index::Index;
pub use options::KaldiOptions;
use scan::Scan;
use std::sync::Arc;

/// A deserializer for a Kaldi script or archive, with a single stream.
pub struct KaldiDeserializer {
    shared: Arc<OpenArchive>,
    is_expanded: bool,
}

/// An open script or archive, shared by the deserializer and its chunks.
struct OpenArchive {
    /// The single stream.
    streams: [StreamInfo; 1],
    index: Index,
    corpus: Arc<Corpus>,
    buffers: BufferPool,
    /// Values per frame.
    columns: usize,
    /// Number of classes of integer vectors.
    classes: u64,
    /// [`Storage::SparseCsc`] for class numbers, in whatever form they are delivered.
    stored: Storage,
    /// Samples are single frames, and nothing is repeated.
    is_plain: bool,
    /// Assembly of samples from frames stored as `f32`.
    floats: FrameSpec,
    /// Assembly of samples from frames stored as `f64`.
    doubles: FrameSpec,
}

impl OpenArchive {
    fn info(&self) -> &StreamInfo {
        &self.streams[0]
    }
}

impl KaldiDeserializer {
    /// Opens a script or archive and locates its utterances. Runs on a thread of the library's
    /// pool.
    pub(crate) fn open(options: &KaldiOptions, corpus: &Arc<Corpus>, is_primary: bool) -> Result<Self> {
        check(options, is_primary).map_err(|error| error.in_stream(&options.stream))?;
        let scan = Index::scan(options).map_err(|error| error.in_stream(&options.stream))?;
        Self::from_scan(options, corpus, scan)
    }

    fn from_scan(options: &KaldiOptions, corpus: &Arc<Corpus>, scan: Scan) -> Result<Self> {
        let too_large = || {
            let message = format!("The samples of the stream '{}' have too many values.", options.stream);
            let detail = "A sample has ‹dim› values of each frame of its ‹context›: correct the two.";
            let error = Error::config(ExceptionClass::InvalidArgument, message).with_detail(detail);
            error.in_stream(&options.stream)
        };
        let columns = usize::try_from(options.dim).map_err(|_| too_large())?;
        let (left, right) = (options.context.0 as usize, options.context.1 as usize);
        let sample = left.checked_add(right).and_then(|context| (context + 1).checked_mul(columns));
        let sample = sample.filter(|&sample| sample <= i32::MAX as usize).ok_or_else(too_large)?;
        let mut stream = match options.ids {
            Some(ids) => StreamInfo::ids(&options.stream, sample, ids),
            None => StreamInfo::new(&options.stream, options.storage, options.element, vec![sample]),
        };
        stream.defines_mb_size = options.defines_mb_size;
        let index = Index::new(options, corpus, scan).map_err(|error| error.in_stream(&options.stream))?;
        let spec = |encoding| FrameSpec { dim: columns, encoding, left, right };
        let mut shared = OpenArchive {
            streams: [stream],
            index,
            corpus: Arc::clone(corpus),
            buffers: BufferPool::new(0),
            columns,
            stored: options.storage,
            classes: options.dim,
            is_plain: left + right == 0 && !options.expand,
            floats: spec(FrameEncoding::Float),
            doubles: spec(FrameEncoding::Double),
        };
        let chunks = 0..shared.index.chunks.len() as ChunkId;
        let largest = chunks
            .map(|chunk| shared.chunk_bytes(chunk))
            .try_fold(0, |largest, bytes| Ok(bytes?.max(largest)));
        let largest = largest?;
        shared.buffers = BufferPool::new(largest as u64);
        Ok(KaldiDeserializer { shared: Arc::new(shared), is_expanded: options.expand })
    }
}

impl KaldiDeserializer {
    /// Opens a script, if the path ends with `.scp`, or an archive, with any number of values per
    /// frame. Classes are limited to 16 bits. For conversions; runs on a thread of the library's
    /// pool.
    pub fn open_frames(path: &str, storage: Storage, corpus: &Arc<Corpus>) -> Result<Self> {
        let mut options = options_of_frames(path, path.ends_with(".scp"), storage);
        let scan = Index::scan(&options)?;
        if storage == Storage::Dense {
            options.dim = scan.columns().map_or(options.dim, u64::from);
        }
        Self::from_scan(&options, corpus, scan)
    }
}

/// Returns options to read all frames of a script or archive.
fn options_of_frames(path: &str, is_script: bool, storage: Storage) -> KaldiOptions {
    KaldiOptions {
        stream: if storage == Storage::Dense { "features" } else { "labels" }.into(),
        file: path.to_owned(),
        is_script,
        dim: chunk::NARROW,
        storage,
        ids: None,
        context: (0, 0),
        expand: false,
        max_sequence_size: u32::MAX,
        defines_mb_size: false,
        element: ElementType::Float,
        frame_mode: false,
        confinement: cntk_reader_core::file::Confinement::default(),
    }
}

/// Returns the number of values per frame of a script or archive; `None` if it has class numbers.
/// Runs on a thread of the library's pool.
pub fn values_of_frames(path: &str, is_script: bool) -> Result<Option<u32>> {
    let scan = |storage| Index::scan(&options_of_frames(path, is_script, storage));
    match scan(Storage::Dense) {
        Ok(scan) if scan.has_integers() => Ok(None),
        Ok(scan) => Ok(Some(scan.columns().unwrap_or(1))),
        // Class numbers in text form are not a matrix.
        Err(error) => scan(Storage::SparseCsc).map(|_| None).map_err(|_| error),
    }
}

fn check(options: &KaldiOptions, is_primary: bool) -> Result<()> {
    let refuse = |message: String, detail: &str| {
        let error = Error::config(ExceptionClass::InvalidArgument, message).with_detail(detail);
        Err(error.in_stream(&options.stream))
    };
    if options.dim == 0 {
        let message = format!("‹dim› of the stream '{}' is 0.", options.stream);
        return refuse(message, "Set it to the number of values of a frame, or to the number of classes.");
    }
    if options.expand && is_primary {
        let stream = &options.stream;
        let message = format!(
            "Cannot expand utterances of the primary stream {stream}, please change your configuration."
        );
        return refuse(
            message,
            "The first deserializer determines how long sequences are: list another one first.",
        );
    }
    if options.storage == Storage::SparseCsc && (options.expand || options.context != (0, 0)) {
        let message = format!(
            "The stream '{}' has class numbers, which have no context window and cannot be expanded.",
            options.stream
        );
        return refuse(message, "Remove ‹context› and ‹expand_to_utterance›, or set ‹dense›.");
    }
    Ok(())
}

impl ChunkTable for KaldiDeserializer {
    fn chunks(&self) -> &[ChunkInfo] {
        &self.shared.index.chunks
    }

    fn lengths(&self, chunk: ChunkId) -> Lengths<'_> {
        self.shared.index.lengths(chunk)
    }

    fn incremental(&self) -> Option<&dyn IncrementalTable> {
        None
    }
}

impl KaldiDeserializer {
    /// Loads a chunk.
    pub fn load(&self, chunk: ChunkId) -> Result<Arc<dyn Chunk>> {
        Ok(Arc::new(KaldiChunk::load(&self.shared, chunk)?))
    }
}

impl ChunkSource for KaldiDeserializer {
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

    fn sample_content(&self, _chunks: Option<usize>, sampler: &mut Sampler) -> Result<()> {
        let index = &self.shared.index;
        sampler.parts(index.entries.len(), PARTS, |sampler, number| {
            let entry = &index.entries[number];
            let file = index.files.get(entry.file)?;
            // Its end is not known without reading it.
            let end = file.size()?.min(entry.offset.saturating_add(4 << 10));
            sampler.file(&file, entry.offset.min(end)..end)
        })
    }

    fn fingerprint(&self, _chunks: Option<usize>) -> u64 {
        self.shared.index.fingerprint()
    }

    fn memory(&self) -> SourceMemory {
        SourceMemory { chunks: self.shared.buffers.held(), index: self.shared.index.memory() as u64 }
    }

    fn file_bytes(&self) -> Option<u64> {
        None
    }

    fn diagnostics(&self) -> &dyn Diagnostics {
        self
    }
}

impl LeafDiagnostics for KaldiDeserializer {
    fn location(&self, sequence: SequenceId, _stream: usize) -> Location {
        let index = &self.shared.index;
        let entry = &index.entries[index.ordinal(sequence)];
        Location::in_file(index.files.path(entry.file), Some(entry.offset), None)
    }
}

impl JoinedByKey for KaldiDeserializer {}

impl Deserializer for KaldiDeserializer {
    fn sequence_facts(&self) -> SequenceFacts {
        SequenceFacts {
            in_frame_mode: match self.shared.stored {
                _ if self.is_expanded => InFrameMode::Whole,
                Storage::Dense => InFrameMode::SlicedStrictly,
                Storage::SparseCsc => InFrameMode::Sliced,
            },
            is_expanded: self.is_expanded,
            ..SequenceFacts::PLAIN
        }
    }

    fn keys(&self, sequences: &[SequenceId], keys: &mut Vec<SequenceKey>) {
        let index = &self.shared.index;
        keys.extend(sequences.iter().map(|&id| index.keys[index.ordinal(id)]));
    }
    fn prepare_to_find(&self) -> Result<()> {
        Ok(())
    }

    fn find(&self, key: SequenceKey) -> Option<SequenceId> {
        self.shared.index.find(key)
    }
}
