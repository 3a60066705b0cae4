//! How the keys of several files become keys of one deserializer.

use super::{Concat, Format};
use cntk_reader_core::Result;
use cntk_reader_core::format::{ChunkTable, Deserializer};
use cntk_reader_core::memory::room;
use cntk_reader_core::sequence::{ChunkId, SequenceId, SequenceKey};
use rayon::slice::ParallelSliceMut;

/// How the keys of several files relate to each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyRule {
    /// Each file has a numbering of its own: a key is the file's place in the list, from 0, times [`KEY_LIMIT`], plus the
    /// sequence's key in the file. So the keys of the first file are what they are without other files.
    PerFile = 0,
    /// All files share one numbering: a sequence has the key that it would have in a file that consists of all of them.
    Shared = 1,
}

/// Keys in one of several files are less than this.
pub const KEY_LIMIT: SequenceKey = cntk_reader_core::limits::LARGEST_KEY_IN_LIST;

/// Most files of a deserializer: the places that [`KEY_LIMIT`] leaves room for.
pub const MOST_FILES: usize = cntk_reader_core::limits::MOST_FILES;

impl KeyRule {
    /// What is added to the keys of a file with this place in the list.
    pub(super) fn base(self, number: usize) -> SequenceKey {
        match self {
            // `MOST_FILES` bounds the number.
            KeyRule::PerFile => number as u64 * KEY_LIMIT,
            KeyRule::Shared => 0,
        }
    }
}

/// The place of the file and the key in it that a key of [`KeyRule::PerFile`] consists of.
pub(super) fn split(key: SequenceKey) -> (usize, SequenceKey) {
    ((key / KEY_LIMIT) as usize, key % KEY_LIMIT)
}

/// All keys with their sequences, sorted. Of several sequences with one key the first in the order of the data is first.
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
        // On a thread outside of the library's pool, rayon would start a pool of its own.
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

    /// Bytes of memory.
    pub fn bytes(&self) -> usize {
        size_of_val(self.0.as_slice())
    }
}
