//! The chunks in memory of a deserializer that lists sequences only when loading. A local timeline
//! requests each chunk.

use crate::randomize::local::Chunks;
use cntk_reader_core::format::loading::{Load, Loads};
use cntk_reader_core::format::{Chunk, ChunkSource, Listing, ListingDeserializer};
use cntk_reader_core::memory::room;
use cntk_reader_core::runtime::cancel;
use cntk_reader_core::runtime::pool::Pool;
use cntk_reader_core::sequence::ChunkId;
use cntk_reader_core::{Error, Result};
use std::collections::HashMap;
use std::sync::Arc;

/// Loads chunks, and keeps them until they are released.
pub(super) struct ListedChunks {
    /// The loaded chunks, by chunk id.
    resident: Vec<Option<Arc<dyn Chunk>>>,
    /// The ids of the loaded chunks.
    held: Vec<ChunkId>,
    /// Loads that are in progress, or finished but not yet requested.
    loads: HashMap<ChunkId, Load>,
    /// Starts loads. Must be the last field: dropping it waits for loads in progress, after the
    /// fields before it have released all chunks.
    loader: Loads,
}

impl ListedChunks {
    pub(super) fn new(deserializer: &Arc<dyn ListingDeserializer>, pool: Pool) -> Result<Self> {
        Ok(ListedChunks {
            resident: room::filled(deserializer.chunk_count() as usize, None, room::ORDER)?,
            held: Vec::new(),
            loads: HashMap::new(),
            loader: Loads::new(Arc::clone(deserializer) as Arc<dyn ChunkSource>, pool),
        })
    }

    /// Returns the loaded chunks by id, for packing.
    pub(super) fn chunks(&self) -> &[Option<Arc<dyn Chunk>>] {
        &self.resident
    }

    /// Loads a chunk for a restored checkpoint, independently of the timeline.
    pub(super) fn fetch(&mut self, chunk: ChunkId) -> Result<Arc<dyn Chunk>> {
        match self.resident.get(chunk as usize) {
            None => Err(Error::internal(format!("There is no chunk {chunk}."))),
            Some(Some(loaded)) => Ok(Arc::clone(loaded)),
            Some(None) => self.loader.load(chunk),
        }
    }
}

impl Chunks for ListedChunks {
    fn expect(&mut self, chunk: ChunkId) {
        if self.resident[chunk as usize].is_none() && !self.loads.contains_key(&chunk) {
            self.loads.insert(chunk, self.loader.start(chunk));
        }
    }

    fn list(&mut self, chunk: ChunkId) -> Result<Listing<'_>> {
        if self.resident[chunk as usize].is_none() {
            self.expect(chunk);
            let load = self.loads.get(&chunk);
            let load = load.ok_or_else(|| Error::internal(format!("Chunk {chunk} was never started.")))?;
            let loaded = load.wait();
            // Forget a failed load, so that the next attempt starts a new one. If the call was
            // cancelled, the load continues.
            if !cancel::ended(&loaded) {
                self.loads.remove(&chunk);
            }
            let loaded = loaded?;
            loaded.errors().commit()?;
            self.resident[chunk as usize] = Some(loaded);
            self.held.push(chunk);
        }
        let listing = self.resident[chunk as usize].as_ref().and_then(|chunk| chunk.listing());
        listing.ok_or_else(|| Error::internal(format!("Chunk {chunk} does not list its sequences.")))
    }

    fn keep(&mut self, chunks: &[ChunkId]) {
        let is_kept = |chunk: ChunkId| chunks.binary_search(&chunk).is_ok();
        let resident = &mut self.resident;
        self.held.retain(|&chunk| {
            if !is_kept(chunk) {
                resident[chunk as usize] = None;
            }
            is_kept(chunk)
        });
        self.loads.retain(|&chunk, _| is_kept(chunk));
    }
}
