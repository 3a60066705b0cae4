//! Look-up of keys, and the fingerprint of an index.

use super::SequenceSpan;
use super::keys::Keys;
use super::table::IndexTable;
use cntk_reader_core::file::DataFile;
use cntk_reader_core::fingerprint::{SEED, mix};
use cntk_reader_core::format::sort::sort_like_std;
use cntk_reader_core::memory::room;
use cntk_reader_core::sequence::{ChunkId, SequenceId, SequenceKey};
use cntk_reader_core::{Error, Result};
use rayon::slice::ParallelSliceMut;
use std::sync::OnceLock;

/// All positions, sorted by key. Equal keys are in the order in which CNTK's sort leaves them, or
/// in file order if the table [finds the first](IndexTable::finds_first).
#[derive(Debug)]
pub(super) enum Sorted {
    /// The usual case.
    Short(Vec<u32>),
    /// More than 2^32 sequences.
    Long(Vec<u64>),
}

impl Sorted {
    fn new(table: &IndexTable) -> Result<Self> {
        let pairs_of = |table: &IndexTable| {
            let mut pairs = room::with_capacity(table.len(), room::INDEX)?;
            for (chunk, chunk_span) in table.chunk_spans.iter().enumerate() {
                let keyed = |position| (table.keys.get(position, chunk_span), position as u64);
                pairs.extend(table.positions(chunk).map(keyed));
            }
            Ok(pairs)
        };
        let mut pairs: Vec<(SequenceKey, u64)> = pairs_of(table)?;
        // Outside the library's pool, rayon would start its global pool.
        if rayon::current_thread_index().is_some() {
            pairs.par_sort_unstable();
        } else {
            pairs.sort_unstable();
        }
        if !table.finds_first && pairs.windows(2).any(|pair| pair[0].0 == pair[1].0) {
            drop(pairs);
            pairs = pairs_of(table)?;
            sort_like_std(&mut pairs);
        }
        let positions = pairs.iter().map(|&(_, position)| position);
        Ok(match u32::try_from(pairs.len()) {
            Ok(_) => Sorted::Short(room::collect(positions.map(|position| position as u32), room::INDEX)?),
            Err(_) => Sorted::Long(room::collect(positions, room::INDEX)?),
        })
    }

    fn get(&self, rank: usize) -> usize {
        match self {
            Sorted::Short(positions) => positions[rank] as usize,
            Sorted::Long(positions) => positions[rank] as usize,
        }
    }

    /// Memory in bytes.
    pub fn bytes(&self) -> usize {
        match self {
            Sorted::Short(positions) => size_of_val(positions.as_slice()),
            Sorted::Long(positions) => size_of_val(positions.as_slice()),
        }
    }
}

impl IndexTable {
    /// Fails unless all keys are less than `limit`.
    pub fn check_keys(&self, file: &DataFile, limit: Option<SequenceKey>) -> Result<()> {
        let Some(limit) = limit else { return Ok(()) };
        let is_too_large = |&position: &usize| self.key_at(position) >= limit;
        let last = self.len().saturating_sub(1);
        let found = match self.ascending {
            true => (last..self.len()).find(is_too_large),
            false => (0..self.len()).find(is_too_large),
        };
        let Some(found) = found else { return Ok(()) };
        let span = self.span_at(found);
        let message = format!("Sequence id {} is too large for a file that is one of several.", span.key);
        let detail = format!(
            "Each file has its own ids, which have to be less than {limit}. If all files share one \
             numbering, set ‹shared_ids = true›, which allows larger ids."
        );
        let error = Error::data(message).with_detail(detail).for_key(span.key.to_string());
        Err(error.at(span.offset, file.line_at(span.offset)))
    }

    /// Sorts the keys, if a look-up needs that and it has not been done.
    pub fn sort(&self, sorted: &OnceLock<Sorted>) -> Result<()> {
        if !self.keys.are_counting() && !self.ascending && sorted.get().is_none() {
            // Another thread may have set it in the meantime.
            let _ = sorted.set(Sorted::new(self)?);
        }
        Ok(())
    }

