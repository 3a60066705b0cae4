//! CNTK binary format (CBF): chunks of sequences whose values are used in place.
//!
//! Two layouts go by this name; see [`header`]. [`layout_cntk`] and [`layout_documented`] each read
//! a chunk into a recycled [buffer](cntk_reader_core::format::buffer), make one pass over it, check
//! every count against the available bytes, and record where sequences begin. The [`chunk`] hands
//! out views into the buffer. Values keep the byte order of the file, little-endian, which is also
//! that of all supported hosts.
//!
//! The key of a sequence is its ordinal in the file.

mod chunk;
mod context;
#[cfg(test)]
mod damage_tests;
#[cfg(test)]
mod differential;
pub mod header;
#[cfg(test)]
mod id_tests;
mod layout_cntk;
mod layout_documented;
mod lengths;
mod list;
mod options;
mod pieces;
#[cfg(any(test, feature = "test-support"))]
pub mod sample;
mod sparse;
#[cfg(test)]
pub mod tests;

use chunk::BinaryChunk;
use cntk_reader_core::corpus::Corpus;
use cntk_reader_core::error::{ExceptionClass, Location};
use cntk_reader_core::file::DataFile;
use cntk_reader_core::fingerprint::{SEED, mix};
use cntk_reader_core::format::buffer::BufferPool;
use cntk_reader_core::format::content::Sampler;
use cntk_reader_core::format::diagnostics::{Diagnostics, LeafDiagnostics};
use cntk_reader_core::format::handle::FileHandle;
use cntk_reader_core::format::loading::{Load, Starter};
use cntk_reader_core::format::{
    Chunk, ChunkInfo, ChunkSource, ChunkTable, Deserializer, IncrementalTable, JoinedByKey, Lengths,
    SequenceFacts, SourceFacts, SourceMemory,
};
use cntk_reader_core::memory::room;
use cntk_reader_core::message::names::Distinct;
use cntk_reader_core::runtime::lock::Mutex;
use cntk_reader_core::runtime::log::Level;
use cntk_reader_core::sequence::{ChunkId, SequenceId, SequenceKey};
use cntk_reader_core::stream::{ElementType, Ids, Storage, StreamInfo};
use cntk_reader_core::{Error, ErrorKind, Result};
use context::ChunkContext;
use header::{ChunkRecord, Header, Layout, StreamHeader, VERSION, check_version};
use lengths::LengthTable;
pub use list::open_files;
pub use options::BinaryOptions;
use sparse::Form;
use std::sync::{Arc, OnceLock};

/// The deserializer of a binary file.
pub struct BinaryDeserializer {
    streams: Vec<StreamInfo>,
    chunks: Vec<ChunkInfo>,
    shared: Arc<BinaryFile>,
    /// Loaded chunks, if they are kept in memory.
    kept: Option<Vec<Mutex<Option<Arc<BinaryChunk>>>>>,
}

/// An open file, shared by the deserializer and its chunks.
struct BinaryFile {
    handle: FileHandle,
    header: Header,
    /// For each stream whose one-hot samples are delivered as class numbers, the type of these
    /// numbers.
    ids: Vec<Option<ElementType>>,
    lengths: LengthTable,
    common: Arc<Common>,
}

/// State shared by the files of one deserializer.
struct Common {
    buffers: BufferPool,
    /// The form in which each stream was last stored; used for sparse streams only.
    forms: OnceLock<Vec<Mutex<Form>>>,
}

impl Common {
    fn new() -> Common {
        Common { buffers: BufferPool::new(0), forms: OnceLock::new() }
    }

    /// Returns the forms of the streams. Initially they are the most compact ones; `narrow` says
    /// whether these may be narrow.
    fn forms(&self, streams: usize, narrow: bool) -> &[Mutex<Form>] {
        self.forms.get_or_init(|| (0..streams).map(|_| Mutex::new(Form::new(narrow))).collect())
    }
}

impl BinaryDeserializer {
    /// Opens the file and reads its tables. Must run on a thread of the library's pool.
    pub(crate) fn open(options: &BinaryOptions, corpus: &Corpus) -> Result<Self> {
        check_corpus(options, corpus)?;
        Self::open_any(options, Some(options.element))
    }

