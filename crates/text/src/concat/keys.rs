//! Combination of the keys of several files into keys of one deserializer.

use super::{Concat, Format};
use cntk_reader_core::Result;
use cntk_reader_core::format::{ChunkTable, Deserializer};
use cntk_reader_core::memory::room;
use cntk_reader_core::sequence::{ChunkId, SequenceId, SequenceKey};
use rayon::slice::ParallelSliceMut;

/// How the keys of several files relate to each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyRule {
    /// Each file has a separate numbering: a key is the file's index in the list, from 0, times
    /// [`KEY_LIMIT`], plus the sequence's key in the file. So other files do not change the keys of
    /// the first one.
    PerFile = 0,
    /// All files share one numbering: each sequence has the key that it would have if the files
    /// were concatenated.
    Shared = 1,
}

/// Upper bound (exclusive) on the keys in each of several files.
pub const KEY_LIMIT: SequenceKey = cntk_reader_core::limits::LARGEST_KEY_IN_LIST;

/// Maximum number of files in a deserializer, so that all keys fit with [`KEY_LIMIT`].
pub const MAX_FILES: usize = cntk_reader_core::limits::MAX_FILES;

impl KeyRule {
    /// The number that is added to the keys of the file with this index in the list.
    pub(super) fn base(self, number: usize) -> SequenceKey {
        match self {
            // Cannot overflow, because `MAX_FILES` bounds the index.
            KeyRule::PerFile => number as u64 * KEY_LIMIT,
            KeyRule::Shared => 0,
        }
    }
}

/// Splits a key of [`KeyRule::PerFile`] into the index of the file and the key in the file.
pub(super) fn split(key: SequenceKey) -> (usize, SequenceKey) {
    ((key / KEY_LIMIT) as usize, key % KEY_LIMIT)
}

/// All keys with their sequences, sorted. Sequences with equal keys are in the order of the data.
pub(super) struct Lookup(Vec<(SequenceKey, SequenceId)>);

impl Lookup {
    pub fn of<F: Format>(concat: &Concat<F>) -> Result<Lookup> {
        let count = concat.chunks().iter().map(|one| one.sequences as usize).sum();
        let mut sorted = room::with_capacity(count, room::INDEX)?;
        let mut keys = Vec::new();
        for (chunk, info) in (0 as ChunkId..).zip(concat.chunks()) {
            let ids = (0..info.sequences).map(|index| SequenceId { chunk, index });
            keys.clear();
            room::reserve(&mut keys, info.sequences as usize, room::INDEX)?;
            concat.keys(&room::collect(ids.clone(), room::INDEX)?, &mut keys);
            sorted.extend(keys.iter().copied().zip(ids));
        }
        // Outside the library's pool, rayon would start its global pool.
        if rayon::current_thread_index().is_some() {
            sorted.par_sort_unstable();
        } else {
            sorted.sort_unstable();
        }
        Ok(Lookup(sorted))
    }

    pub fn find(&self, key: SequenceKey) -> Option<SequenceId> {
        let at = self.0.partition_point(|&(other, _)| other < key);
        self.0.get(at).filter(|&&(other, _)| other == key).map(|&(_, id)| id)
    }

    /// Memory in use, in bytes.
    pub fn bytes(&self) -> usize {
        size_of_val(self.0.as_slice())
    }
}
