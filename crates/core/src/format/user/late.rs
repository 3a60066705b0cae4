//! A user's deserializer whose chunks list their sequences when they are loaded.

use super::chunk::LoadedChunk;
use super::streams::{Fingerprint, describe};
use super::{UserDeserializer, start_loader};
use crate::Result;
use crate::corpus::Corpus;
use crate::format::content::Sampler;
use crate::format::diagnostics::{Diagnostics, NoDiagnostics};
use crate::format::loader::Loader;
use crate::format::loading::{Load, Starter};
use crate::format::{Chunk, ChunkSource, ListingDeserializer, SourceFacts, SourceMemory};
use crate::memory::room;
use crate::runtime::lock::Mutex;
use crate::sequence::{ChunkId, SequenceId, SequenceKey};
use crate::stream::StreamInfo;
use std::sync::{Arc, Weak};

/// A deserializer that knows only the number of its chunks.
pub(super) struct LateDeserializer {
    user: Arc<dyn UserDeserializer>,
    streams: Arc<[StreamInfo]>,
    chunks: u32,
    is_fetched: bool,
    corpus: Arc<Corpus>,
    fingerprint: u64,
    loader: Arc<Loader>,
    /// The loaded chunks, which know their keys.
    loaded: Mutex<Vec<Weak<LoadedChunk>>>,
}

impl LateDeserializer {
    pub(super) fn open(user: Arc<dyn UserDeserializer>, corpus: &Arc<Corpus>) -> Result<Self> {
        let (streams, chunks) = describe(&*user)?;
        Ok(LateDeserializer {
            fingerprint: Fingerprint::of(&streams, chunks).value(),
            streams,
            chunks,
            is_fetched: user.fetches_sequences(),
            corpus: Arc::clone(corpus),
            loader: start_loader(&*user)?,
            loaded: Mutex::new(room::collect((0..chunks).map(|_| Weak::new()), room::INDEX)?),
            user,
        })
    }
}

impl LateDeserializer {
    /// Calls user code to load a chunk on this thread.
    pub fn load(&self, chunk: ChunkId) -> Result<Arc<dyn Chunk>> {
        let corpus = Some(&*self.corpus);
        let loaded = LoadedChunk::load(&*self.user, chunk, &self.streams, &self.loader, corpus)?;
        let loaded = Arc::new(loaded);
        self.loaded.lock()[chunk as usize] = Arc::downgrade(&loaded);
        Ok(loaded)
    }
}

impl ChunkSource for LateDeserializer {
    fn streams(&self) -> &[StreamInfo] {
        &self.streams
    }

    fn facts(&self) -> SourceFacts {
        SourceFacts { is_fetched: self.is_fetched, ..SourceFacts::BY_USERS }
    }

    fn start(self: Arc<Self>, chunk: ChunkId, on: &Starter) -> Load {
        on.on_loader(&self.loader, &self, chunk, Self::load)
    }

    fn reported_keys(&self, sequences: &[SequenceId], _truncated: bool, keys: &mut Vec<SequenceKey>) {
        let loaded = self.loaded.lock();
        let mut last: Option<(ChunkId, Option<Arc<LoadedChunk>>)> = None;
        for sequence in sequences {
            if last.as_ref().is_none_or(|(chunk, _)| *chunk != sequence.chunk) {
                last = Some((sequence.chunk, loaded.get(sequence.chunk as usize).and_then(Weak::upgrade)));
            }
            let given = last.as_ref().and_then(|(_, chunk)| chunk.as_ref()?.key(sequence.index));
            keys.push(given.unwrap_or(u64::from(sequence.chunk) << 32 | u64::from(sequence.index)));
        }
    }

    fn memory(&self) -> SourceMemory {
        SourceMemory {
            chunks: self.loader.held(),
            index: u64::from(self.chunks) * size_of::<Weak<LoadedChunk>>() as u64,
        }
    }

    fn fingerprint(&self, _chunks: Option<usize>) -> u64 {
        self.fingerprint
    }

    fn sample_content(&self, _chunks: Option<usize>, sampler: &mut Sampler) -> Result<()> {
        sampler.skip();
        Ok(())
    }

    fn file_bytes(&self) -> Option<u64> {
        None
    }

    fn diagnostics(&self) -> &dyn Diagnostics {
        &NoDiagnostics
    }
}

impl ListingDeserializer for LateDeserializer {
    fn chunk_count(&self) -> u32 {
        self.chunks
    }
}

/// Explains, for messages, which method a user's deserializer lacks if it does not list its
/// sequences beforehand.
pub fn lacks_list_of(name: &str) -> String {
    format!(
        "Deserializers are joined by sequences that are known before any data are loaded, and '{name}' does not list \
         its own. Add the method or callback that lists them: `sequences` in Rust, `list_sequences` in C, \
         `GetSequences` in C++, `get_sequences` in Python. Or read '{name}' with a reader of its own."
    )
}
