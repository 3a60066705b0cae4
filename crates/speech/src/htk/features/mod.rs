//! HTK feature files, listed in script files.
//!
//! A [`script`] names a file and a range of frames for each utterance. The [`table`] holds the
//! utterances to deliver, in flat arrays, and divides them into chunks. A [`chunk`] keeps the
//! frames as stored in their files. Byte order, compression and neighbouring frames are handled by
//! the packer, sample by sample, so nothing is stored more than once.

mod chunk;
mod file;
mod header;
mod paths;
mod script;
mod table;
#[cfg(test)]
mod tests;

use crate::htk::HtkFeatureOptions;
use chunk::FeatureChunk;
use cntk_reader_core::corpus::Corpus;
use cntk_reader_core::error::{ExceptionClass, Location};
use cntk_reader_core::file::DataFile;
use cntk_reader_core::format::buffer::BufferPool;
use cntk_reader_core::format::content::{PARTS, Sampler};
use cntk_reader_core::format::diagnostics::{Diagnostics, LeafDiagnostics};
use cntk_reader_core::format::loading::{Load, Starter};
use cntk_reader_core::format::{
    Chunk, ChunkInfo, ChunkSource, ChunkTable, Deserializer, InFrameMode, IncrementalTable, JoinedByKey,
    Lengths, SequenceFacts, SourceFacts, SourceMemory,
};
use cntk_reader_core::runtime::log::{Level, Logger};
use cntk_reader_core::runtime::pool::Pool;
use cntk_reader_core::sequence::{ChunkId, SequenceId, SequenceKey};
use cntk_reader_core::stream::{ElementType, Storage, StreamInfo};
use cntk_reader_core::{Error, ErrorKind, Result};
use file::HtkFile;
use header::{Facts, Header};
use script::{Rules, Script};
use std::sync::Arc;
use table::{CHUNK_FRAMES, UtteranceTable};

/// A deserializer for HTK feature files, listed in script files.
pub struct HtkFeatureDeserializer {
    streams: Vec<StreamInfo>,
    shared: Arc<FeatureSet>,
    is_expanded: bool,
}

/// State shared by the deserializer and its chunks.
struct FeatureSet {
    table: UtteranceTable,
    corpus: Arc<Corpus>,
    /// Properties of all files, taken from the first one.
    facts: Facts,
    /// Numbers of frames before and after the middle one in a sample.
    left: usize,
    right: usize,
    /// Samples are single frames of `f32`: frames stored as `f32` need no conversion.
    is_plain: bool,
    verbosity: i32,
    buffers: BufferPool,
}

/// Returns the number of values per frame of the first file that a script names.
pub fn values_of_frames(script: &str) -> Result<usize> {
    let corpus = Arc::new(Corpus::symbolic());
    let options = HtkFeatureOptions::of_frames(script);
    let opened = Pool::shared()?.install(|| HtkFeatureDeserializer::open_frames(&options, &corpus))?;
    Ok(opened.streams()[0].sample_size())
}

/// Returns the number of frames of a file.
pub fn frames_of(file: &DataFile) -> Result<u32> {
    Ok(u32::try_from(Header::read(file)?.frames).unwrap_or(0))
}

impl HtkFeatureDeserializer {
    /// Reads the script files and the header of the first utterance's file. Runs on a thread of the
    /// library's pool.
    pub(crate) fn open(options: &HtkFeatureOptions, corpus: &Arc<Corpus>, is_primary: bool) -> Result<Self> {
        if options.expand && is_primary {
            let message = format!(
                "Cannot expand utterances of the primary stream {}, please change your configuration.",
                options.stream
            );
            let detail = "The first deserializer determines how long sequences are: list another one first.";
            return Err(Error::argument(message).with_detail(detail).in_stream(&options.stream));
        }
        let layout = |dim| layout(options.dim, options.context, dim);
        Self::open_any(options, corpus, layout).map_err(|error| error.in_stream(&options.stream))
    }

    /// Like [`HtkFeatureDeserializer::open`], but samples are the frames of the files, whatever
    /// their number of values. For conversions.
    pub fn open_frames(options: &HtkFeatureOptions, corpus: &Arc<Corpus>) -> Result<Self> {
        Self::open_any(options, corpus, |dim| Ok((0, 0, dim)))
    }

