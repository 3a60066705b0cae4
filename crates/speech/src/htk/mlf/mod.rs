//! Labels in the HTK master label format (MLF): one class per frame, from text or binary files.
//!
//! When the files are opened, [`scan`] (or [`binary`]) finds the position, key and length of each
//! utterance, and [`index`] stores them in a table. Loading a chunk reads its utterances again, and
//! parses all their lines ([`parse`], [`ranges`], [`states`]); the [`chunk`] keeps one class per
//! frame. So errors affect at most a single utterance, unless a line cannot be parsed at all. With
//! hashed keys the table may be cached in a file ([`cache`]).

mod binary;
mod cache;
mod chunk;
mod index;
mod names;
mod open;
mod parse;
mod ranges;
mod scan;
mod states;
#[cfg(test)]
mod tests;
mod utterances;
mod write;

pub use names::state_names;
pub(crate) use open::{ScannedAhead, scan_ahead};
pub use states::StateList;
pub use utterances::utterances;
pub use write::MlfWriter;

use crate::htk::MlfOptions;
use cntk_reader_core::corpus::Corpus;
use cntk_reader_core::error::{ExceptionClass, Location};
use cntk_reader_core::file::DataFile;
use cntk_reader_core::format::check::{ChunkCheck, Finding};
use cntk_reader_core::format::content::{FILES, Sampler};
use cntk_reader_core::format::diagnostics::Diagnostics;
use cntk_reader_core::format::loading::{Load, Starter};
use cntk_reader_core::format::{
    Chunk, ChunkInfo, ChunkSource, ChunkTable, Deserializer, InFrameMode, IncrementalTable, JoinedByKey,
    Lengths, SequenceFacts, SourceFacts, SourceMemory,
};
use cntk_reader_core::memory::Meter;
use cntk_reader_core::option::FrontEnd;
use cntk_reader_core::runtime::log::{Level, Logger, Repeated};
use cntk_reader_core::sequence::{ChunkId, SequenceId, SequenceKey};
use cntk_reader_core::stream::{ElementType, Storage, StreamInfo};
use cntk_reader_core::{Error, Result};
use index::LabelTable;
use ranges::Columns;
use std::sync::Arc;

/// Maximum number of classes: labels are stored in 16 bits.
pub const LARGEST_DIM: u64 = cntk_reader_core::limits::MAX_LABEL_CLASSES;

/// A deserializer for labels in the HTK master label format: one class per frame.
pub(crate) struct MlfDeserializer {
    streams: Vec<StreamInfo>,
    shared: MlfShared,
}

/// State needed to load chunks.
struct MlfShared {
    /// Name of the stream.
    stream: String,
    files: Vec<LabelFile>,
    states: Option<StateList>,
    /// Number of classes.
    dim: u32,
    /// The column separator of a line.
    columns: Columns,
    /// Values are 2 at the beginning of ranges.
    boundaries: bool,
    /// The type of classes delivered as numbers.
    ids: Option<ElementType>,
    frame_mode: bool,
    table: LabelTable,
    corpus: Arc<Corpus>,
    /// Tracks the memory of chunks.
    meter: Meter,
    /// Utterances that were skipped.
    invalid: Repeated,
    /// The front end whose option names appear in log lines.
    front_end: FrontEnd,
}

/// An open label file.
struct LabelFile {
    data: DataFile,
    is_binary: bool,
    /// The version of a binary file.
    version: binary::Version,
}

impl MlfDeserializer {
    /// Opens the files. `ahead` is the result of scanning ahead, if any. Runs on a thread of the
    /// library's pool.
    pub(crate) fn open(
        options: &MlfOptions,
        corpus: &Arc<Corpus>,
        is_primary: bool,
        ahead: Option<ScannedAhead>,
    ) -> Result<Self> {
        check(options, is_primary).map_err(|error| error.in_stream(&options.stream))?;
        let states = match &options.state_list {
            Some(path) if !options.binary => {
                Some(StateList::read(path).map_err(|error| error.in_stream(&options.stream))?)
            }
            _ => None,
        };
        let opened = open::open(options, corpus, ahead);
        let (files, table) = opened.map_err(|error| error.in_stream(&options.stream))?;
        let (utterances, frames) = (table.len(), table.total_frames());
        let line = format!("MLF Deserializer: '{utterances}' utterances with '{frames}' frames");
        Logger::log_always(Level::Info, &line);
        let (name, dim) = (&options.stream, options.dim as usize);
        let stream = match options.ids {
            Some(ids) => StreamInfo::ids(name, dim, ids),
            None => StreamInfo::new(name, Storage::SparseCsc, options.element, vec![dim]),
        };
        let shared = MlfShared {
            stream: options.stream.clone(),
            files,
            states,
            dim: options.dim as u32,
            columns: Columns::of(options),
            // Old sections accept both options; the boundaries then have no effect.
            boundaries: options.phone_boundaries && !options.frame_mode,
            ids: options.ids.map(|ids| ids.element),
            frame_mode: options.frame_mode,
            table,
            corpus: Arc::clone(corpus),
            meter: Meter::default(),
            invalid: Repeated::new("utterances that could not be parsed and were left out"),
            front_end: options.front_end,
        };
        Ok(MlfDeserializer { streams: vec![stream], shared })
    }
}

