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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reader::tests::source::{Source, passing};

    #[test]
    fn chunks_are_loaded_once_and_released() {
        let source = Arc::new(Source::new(&[&[1], &[2, 1], &[4]]));
        let listing: Arc<dyn ListingDeserializer> = Arc::clone(&source) as _;
        let mut chunks = ListedChunks::new(&listing, Pool::shared().expect("threads")).expect("memory");
        let held =
            |chunks: &ListedChunks| -> Vec<bool> { chunks.chunks().iter().map(Option::is_some).collect() };
        chunks.expect(1);
        chunks.expect(1);
        let listed = chunks.list(1).expect("a chunk");
        assert_eq!((listed.sequences, listed.samples()), (2, 3));
        assert_eq!(chunks.list(1).expect("a chunk").sequences, 2);
        chunks.expect(1);
        assert_eq!((source.loads(), chunks.loads.len()), (vec![1], 0));
        assert_eq!(chunks.list(2).expect("a chunk").sequences, 1);
        assert_eq!(held(&chunks), [false, true, true]);
        chunks.expect(0);
        chunks.keep(&[0, 2]);
        assert_eq!((held(&chunks), &chunks.held[..]), (vec![false, false, true], &[2][..]));
        assert_eq!(chunks.loads.len(), 1, "chunk 0 is loading");
        chunks.keep(&[2]);
        assert_eq!(chunks.loads.len(), 0);
        // For a checkpoint, without keeping it.
        let fetched = chunks.fetch(1).expect("a chunk");
        assert_eq!(fetched.listing().map(|listing| listing.sequences), Some(2));
        assert_eq!(held(&chunks), [false, false, true]);
        assert_eq!(chunks.fetch(3).err().expect("no chunk").message(), "There is no chunk 3.");
    }

    #[test]
    fn failed_load_is_repeated() {
        let source = Arc::new(Source::twelve());
        let listing: Arc<dyn ListingDeserializer> = Arc::clone(&source) as _;
        let mut chunks = ListedChunks::new(&listing, Pool::shared().expect("threads")).expect("memory");
        source.breaks(1, Some(passing()));
        for _ in 0..2 {
            assert_eq!(chunks.list(1).expect_err("broken").message(), "busy");
        }
        source.breaks(1, None);
        assert_eq!(chunks.list(1).expect("whole again").sequences, 4);
        assert_eq!(source.loads(), [1, 1, 1]);
    }
}