    /// Opens a file. If `element` is given, streams of another element type are rejected.
    pub fn open_any(options: &BinaryOptions, element: Option<ElementType>) -> Result<Self> {
        Self::open_in(&Arc::new(Common::new()), true, options, element)
    }

    /// Opens one of several files, which share `common`.
    fn open_in(
        common: &Arc<Common>,
        stays_open: bool,
        options: &BinaryOptions,
        element: Option<ElementType>,
    ) -> Result<Self> {
        let path = options.files.name();
        let file = DataFile::open(path)?;
        let header = Header::read(&file)?;
        // When standing in for CNTK, reject the files that CNTK rejects.
        if options.ignores_unmatched {
            check_version(header.version, path)?;
        }
        if let (Some(element), VERSION) = (element, header.version) {
            check_elements(&header, element, path)?;
        }
        if !options.ignores_unmatched {
            check_renamed(&header, &options.renamed).map_err(|error| error.in_file(path))?;
        }
        let lengths = match header.layout {
            Layout::Cntk => LengthTable::read(&file, &header)?,
            Layout::Documented => layout_documented::lengths(&file, &header)?,
        };
        let info = |record: &ChunkRecord| ChunkInfo {
            samples: u64::from(record.samples),
            sequences: record.sequences,
        };
        let chunks = room::collect(header.chunks.iter().map(info), room::INDEX)?;
        let described = header.streams.iter().map(|stream| describe(stream, header.layout, options));
        let described = described.collect::<Result<Vec<_>>>().map_err(|error| error.in_file(path))?;
        let (streams, ids): (Vec<StreamInfo>, Vec<Option<ElementType>>) = described.into_iter().unzip();
        if !options.ignores_unmatched {
            check_distinct(&streams).map_err(|error| error.in_file(path))?;
        }
        let log = options.log;
        if log.shows(Level::Info) {
            let (sequences, chunks) = (lengths.total(), header.chunks.len());
            log.write(Level::Info, &format!("Opened '{path}': {sequences} sequences in {chunks} chunks."));
        }
        let kept =
            options.keep_data_in_memory.then(|| header.chunks.iter().map(|_| Mutex::new(None)).collect());
        let largest = header.chunks.iter().map(|record| record.end - record.start).max().unwrap_or(0);
        common.buffers.expect(largest);
        let handle = FileHandle::new(file, stays_open)?;
        let shared = BinaryFile { handle, header, ids, lengths, common: Arc::clone(common) };
        Ok(BinaryDeserializer { streams, chunks, shared: Arc::new(shared), kept })
    }

    /// Allows small numbers to be stored narrow, which packers can read. Must be called before
    /// anything is loaded.
    #[must_use]
    pub(crate) fn narrow(self) -> Self {
        self.shared.common.forms(self.streams.len(), true);
        self
    }

    /// Size of a chunk in the file, for progress reports.
    pub fn chunk_bytes(&self, chunk: ChunkId) -> u64 {
        let record = &self.shared.header.chunks[chunk as usize];
        record.end - record.start
    }
}

/// Rejects textual keys: binary files have no keys, so their sequences are numbered.
fn check_corpus(options: &BinaryOptions, corpus: &Corpus) -> Result<()> {
    if corpus.is_numeric() {
        return Ok(());
    }
    let message = "Binary deserializer does not support non-numeric sequence keys.";
    let detail =
        "Binary files number their sequences: remove ‹numeric_keys = false›, or read the data as text.";
    Err(Error::argument(message).with_detail(detail).in_file(options.files.name()))
}

/// Rejects new names for streams that the file does not have, and two names for one stream.
fn check_renamed(header: &Header, renamed: &[(String, String)]) -> Result<()> {
    for (place, (name, alias)) in renamed.iter().enumerate() {
        let error = |message: String| {
            let streams: Vec<_> = header.streams.iter().map(|stream| format!("'{}'", stream.name)).collect();
            let listed = streams.join(", ");
            let detail = format!(
                "It has {listed}. Correct the name, or leave it out: all streams of a file are read."
            );
            let error = Error::new(ErrorKind::Config, ExceptionClass::Runtime, message);
            Err(error.with_detail(detail).in_stream(name))
        };
        if !header.streams.iter().any(|stream| stream.name == *alias) {
            let purpose = match name == alias {
                true => String::new(),
                false => format!(", which is to be delivered as '{name}'"),
            };
            return error(format!("The file has no stream '{alias}'{purpose}."));
        }
        if let Some((other, _)) = renamed[..place].iter().find(|(_, earlier)| earlier == alias) {
            return error(format!("The stream '{alias}' of the file has two names: '{other}' and '{name}'."));
        }
    }
    Ok(())
}

