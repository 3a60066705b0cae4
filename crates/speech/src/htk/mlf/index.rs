//! The table of utterances: flat arrays in file order, divided into chunks, with a lookup from keys
//! to utterances.
//!
//! An utterance takes 16 bytes if the file is in the order in which its keys are numbered,
//! otherwise 24 to 28.

use cntk_reader_core::fingerprint::{SEED, mix};
use cntk_reader_core::format::{ChunkInfo, Lengths};
use cntk_reader_core::memory::room;
use cntk_reader_core::runtime::log::{Level, Logger};
use cntk_reader_core::sequence::{ChunkId, SequenceId, SequenceKey};
use cntk_reader_core::{Error, Result};
use rayon::slice::ParallelSliceMut;
use std::ops::Range;

/// Maximum frames per chunk, unless a single utterance has more. It limits a chunk of labels to
/// some hundred megabytes, however many frames a damaged file claims.
const CHUNK_FRAMES: u64 = 1 << 25;

/// The maximum length of an utterance in frames: a week of speech. Longer ones are invalid.
pub(super) const LONGEST: u32 = cntk_reader_core::limits::LONGEST_LABELS;

/// An utterance as added to the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Entry {
    pub key: SequenceKey,
    pub offset: u64,
    pub size: u32,
    pub frames: u32,
}

/// The position of a chunk.
#[derive(Debug, Clone, Copy)]
struct ChunkSpan {
    /// Position of its first utterance.
    first: u32,
    /// Number of its file.
    file: u32,
}

/// All utterances.
#[derive(Debug, Default)]
pub(super) struct LabelTable {
    keys: Keys,
    offsets: Vec<u64>,
    sizes: Vec<u32>,
    frames: Vec<u32>,
    chunks: Vec<ChunkInfo>,
    spans: Vec<ChunkSpan>,
    lookup: Lookup,
}

/// The key of each utterance.
#[derive(Debug)]
enum Keys {
    /// Consecutive numbers.
    Counting { first: SequenceKey },
    /// 32-bit numbers, as assigned by a corpus.
    Small(Vec<u32>),
    /// Any numbers, such as hashes.
    Any(Vec<SequenceKey>),
}

impl Default for Keys {
    fn default() -> Self {
        Keys::Any(Vec::new())
    }
}

/// Returns whether these keys count up from `first`, which is the first of them.
fn are_consecutive(keys: &[SequenceKey], first: SequenceKey) -> bool {
    (0..).zip(keys).all(|(distance, key)| key.checked_sub(first) == Some(distance))
}

impl Keys {
    fn new(mut keys: Vec<SequenceKey>) -> Result<Keys> {
        if let Some(&first) = keys.first()
            && are_consecutive(&keys, first)
        {
            return Ok(Keys::Counting { first });
        }
        if keys.iter().all(|&key| u32::try_from(key).is_ok()) {
            return Ok(Keys::Small(room::collect(keys.iter().map(|&key| key as u32), room::INDEX)?));
        }
        keys.shrink_to_fit();
        Ok(Keys::Any(keys))
    }

    #[inline]
    fn get(&self, position: usize) -> SequenceKey {
        match self {
            Keys::Counting { first } => first.wrapping_add(position as u64),
            Keys::Small(keys) => keys[position].into(),
            Keys::Any(keys) => keys[position],
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Keys::Counting { .. } => 0,
            Keys::Small(keys) => size_of_val(&**keys),
            Keys::Any(keys) => size_of_val(&**keys),
        }
    }
}

/// A lookup from a key to its first utterance.
#[derive(Debug)]
enum Lookup {
    /// The keys are consecutive.
    Difference { first: SequenceKey, count: u32 },
    /// Positions indexed by key; [`NOWHERE`] for keys without an utterance. Keys numbered by the
    /// corpus are small.
    Direct(Vec<u32>),
    /// The first position of each key, sorted by key.
    Sorted(Vec<u32>),
}

const NOWHERE: u32 = u32::MAX;

impl Default for Lookup {
    fn default() -> Self {
        Lookup::Direct(Vec::new())
    }
}