    fn open_any(
        options: &HtkFeatureOptions,
        corpus: &Arc<Corpus>,
        layout: impl Fn(usize) -> Result<(usize, usize, usize)>,
    ) -> Result<Self> {
        let rules =
            Rules { prefix: &options.prefix, max_frames: options.max_sequence_size, expand: options.expand };
        let script = Script::read(&options.scp_files, rules)?;
        table::check_paths(&script, &options.confinement)?;
        let table =
            UtteranceTable::new(script, corpus, options.quirks.keeps_repeated_keys, options.verbosity)?;
        // Facts and derived values are set below, once a file has been opened.
        let mut shared = FeatureSet {
            table,
            corpus: Arc::clone(corpus),
            facts: Facts::default(),
            left: 0,
            right: 0,
            is_plain: false,
            verbosity: options.verbosity,
            buffers: BufferPool::new(0),
        };
        let file = shared.open_file(0)?;
        shared.check_range(0, &file)?;
        shared.facts = file.header.facts;
        shared.log_facts();
        let Facts { dim, .. } = shared.facts;
        let (left, right, sample) =
            layout(dim).map_err(|error| shared.of_utterance(0, error.in_file(file.file.path())))?;
        (shared.left, shared.right) = (left, right);
        shared.is_plain = !options.expand && sample == dim && options.element == ElementType::Float;
        // An utterance larger than a usual chunk is checked before memory is reserved for it, so it
        // does not count here.
        let samples = shared.table.chunks.iter().map(|chunk| chunk.samples.min(2 * CHUNK_FRAMES)).max();
        let frame_bytes = dim * file.header.encoding.size();
        shared.buffers = BufferPool::new(samples.unwrap_or(0) * frame_bytes as u64);
        let mut stream = StreamInfo::new(&options.stream, Storage::Dense, options.element, vec![sample]);
        stream.defines_mb_size = options.defines_mb_size;
        Ok(HtkFeatureDeserializer {
            streams: vec![stream],
            shared: Arc::new(shared),
            is_expanded: options.expand,
        })
    }
}

/// Returns the numbers of frames before and after the middle one, and of values per sample, if the
/// file has `dim` values per frame.
fn layout(asked: u64, (left, right): (u32, u32), dim: usize) -> Result<(usize, usize, usize)> {
    let frames = u64::from(left) + 1 + u64::from(right);
    let sample = asked.checked_mul(frames).and_then(|size| usize::try_from(size).ok());
    // The limit of all dense formats: the size of a sample in bytes must not overflow.
    let Some(sample) = sample.filter(|&size| size <= isize::MAX as usize / 8) else {
        let message = format!("Sample dimension ({asked}) with {frames} frames is too large.");
        let detail = "Their product is the number of values of a sample: correct ‹dim› or ‹context›.";
        return Err(Error::config(ExceptionClass::InvalidArgument, message).with_detail(detail));
    };
    let own = format!("‹dim› is {asked}, but a frame of the first file has {dim} values.");
    if (left, right) != (0, 0) {
        if sample / frames as usize >= dim {
            return Ok((left as usize, right as usize, sample));
        }
        // CNTK 2.7 writes past the end of the sample.
        let message = "HTKDeserializer: ‹dim› is smaller than the dimension of the input features";
        let detail = format!("With a ‹context›, ‹dim› is the dimension of one frame: set it to {dim}.");
        return Err(Error::config(ExceptionClass::Runtime, message).with_detail(own).with_detail(detail));
    }
    let detail =
        "Without a ‹context›, ‹dim› must be that number, or an odd multiple of it for neighbouring frames.";
    if !sample.is_multiple_of(dim) {
        let message = "HTKDeserializer: model vector size is not multiple of input features";
        return Err(Error::config(ExceptionClass::Runtime, message).with_detail(own).with_detail(detail));
    }
    let width = sample / dim;
    if width.is_multiple_of(2) {
        let message =
            format!("HTKDeserializer: neighbor expansion of input features to '{width}' is not symmetrical");
        return Err(Error::config(ExceptionClass::Runtime, message).with_detail(own).with_detail(detail));
    }
    Ok((width / 2, width / 2, sample))
}

impl FeatureSet {
    /// Opens the file of an utterance.
    fn open_file(&self, position: usize) -> Result<HtkFile> {
        let path = self.table.utterances.paths[position];
        if self.verbosity >= 2 {
            let path = self.table.paths.get(path);
            let line = format!("HTKChunkInfo::RequireData: Reading features from path: '{path}'");
            Logger::log_always(Level::Info, &line);
        }
        HtkFile::open(&self.table.paths, path).map_err(|error| self.of_utterance(position, error))
    }

    /// Checks that the header claims all frames of an utterance.
    fn check_range(&self, position: usize, file: &HtkFile) -> Result<()> {
        let utterances = &self.table.utterances;
        let checked = file.check_range(utterances.starts[position], utterances.end(position));
        checked.map_err(|error| self.of_utterance(position, error))
    }

    /// Checks that the header claims all frames of an utterance, and that the file is long enough.
    fn check_size(&self, position: usize, file: &HtkFile) -> Result<()> {
        self.check_range(position, file)?;
        let utterances = &self.table.utterances;
        let checked = file.check_size(utterances.starts[position], utterances.frames[position].into());
        checked.map_err(|error| self.of_utterance(position, error))
    }

