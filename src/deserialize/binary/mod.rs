//! CNTK binary format (CBF): chunks of sequences whose values are used where they lie.
//!
//! Two layouts go by this name, see [`header`]. [`magic`] or [`documented`] read a chunk into a recycled [`buffer`] and walk
//! over it once, check every count against the bytes that are there, and note where sequences begin. The [`chunk`]
//! hands out views into the buffer. Hosts are little-endian, like the files.
//!
//! The key of a sequence is its ordinal in the file.

mod buffer;
mod chunk;
mod documented;
pub(crate) mod header;
mod lengths;
mod magic;
mod pieces;
mod sparse;
#[cfg(test)]
pub(crate) mod tests;
#[cfg(test)]
mod twins;

use crate::config::options::BinaryOptions;
use crate::corpus::Corpus;
use crate::deserialize::fingerprint::{SEED, mix};
use crate::deserialize::{Chunk, ChunkInfo, ChunkTable, Deserializer, Lengths, SourceMemory};
use crate::error::ExceptionClass;
use crate::file::DataFile;
use crate::log::{Level, Logger};
use crate::sequence::{ChunkId, SequenceId, SequenceKey};
use crate::stream::{ElementType, StreamInfo};
use crate::{Error, ErrorKind, Result};
use buffer::Buffers;
use chunk::BinaryChunk;
use header::{ChunkRow, Header, Layout};
use lengths::LengthTable;
use parking_lot::Mutex;
use sparse::Form;
use std::sync::Arc;

/// The deserializer of a binary file.
pub struct BinaryDeserializer {
    streams: Vec<StreamInfo>,
    chunks: Vec<ChunkInfo>,
    shared: Arc<Shared>,
    /// Chunks that were loaded, if they are to be kept.
    kept: Option<Vec<Mutex<Option<Arc<BinaryChunk>>>>>,
}

/// What the deserializer and its chunks share.
struct Shared {
    file: DataFile,
    header: Header,
    lengths: LengthTable,
    buffers: Buffers,
    /// What was last stored of each stream, if it is sparse.
    forms: Vec<Mutex<Form>>,
}

/// What a chunk's bytes are read with: everything that errors need to say where they are.
struct Context<'a> {
    file: &'a DataFile,
    header: &'a Header,
    row: &'a ChunkRow,
    /// Ordinal of the chunk's first sequence.
    first: u64,
}

impl Context<'_> {
    /// An error at a byte of the chunk, in a stream and a sequence if these are known.
    fn error(&self, at: usize, stream: Option<usize>, index: Option<u32>, message: String) -> Error {
        let mut error = Error::data(message).in_file(self.file.path()).at(self.row.start + at as u64, None);
        if let Some(stream) = stream {
            error = error.in_stream(&self.header.streams[stream].name);
        }
        match index {
            Some(index) => error.for_key((self.first + u64::from(index)).to_string()),
            None => error,
        }
    }
}

impl BinaryDeserializer {
    /// Opens the file and reads its tables. Runs on a thread of the library's pool.
    pub fn open(options: &BinaryOptions, corpus: &Corpus) -> Result<Self> {
        if !corpus.is_numeric() {
            let message = "Binary deserializer does not support non-numeric sequence keys.";
            return Err(Error::argument(message).in_file(&options.file));
        }
        Self::open_any(options, Some(options.element))
    }

    /// Opens a file of whatever element types; `element` refuses others.
    pub(crate) fn open_any(options: &BinaryOptions, element: Option<ElementType>) -> Result<Self> {
        let path = &options.file;
        let file = DataFile::open(path)?;
        let header = Header::read(&file)?;
        if let Some(element) = element {
            check_elements(&header, element, path)?;
        }
        let lengths = match header.layout {
            Layout::Magic => LengthTable::read(&file, &header)?,
            Layout::Documented => documented::lengths(&file, &header)?,
        };
        let chunks = header
            .chunks
            .iter()
            .map(|row| ChunkInfo { samples: u64::from(row.samples), sequences: row.sequences })
            .collect();
        let streams: Vec<StreamInfo> = header
            .streams
            .iter()
            .map(|stream| StreamInfo {
                name: renamed(&stream.name, &options.renamed).to_owned(),
                storage: stream.storage,
                element: stream.element,
                shape: vec![stream.dim as usize],
                defines_mb_size: false,
            })
            .collect();
        let log = Logger { trace_level: options.trace_level };
        if log.shows(Level::Info) {
            let (sequences, chunks) = (lengths.total(), header.chunks.len());
            log.write(Level::Info, &format!("Opened '{path}': {sequences} sequences in {chunks} chunks."));
        }
        let kept =
            options.keep_data_in_memory.then(|| header.chunks.iter().map(|_| Mutex::new(None)).collect());
        let largest = header.chunks.iter().map(|row| row.end - row.start).max().unwrap_or(0);
        let buffers = Buffers::new(largest);
        let shared = Shared { file, header, lengths, buffers, forms: forms(streams.len(), false) };
        Ok(BinaryDeserializer { streams, chunks, shared: Arc::new(shared), kept })
    }

