//! Lattices: opaque bytes for each utterance.
//!
//! A lattice is a range of bytes of a file, located by [`contents`]. The bytes are delivered
//! unchanged, four per sample. If the size is not a multiple of 4, the last sample is filled with
//! the next bytes of the chunk, or with zeros at the chunk's end.
//!
//! There is no index cache (`cacheIndex`). CNTK's holds no more than the tables of contents, which
//! must be read anyway, and would hide changes made to them.

mod contents;
#[cfg(test)]
mod tests;

use crate::htk::LatticeOptions;
use cntk_reader_core::corpus::Corpus;
use cntk_reader_core::error::{ExceptionClass, Location};
use cntk_reader_core::file::{DataFile, FileState};
use cntk_reader_core::fingerprint::{SEED, mix};
use cntk_reader_core::format::buffer::{BufferPool, ChunkBuffer};
use cntk_reader_core::format::content::{FILES, Sampler};
use cntk_reader_core::format::diagnostics::{Diagnostics, LeafDiagnostics};
use cntk_reader_core::format::loading::{Load, Starter};
use cntk_reader_core::format::{
    Chunk, ChunkInfo, ChunkSource, ChunkTable, Deserializer, IncrementalTable, JoinedByKey, LeafChunk,
    Lengths, SequenceFacts, SourceFacts, SourceMemory,
};
use cntk_reader_core::memory::room;
use cntk_reader_core::runtime::log::{Level, Logger};
use cntk_reader_core::sequence::{
    ChunkId, Loaded, SequenceId, SequenceKey, SequenceView, ValueForm, ViewKind,
};
use cntk_reader_core::stream::StreamInfo;
use cntk_reader_core::{Error, ErrorKind, Result};
use contents::Contents;
use std::ops::Range;
use std::sync::Arc;

/// Bytes per sample.
const SAMPLE: u32 = 4;

/// A deserializer for lattices: opaque bytes for each utterance.
pub struct LatticeDeserializer {
    streams: Vec<StreamInfo>,
    infos: Vec<ChunkInfo>,
    shared: Arc<Lattices>,
    /// All lattices, sorted by key; equal keys in the order of the tables of contents.
    by_key: Vec<u32>,
    keys: Vec<SequenceKey>,
}

/// The lattices and their chunks, shared by the deserializer and the loaded chunks.
struct Lattices {
    /// Number of samples of each lattice.
    samples: Vec<u32>,
    /// Offset of each lattice in its file.
    offsets: Vec<u64>,
    chunks: Vec<Span>,
    /// Paths of the files, and their states when the tables of contents were read.
    files: Vec<(Arc<str>, FileState)>,
    buffers: BufferPool,
}

/// The position of a chunk.
struct Span {
    /// Number of its file.
    file: u32,
    /// Its lattices.
    lattices: Range<u32>,
    /// Its range of bytes in the file.
    bytes: Range<u64>,
}

impl LatticeDeserializer {
    /// Reads the tables of contents. Runs on a thread of the library's pool.
    pub(crate) fn open(options: &LatticeOptions, corpus: &Arc<Corpus>, is_primary: bool) -> Result<Self> {
        if is_primary {
            let message = "Lattice deserializer does not support primary mode, it cannot control chunking. Please specify \
                           HTK deserializer as the first deserializer in your config file.";
            let error = Error::new(ErrorKind::Config, ExceptionClass::Logic, message);
            return Err(error.in_stream(&options.stream));
        }
        Self::open_any(options, corpus).map_err(|error| error.in_stream(&options.stream))
    }

