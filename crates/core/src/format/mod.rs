//! Deserializers: from bytes to chunks of sequences.
//!
//! There are two kinds. A [`Deserializer`] knows its sequences before any data are loaded: its
//! chunks, and the length and key of each sequence. A [`ListingDeserializer`] knows only the number
//! of its chunks; each chunk lists its sequences once it is loaded. Both are a [`ChunkSource`]:
//! they have streams, and load chunks that are immutable and shared. Sequences of either kind may
//! have to be [fetched](fetch) one by one from their loaded chunk.

pub mod buffer;
pub mod check;
pub mod content;
pub mod diagnostics;
pub mod fetch;
pub mod fetched;
pub mod files;
pub mod handle;
pub mod index_cache;
pub(crate) mod loader;
pub mod loading;
pub mod options;
pub mod recognize;
pub mod sort;
pub mod user;

pub use crate::sequence::Loaded;

use crate::memory::room;
use crate::sequence::{ChunkId, SequenceId, SequenceInfo, SequenceKey, SequenceView};
use crate::stream::StreamInfo;
use crate::{Error, Result};
use content::Sampler;
use diagnostics::Diagnostics;
use loading::{Load, Starter};
use std::sync::Arc;

/// Size of a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChunkInfo {
    /// Samples of all its sequences, in declared lengths.
    pub samples: u64,
    /// Number of its sequences; never 0.
    pub sequences: u32,
}

/// Declared lengths of a chunk's sequences: the unit in which minibatches, windows and epochs are
/// measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lengths<'a> {
    /// Every sequence is one sample long.
    Ones,
    /// One length per sequence.
    Each(&'a [u32]),
}

impl Lengths<'_> {
    /// Length of the sequence with this index.
    pub fn get(&self, index: u32) -> u32 {
        match self {
            Lengths::Ones => 1,
            Lengths::Each(lengths) => lengths[index as usize],
        }
    }
}

/// The sequences of one chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Listing<'a> {
    /// Number of sequences; may be 0.
    pub sequences: u32,
    /// Their declared lengths.
    pub lengths: Lengths<'a>,
}

impl Listing<'_> {
    /// Samples of all sequences, in declared lengths.
    pub fn samples(&self) -> u64 {
        match self.lengths {
            Lengths::Ones => self.sequences.into(),
            Lengths::Each(lengths) => lengths.iter().map(|&length| u64::from(length)).sum(),
        }
    }

    /// Index and length of each sequence.
    pub fn iter(&self) -> impl Iterator<Item = (u32, u32)> + use<'_> {
        (0..self.sequences).map(|index| (index, self.lengths.get(index)))
    }
}

/// How much of a table of chunks is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IndexProgress {
    /// Number of known chunks, counted from the start of the data.
    pub chunks: usize,
    /// The known chunks are all there are.
    pub all: bool,
}

/// The table of chunks, which alone determines the order of sequences.
pub trait ChunkTable: Send + Sync {
    /// All chunks, in the data's order. May be empty. Waits until an incremental table is complete;
    /// if that fails, returns the chunks before the failure.
    fn chunks(&self) -> &[ChunkInfo];

    /// Declared lengths of the sequences of a known chunk.
    fn lengths(&self, chunk: ChunkId) -> Lengths<'_>;

    /// The table as an incremental one; `None` if it was complete from the start. Needed only by
    /// callers that must not wait for the last chunk.
    fn incremental(&self) -> Option<&dyn IncrementalTable>;
}

/// A table of chunks that is built while its data are read.
pub trait IncrementalTable {
    /// Size of a chunk; `None` past the last one. Waits until the chunk is known, and fails if the
    /// data there are wrong. Must not be called on a thread of the pool, which builds the table.
    fn wait_for(&self, chunk: ChunkId) -> Result<Option<ChunkInfo>>;

    /// How much is known without waiting.
    fn progress(&self) -> IndexProgress;

    /// Stops building the table: a thread that waits for it gets an error.
    fn cancel(&self);
}

/// Queries on tables of both kinds. The blanket implementation is the only one, so a wrapper
/// cannot answer differently from the table that it wraps.
pub trait ChunkTableExt: ChunkTable {
    /// Size of a chunk; `None` past the last one. May wait and fail, see
    /// [`IncrementalTable::wait_for`].
    fn chunk(&self, chunk: ChunkId) -> Result<Option<ChunkInfo>> {
        match self.incremental() {
            Some(table) => table.wait_for(chunk),
            None => Ok(self.chunks().get(chunk as usize).copied()),
        }
    }