/// Rejects options that contradict each other or that CNTK does not support.
fn check(options: &MlfOptions, is_primary: bool) -> Result<()> {
    let logic = |message: &str| Error::config(ExceptionClass::Logic, message);
    if is_primary {
        let message = "MLFDeserializer currently does not support primary mode.";
        let detail = "Labels cannot be the first deserializer, or the only one: list the features first.";
        return Err(Error::config(ExceptionClass::Runtime, message).with_detail(detail));
    }
    if options.dim > LARGEST_DIM {
        let dim = options.dim;
        let message = format!("Label dimension ({dim}) exceeds the maximum allowed value '{LARGEST_DIM}d'\n");
        let detail = "Set ‹classes› to the number of classes. Labels are stored in 16 bits.";
        return Err(Error::config(ExceptionClass::Runtime, message).with_detail(detail));
    }
    if options.phone_boundaries && options.ids.is_some() {
        let message = "A stream with ‹ids› cannot have phone boundaries.";
        let detail = "Boundaries are values of sparse samples: remove ‹ids› or ‹phone_boundaries›.";
        return Err(logic(message).with_detail(detail));
    }
    if options.phone_boundaries && options.binary {
        let detail =
            "Binary labels have no phone boundaries: remove ‹phone_boundaries›, or read the labels as text.";
        return Err(
            logic("TODO: implement phoneBoundaries setting in Binary MLF deserializer.").with_detail(detail)
        );
    }
    Ok(())
}

impl ChunkTable for MlfDeserializer {
    fn chunks(&self) -> &[ChunkInfo] {
        self.shared.table.chunks()
    }

    fn lengths(&self, chunk: ChunkId) -> Lengths<'_> {
        self.shared.table.lengths(chunk)
    }

    fn incremental(&self) -> Option<&dyn IncrementalTable> {
        None
    }
}

impl MlfDeserializer {
    /// Loads a chunk.
    pub(crate) fn load(&self, chunk: ChunkId) -> Result<Arc<dyn Chunk>> {
        Ok(Arc::new(chunk::load(&self.shared, chunk)?))
    }
}

impl ChunkSource for MlfDeserializer {
    fn streams(&self) -> &[StreamInfo] {
        &self.streams
    }

    fn facts(&self) -> SourceFacts {
        SourceFacts::ON_POOL
    }

    fn start(self: Arc<Self>, chunk: ChunkId, on: &Starter) -> Load {
        on.on_pool(&self, chunk, Self::load)
    }

    /// CNTK 2.7's label sequences have no keys, which reads as key 0.
    fn reported_keys(&self, sequences: &[SequenceId], _truncated: bool, keys: &mut Vec<SequenceKey>) {
        keys.resize(keys.len() + sequences.len(), 0);
    }

    fn sample_content(&self, _chunks: Option<usize>, sampler: &mut Sampler) -> Result<()> {
        if let Some(states) = &self.shared.states {
            sampler.bytes(states.text());
        }
        let files = &self.shared.files;
        sampler.parts(files.len(), FILES, |sampler, number| {
            let file = &files[number].data;
            sampler.file(file, 0..file.size()?)
        })
    }

    fn fingerprint(&self, _chunks: Option<usize>) -> u64 {
        self.shared.table.fingerprint()
    }

    fn memory(&self) -> SourceMemory {
        let states = self.shared.states.as_ref().map_or(0, StateList::bytes);
        let index = (self.shared.table.bytes() + states) as u64;
        SourceMemory { chunks: self.shared.meter.bytes(), index }
    }

    fn file_bytes(&self) -> Option<u64> {
        self.shared.files.iter().map(|file| file.data.size().ok()).sum()
    }

    fn diagnostics(&self) -> &dyn Diagnostics {
        self
    }
}

impl Diagnostics for MlfDeserializer {
    fn check(&self, _chunk: ChunkId, _most: usize) -> Option<ChunkCheck> {
        None
    }

    fn location(&self, sequence: SequenceId, _stream: usize) -> Location {
        let Some(file) = self.shared.files.get(self.shared.table.file(sequence.chunk)) else {
            return Location::default();
        };
        let first = self.shared.table.positions(sequence.chunk).start;
        let offset = self.shared.table.entry(first + sequence.index as usize).offset;
        let line = if file.is_binary { None } else { file.data.line_at(offset) };
        Location::in_file(file.data.path(), Some(offset), line)
    }

    fn key_text(&self, key: SequenceKey, corpus: &Corpus) -> String {
        corpus.text_of(key)
    }

    fn forget_errors(&self) {}

    fn remarks(&self) -> Vec<Finding> {
        Vec::new()
    }

    fn end_sweep(&self) {
        let first = self.shared.files.first().map_or("", |file| file.data.path());
        self.shared.invalid.summarize(first);
    }
}

impl JoinedByKey for MlfDeserializer {}

impl Deserializer for MlfDeserializer {
    fn sequence_facts(&self) -> SequenceFacts {
        SequenceFacts { in_frame_mode: InFrameMode::Sliced, marks_keys: false, ..SequenceFacts::PLAIN }
    }

    fn keys(&self, sequences: &[SequenceId], keys: &mut Vec<SequenceKey>) {
        keys.extend(sequences.iter().map(|&id| self.shared.table.key(id)));
    }
    fn prepare_to_find(&self) -> Result<()> {
        Ok(())
    }

    fn find(&self, key: SequenceKey) -> Option<SequenceId> {
        self.shared.table.find(key)
    }
}
