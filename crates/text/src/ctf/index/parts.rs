//! The parts of an index: a single one with all chunks, or several that were added one after the
//! other while the file was read.
//!
//! A part never moves or changes after it was added, so it can be read without locks while others
//! are added.

use super::lookup::{Fingerprint, Sorted};
use super::table::IndexTable;
use cntk_reader_core::Result;
use cntk_reader_core::memory::room;
use cntk_reader_core::runtime::log::{Level, Logger};
use cntk_reader_core::sequence::{ChunkId, SequenceId, SequenceKey};
use std::sync::OnceLock;
use std::time::Duration;

/// Consecutive chunks of the file.
pub(super) struct IndexPart {
    pub table: IndexTable,
    /// Number of the part's first chunk.
    first: usize,
    /// The fingerprint of all chunks before the part.
    before: Fingerprint,
    /// Positions in the order of their keys; filled when a key is first looked up, if keys do not
    /// ascend.
    sorted: OnceLock<Sorted>,
}

impl IndexPart {
    pub fn new(table: IndexTable, first: usize, before: Fingerprint) -> Self {
        IndexPart { table, first, before, sorted: OnceLock::new() }
    }

    /// Sorts the keys for [`IndexPart::find_key`].
    pub fn prepare_to_find(&self) -> Result<()> {
        self.table.sort(&self.sorted)
    }

    /// Returns the sequence that CNTK finds for this key.
    pub fn find_key(&self, key: SequenceKey) -> Option<SequenceId> {
        let found = self.table.find(key, &self.sorted)?;
        Some(SequenceId { chunk: found.chunk + self.first as ChunkId, ..found })
    }
}

/// The parts, in the order of the file.
pub(super) struct IndexParts(Box<[OnceLock<IndexPart>]>);

impl IndexParts {
    /// A single part with all chunks.
    pub fn whole(table: IndexTable) -> Self {
        IndexParts(Box::new([OnceLock::from(IndexPart::new(table, 0, Fingerprint::default()))]))
    }

    /// Capacity for `parts` parts, without any part yet.
    pub fn with_capacity(parts: usize) -> Result<Self> {
        Ok(IndexParts(room::collect((0..parts).map(|_| OnceLock::new()), room::INDEX)?.into()))
    }

    /// Adds part number `number`, counted from 0. Returns false if the capacity is used up.
    pub fn add(&self, number: usize, part: IndexPart) -> bool {
        self.0.get(number).is_some_and(|slot| slot.set(part).is_ok())
    }

    /// The parts added so far, in the order of the file.
    pub fn iter(&self) -> impl Iterator<Item = &IndexPart> {
        self.0.iter().map_while(OnceLock::get)
    }

    /// Returns the part that has a chunk, and the chunk's number there.
    pub fn find(&self, chunk: ChunkId) -> Option<(&IndexPart, usize)> {
        let chunk = chunk as usize;
        let next = self.0.partition_point(|slot| slot.get().is_some_and(|part| part.first <= chunk));
        let part = self.0.get(next.checked_sub(1)?)?.get()?;
        let chunk = chunk - part.first;
        (chunk < part.table.chunks.len()).then_some((part, chunk))
    }

    /// Returns the fingerprint of the first `chunks` chunks.
    pub fn fingerprint(&self, chunks: usize) -> u64 {
        let last = chunks.checked_sub(1).and_then(|last| self.find(last as ChunkId));
        let mut fingerprint = Fingerprint::default();
        if let Some((part, last)) = last {
            fingerprint = part.before;
            fingerprint.add(&part.table, last + 1);
        }
        fingerprint.value()
    }

    /// Memory in bytes.
    pub fn bytes(&self) -> usize {
        let of = |part: &IndexPart| part.table.bytes() + part.sorted.get().map_or(0, Sorted::bytes);
        self.iter().map(of).sum()
    }

    /// Logs the result of indexing, at trace level 2.
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
