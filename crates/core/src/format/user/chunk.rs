//! A loaded chunk of a user's deserializer: arrays, or an object that returns one sequence at a
//! time.

use super::arrays::CheckedArrays;
use super::data::{Keys, Sequences, StreamData};
use super::fetched::{FetchedChunk, SequenceSource, Single};
use super::table::numbers;
use super::{UserDeserializer, call, wrong_chunk};
use crate::Result;
use crate::corpus::Corpus;
use crate::format::fetch::Parts;
use crate::format::loader::Loader;
use crate::format::{LeafChunk, Lengths, Listing, Loaded};
use crate::memory::Held;
use crate::runtime::exit;
use crate::sequence::{ChunkId, SequenceKey};
use crate::stream::StreamInfo;
use std::sync::Arc;

/// The result of [`UserDeserializer::load`].
pub struct UserChunk(Content);

enum Content {
    /// Data and keys of the sequences, and their number if it is known independently.
    Arrays(Vec<StreamData>, Keys, Option<u32>),
    Fetched(Arc<dyn FetchedChunk>),
    /// From the C layer.
    Source(Box<dyn SequenceSource>),
}

impl UserChunk {
    /// Creates a chunk of arrays: the data of all streams in order of stream number, each with the
    /// same number of sequences.
    #[must_use]
    pub fn arrays(streams: Vec<StreamData>) -> UserChunk {
        UserChunk(Content::Arrays(streams, Keys::Ordinal, None))
    }

    /// Creates a chunk of arrays whose sequences have keys, for deserializers that do not list them
    /// beforehand.
    #[must_use]
    pub fn arrays_with_keys(streams: Vec<StreamData>, keys: Keys) -> UserChunk {
        UserChunk(Content::Arrays(streams, keys, None))
    }

    /// Creates a chunk that returns its sequences one by one.
    /// [`UserDeserializer::fetches_sequences`] must return true.
    #[must_use]
    pub fn fetched(chunk: impl FetchedChunk + 'static) -> UserChunk {
        UserChunk(Content::Fetched(Arc::new(chunk)))
    }

    /// Sets the number of sequences that the arrays must have, if it is known.
    #[must_use]
    #[doc(hidden)]
    pub fn with_count(mut self, count: Option<u32>) -> UserChunk {
        if let Content::Arrays(.., expected) = &mut self.0 {
            *expected = count;
        }
        self
    }

    #[doc(hidden)]
    pub fn source(source: Box<dyn SequenceSource>) -> UserChunk {
        UserChunk(Content::Source(source))
    }
}

/// A chunk in memory.
pub(super) struct LoadedChunk {
    data: Data,
    /// Counts the chunk's memory until it is returned to the user. The memory of chunks of fetched
    /// sequences is unknown.
    held: Held,
    /// Its threads return arrays to the user.
    loader: Arc<Loader>,
    /// Its number, for messages.
    number: ChunkId,
    /// Number of streams of the deserializer.
    streams: usize,
    sequences: u32,
    /// `None` if all are one sample long.
    lengths: Option<Vec<u32>>,
    keys: Option<Vec<SequenceKey>>,
    /// The chunk itself lists its sequences.
    is_late: bool,
}

enum Data {
    Arrays(CheckedArrays),
    Source(Box<dyn SequenceSource>),
    /// Only while the chunk is being dropped.
    None,
}

