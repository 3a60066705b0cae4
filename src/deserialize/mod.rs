//! Deserializers: from bytes to chunks of sequences.
//!
//! A [`Deserializer`] knows all its sequences before any data is loaded: which chunks there are, how long each
//! sequence is, what key it has. Loading a chunk gives its data, immutable and shared.

pub mod binary;
pub mod bundle;
pub mod custom;
pub mod fetch;
mod fingerprint;
pub mod loader;
mod sort;
pub mod text;

use crate::Result;
use crate::sequence::{ChunkId, SequenceId, SequenceInfo, SequenceKey, SequenceView};
use crate::stream::StreamInfo;
use loader::Loader;
use std::sync::Arc;

/// Size of a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChunkInfo {
    /// Samples of all its sequences, in declared lengths.
    pub samples: u64,
    /// Number of its sequences; never 0.
    pub sequences: u32,
}

/// Declared lengths of a chunk's sequences: what minibatches, windows and epochs are measured in.
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
pub struct Known {
    /// So many chunks, from the first one on.
    pub chunks: usize,
    /// There are no others.
    pub all: bool,
}

/// The table of chunks: all that the order of sequences depends on.
///
/// A table may grow at its end while its data are read ([`ChunkTable::grows`]). Who goes through it from front to back by
/// [`ChunkTable::chunk`] need not wait until it is complete; everybody else may ignore that.
pub trait ChunkTable: Send + Sync {
    /// All chunks, in the data's order. May be empty. Waits for a table that grows, and gives what there is if that fails.
    fn chunks(&self) -> &[ChunkInfo];

    /// Declared lengths of the sequences of a chunk that is known.
    fn lengths(&self, chunk: ChunkId) -> Lengths<'_>;

    /// Size of a chunk; `None` behind the last one. Of a table that grows it waits until that is known, and fails if
    /// the data there are wrong; so it must not be called on a thread of the pool.
    fn chunk(&self, chunk: ChunkId) -> Result<Option<ChunkInfo>> {
        Ok(self.chunks().get(chunk as usize).copied())
    }

    /// How much is known without waiting.
    fn known(&self) -> Known {
        Known { chunks: self.chunks().len(), all: true }
    }

    /// Whether it was not known as a whole from the start.
    fn grows(&self) -> bool {
        false
    }

    /// Nobody needs what is not known yet: a table need not grow any more, and whoever waits for it gets an error.
    fn abandon(&self) {}
}

/// A source of sequences. Stateless: any thread may load any chunk at any time, and loading twice gives the same.
pub trait Deserializer: ChunkTable {
    /// The streams it offers, in the order of their numbers.
    fn streams(&self) -> &[StreamInfo];

    /// Appends the key of each of the given sequences.
    fn keys(&self, sequences: &[SequenceId], keys: &mut Vec<SequenceKey>);

    /// Appends the keys that minibatches, truncated ones or others, carry: different ones where CNTK 2.7 says so.
    fn reported_keys(&self, sequences: &[SequenceId], truncated: bool, keys: &mut Vec<SequenceKey>) {
        let _ = truncated;
        self.keys(sequences, keys);
    }

    /// Where the sequence with this key is; of several, the one that CNTK finds.
    fn find(&self, key: SequenceKey) -> Option<SequenceId>;

    /// Appends what is known of each sequence of a chunk.
    fn list(&self, chunk: ChunkId, sequences: &mut Vec<SequenceInfo>) -> Result<()> {
        let (count, lengths) = (self.chunks()[chunk as usize].sequences, self.lengths(chunk));
        let ids: Vec<_> = (0..count).map(|index| SequenceId { chunk, index }).collect();
        let mut keys = Vec::with_capacity(ids.len());
        self.keys(&ids, &mut keys);
        let info =
            |(id, key): (SequenceId, _)| SequenceInfo { id, samples: lengths.get(id.index), key, sample: 0 };
        sequences.extend(ids.into_iter().zip(keys).map(info));
        Ok(())
    }

    /// Where the sequence is that belongs to one of another deserializer, and its declared length.
    fn partner(&self, of: &SequenceInfo) -> Result<Option<(SequenceId, u32)>> {
        Ok(self.find(of.key).map(|id| (id, self.lengths(id.chunk).get(id.index))))
    }