/// Builds a table.
pub(super) struct Builder {
    /// The table, except for keys and lookup.
    table: LabelTable,
    keys: Vec<SequenceKey>,
    chunk_bytes: u64,
    /// Size of the last chunk in bytes.
    bytes: u64,
    file: u32,
}

impl Builder {
    /// Creates an empty table with at most `chunk_bytes` per chunk.
    pub fn new(chunk_bytes: u64) -> Builder {
        Builder { table: LabelTable::default(), keys: Vec::new(), chunk_bytes, bytes: 0, file: 0 }
    }

    /// Starts a file: following utterances are in it.
    pub fn start_file(&mut self, file: u32) {
        self.file = file;
    }

    /// Appends an utterance. A chunk is closed if the utterance would make it too large.
    pub fn add(&mut self, entry: Entry) -> Result<()> {
        let table = &mut self.table;
        let position = u32::try_from(self.keys.len()).ok().filter(|&position| position != NOWHERE);
        let Some(position) = position else {
            let message = "Label files have more than 4294967294 utterances.";
            return Err(Error::data(message).with_detail("Divide them among several deserializers."));
        };
        let (size, frames) = (u64::from(entry.size), u64::from(entry.frames));
        match (table.chunks.last_mut(), table.spans.last()) {
            (Some(chunk), Some(span))
                if span.file == self.file
                    && self.bytes + size <= self.chunk_bytes
                    && chunk.samples + frames <= CHUNK_FRAMES =>
            {
                chunk.samples += frames;
                chunk.sequences += 1;
                self.bytes += size;
            }
            _ => {
                room::push(&mut table.chunks, ChunkInfo { samples: frames, sequences: 1 }, room::INDEX)?;
                room::push(&mut table.spans, ChunkSpan { first: position, file: self.file }, room::INDEX)?;
                self.bytes = size;
            }
        }
        room::push(&mut self.keys, entry.key, room::INDEX)?;
        room::push(&mut table.offsets, entry.offset, room::INDEX)?;
        room::push(&mut table.sizes, entry.size, room::INDEX)?;
        room::push(&mut table.frames, entry.frames, room::INDEX)
    }

    /// Returns the number of utterances so far.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Returns the utterances from a position on.
    pub fn entries_from(&self, position: usize) -> impl Iterator<Item = Entry> + Clone {
        (position..self.len()).map(|position| self.table.entry_with(self.keys[position], position))
    }

    /// Finishes the table. Runs on a thread of the pool. Logs repeated keys; `text_of` returns the
    /// text of a key, and `path_of` the path of a file.
    pub fn finish<'a>(
        self,
        text_of: impl Fn(SequenceKey) -> String,
        path_of: impl Fn(u32) -> &'a str,
    ) -> Result<LabelTable> {
        let mut table = self.table;
        table.offsets.shrink_to_fit();
        table.sizes.shrink_to_fit();
        table.frames.shrink_to_fit();
        let (lookup, repeats) = Lookup::new(&self.keys)?;
        table.lookup = lookup;
        let repeated = match &table.lookup {
            _ if repeats == 0 => None,
            lookup => {
                (0..).zip(&self.keys).find(|&(position, &key)| lookup.is_repeat(position, key, &self.keys))
            }
        };
        let repeated = repeated.map(|(position, &key)| (position, key));
        table.keys = Keys::new(self.keys)?;
        if let Some((position, key)) = repeated {
            let utterances =
                if repeats == 1 { "1 utterance has" } else { &format!("{repeats} utterances have") };
            let line = format!(
                "MLF Deserializer: {utterances} the key of an earlier one, and will not be used: the first one of each key \
                 counts. The first to be left out is '{}' at offset {} of '{}': remove it, or give it a key of its own.",
                text_of(key),
                table.offsets[position as usize],
                path_of(table.span_of(position).file)
            );
            Logger::log_always(Level::Warning, &line);
        }
        Ok(table)
    }
}

