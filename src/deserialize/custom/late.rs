//! A user's deserializer whose chunks list their sequences when they are loaded.

use super::chunk::LoadedChunk;
use super::streams::{Fingerprint, describe};
use super::{UserDeserializer, start_loader};
use crate::Result;
use crate::corpus::Corpus;
use crate::deserialize::loader::Loader;
use crate::deserialize::{Chunk, ChunkInfo, ChunkTable, Deserializer, Lengths, SourceMemory};
use crate::sequence::{ChunkId, SequenceId, SequenceKey};
use crate::stream::StreamInfo;
use parking_lot::Mutex;
use std::sync::{Arc, Weak};

/// Nothing is known of the chunks but how many there are: the table has zeros.
pub(super) struct LateDeserializer {
    user: Arc<dyn UserDeserializer>,
    streams: Arc<[StreamInfo]>,
    chunks: Vec<ChunkInfo>,
    is_fetched: bool,
    corpus: Arc<Corpus>,
    fingerprint: u64,
    loader: Arc<Loader>,
    /// The chunks in memory, which know their keys.
    loaded: Mutex<Vec<Weak<LoadedChunk>>>,
}

impl LateDeserializer {
    pub(super) fn open(user: Arc<dyn UserDeserializer>, corpus: &Arc<Corpus>) -> Result<Self> {
        let (streams, chunks) = describe(&*user)?;
        Ok(LateDeserializer {
            fingerprint: Fingerprint::of(&streams, chunks).value(),
            streams,
            chunks: vec![ChunkInfo { samples: 0, sequences: 0 }; chunks as usize],
            is_fetched: user.fetches_sequences(),
            corpus: Arc::clone(corpus),
            loader: start_loader(&*user)?,
            loaded: Mutex::new((0..chunks).map(|_| Weak::new()).collect()),
            user,
        })
    }
}

impl ChunkTable for LateDeserializer {
    fn chunks(&self) -> &[ChunkInfo] {
        &self.chunks
    }

    fn lengths(&self, _chunk: ChunkId) -> Lengths<'_> {
        Lengths::Ones
    }
}

impl Deserializer for LateDeserializer {
    fn streams(&self) -> &[StreamInfo] {
        &self.streams
    }

    fn keys(&self, sequences: &[SequenceId], keys: &mut Vec<SequenceKey>) {
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

    fn find(&self, _key: SequenceKey) -> Option<SequenceId> {
        None
    }

    fn is_fetched(&self) -> bool {
        self.is_fetched
    }

    fn load(&self, chunk: ChunkId) -> Result<Arc<dyn Chunk>> {
        let (user, streams) = (Arc::clone(&self.user), Arc::clone(&self.streams));
        let (loader, corpus) = (Arc::clone(&self.loader), Arc::clone(&self.corpus));
        let loaded =
            self.loader.run(move || LoadedChunk::load(&*user, chunk, &streams, &loader, Some(&corpus)))??;
        let loaded = Arc::new(loaded);
        self.loaded.lock()[chunk as usize] = Arc::downgrade(&loaded);
        Ok(loaded)
    }

    fn memory(&self) -> SourceMemory {
        SourceMemory { chunks: self.loader.held(), index: size_of_val(self.chunks.as_slice()) as u64 }
    }

    fn fingerprint(&self) -> u64 {
        self.fingerprint
    }

    fn lists_when_loaded(&self) -> bool {
        true
    }

    fn loader(&self) -> Option<&Loader> {
        Some(&self.loader)
    }
}