    fn open_any(options: &LatticeOptions, corpus: &Corpus) -> Result<Self> {
        let index = &options.index_file;
        Logger::log_always(Level::Info, &format!("Reading lattice index file '{index}' ..."));
        let contents = Contents::read(index, corpus, &options.confinement)?;
        let count = contents.keys.len();
        Logger::log_always(Level::Info, &format!("LatticeDeserializer: '{count}' sequences"));
        if u32::try_from(count).is_err() {
            let message = "There are more than 4294967295 lattices.";
            return Err(Error::data(message)
                .with_detail("Divide them among several readers.")
                .in_file(index));
        }
        let samples = room::collect(contents.sizes.iter().map(|size| size.div_ceil(SAMPLE)), room::INDEX)?;
        let chunks = chunks(&contents, options.chunk_size)?;
        let info = |span: &Span| {
            let samples = &samples[span.lattices.start as usize..span.lattices.end as usize];
            let sum = samples.iter().map(|&count| u64::from(count)).sum();
            ChunkInfo { samples: sum, sequences: samples.len() as u32 }
        };
        let infos = room::collect(chunks.iter().map(info), room::INDEX)?;
        let largest = chunks.iter().map(|span| span.bytes.end - span.bytes.start).max().unwrap_or(0);
        let Contents { keys, offsets, runs, .. } = contents;
        let mut by_key = room::collect(0..count as u32, room::INDEX)?;
        // An in-place sort: a stable one would allocate memory.
        by_key.sort_unstable_by_key(|&lattice| (keys[lattice as usize], lattice));
        let mut stream = StreamInfo::dense(&options.stream, &[1]);
        stream.is_binary = true;
        let files = room::collect(runs.into_iter().map(|run| (run.path, run.state)), room::INDEX)?;
        let buffers = BufferPool::new(largest + u64::from(SAMPLE));
        Ok(LatticeDeserializer {
            streams: vec![stream],
            infos,
            shared: Arc::new(Lattices { samples, offsets, chunks, files, buffers }),
            by_key,
            keys,
        })
    }
}

/// Divides the lattices into chunks. A chunk holds lattices of one run within at most `size` bytes,
/// or a single lattice.
fn chunks(contents: &Contents, size: u64) -> Result<Vec<Span>> {
    let mut chunks: Vec<Span> = Vec::new();
    for (number, run) in contents.runs.iter().enumerate() {
        let end = contents.runs.get(number + 1).map_or(contents.keys.len(), |next| next.first);
        let mut is_new = true;
        for lattice in run.first..end {
            let from = contents.offsets[lattice];
            let own = from..from + u64::from(contents.sizes[lattice]);
            if let Some(chunk) = chunks.last_mut().filter(|_| !is_new) {
                let both = chunk.bytes.start.min(own.start)..chunk.bytes.end.max(own.end);
                if both.end - both.start <= size {
                    chunk.bytes = both;
                    chunk.lattices.end += 1;
                    continue;
                }
            }
            let lattices = lattice as u32..lattice as u32 + 1;
            room::push(&mut chunks, Span { file: number as u32, lattices, bytes: own }, room::INDEX)?;
            is_new = false;
        }
    }
    Ok(chunks)
}

impl ChunkTable for LatticeDeserializer {
    fn chunks(&self) -> &[ChunkInfo] {
        &self.infos
    }

    fn lengths(&self, chunk: ChunkId) -> Lengths<'_> {
        let Range { start, end } = self.shared.chunks[chunk as usize].lattices;
        Lengths::Each(&self.shared.samples[start as usize..end as usize])
    }

    fn incremental(&self) -> Option<&dyn IncrementalTable> {
        None
    }
}

impl LatticeDeserializer {
    /// Loads a chunk.
    pub(crate) fn load(&self, chunk: ChunkId) -> Result<Arc<dyn Chunk>> {
        let span = &self.shared.chunks[chunk as usize];
        let (path, state) = &self.shared.files[span.file as usize];
        let read = || {
            let file = DataFile::reopen(path, state)?;
            let mut data = self.shared.buffers.take(path, &(0..span.bytes.end - span.bytes.start + 3))?;
            file.if_unchanged(data.read(&file, span.bytes.clone()))?;
            data.append(&[0; SAMPLE as usize - 1])?;
            Ok(data)
        };
        let data = read().map_err(|error: Error| error.in_stream(&self.streams[0].name))?;
        Ok(Arc::new(LatticeChunk { shared: Arc::clone(&self.shared), id: chunk, data }))
    }
}

impl ChunkSource for LatticeDeserializer {
    fn streams(&self) -> &[StreamInfo] {
        &self.streams
    }

    fn facts(&self) -> SourceFacts {
        SourceFacts::ON_POOL
    }

    fn start(self: Arc<Self>, chunk: ChunkId, on: &Starter) -> Load {
        on.on_pool(&self, chunk, Self::load)
    }