impl LoadedChunk {
    /// Calls user code to load a chunk on this thread, and checks it. `late` is the corpus for the
    /// keys that the chunk lists, or `None` if its sequences are known already.
    pub(super) fn load(
        user: &dyn UserDeserializer,
        number: ChunkId,
        streams: &Arc<[StreamInfo]>,
        loader: &Arc<Loader>,
        late: Option<&Corpus>,
    ) -> Result<LoadedChunk> {
        let UserChunk(content) = call(format_args!("loading chunk {number}"), || user.load(number))?;
        let is_fetched = !matches!(content, Content::Arrays(..));
        if is_fetched && !user.fetches_sequences() {
            return Err(wrong_chunk(
                number,
                "`load` returned one whose sequences are fetched one by one (`UserChunk::fetched`), but \
                 `fetches_sequences` returns false; it must return true.",
            ));
        }
        let (data, listed) = match content {
            Content::Arrays(data, keys, expected) => {
                let (checked, lengths) = CheckedArrays::new(data, streams, number)?;
                if let Some(expected) = expected.filter(|&expected| expected != checked.sequences()) {
                    let message =
                        format!("its arrays have {} sequences instead of {expected}.", checked.sequences());
                    return Err(wrong_chunk(number, message));
                }
                let listed = Sequences { count: checked.sequences(), lengths, keys, ..Sequences::default() };
                (Data::Arrays(checked), Some(listed))
            }
            Content::Fetched(chunk) => {
                let source = Box::new(Single::new(chunk, streams));
                (Data::Source(source), None)
            }
            Content::Source(source) => (Data::Source(source), None),
        };
        let listed = match (listed, late, &data) {
            (None, Some(_), Data::Source(source)) => {
                call(format_args!("listing chunk {number}"), || source.sequences())?.ok_or_else(|| {
                    wrong_chunk(
                        number,
                        "`UserDeserializer::sequences` does not list its sequences, and neither does \
                         `FetchedChunk::sequences`: one of them has to.",
                    )
                })?
            }
            (listed, ..) => listed.unwrap_or_default(),
        };
        let keys = match late {
            Some(corpus) => numbers(&listed, number, corpus)?,
            None => None,
        };
        super::table::check_lengths(&listed, number)?;
        let lists = listed.lengths.as_deref().map_or(0, size_of_val) + keys.as_deref().map_or(0, size_of_val);
        let arrays = if let Data::Arrays(arrays) = &data { arrays.bytes() } else { 0 };
        Ok(LoadedChunk {
            data,
            held: loader.hold(arrays + lists),
            loader: Arc::clone(loader),
            number,
            streams: streams.len(),
            sequences: listed.count,
            lengths: listed.lengths,
            keys,
            is_late: late.is_some(),
        })
    }

    /// The sequences as the chunk itself knows them.
    pub(super) fn own_listing(&self) -> Option<Listing<'_>> {
        let lengths = self.lengths.as_deref().map_or(Lengths::Ones, Lengths::Each);
        let is_known = self.is_late || matches!(self.data, Data::Arrays(_));
        is_known.then_some(Listing { sequences: self.sequences, lengths })
    }

    /// The key of a sequence, if the chunk has keys.
    pub(super) fn key(&self, index: u32) -> Option<SequenceKey> {
        self.keys.as_ref()?.get(index as usize).copied()
    }
}

impl Drop for LoadedChunk {
    fn drop(&mut self) {
        match std::mem::replace(&mut self.data, Data::None) {
            Data::Arrays(arrays) => self.loader.release((arrays, std::mem::take(&mut self.held))),
            Data::Source(source) => match exit::enter() {
                Some(_inside) => drop(source),
                // The process is exiting, and the code of the destructor may be gone.
                None => std::mem::forget(source),
            },
            Data::None => {}
        }
    }
}

impl LeafChunk for LoadedChunk {
    fn sequence(&self, stream: usize, index: u32) -> Loaded<'_> {
        match &self.data {
            Data::Arrays(arrays) => Loaded::Data(arrays.view(stream, index)),
            // Nothing is ready; fetched data are looked up in their own objects.
            Data::Source(_) | Data::None => Loaded::Invalid,
        }
    }

    fn fetch(&self, index: u32, first: usize, parts: &mut Parts) -> Result<()> {
        match &self.data {
            Data::Source(source) => parts.add(first, self.streams, |used| {
                let what = format_args!("fetching sequence {index} of chunk {}", self.number);
                call(what, || source.fetch(index, used))
            }),
            Data::Arrays(_) | Data::None => Ok(()),
        }
    }

    fn listing(&self) -> Option<Listing<'_>> {
        self.is_late.then(|| self.own_listing()).flatten()
    }
}
