//! Shared chunks of a secondary deserializer. Each is in memory at most once: bundled chunks that
//! need the same secondary chunk share one [`Load`].
//!
//! A load lives while a bundled chunk uses it, so the window bounds the memory.

use cntk_reader_core::format::Deserializer;
use cntk_reader_core::format::loading::{Load, Starter, WeakLoad};
use cntk_reader_core::runtime::sync::Mutex;
use cntk_reader_core::sequence::{ChunkId, SequenceId, SequenceKey};
use std::collections::HashMap;
use std::sync::Arc;

/// A secondary deserializer, and the loads of its chunks in use.
pub struct Secondary {
    deserializer: Arc<dyn Deserializer>,
    loads: Mutex<HashMap<ChunkId, WeakLoad>>,
}

impl Secondary {
    pub fn new(deserializer: Arc<dyn Deserializer>) -> Self {
        Secondary { deserializer, loads: Mutex::default() }
    }

    /// Returns the load of a chunk: shared with another bundled chunk if there is one that has not
    /// failed, otherwise new.
    pub fn start(&self, chunk: ChunkId, on: &Starter) -> Load {
        let mut loads = self.loads.lock();
        let known = loads.get(&chunk).and_then(WeakLoad::upgrade);
        if let Some(load) = known.filter(|load| !load.has_failed()) {
            return load;
        }
        let load = Arc::clone(&self.deserializer).start(chunk, on);
        loads.insert(chunk, load.downgrade());
        load
    }

    pub fn deserializer(&self) -> &dyn Deserializer {
        &*self.deserializer
    }

    /// Returns the key of a sequence.
    pub fn key(&self, id: SequenceId) -> Option<SequenceKey> {
        let mut keys = Vec::with_capacity(1);
        self.deserializer.keys(&[id], &mut keys);
        keys.pop()
    }
}