    /// How much is known without waiting.
    fn index_progress(&self) -> IndexProgress {
        let complete = || IndexProgress { chunks: self.chunks().len(), all: true };
        self.incremental().map_or_else(complete, IncrementalTable::progress)
    }
}

impl<T: ChunkTable + ?Sized> ChunkTableExt for T {}

/// Facts about a source of chunks. A wrapper changes the facts in which it differs and copies the
/// others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SourceFacts {
    /// Sequences of loaded chunks have to be fetched; see [`fetch`].
    pub is_fetched: bool,
    /// Fetched sequences are prefetched, always by one minibatch, as in CNTK 2.7: a minibatch makes
    /// its random draws even if it is dropped. If false, nothing is fetched that the caller may not
    /// get.
    pub is_fetched_ahead: bool,
    /// How chunks are loaded.
    pub loading: Loading,
    /// It runs code from outside the library, which must stop when the process exits: see
    /// [`crate::runtime::exit`].
    pub is_foreign: bool,
}

impl SourceFacts {
    /// Facts of most formats in this library.
    pub const ON_POOL: SourceFacts = SourceFacts {
        is_fetched: false,
        is_fetched_ahead: false,
        loading: Loading::OnPool,
        is_foreign: false,
    };

    /// Facts of users' deserializers.
    pub(crate) const BY_USERS: SourceFacts =
        SourceFacts { loading: Loading::ByUsers, is_foreign: true, ..SourceFacts::ON_POOL };
}

/// How the chunks of a source are loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loading {
    /// Loading does next to nothing, so it happens neither ahead nor on another thread.
    AtOnce,
    /// On the library's pool. The members of a bundle are loaded as their own facts say.
    OnPool,
    /// Only by users' code.
    ByUsers,
}

/// A source of chunks. It is stateless: any thread may load any chunk at any time, and loading a
/// chunk twice gives equal data.
pub trait ChunkSource: Send + Sync {
    /// The streams it offers, in order of stream number.
    fn streams(&self) -> &[StreamInfo];

    /// Facts, which never change.
    fn facts(&self) -> SourceFacts;

    /// Starts loading a chunk on the threads that [`Starter`] offers, and returns at once.
    ///
    /// Wrappers [wrap](Load::wrapped) the load of the wrapped source. Work on the pool may be split
    /// with rayon's `par_iter`; its closures must be [`carried`](crate::runtime::cancel::carried)
    /// so that they belong to the same call. Only formats check that the files they read are
    /// unchanged ([`DataFile::if_unchanged`](crate::file::DataFile::if_unchanged)).
    fn start(self: Arc<Self>, chunk: ChunkId, on: &Starter) -> Load;

    /// Appends the keys that minibatches, truncated or not, report for these sequences. Their
    /// chunks must be loaded.
    fn reported_keys(&self, sequences: &[SequenceId], truncated: bool, keys: &mut Vec<SequenceKey>);

    /// A fingerprint for checkpoints, which differs when the data differ. Covers the chunks, and
    /// the lengths and keys that are known before loading, but not the values. With `chunks`,
    /// covers only that many chunks from the start, which must be known. Formats that are never
    /// incremental ignore `chunks`.
    fn fingerprint(&self, chunks: Option<usize>) -> u64;

    /// Samples the content of the first `chunks` chunks, which must be known, or of all chunks.
    /// Checkpoints store the result beside the fingerprint. Content that cannot be sampled is
    /// [skipped](Sampler::skip).
    fn sample_content(&self, chunks: Option<usize>, sampler: &mut Sampler) -> Result<()>;

    /// Memory that it holds at present.
    fn memory(&self) -> SourceMemory;

    /// Size of the file that `chunkSizeInBytes` divides into chunks; `None` if it has no such file.
    fn file_bytes(&self) -> Option<u64>;

    /// Its diagnostics; [`NoDiagnostics`](diagnostics::NoDiagnostics) if it has none.
    fn diagnostics(&self) -> &dyn Diagnostics;
}