    /// Lets small numbers be stored narrow, for packers of whole sequences: others cannot read them. Before anything is
    /// loaded.
    #[must_use]
    pub fn narrow(mut self) -> Self {
        if let Some(shared) = Arc::get_mut(&mut self.shared) {
            shared.forms = forms(self.streams.len(), true);
        }
        self
    }

    /// Bytes of the file that its chunks take, for progress reports.
    pub(crate) fn chunk_bytes(&self, chunk: ChunkId) -> u64 {
        let row = &self.shared.header.chunks[chunk as usize];
        row.end - row.start
    }
}

/// The least form for each stream.
fn forms(streams: usize, narrow: bool) -> Vec<Mutex<Form>> {
    (0..streams).map(|_| Mutex::new(Form::new(narrow))).collect()
}

/// The name that the configuration gives a stream. Of several, the last one counts.
fn renamed<'a>(name: &'a str, renamed: &'a [(String, String)]) -> &'a str {
    renamed.iter().rfind(|(_, alias)| alias == name).map_or(name, |(new, _)| new)
}

fn check_elements(header: &Header, element: ElementType, path: &str) -> Result<()> {
    match header.streams.iter().find(|stream| stream.element != element) {
        None => Ok(()),
        Some(stream) => {
            // CNTK 2.7's words, its two ways of numbering included.
            let message = format!(
                "Unsupported combination of the input data type {} and precision {}. At the moment, both have to match.",
                stream.element as u32 - 1,
                element as u32
            );
            let error = Error::new(ErrorKind::Data, ExceptionClass::Logic, message);
            Err(error.in_file(path).in_stream(&stream.name))
        }
    }
}

impl ChunkTable for BinaryDeserializer {
    fn chunks(&self) -> &[ChunkInfo] {
        &self.chunks
    }

    fn lengths(&self, chunk: ChunkId) -> Lengths<'_> {
        self.shared.lengths.of(chunk)
    }
}

impl Deserializer for BinaryDeserializer {
    fn streams(&self) -> &[StreamInfo] {
        &self.streams
    }

    fn keys(&self, sequences: &[SequenceId], keys: &mut Vec<SequenceKey>) {
        let lengths = &self.shared.lengths;
        keys.extend(sequences.iter().map(|id| lengths.first(id.chunk) + u64::from(id.index)));
    }

    /// CNTK 2.7 joins by ordinal, but hands out sequences that are marked with the key 0.
    fn reported_keys(&self, sequences: &[SequenceId], _: bool, keys: &mut Vec<SequenceKey>) {
        keys.resize(keys.len() + sequences.len(), 0);
    }

    fn find(&self, key: SequenceKey) -> Option<SequenceId> {
        self.shared.lengths.find(key)
    }

    fn load(&self, chunk: ChunkId) -> Result<Arc<dyn Chunk>> {
        let Some(kept) = &self.kept else {
            return Ok(Arc::new(self.shared.load(chunk)?));
        };
        if let Some(loaded) = &*kept[chunk as usize].lock() {
            return Ok(loaded.clone());
        }
        let loaded = Arc::new(self.shared.load(chunk)?);
        Ok(kept[chunk as usize].lock().get_or_insert(loaded).clone())
    }

    fn memory(&self) -> SourceMemory {
        let Shared { header, lengths, buffers, .. } = &*self.shared;
        let tables = size_of_val(self.chunks.as_slice()) + size_of_val(header.chunks.as_slice());
        SourceMemory { chunks: buffers.held(), index: (tables + lengths.bytes()) as u64 }
    }

    fn file_bytes(&self) -> Option<u64> {
        self.shared.file.size().ok()
    }

    fn fingerprint(&self) -> u64 {
        let mut hash = SEED;
        for (id, info) in (0..).zip(&self.chunks) {
            hash = mix(hash, info.samples, u64::from(info.sequences));
            let (first, lengths) = (self.shared.lengths.first(id), self.lengths(id));
            for index in 0..info.sequences {
                hash = mix(hash, first + u64::from(index), u64::from(lengths.get(index)));
            }
        }
        mix(hash, self.shared.lengths.total(), self.chunks.len() as u64)
    }
}

impl Shared {
    fn load(self: &Arc<Self>, id: ChunkId) -> Result<BinaryChunk> {
        let (file, header, row) = (&self.file, &self.header, &self.header.chunks[id as usize]);
        let context = Context { file, header, row, first: self.lengths.first(id) };
        let range = row.start..row.end;
        // From here on the chunk's destructor gives the buffer back.
        let data = self.buffers.take(file.path(), &range)?;
        let mut chunk = BinaryChunk { shared: Arc::clone(self), data, parts: Vec::new() };
        let data = &mut chunk.data;
        chunk.parts = match header.layout {
            Layout::Magic => magic::load(&context, self.lengths.of(id), &self.forms, data)?,
            Layout::Documented => {
                data.read(file, range)?;
                documented::parts(&context, data.bytes_mut())?
            }
        };
        Ok(chunk)
    }
}
