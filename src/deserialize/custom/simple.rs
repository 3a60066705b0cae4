//! A user's deserializer whose chunks list their sequences when they are loaded.

use super::chunk::{Checked, LoadedChunk};
use super::streams::{Fingerprint, describe};
use super::{Simple, call};
use crate::Result;
use crate::deserialize::loader::Loader;
use crate::deserialize::{Chunk, ChunkInfo, ChunkTable, Deserializer, Lengths, SourceMemory};
use crate::sequence::{ChunkId, SequenceId, SequenceKey};
use crate::stream::StreamInfo;
use parking_lot::Mutex;
use std::sync::{Arc, Weak};

/// Threads that load chunks at the same time, where that is allowed.
const MOST_THREADS: usize = 8;

/// Starts the threads that a user's deserializer is loaded on.
pub(super) fn start_loader(user: &dyn Simple) -> Result<Arc<Loader>> {
    let threads = if user.is_thread_safe() { crate::pool::threads().min(MOST_THREADS) } else { 1 };
    Ok(Arc::new(Loader::start(threads)?))
}

/// Nothing is known of the chunks but how many there are: the table has zeros.
pub(super) struct SimpleDeserializer {
    user: Arc<dyn Simple>,
    streams: Arc<[StreamInfo]>,
    chunks: Vec<ChunkInfo>,
    fingerprint: u64,
    loader: Arc<Loader>,
    /// The chunks in memory, which know their keys.
    loaded: Mutex<Vec<Weak<LoadedChunk>>>,
}

impl SimpleDeserializer {
    pub(super) fn open(user: Arc<dyn Simple>) -> Result<Self> {
        let (streams, chunks) = describe(&*user)?;
        Ok(SimpleDeserializer {
            fingerprint: Fingerprint::of(&streams, chunks).value(),
            streams: streams.into(),
            chunks: vec![ChunkInfo { samples: 0, sequences: 0 }; chunks as usize],
            loader: start_loader(&*user)?,
            loaded: Mutex::new((0..chunks).map(|_| Weak::new()).collect()),
            user,
        })
    }
}

impl ChunkTable for SimpleDeserializer {
    fn chunks(&self) -> &[ChunkInfo] {
        &self.chunks
    }

    fn lengths(&self, _chunk: ChunkId) -> Lengths<'_> {
        Lengths::Ones
    }
}

impl Deserializer for SimpleDeserializer {
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

    fn load(&self, chunk: ChunkId) -> Result<Arc<dyn Chunk>> {
        let (user, streams) = (Arc::clone(&self.user), Arc::clone(&self.streams));
        let checked = self.loader.run(move || {
            let data = call(&format!("loading chunk {chunk}"), || user.load(chunk))?;
            Checked::new(data, &streams, chunk)
        })??;
        let loaded = Arc::new(LoadedChunk::new(checked, &self.loader));
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