/// Facts about the sequences of a deserializer. A wrapper changes the facts in which it differs and
/// copies the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SequenceFacts {
    /// How frame mode treats its sequences.
    pub in_frame_mode: InFrameMode,
    /// Keys count lines or sequences, so they do not say what a sequence belongs to.
    pub counts_keys: bool,
    /// Several of its sequences may be the samples of one sequence ([`SequenceInfo::sample`]).
    pub lists_samples: bool,
    /// Truncated minibatches report the keys of its sequences if it is the last one of a bundle.
    /// CNTK 2.7 omits the keys of labels and lattices, and so reports key number 0, the key of the
    /// corpus's first sequence.
    pub marks_keys: bool,
    /// Each sequence has one sample, which is repeated for every sample that the reader's first
    /// stream has for the same key (`expandToUtterance`). Its views are
    /// [frames](crate::sequence::ViewKind::Frames).
    pub is_expanded: bool,
    /// Listing and matching sequences run users' code, one call at a time, on the thread that opens
    /// the reader.
    pub is_asked_in_place: bool,
}

impl SequenceFacts {
    /// Facts of sequences with no special properties.
    pub const PLAIN: SequenceFacts = SequenceFacts {
        in_frame_mode: InFrameMode::Whole,
        counts_keys: false,
        lists_samples: false,
        marks_keys: true,
        is_expanded: false,
        is_asked_in_place: false,
    };
}

/// A deserializer whose sequences are known before they are loaded.
pub trait Deserializer: ChunkTable + ChunkSource + Joinable {
    /// Facts about its sequences, which never change.
    fn sequence_facts(&self) -> SequenceFacts;

    /// Appends the key of each of the given sequences. Where CNTK 2.7 reports other keys in
    /// minibatches, [`ChunkSource::reported_keys`] differs from these.
    fn keys(&self, sequences: &[SequenceId], keys: &mut Vec<SequenceKey>);

    /// Finds the sequence with this key; if there are several, the one that CNTK finds.
    fn find(&self, key: SequenceKey) -> Option<SequenceId>;

    /// Sorts everything that [`Deserializer::find`] looks up keys in, perhaps on several threads of
    /// the pool.
    ///
    /// A search sorts unsorted tables itself, but searches that run in parallel on the pool must
    /// not: while a thread waits for a part of the sort, rayon could run another search on it,
    /// which would then wait for the sort that its own thread has suspended.
    fn prepare_to_find(&self) -> Result<()>;
}

/// How sequences are listed and matched when deserializers are joined.
pub trait Joinable {
    /// Appends the information about each sequence of a chunk.
    fn list(&self, chunk: ChunkId, sequences: &mut Vec<SequenceInfo>) -> Result<()>;

    /// Finds the sequence that belongs to `of`, a sequence of another deserializer. Returns its id
    /// and declared length.
    fn matching(&self, of: &SequenceInfo) -> Result<Option<(SequenceId, u32)>>;
}

/// Marks deserializers that implement [`Joinable`] by keys alone. Wrappers implement it themselves,
/// and ask the deserializer that they wrap.
pub trait JoinedByKey {}

impl<T: Deserializer + JoinedByKey> Joinable for T {
    fn list(&self, chunk: ChunkId, sequences: &mut Vec<SequenceInfo>) -> Result<()> {
        let (count, lengths) = (self.chunks()[chunk as usize].sequences, self.lengths(chunk));
        let ids = room::collect((0..count).map(|index| SequenceId { chunk, index }), room::INDEX)?;
        let mut keys = room::with_capacity(ids.len(), room::INDEX)?;
        room::reserve(sequences, ids.len(), room::INDEX)?;
        self.keys(&ids, &mut keys);
        let info =
            |(id, key): (SequenceId, _)| SequenceInfo { id, samples: lengths.get(id.index), key, sample: 0 };
        sequences.extend(ids.into_iter().zip(keys).map(info));
        Ok(())
    }

    fn matching(&self, of: &SequenceInfo) -> Result<Option<(SequenceId, u32)>> {
        Ok(self.find(of.key).map(|id| (id, self.lengths(id.chunk).get(id.index))))
    }
}

/// How frame mode treats a deserializer's sequences. Deserializers list whole sequences in every
/// mode; the engine splits them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InFrameMode {
    /// Each frame of the primary's sequence gets the whole sequence.
    Whole,
    /// Each frame gets the sample with its index; frames past the last sample are invalid.
    Sliced,
    /// Like `Sliced`, but fewer samples than in the primary are an error when the reader is opened.
    SlicedStrictly,
    /// Like `Sliced`, but any other number of samples than in the primary is an error when the
    /// reader is opened. Only the engine sets this; no deserializer does.
    SlicedExactly,
}