    /// CNTK 2.7 reports 0 for truncated minibatches: lattices carry no keys.
    fn reported_keys(&self, sequences: &[SequenceId], truncated: bool, keys: &mut Vec<SequenceKey>) {
        match truncated {
            true => keys.resize(keys.len() + sequences.len(), 0),
            false => self.keys(sequences, keys),
        }
    }

    fn sample_content(&self, _chunks: Option<usize>, sampler: &mut Sampler) -> Result<()> {
        let files = &self.shared.files;
        sampler.parts(files.len(), FILES, |sampler, number| {
            let (path, state) = &files[number];
            let file = DataFile::reopen(path, state)?;
            sampler.file(&file, 0..state.size)
        })
    }

    fn fingerprint(&self, _chunks: Option<usize>) -> u64 {
        let lattices = self.keys.iter().zip(&self.shared.samples);
        let hash = lattices.fold(SEED, |hash, (&key, &samples)| mix(hash, key, samples.into()));
        mix(hash, self.keys.len() as u64, self.infos.len() as u64)
    }

    fn memory(&self) -> SourceMemory {
        let Lattices { samples, offsets, chunks, files, buffers } = &*self.shared;
        let index = size_of_val(&**samples)
            + size_of_val(&**offsets)
            + size_of_val(&**chunks)
            + files.iter().map(|file| size_of_val(file) + file.0.len()).sum::<usize>()
            + size_of_val(&*self.by_key)
            + size_of_val(&*self.keys)
            + size_of_val(&*self.infos);
        SourceMemory { chunks: buffers.held(), index: index as u64 }
    }

    fn file_bytes(&self) -> Option<u64> {
        None
    }

    fn diagnostics(&self) -> &dyn Diagnostics {
        self
    }
}

impl LeafDiagnostics for LatticeDeserializer {
    fn location(&self, sequence: SequenceId, _stream: usize) -> Location {
        let span = &self.shared.chunks[sequence.chunk as usize];
        let offset = self.shared.offsets.get((span.lattices.start + sequence.index) as usize);
        Location::in_file(&*self.shared.files[span.file as usize].0, offset.copied(), None)
    }
}

impl JoinedByKey for LatticeDeserializer {}

impl Deserializer for LatticeDeserializer {
    fn sequence_facts(&self) -> SequenceFacts {
        SequenceFacts { marks_keys: false, ..SequenceFacts::PLAIN }
    }

    fn keys(&self, sequences: &[SequenceId], keys: &mut Vec<SequenceKey>) {
        keys.extend(sequences.iter().map(|id| {
            let first = self.shared.chunks[id.chunk as usize].lattices.start;
            self.keys[(first + id.index) as usize]
        }));
    }

    fn prepare_to_find(&self) -> Result<()> {
        Ok(())
    }

    /// Finds the first lattice with the key.
    fn find(&self, key: SequenceKey) -> Option<SequenceId> {
        let at = self.by_key.partition_point(|&lattice| self.keys[lattice as usize] < key);
        let lattice = *self.by_key.get(at).filter(|&&lattice| self.keys[lattice as usize] == key)?;
        let chunk = self.shared.chunks.partition_point(|span| span.lattices.end <= lattice);
        let index = lattice - self.shared.chunks[chunk].lattices.start;
        Some(SequenceId { chunk: chunk as ChunkId, index })
    }
}

/// A loaded chunk: its bytes of the file, followed by three zeros.
struct LatticeChunk {
    shared: Arc<Lattices>,
    id: ChunkId,
    data: ChunkBuffer,
}

impl LeafChunk for LatticeChunk {
    fn sequence(&self, _stream: usize, index: u32) -> Loaded<'_> {
        let span = &self.shared.chunks[self.id as usize];
        let lattice = (span.lattices.start + index) as usize;
        let samples = self.shared.samples[lattice];
        let from = (self.shared.offsets[lattice] - span.bytes.start) as usize;
        let values = &self.data.bytes()[from..from + samples as usize * SAMPLE as usize];
        Loaded::Data(SequenceView { samples, values, form: ValueForm::Whole, kind: ViewKind::Dense })
    }
}

impl Drop for LatticeChunk {
    fn drop(&mut self) {
        self.shared.buffers.give_back(std::mem::take(&mut self.data));
    }
}