    /// Adds an utterance's key and script line to an error.
    fn of_utterance(&self, position: usize, error: Error) -> Error {
        let (file, line) = self.table.line(position);
        let key = self.corpus.text_of(self.table.key(position));
        error.with_detail(format!("The utterance is in line {line} of '{file}'.")).for_key(key)
    }

    /// Compares the first file of a chunk with the first of all files.
    fn check_facts(&self, position: usize, header: &Header) -> Result<()> {
        let (own, all) = (&header.facts, &self.facts);
        if own == all {
            return Ok(());
        }
        let message = match own.dim == all.dim {
            true => "read: attempting to mixing different feature kinds",
            false => "read: stripe read called with wrong dimensions",
        };
        let error = Error::new(ErrorKind::Data, ExceptionClass::Logic, message).with_detail(format!(
            "The file has features of kind '{}' with {} values a frame and a sample period of {}; the first file of all \
             has kind '{}', {} values and a period of {}. Read files of another kind with a separate deserializer.",
            own.kind, own.dim, own.period, all.kind, all.dim, all.period
        ));
        let path = self.table.paths.get(self.table.utterances.paths[position]);
        Err(self.of_utterance(position, error.in_file(&path)))
    }

    fn log_facts(&self) {
        let Facts { kind, dim, period } = self.facts;
        let shift = f64::from(period) / 10_000.0;
        let line = format!(
            "HTKDeserializer: determined feature kind as '{dim}'-dimensional '{kind}' with frame shift {shift:.1} ms"
        );
        Logger::log_always(Level::Info, &line);
    }

    /// Logs that a chunk is read or released, if `verbosity` is at least 1.
    fn log_chunk(&self, what: &str, id: ChunkId) {
        if self.verbosity >= 1 {
            let ChunkInfo { samples, sequences } = self.table.chunks[id as usize];
            let bytes = samples * (4 * self.facts.dim as u64);
            let line = format!(
                "HTKChunkInfo::{what} physical chunk {id} ({sequences} utterances, {samples} frames, {bytes} bytes)"
            );
            Logger::log_always(Level::Info, &line);
        }
    }
}

impl ChunkTable for HtkFeatureDeserializer {
    fn chunks(&self) -> &[ChunkInfo] {
        &self.shared.table.chunks
    }

    fn lengths(&self, chunk: ChunkId) -> Lengths<'_> {
        let table = &self.shared.table;
        Lengths::Each(&table.utterances.frames[table.range(chunk)])
    }

    fn incremental(&self) -> Option<&dyn IncrementalTable> {
        None
    }
}

impl HtkFeatureDeserializer {
    /// Loads a chunk.
    pub(crate) fn load(&self, chunk: ChunkId) -> Result<Arc<dyn Chunk>> {
        let loaded = FeatureChunk::load(&self.shared, chunk);
        Ok(Arc::new(loaded.map_err(|error| error.in_stream(&self.streams[0].name))?))
    }
}

impl ChunkSource for HtkFeatureDeserializer {
    fn streams(&self) -> &[StreamInfo] {
        &self.streams
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
        let UtteranceTable { utterances, paths, .. } = &self.shared.table;
        sampler.parts(utterances.len(), PARTS, |sampler, position| {
            let file = HtkFile::open(paths, utterances.paths[position])?;
            let range = file.range(utterances.starts[position], utterances.frames[position].into());
            sampler.file(&file.file, range)
        })
    }

    fn fingerprint(&self, _chunks: Option<usize>) -> u64 {
        self.shared.table.fingerprint()
    }

    fn memory(&self) -> SourceMemory {
        SourceMemory { chunks: self.shared.buffers.held(), index: self.shared.table.bytes() as u64 }
    }

    fn file_bytes(&self) -> Option<u64> {
        None
    }

    fn diagnostics(&self) -> &dyn Diagnostics {
        self
    }
}

impl LeafDiagnostics for HtkFeatureDeserializer {
    fn location(&self, sequence: SequenceId, _stream: usize) -> Location {
        let table = &self.shared.table;
        let (file, line) = table.line(table.position(sequence));
        Location::in_file(file, None, Some(line.into()))
    }
}

impl JoinedByKey for HtkFeatureDeserializer {}

impl Deserializer for HtkFeatureDeserializer {
    fn sequence_facts(&self) -> SequenceFacts {
        SequenceFacts {
            in_frame_mode: if self.is_expanded { InFrameMode::Whole } else { InFrameMode::SlicedStrictly },
            is_expanded: self.is_expanded,
            ..SequenceFacts::PLAIN
        }
    }

    fn keys(&self, sequences: &[SequenceId], keys: &mut Vec<SequenceKey>) {
        let table = &self.shared.table;
        keys.extend(sequences.iter().map(|&id| table.key(table.position(id))));
    }
    fn prepare_to_find(&self) -> Result<()> {
        Ok(())
    }

    fn find(&self, key: SequenceKey) -> Option<SequenceId> {
        self.shared.table.find(key)
    }
}