    /// Whether sequences of loaded chunks have to be fetched, see [`fetch`]. Such a deserializer is asked for lists and
    /// partners one after the other, on the thread that opens the reader.
    fn is_fetched(&self) -> bool {
        false
    }

    /// Loads a chunk. Called from a thread of the library's pool; work may be split with rayon's `par_iter` there.
    fn load(&self, chunk: ChunkId) -> Result<Arc<dyn Chunk>>;

    /// A number that differs when the data differ: the fingerprint that checkpoints carry. Covers chunk table,
    /// lengths and keys, not the values.
    fn fingerprint(&self) -> u64;

    /// The same of so many chunks from the first one on, which must be known. A number of its own if such parts have
    /// none: only tables that grow are asked, and those that may take their place.
    fn fingerprint_of(&self, _chunks: usize) -> u64 {
        self.fingerprint()
    }

    /// Whether a chunk tells its sequences only when it is loaded ([`Chunk::listing`]). Its table then has the number
    /// of chunks and nothing else, no key can be found, and order is the affair of [`crate::randomize::local`].
    fn lists_when_loaded(&self) -> bool {
        false
    }

    /// Memory that it holds now.
    fn memory(&self) -> SourceMemory;

    /// Bytes of the file that `chunkSizeInBytes` would divide into chunks; `None` without a file of its own.
    fn file_bytes(&self) -> Option<u64> {
        None
    }

    /// The threads to load it on, if it must not be loaded on the library's pool.
    fn loader(&self) -> Option<&Loader> {
        None
    }

    /// Whether it runs code that is not the library's, which must not go on when the process ends: see [`crate::exit`].
    fn is_foreign(&self) -> bool {
        self.loader().is_some()
    }

    /// Waits until threads of its own have nothing left to do: what it was given has gone back to its user then.
    fn finish(&self) {
        if let Some(loader) = self.loader() {
            loader.drain();
        }
    }
}

/// Memory that a deserializer holds, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SourceMemory {
    /// Chunks, wherever they are in use, and memory that is kept for the next ones.
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

/// The data of a chunk's sequences.
pub trait Chunk: Send + Sync {
    /// The data of a sequence in a stream.
    fn sequence(&self, stream: usize, index: u32) -> Loaded<'_>;

    /// Asks the processor for the memory that [`Chunk::sequence`] is going to look up, in the order of the look-ups: first
    /// with [`Ahead::Far`], a few sequences later with [`Ahead::Near`]. A hint; it may do nothing.
    fn prefetch(&self, _index: u32, _ahead: Ahead) {}

    /// Waits until all of the chunk is there: it may share parts with other chunks that are still being loaded. The
    /// reader calls this once, before anything else, and never on a thread of the pool, which would have to do the
    /// loading.
    fn settle(&self) -> Result<()> {
        Ok(())
    }

    /// Counts the errors that were met while this chunk was loaded against what its deserializer tolerates
    /// (`maxErrors`), and fails once they are more. Chunks are loaded ahead and in any order; the reader calls this
    /// once for each load, in the order of the timeline, when the chunk enters the window. So the count does not
    /// depend on threads.
    fn admit(&self) -> Result<()> {
        Ok(())
    }

    /// Fetches a sequence in those streams that [`Chunk::sequence`] does not have ready; `first` is the number of this
    /// chunk's first stream among those of the reader. May be called by several threads at once.
    fn fetch(&self, _index: u32, _first: usize, _parts: &mut fetch::Parts) -> Result<()> {
        Ok(())
    }

    /// Its sequences, if it is for the chunk to tell ([`Deserializer::lists_when_loaded`]).
    fn listing(&self) -> Option<Listing<'_>> {
        None
    }
}

/// How long before its use a sequence is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ahead {
    /// Long before: what has to be read first.
    Far,
    /// Shortly before: what that leads to.
    Near,
}

/// What loading made of one sequence.
#[derive(Debug, Clone, Copy)]
pub enum Loaded<'a> {
    /// Its data.
    Data(SequenceView<'a>),
    /// Left out by its deserializer, which has counted it already ([`Chunk::admit`]).
    Skipped,
    /// Invalid (a broken image ...): left out, and counted against the reader's `maxErrors`.
    Invalid,
}