/// Describes a stream as it is delivered. Also returns the type of the class numbers that its
/// one-hot samples become, if they do.
fn describe(
    stream: &StreamHeader,
    layout: Layout,
    options: &BinaryOptions,
) -> Result<(StreamInfo, Option<ElementType>)> {
    let name = renamed(&stream.name, &options.renamed);
    let ids = options.ids.iter().find(|(of, _)| of == name).map(|&(_, ids)| ids);
    let refuse = |message: &str, detail: &str| {
        let message = format!("The stream '{name}' has ‹ids›, {message}");
        Err(Error::config(ExceptionClass::InvalidArgument, message).with_detail(detail).in_stream(name))
    };
    let info = |element, shape| StreamInfo::new(name, stream.storage, element, shape);
    match (stream.classes, ids) {
        (0, None) => Ok((info(stream.element, vec![stream.dim as usize]), None)),
        (0, Some(_)) if stream.storage != Storage::SparseCsc => refuse(
            "but is not sparse in the file.",
            "Ids are the indices of sparse samples with one value: leave ‹ids› out.",
        ),
        (0, Some(_)) if layout != Layout::Cntk => refuse(
            "but the file has the layout of CNTK's public page.",
            "Convert the file: CNTK's own layout is read with ‹ids›.",
        ),
        (0, Some(ids)) => Ok((StreamInfo::ids(name, stream.dim as usize, ids), Some(ids.element))),
        (_, Some(ids)) if ids.element != stream.element => refuse(
            &format!(
                "of the type {}, but the file has the type {}.",
                ids.element.name(),
                stream.element.name()
            ),
            "The file already has class numbers: leave ‹ids› out, or set it to their type.",
        ),
        (classes, ids) => {
            let ids = ids.unwrap_or(Ids { element: stream.element, padding: 0 });
            Ok((StreamInfo::ids(name, classes as usize, ids), None))
        }
    }
}

/// Rejects two streams with one name, with CNTK's message.
fn check_distinct(streams: &[StreamInfo]) -> Result<()> {
    let mut names = Distinct::default();
    let Some(twice) = streams.iter().find(|stream| names.add(&stream.name).is_some()) else { return Ok(()) };
    let name = &twice.name;
    let message =
        format!("Two streams with the same name '{name}' have been found. Please rename the duplicate.");
    Err(Error::new(ErrorKind::Config, ExceptionClass::Runtime, message).in_stream(name))
}

/// The configuration's name for a stream. Of several names, the last one counts.
fn renamed<'a>(name: &'a str, renamed: &'a [(String, String)]) -> &'a str {
    renamed.iter().rfind(|(_, alias)| alias == name).map_or(name, |(new, _)| new)
}

fn name_of(element: ElementType) -> &'static str {
    match element {
        ElementType::Float => "float",
        ElementType::Double => "double",
        other => other.name(),
    }
}