impl Lookup {
    /// Builds the lookup of these keys. Also returns the number of keys that repeat an earlier one.
    fn new(keys: &[SequenceKey]) -> Result<(Lookup, usize)> {
        if let Some(&first) = keys.first()
            && are_consecutive(keys, first)
        {
            // `Builder::add` limits the count to 32 bits.
            return Ok((Lookup::Difference { first, count: keys.len() as u32 }, 0));
        }
        let largest = keys.iter().copied().max().unwrap_or(0);
        if largest < 4 * keys.len() as u64 {
            let mut positions = room::filled(largest as usize + 1, NOWHERE, room::INDEX)?;
            let mut repeats = 0;
            for (position, &key) in (0..).zip(keys) {
                let place = &mut positions[key as usize];
                if *place == NOWHERE {
                    *place = position;
                } else {
                    repeats += 1;
                }
            }
            return Ok((Lookup::Direct(positions), repeats));
        }
        let mut positions = room::collect(0..keys.len() as u32, room::INDEX)?;
        positions.par_sort_unstable_by_key(|&position| (keys[position as usize], position));
        positions.dedup_by_key(|&mut position| keys[position as usize]);
        let repeats = keys.len() - positions.len();
        positions.shrink_to_fit();
        Ok((Lookup::Sorted(positions), repeats))
    }

    /// Returns whether the utterance at a position has the key of an earlier one.
    fn is_repeat(&self, position: u32, key: SequenceKey, keys: &[SequenceKey]) -> bool {
        match self {
            Lookup::Difference { .. } => false,
            Lookup::Direct(positions) => positions[key as usize] != position,
            Lookup::Sorted(positions) => {
                let rank = positions.partition_point(|&other| keys[other as usize] < key);
                positions.get(rank) != Some(&position)
            }
        }
    }

    fn find(&self, key: SequenceKey, keys: &Keys) -> Option<u32> {
        match self {
            Lookup::Difference { first, count } => {
                u32::try_from(key.checked_sub(*first)?).ok().filter(|position| position < count)
            }
            Lookup::Direct(positions) => {
                let position = *positions.get(usize::try_from(key).ok()?)?;
                (position != NOWHERE).then_some(position)
            }
            Lookup::Sorted(positions) => {
                let rank =
                    positions.binary_search_by_key(&key, |&position| keys.get(position as usize)).ok()?;
                Some(positions[rank])
            }
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Lookup::Difference { .. } => 0,
            Lookup::Direct(positions) | Lookup::Sorted(positions) => size_of_val(&**positions),
        }
    }
}

impl LabelTable {
    pub fn chunks(&self) -> &[ChunkInfo] {
        &self.chunks
    }

    /// Returns the number of utterances.
    pub fn len(&self) -> usize {
        self.frames.len()
    }

    /// Returns the total number of frames.
    pub fn total_frames(&self) -> u64 {
        self.chunks.iter().map(|chunk| chunk.samples).sum()
    }

    /// Returns the positions of a chunk's utterances.
    pub fn positions(&self, chunk: ChunkId) -> Range<usize> {
        let first = self.spans[chunk as usize].first as usize;
        first..first + self.chunks[chunk as usize].sequences as usize
    }

    /// Returns the number of a chunk's file.
    pub fn file(&self, chunk: ChunkId) -> usize {
        self.spans[chunk as usize].file as usize
    }

