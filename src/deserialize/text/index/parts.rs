//! The parts of an index that are known: all chunks in one, or in several that were added one after the other.
//!
//! Parts are never moved or changed once they are there, so they are read without locks while others are added.

use super::lookup::{Fingerprint, Sorted};
use super::table::Table;
use crate::log::{Level, Logger};
use crate::sequence::{ChunkId, SequenceId, SequenceKey};
use std::sync::OnceLock;
use std::time::Duration;

/// Some chunks that follow each other.
pub(super) struct Part {
    pub table: Table,
    /// Number of the first chunk.
    first: usize,
    /// The fingerprint of all chunks before.
    before: Fingerprint,
    /// Positions in the order of their keys, made when a key is first looked for and keys are in no order.
    sorted: OnceLock<Sorted>,
}

impl Part {
    pub fn new(table: Table, first: usize, before: Fingerprint) -> Self {
        Part { table, first, before, sorted: OnceLock::new() }
    }

    /// The sequence that CNTK finds for this key.
    pub fn find_key(&self, key: SequenceKey) -> Option<SequenceId> {
        let found = self.table.find(key, &self.sorted)?;
        Some(SequenceId { chunk: found.chunk + self.first as ChunkId, ..found })
    }
}

/// The parts, in the file's order.
pub(super) struct Parts(Box<[OnceLock<Part>]>);

impl Parts {
    /// One that has everything.
    pub fn whole(table: Table) -> Self {
        Parts(Box::new([OnceLock::from(Part::new(table, 0, Fingerprint::default()))]))
    }

    /// Room for so many parts, none of which is known yet.
    pub fn room(parts: usize) -> Self {
        Parts((0..parts).map(|_| OnceLock::new()).collect())
    }

    /// Adds a part; `number` are there already. Whether there was room for it.
    pub fn add(&self, number: usize, part: Part) -> bool {
        self.0.get(number).is_some_and(|slot| slot.set(part).is_ok())
    }

    /// Those that are known.
    pub fn iter(&self) -> impl Iterator<Item = &Part> {
        self.0.iter().map_while(OnceLock::get)
    }

    /// The part that a chunk is in, and the chunk's number there.
    pub fn find(&self, chunk: ChunkId) -> Option<(&Part, usize)> {
        let chunk = chunk as usize;
        let behind = self.0.partition_point(|slot| slot.get().is_some_and(|part| part.first <= chunk));
        let part = self.0.get(behind.checked_sub(1)?)?.get()?;
        let chunk = chunk - part.first;
        (chunk < part.table.chunks.len()).then_some((part, chunk))
    }

    /// The fingerprint of the first chunks.
    pub fn fingerprint(&self, chunks: usize) -> u64 {
        let last = chunks.checked_sub(1).and_then(|last| self.find(last as ChunkId));
        let mut fingerprint = Fingerprint::default();
        if let Some((part, last)) = last {
            fingerprint = part.before;
            fingerprint.add(&part.table, last + 1);
        }
        fingerprint.value()
    }

    /// Bytes of memory.
    pub fn bytes(&self) -> usize {
        let of = |part: &Part| part.table.bytes() + part.sorted.get().map_or(0, Sorted::bytes);
        self.iter().map(of).sum()
    }

    /// Says what was indexed.
    pub fn announce(&self, log: &Logger, file: &str, origin: &str, took: Duration) {
        if !log.shows(Level::Info) {
            return;
        }
        let sequences: usize = self.iter().map(|part| part.table.len()).sum();
        let chunks: usize = self.iter().map(|part| part.table.chunks.len()).sum();
        let (took, bytes) = (took.as_millis(), self.bytes());
        log.write(
            Level::Info,
            &format!("Indexed '{file}'{origin}: {sequences} sequences in {chunks} chunks, {took} ms, {bytes} bytes of memory."),
        );
    }
}