    /// Returns the sequence that CNTK finds for this key; `None` if there is no memory to
    /// [sort](IndexTable::sort) the keys. Of several sequences, this is the first one in a file of
    /// up to 16 sequences or if the table [finds the first](IndexTable::finds_first), and in larger
    /// files the one that CNTK's sort leaves in front.
    pub fn find(&self, key: SequenceKey, sorted: &OnceLock<Sorted>) -> Option<SequenceId> {
        let position = match &self.keys {
            // Keys may count beyond the largest one, to 0.
            Keys::Counting { first } => usize::try_from(key.wrapping_sub(*first)).ok()?,
            _ if self.ascending => return self.find_ascending(key),
            _ => {
                self.sort(sorted).ok()?;
                let sorted = sorted.get()?;
                let rank = partition_point(self.len(), |rank| self.key_at(sorted.get(rank)) < key);
                if rank == self.len() {
                    return None;
                }
                sorted.get(rank)
            }
        };
        if position >= self.len() {
            return None;
        }
        let found = self.locate(position);
        (self.key_at(position) == key).then_some(found)
    }

    /// Finds an ascending key: first its chunk, then the sequence in it.
    fn find_ascending(&self, key: SequenceKey) -> Option<SequenceId> {
        // The key is in the last chunk that begins with a smaller key, or the first one of the next
        // chunk.
        let next = self.chunk_spans.partition_point(|chunk_span| chunk_span.key < key);
        if let Some(chunk) = next.checked_sub(1) {
            let chunk_span = &self.chunk_spans[chunk];
            let positions = self.positions(chunk);
            let len = positions.len();
            let index =
                partition_point(len, |index| self.keys.get(chunk_span.first + index, chunk_span) < key);
            if index < len && self.keys.get(chunk_span.first + index, chunk_span) == key {
                return Some(SequenceId { chunk: chunk as ChunkId, index: index as u32 });
            }
        }
        let chunk_span = self.chunk_spans.get(next)?;
        (chunk_span.key == key).then_some(SequenceId { chunk: next as ChunkId, index: 0 })
    }

    fn chunk_of(&self, position: usize) -> usize {
        self.chunk_spans.partition_point(|chunk_span| chunk_span.first <= position) - 1
    }

    /// Returns the sequence at a position.
    pub fn span_at(&self, position: usize) -> SequenceSpan {
        let chunk = self.chunk_of(position);
        self.span(position, &self.chunk_spans[chunk], self.positions(chunk).end)
    }

    fn locate(&self, position: usize) -> SequenceId {
        let chunk = self.chunk_of(position);
        SequenceId { chunk: chunk as ChunkId, index: (position - self.chunk_spans[chunk].first) as u32 }
    }

    /// Returns the key of the sequence at a position.
    pub fn key_at(&self, position: usize) -> SequenceKey {
        match &self.keys {
            Keys::Any(keys) => keys[position],
            keys => keys.get(position, &self.chunk_spans[self.chunk_of(position)]),
        }
    }
}

/// A hash of chunks, lengths and keys, independent of how they are stored. Checkpoints contain it:
/// it must not change between versions.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fingerprint {
    hash: u64,
    sequences: u64,
    chunks: u64,
}

impl Default for Fingerprint {
    fn default() -> Self {
        Fingerprint { hash: SEED, sequences: 0, chunks: 0 }
    }
}

impl Fingerprint {
    /// Adds the first `chunks` chunks of a table.
    pub fn add(&mut self, table: &IndexTable, chunks: usize) {
        let mut hash = self.hash;
        for (chunk, chunk_span) in table.chunk_spans[..chunks].iter().enumerate() {
            let info = table.chunks[chunk];
            hash = mix(hash, info.samples, u64::from(info.sequences));
            for position in table.positions(chunk) {
                let length = table.samples.get(position).copied().unwrap_or(1);
                hash = mix(hash, table.keys.get(position, chunk_span), u64::from(length));
            }
            self.sequences += u64::from(info.sequences);
        }
        self.hash = hash;
        self.chunks += chunks as u64;
    }

    /// Returns the hash of everything added so far.
    pub fn value(&self) -> u64 {
        mix(self.hash, self.sequences, self.chunks)
    }
}

/// Returns the first number in `0..len` for which `before` is false, given that it is true for all
/// smaller numbers and false for all larger ones.
fn partition_point(len: usize, before: impl Fn(usize) -> bool) -> usize {
    let (mut low, mut high) = (0, len);
    while low < high {
        let middle = low + (high - low) / 2;
        if before(middle) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    low
}