    pub fn lengths(&self, chunk: ChunkId) -> Lengths<'_> {
        Lengths::Each(&self.frames[self.positions(chunk)])
    }

    /// Returns the utterance at a position.
    #[inline]
    pub fn entry(&self, position: usize) -> Entry {
        self.entry_with(self.keys.get(position), position)
    }

    /// Returns the chunk of an utterance.
    fn span_of(&self, position: u32) -> &ChunkSpan {
        &self.spans[self.spans.partition_point(|span| span.first <= position) - 1]
    }

    #[inline]
    fn entry_with(&self, key: SequenceKey, position: usize) -> Entry {
        Entry {
            key,
            offset: self.offsets[position],
            size: self.sizes[position],
            frames: self.frames[position],
        }
    }

    pub fn key(&self, id: SequenceId) -> SequenceKey {
        self.keys.get(self.spans[id.chunk as usize].first as usize + id.index as usize)
    }

    /// Finds the first utterance with this key.
    pub fn find(&self, key: SequenceKey) -> Option<SequenceId> {
        let position = self.lookup.find(key, &self.keys)?;
        let chunk = self.spans.partition_point(|span| span.first <= position) - 1;
        Some(SequenceId { chunk: chunk as ChunkId, index: position - self.spans[chunk].first })
    }

    /// Returns a hash of chunks, lengths and keys.
    pub fn fingerprint(&self) -> u64 {
        let mut hash = SEED;
        for chunk in 0..self.chunks.len() as ChunkId {
            let info = self.chunks[chunk as usize];
            hash = mix(hash, info.samples, u64::from(info.sequences));
            for position in self.positions(chunk) {
                hash = mix(hash, self.keys.get(position), u64::from(self.frames[position]));
            }
        }
        mix(hash, self.len() as u64, self.chunks.len() as u64)
    }

    /// Returns the memory use in bytes.
    pub fn bytes(&self) -> usize {
        self.keys.bytes()
            + size_of_val(&*self.offsets)
            + size_of_val(&*self.sizes)
            + size_of_val(&*self.frames)
            + size_of_val(&*self.chunks)
            + size_of_val(&*self.spans)
            + self.lookup.bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cntk_reader_core::testing::cases;
    use proptest::prelude::*;

    /// Builds a table of utterances of these keys, each with its file, size and frames.
    fn table(chunk_bytes: u64, utterances: &[(SequenceKey, u32, u32, u32)]) -> LabelTable {
        let mut builder = Builder::new(chunk_bytes);
        for (&(key, file, size, frames), offset) in utterances.iter().zip(0..) {
            builder.start_file(file);
            builder.add(Entry { key, offset: 10 * offset, size, frames }).expect("room");
        }
        assert_eq!(builder.len(), utterances.len());
        let all: Vec<Entry> = builder.entries_from(1).collect();
        let keys: Vec<SequenceKey> = all.iter().map(|entry| entry.key).collect();
        assert!(keys.iter().eq(utterances.iter().skip(1).map(|utterance| &utterance.0)));
        let table = builder.finish(|key| format!("key {key}"), |file| ["a", "b", "c"][file as usize]);
        let table = table.expect("a table");
        assert!((1..).zip(&all).all(|(position, entry)| table.entry(position) == *entry));
        table
    }

    /// Returns the first position, the file, the samples and the number of utterances of each chunk.
    fn chunks(table: &LabelTable) -> Vec<(usize, usize, u64, u32)> {
        let chunk = |(id, info): (ChunkId, &ChunkInfo)| {
            let positions = table.positions(id);
            assert_eq!(positions.len(), info.sequences as usize);
            (positions.start, table.file(id), info.samples, info.sequences)
        };
        (0..).zip(table.chunks()).map(chunk).collect()
    }

    #[test]
    fn chunks_are_limited_by_bytes_frames_and_files() {
        let sizes = table(10, &[(1, 0, 4, 1), (2, 0, 6, 2), (3, 0, 1, 3), (4, 0, 11, 4), (5, 0, 10, 5)]);
        assert_eq!(chunks(&sizes), [(0, 0, 3, 2), (2, 0, 3, 1), (3, 0, 4, 1), (4, 0, 5, 1)]);
        assert_eq!((sizes.len(), sizes.total_frames()), (5, 15));
        let most = CHUNK_FRAMES as u32;
        assert_eq!(most, 33_554_432);
        let frames = [(1, 0, 1, most - 1), (2, 0, 1, 1), (3, 0, 1, 1), (4, 0, 1, most), (5, 0, 1, most + 1)];
        let frames = table(10, &frames);
        let most = u64::from(most);
        assert_eq!(chunks(&frames), [(0, 0, most, 2), (2, 0, 1, 1), (3, 0, most, 1), (4, 0, most + 1, 1)]);
        let files = table(10, &[(1, 0, 1, 1), (2, 1, 1, 1), (3, 1, 1, 1), (4, 2, 1, 1)]);
        assert_eq!(chunks(&files), [(0, 0, 1, 1), (1, 1, 2, 2), (3, 2, 1, 1)]);
        let id = |chunk, index| SequenceId { chunk, index };
        assert_eq!([id(0, 0), id(1, 0), id(1, 1), id(2, 0)].map(|id| files.key(id)), [1, 2, 3, 4]);
        assert_eq!(sizes.lengths(0), Lengths::Each(&[1, 2]));
        assert_eq!([0, 1, 2, 3].map(|position| files.span_of(position).file), [0, 1, 1, 2]);
    }

    #[test]
    fn memory_depends_on_the_order_of_the_keys() {
        // Offset, size and frames of each utterance, and one chunk.
        let flat = |count: usize| 16 * count + size_of::<ChunkInfo>() + size_of::<ChunkSpan>();
        let bytes = |keys: &[SequenceKey]| {
            let utterances: Vec<_> = keys.iter().map(|&key| (key, 0, 1, 1)).collect();
            table(100, &utterances).bytes()
        };
        assert_eq!(bytes(&[7, 8, 9]), flat(3));
        // Small keys, and a position for each number up to the largest key.
        assert_eq!(bytes(&[2, 0, 1, 11]), flat(4) + 4 * 4 + 12 * 4);
        // The largest key is four times the number of utterances.
        assert_eq!(bytes(&[2, 0, 1, 16]), flat(4) + 4 * 4 + 4 * 4);
        assert_eq!(bytes(&[2, 0, 1, u32::MAX.into()]), flat(4) + 4 * 4 + 4 * 4);
        assert_eq!(bytes(&[2, 0, 1 << 32, 2]), flat(4) + 4 * 8 + 3 * 4);
        assert_eq!(table(1, &[]).bytes(), 0);
    }

    #[test]
    fn fingerprint_covers_chunks_lengths_and_keys() {
        let of = |chunk_bytes, utterances: &[_]| table(chunk_bytes, utterances).fingerprint();
        let two = [(3, 0, 4, 5), (4, 0, 4, 6)];
        let chunk = |hash, samples, keys: &[(u64, u64)]| {
            keys.iter()
                .fold(mix(hash, samples, keys.len() as u64), |hash, &(key, frames)| mix(hash, key, frames))
        };
        assert_eq!(of(8, &two), mix(chunk(SEED, 11, &[(3, 5), (4, 6)]), 2, 1));
        assert_eq!(of(7, &two), mix(chunk(chunk(SEED, 5, &[(3, 5)]), 6, &[(4, 6)]), 2, 2));
        assert_eq!(of(7, &[]), mix(SEED, 0, 0));
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: cases(400), failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn first_utterance_of_each_key_is_found(
            keys in proptest::collection::vec(
                prop_oneof![4 => 0u64..30, 1 => 0u64..200, 1 => select_large()], 0..40
            ),
            first in prop_oneof![Just(None), (0u64..50).prop_map(Some), Just(Some(u64::MAX - 60))],
            chunk_bytes in 1u64..6,
        ) {
            // The keys, or as many consecutive numbers.
            let keys: Vec<u64> = match first {
                Some(first) => (first..).take(keys.len()).collect(),
                None => keys,
            };
            let utterances: Vec<_> = keys.iter().map(|&key| (key, 0, 1, 1)).collect();
            let found = table(chunk_bytes, &utterances);
            let place = |position: usize| {
                SequenceId { chunk: (position as u64 / chunk_bytes) as ChunkId, index: (position as u64 % chunk_bytes) as u32 }
            };
            let near = keys.iter().flat_map(|&key| [key.wrapping_sub(1), key, key.wrapping_add(1)]);
            for key in near.chain(0..10).chain([u64::MAX]) {
                let first = keys.iter().position(|&known| known == key);
                prop_assert_eq!(found.find(key), first.map(place), "{}", key);
            }
            for (position, &key) in keys.iter().enumerate() {
                prop_assert_eq!((found.key(place(position)), found.entry(position).key), (key, key));
            }
            let (lookup, repeats) = Lookup::new(&keys).expect("room");
            let is_repeat = |position: usize| keys[..position].contains(&keys[position]);
            prop_assert_eq!(repeats, (0..keys.len()).filter(|&position| is_repeat(position)).count());
            for (position, &key) in keys.iter().enumerate() {
                let found = lookup.is_repeat(position as u32, key, &keys);
                prop_assert_eq!(found, is_repeat(position));
            }
        }
    }

    fn select_large() -> impl Strategy<Value = SequenceKey> {
        proptest::sample::select(vec![u64::from(u32::MAX), 1 << 32, 1 << 40, u64::MAX])
    }
}
