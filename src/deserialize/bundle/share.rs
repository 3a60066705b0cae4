//! Chunks of a secondary deserializer. Each is in memory once, however many bundled chunks use it.
//!
//! Two bundled chunks that are loaded at the same time may need the same secondary chunk. The first one loads it. The
//! second one must not wait for it during its own load: that runs on a thread of the pool, perhaps on the very thread that
//! has suspended loading the secondary chunk, which would never finish. So the second one takes the [`Part`] while it is
//! still empty, and the reader waits for the part when the bundled chunk enters the window
//! ([`crate::deserialize::Chunk::wait_ready`]).
//!
//! A part lives as long as a bundled chunk uses it, so the window bounds the memory.

use crate::deserialize::{Chunk, Deserializer};
use crate::lock::Mutex;
use crate::sequence::{ChunkId, SequenceId, SequenceKey};
use crate::{Error, Result};
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock, Weak};

/// A chunk that is loaded or being loaded.
pub type Part = OnceLock<Result<Arc<dyn Chunk>>>;

/// A secondary deserializer and its chunks in memory.
pub struct Secondary {
    deserializer: Arc<dyn Deserializer>,
    parts: Mutex<HashMap<ChunkId, Weak<Part>>>,
}

impl Secondary {
    pub fn new(deserializer: Arc<dyn Deserializer>) -> Self {
        Secondary { deserializer, parts: Mutex::default() }
    }

    /// The part for a chunk, and whether it is new, so that the caller must [`load`](Secondary::load) it.
    pub fn part(&self, chunk: ChunkId) -> (Arc<Part>, bool) {
        let mut parts = self.parts.lock();
        if let Some(part) = parts.get(&chunk).and_then(Weak::upgrade) {
            return (part, false);
        }
        let part = Arc::default();
        parts.insert(chunk, Arc::downgrade(&part));
        (part, true)
    }

    pub fn deserializer(&self) -> &dyn Deserializer {
        &*self.deserializer
    }

    /// The key of a sequence.
    pub fn key(&self, id: SequenceId) -> Option<SequenceKey> {
        let mut keys = Vec::with_capacity(1);
        self.deserializer.keys(&[id], &mut keys);
        keys.pop()
    }

    /// Loads a chunk into its part. The part is set even after a failure or a panic, so no thread waits for it forever.
    pub fn load(&self, chunk: ChunkId, part: &Arc<Part>) {
        let outcome = catch_unwind(AssertUnwindSafe(|| self.deserializer.load(chunk)))
            .unwrap_or_else(|_| Err(Error::internal(format!("Loading chunk {chunk} panicked."))));
        if outcome.is_err() {
            // Forgets the failed part, so that the next bundled chunk that needs this chunk loads it again.
            let mut parts = self.parts.lock();
            if parts.get(&chunk).is_some_and(|known| known.as_ptr() == Arc::as_ptr(part)) {
                parts.remove(&chunk);
            }
        }
        // Cannot fail: only the thread for which `part` returned true sets the part, once.
        let _ = part.set(outcome);
    }
}