fn check_elements(header: &Header, element: ElementType, path: &str) -> Result<()> {
    match header.streams.iter().find(|stream| stream.element != element) {
        None => Ok(()),
        Some(stream) => {
            // CNTK 2.7's words, including its two ways of numbering types.
            let message = format!(
                "Unsupported combination of the input data type {} and precision {}. At the moment, both have to match.",
                stream.element as u32 - 1,
                element as u32
            );
            let error = Error::new(ErrorKind::Data, ExceptionClass::Logic, message);
            let (found, expected) = (name_of(stream.element), name_of(element));
            let precision = match stream.element {
                ElementType::Double => "‹double_precision›",
                _ => "‹float_precision›",
            };
            Err(error
                .with_detail(format!(
                    "The file has values of the type {found}, and the reader {expected}. Set {precision}, or convert the \
                     data again."
                ))
                .in_file(path)
                .in_stream(&stream.name))
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

    fn incremental(&self) -> Option<&dyn IncrementalTable> {
        None
    }
}

impl BinaryDeserializer {
    /// Loads a chunk.
    pub fn load(&self, chunk: ChunkId) -> Result<Arc<dyn Chunk>> {
        let Some(kept) = &self.kept else {
            return Ok(Arc::new(self.shared.load(chunk)?));
        };
        if let Some(loaded) = &*kept[chunk as usize].lock() {
            return Ok(loaded.clone());
        }
        let loaded = Arc::new(self.shared.load(chunk)?);
        Ok(kept[chunk as usize].lock().get_or_insert(loaded).clone())
    }
}

impl ChunkSource for BinaryDeserializer {
    fn streams(&self) -> &[StreamInfo] {
        &self.streams
    }

    fn facts(&self) -> SourceFacts {
        SourceFacts::ON_POOL
    }

    fn start(self: Arc<Self>, chunk: ChunkId, on: &Starter) -> Load {
        on.on_pool(&self, chunk, Self::load)
    }

    /// CNTK 2.7 joins by ordinal, but marks the sequences that it hands out with the key 0.
    fn reported_keys(&self, sequences: &[SequenceId], _: bool, keys: &mut Vec<SequenceKey>) {
        keys.resize(keys.len() + sequences.len(), 0);
    }

    fn memory(&self) -> SourceMemory {
        let BinaryFile { header, lengths, common, handle, .. } = &*self.shared;
        let tables = size_of_val(self.chunks.as_slice()) + size_of_val(header.chunks.as_slice());
        let index = (tables + lengths.bytes()) as u64 + handle.memory();
        SourceMemory { chunks: common.buffers.held(), index }
    }

    fn file_bytes(&self) -> Option<u64> {
        self.shared.handle.size().ok()
    }

    fn sample_content(&self, _chunks: Option<usize>, sampler: &mut Sampler) -> Result<()> {
        let file = self.shared.handle.get()?;
        sampler.file(&file, 0..file.size()?)
    }

    fn fingerprint(&self, _chunks: Option<usize>) -> u64 {
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

    fn diagnostics(&self) -> &dyn Diagnostics {
        self
    }
}

impl LeafDiagnostics for BinaryDeserializer {
    fn location(&self, _sequence: SequenceId, _stream: usize) -> Location {
        Location::in_file(self.shared.handle.path(), None, None)
    }
}

impl JoinedByKey for BinaryDeserializer {}

impl Deserializer for BinaryDeserializer {
    fn sequence_facts(&self) -> SequenceFacts {
        SequenceFacts { counts_keys: true, ..SequenceFacts::PLAIN }
    }

    fn keys(&self, sequences: &[SequenceId], keys: &mut Vec<SequenceKey>) {
        let lengths = &self.shared.lengths;
        keys.extend(sequences.iter().map(|id| lengths.first(id.chunk) + u64::from(id.index)));
    }
    fn prepare_to_find(&self) -> Result<()> {
        Ok(())
    }

    fn find(&self, key: SequenceKey) -> Option<SequenceId> {
        self.shared.lengths.find(key)
    }
}

impl BinaryFile {
    fn load(self: &Arc<Self>, id: ChunkId) -> Result<BinaryChunk> {
        let file = self.handle.get()?;
        file.if_unchanged(self.load_from(&file, id))
    }

    fn load_from(self: &Arc<Self>, file: &DataFile, id: ChunkId) -> Result<BinaryChunk> {
        let (header, record) = (&self.header, &self.header.chunks[id as usize]);
        let context =
            ChunkContext { file, header, ids: &self.ids, record, first_key: self.lengths.first(id) };
        let range = record.start..record.end;
        // From here on the chunk's destructor returns the buffer to the pool.
        let data = self.common.buffers.take(file.path(), &range)?;
        let mut chunk = BinaryChunk { shared: Arc::clone(self), data, streams: Vec::new() };
        let data = &mut chunk.data;
        chunk.streams = match header.layout {
            Layout::Cntk => {
                let forms = self.common.forms(header.streams.len(), false);
                layout_cntk::load(&context, self.lengths.of(id), forms, data)?
            }
            Layout::Documented => {
                data.read(file, range)?;
                layout_documented::find_streams(&context, data.bytes_mut())?
            }
        };
        Ok(chunk)
    }
}