/// A deserializer whose chunks list their sequences once they are loaded ([`Chunk::listing`]). The
/// engine's `randomize::local` orders them.
pub trait ListingDeserializer: ChunkSource {
    /// Number of chunks.
    fn chunk_count(&self) -> u32;
}

/// Maps ids with `other_of` and passes them to `use_block` in blocks, without allocating.
pub fn by_blocks(
    ids: &[SequenceId],
    other_of: impl Fn(&SequenceId) -> SequenceId,
    mut use_block: impl FnMut(&[SequenceId]),
) {
    let mut others = [SequenceId { chunk: 0, index: 0 }; 64];
    for block in ids.chunks(others.len()) {
        let others = &mut others[..block.len()];
        others.iter_mut().zip(block).for_each(|(other, id)| *other = other_of(id));
        use_block(others);
    }
}

/// A deserializer of either kind.
#[derive(Clone)]
pub enum AnyDeserializer {
    /// Its sequences are known beforehand.
    Known(Arc<dyn Deserializer>),
    /// Its chunks list them.
    Listing(Arc<dyn ListingDeserializer>),
}

impl AnyDeserializer {
    /// The part that both kinds share.
    pub fn source(&self) -> Arc<dyn ChunkSource> {
        match self {
            AnyDeserializer::Known(deserializer) => Arc::clone(deserializer) as Arc<dyn ChunkSource>,
            AnyDeserializer::Listing(deserializer) => Arc::clone(deserializer) as Arc<dyn ChunkSource>,
        }
    }
}

/// Memory that a deserializer holds, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SourceMemory {
    /// Chunks, wherever they are in use, and memory kept for later ones.
    pub chunks: u64,
    /// Tables of chunks, sequences and keys.
    pub index: u64,
}

impl std::ops::Add for SourceMemory {
    type Output = SourceMemory;

    fn add(self, other: SourceMemory) -> SourceMemory {
        SourceMemory { chunks: self.chunks + other.chunks, index: self.index + other.index }
    }
}

/// The data of a chunk's sequences. No method has a default, so a wrapper cannot forget to ask the
/// chunk that it wraps. Chunks that wrap no other chunk implement [`LeafChunk`].
pub trait Chunk: Send + Sync {
    /// The data of a sequence in a stream.
    fn sequence(&self, stream: usize, index: u32) -> Loaded<'_>;

    /// Gets the data of a sequence in the chunk's first `loaded.len()` streams, as
    /// [`Chunk::sequence`] would return them. Chunks that have to search for a sequence do so once
    /// for all streams.
    fn sequences<'a>(&'a self, index: u32, loaded: &mut [Loaded<'a>]);

    /// The error of reading a sequence that is [invalid](Loaded::Invalid) in a stream; `None` if it
    /// is merely left out. For data that CNTK rejects only when they are needed.
    fn failure(&self, stream: usize, index: u32) -> Option<Error>;

    /// Whether the sequences of a stream are [expanded](SequenceFacts::is_expanded) to the length
    /// of the first stream's. Wrappers that replace the data of the first stream must [`expand`]
    /// these again.
    fn is_expanded(&self, stream: usize) -> bool;

    /// Prefetches memory that [`Chunk::sequence`] will access, in the order of the accesses: first
    /// with [`Ahead::Far`], a few sequences later with [`Ahead::Near`]. A hint, which may do
    /// nothing.
    fn prefetch(&self, index: u32, ahead: Ahead);

    /// Logs warnings about its data. The reader calls this in timeline order, when the chunk enters
    /// the window, before [`ChunkErrors::commit`].
    fn warn(&self);

    /// The errors found while this chunk was loaded; [`NoErrors`] if its format tolerates none.
    fn errors(&self) -> &dyn ChunkErrors;

    /// Fetches a sequence in the streams for which [`Chunk::sequence`] does not have it ready.
    /// `first` is the reader's number for this chunk's first stream. May be called by several
    /// threads at once.
    fn fetch(&self, index: u32, first: usize, parts: &mut fetch::Parts) -> Result<()>;

    /// Its sequences, if the chunk lists them ([`ListingDeserializer`]).
    fn listing(&self) -> Option<Listing<'_>>;
}

/// A chunk that wraps no other chunk. The defaults are for formats without the feature in question.
/// Wrappers must implement [`Chunk`] instead.
pub trait LeafChunk: Send + Sync {
    /// See [`Chunk::sequence`].
    fn sequence(&self, stream: usize, index: u32) -> Loaded<'_>;

