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

impl Keys {
    fn new(mut keys: Vec<SequenceKey>) -> Result<Keys> {
        if let Some(&first) = keys.first()
            && keys.iter().zip(first..).all(|(&key, expected)| key == expected)
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
            && keys.iter().zip(first..).all(|(&key, expected)| key == expected)
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