    /// See [`Chunk::sequences`].
    #[inline]
    fn sequences<'a>(&'a self, index: u32, loaded: &mut [Loaded<'a>]) {
        for (stream, loaded) in loaded.iter_mut().enumerate() {
            *loaded = self.sequence(stream, index);
        }
    }

    /// See [`Chunk::failure`].
    fn failure(&self, _stream: usize, _index: u32) -> Option<Error> {
        None
    }

    /// See [`Chunk::prefetch`].
    fn prefetch(&self, _index: u32, _ahead: Ahead) {}

    /// See [`Chunk::errors`].
    fn errors(&self) -> &dyn ChunkErrors {
        &NoErrors
    }

    /// See [`Chunk::fetch`].
    fn fetch(&self, _index: u32, _first: usize, _parts: &mut fetch::Parts) -> Result<()> {
        Ok(())
    }

    /// See [`Chunk::listing`].
    fn listing(&self) -> Option<Listing<'_>> {
        None
    }
}

impl<T: LeafChunk> Chunk for T {
    #[inline]
    fn sequence(&self, stream: usize, index: u32) -> Loaded<'_> {
        LeafChunk::sequence(self, stream, index)
    }

    #[inline]
    fn sequences<'a>(&'a self, index: u32, loaded: &mut [Loaded<'a>]) {
        LeafChunk::sequences(self, index, loaded);
    }

    fn failure(&self, stream: usize, index: u32) -> Option<Error> {
        LeafChunk::failure(self, stream, index)
    }

    /// Only bundles expand: a chunk of one deserializer has no other stream to take the length
    /// from.
    fn is_expanded(&self, _stream: usize) -> bool {
        false
    }

    #[inline]
    fn prefetch(&self, index: u32, ahead: Ahead) {
        LeafChunk::prefetch(self, index, ahead);
    }

    /// Formats log their warnings while they load a chunk.
    fn warn(&self) {}

    fn errors(&self) -> &dyn ChunkErrors {
        LeafChunk::errors(self)
    }

    fn fetch(&self, index: u32, first: usize, parts: &mut fetch::Parts) -> Result<()> {
        LeafChunk::fetch(self, index, first, parts)
    }

    fn listing(&self) -> Option<Listing<'_>> {
        LeafChunk::listing(self)
    }
}

/// Counts the errors in a chunk against the number that its deserializer tolerates (`maxErrors`).
/// No method has a default.
pub trait ChunkErrors {
    /// Counts the errors, and fails once there are more than tolerated. Although chunks are loaded
    /// ahead and in any order, the reader calls this once for each load in timeline order, when the
    /// chunk enters the window, so the count does not depend on threads.
    fn commit(&self) -> Result<()>;

    /// Whether [`ChunkErrors::commit`] would count errors.
    fn has_uncounted(&self) -> bool;

    /// Whether [`ChunkErrors::commit`] has counted errors, or they were
    /// [waived](ChunkErrors::waive).
    fn has_counted(&self) -> bool;

    /// Undoes what [`ChunkErrors::commit`] counted: the reader goes back to before the chunk
    /// entered the window.
    fn retract(&self);

    /// Makes [`ChunkErrors::commit`] count nothing: the reader goes back to a point at which this
    /// chunk was in the window and its errors were already counted.
    fn waive(&self);
}

/// Errors of a chunk that has none.
pub(crate) struct NoErrors;

impl ChunkErrors for NoErrors {
    fn commit(&self) -> Result<()> {
        Ok(())
    }

    fn has_uncounted(&self) -> bool {
        false
    }

    fn has_counted(&self) -> bool {
        false
    }

    fn retract(&self) {}

    fn waive(&self) {}
}

/// Repeats a sequence of one sample for each sample of `first`, the matching sequence in the
/// reader's first stream.
pub fn expand<'a>(one: Loaded<'a>, first: Loaded<'_>) -> Loaded<'a> {
    match (one, first) {
        (Loaded::Data(one), Loaded::Data(first)) => {
            Loaded::Data(SequenceView { samples: first.samples, ..one })
        }
        (one, _) => one,
    }
}

/// How far ahead of its use a sequence is prefetched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ahead {
    /// Well ahead: prefetches what is accessed first, such as table entries.
    Far,
    /// Shortly ahead: prefetches what those lead to.
    Near,
}
