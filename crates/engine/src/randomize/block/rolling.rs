//! The order of sequences in one sweep, drawn incrementally as a window rolls over the chunks.
//!
//! A sweep has one *place* for each of its sequences: position `p` of the sweep has one place per
//! sequence of the chunk at `p`. Each place holds an *entry*, which names a sequence by its
//! *origin* (the position of its chunk) and its index in that chunk. Entries are loaded in the
//! data's order and then swapped: the entry at place `t` with the entry at a drawn place `j`, if
//! the origin of each lies in the window of the other's position; otherwise `j` is drawn again. A
//! position is *final* once no later draw can touch its places.
//!
//! The numbers drawn for a position do not depend on the swaps, only their count does. So they are
//! drawn in batches: draw some places, prefetch their memory, then swap the entries.

use super::order::{Reach, Span, SweepOrder};
use super::ring::Ring;
use crate::randomize::random::{Modulus, Random};
use cntk_reader_core::format::ChunkTable;
use cntk_reader_core::format::{ChunkInfo, Lengths};
use cntk_reader_core::memory::room;
use cntk_reader_core::sequence::{ChunkId, SequenceId};
use cntk_reader_core::{Error, Result};
use std::collections::VecDeque;

/// The chunks of one worker.
#[derive(Clone, Copy)]
pub struct OwnChunks<'a> {
    /// The chunk at each position, or [`FOREIGN`] if it is another worker's.
    pub chunks: &'a [ChunkId],
    /// All chunks are this worker's.
    pub is_all: bool,
}

/// Marks a chunk of another worker. No chunk has this number.
pub const FOREIGN: ChunkId = ChunkId::MAX;

/// Number of places drawn per batch: enough to hide memory latency.
const DRAWN_AHEAD: usize = 64;

/// A sequence that is being moved to its place.
pub trait Entry: Copy + Default + Send {
    /// Whether every sequence is one sample long.
    const ONES: bool;
    /// Creates the entry of a sequence.
    fn new(origin: u32, index: u32, length: u32) -> Self;
    /// Returns the position of its chunk.
    fn origin(self) -> u32;
    /// Returns its index in that chunk.
    fn index(self) -> u32;
    /// Returns its length in samples.
    fn samples(self) -> u64;
}

/// An entry of one sample.
#[derive(Debug, Clone, Copy, Default)]
pub struct One {
    origin: u32,
    index: u32,
}

impl Entry for One {
    const ONES: bool = true;
    fn new(origin: u32, index: u32, _length: u32) -> Self {
        One { origin, index }
    }
    fn origin(self) -> u32 {
        self.origin
    }
    fn index(self) -> u32 {
        self.index
    }
    fn samples(self) -> u64 {
        1
    }
}

/// An entry of arbitrary length.
#[derive(Debug, Clone, Copy, Default)]
pub struct Long {
    origin: u32,
    index: u32,
    length: u32,
}

impl Entry for Long {
    const ONES: bool = false;
    fn new(origin: u32, index: u32, length: u32) -> Self {
        Long { origin, index, length }
    }
    fn origin(self) -> u32 {
        self.origin
    }
    fn index(self) -> u32 {
        self.index
    }
    fn samples(self) -> u64 {
        u64::from(self.length)
    }
}

/// Limits for one call of [`SequenceOrder::take`].
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Samples of all workers.
    pub global: u64,
    /// Samples of this worker.
    pub local: u64,
    /// Samples of this worker after which to stop, even for other workers' sequences.
    pub full: u64,
    /// Samples until the epoch's end. Sequences that start at or after it are not taken.
    pub epoch: u64,
    /// `global` and `local` apply only after the first sequence of this worker.
    pub at_least_one: bool,
    /// `global` and `local` apply after the first sequence of any worker.
    pub of_any: bool,
}

/// The result of [`SequenceOrder::take`].
#[derive(Debug, Clone, Copy, Default)]
pub struct Taken {
    /// Samples of all workers.
    pub global: u64,
    /// Samples of this worker.
    pub local: u64,
    /// The position of the last entry taken.
    pub last_position: Option<usize>,
}

/// The inputs of a sequence order: the order of chunks and the chunk table.
#[derive(Clone, Copy)]
pub struct SweepSource<'a> {
    /// The sweep's order of chunks.
    pub order: &'a SweepOrder,
    /// The chunk table.
    pub table: &'a dyn ChunkTable,
}

/// The order of the sequences of a sweep, drawn incrementally.
pub trait SequenceOrder: Send {
    /// Goes to the start of a sweep and seeds its generator with `seed`.
    fn reset(&mut self, seed: u64);
    /// Goes to the first sequence that starts at or after `offset` samples. Returns its start.
    fn seek(&mut self, source: SweepSource<'_>, offset: u64) -> Result<u64>;
    /// Takes the next sequences and appends those of this worker.
    fn take(
        &mut self,
        source: SweepSource<'_>,
        own_chunks: OwnChunks<'_>,
        limits: Limits,
        sequences: &mut Vec<SequenceId>,
    ) -> Result<Taken>;
    /// Returns the position of the next entry to take.
    fn position(&self) -> usize;
}

/// A [`SequenceOrder`] for one type of entry.
pub struct RollingOrder<E> {
    seed: u64,
    random: Random,
    /// Entries at the places of the positions `kept..loaded`.
    entries: Ring<E>,
    /// Samples before each kept final position, and before the first non-final one.
    sample_offsets: VecDeque<u64>,
    /// The first position whose entries are kept.
    kept: usize,
    /// Positions before this one are final.
    done: usize,
    /// The draws for all positions before this one are done.
    cursor: usize,
    /// Positions before this one have been loaded.
    loaded: usize,
    /// The position of the next sequence to take.
    position: usize,
    /// Number of sequences of the sweep before the current one.
    sequence: u64,
    /// Number of samples of the sweep before the current sequence.
    samples: u64,
}

impl<E: Entry> RollingOrder<E> {
    /// Creates an order that is in no sweep yet.
    pub fn new() -> Self {
        RollingOrder {
            seed: 0,
            random: Random::new(0),
            entries: Ring::default(),
            sample_offsets: VecDeque::from([0]),
            kept: 0,
            done: 0,
            cursor: 0,
            loaded: 0,
            position: 0,
            sequence: 0,
            samples: 0,
        }
    }

    /// Makes the current position final. Returns false at the end of the sweep.
    fn ready(&mut self, source: SweepSource<'_>) -> Result<bool> {
        self.skip_used_up(source.order);
        if self.position == source.order.len() {
            return Ok(false);
        }
        while self.done <= self.position {
            if let Err(error) = self.advance(source) {
                self.reset(self.seed);
                return Err(error);
            }
        }
        Ok(true)
    }

    /// Skips exhausted positions.
    fn skip_used_up(&mut self, order: &SweepOrder) {
        while self.position < order.len() && self.sequence == order.sequence_offsets[self.position + 1] {
            self.position += 1;
        }
    }

    /// Makes one more position final: loads the entries its draws may touch, and makes all draws
    /// that may touch it.
    fn advance(&mut self, source: SweepSource<'_>) -> Result<()> {
        let order = source.order;
        let windows = &order.windows;
        self.release(order);

        let mut next = windows[self.done].end as usize;
        while next < windows.len() && windows[next].begin as usize <= self.done {
            next += 1;
        }
        self.load(source, windows[next - 1].end as usize)?;
        for position in self.cursor..next {
            self.draw(order, position);
        }
        self.cursor = self.cursor.max(next);

        let (from, to) = (order.sequence_offsets[self.done], order.sequence_offsets[self.done + 1]);
        let start = self.sample_offsets.back().copied().unwrap_or(0);
        self.sample_offsets.push_back(start + self.sum(order, from, to));
        self.done += 1;
        Ok(())
    }

    /// Drops entries that neither draws nor reads need. Keeps a few positions already read, so that
    /// going back by a few minibatches is free.
    fn release(&mut self, order: &SweepOrder) {
        let window = order.windows[self.position];
        let spare = 1 + (window.end - window.begin) as usize / 8;
        let drawn = order.windows.get(self.cursor).map_or(order.len(), |window| window.begin as usize);
        let keep = self.position.saturating_sub(spare).min(drawn);
        if keep > self.kept {
            self.entries
                .drop_front((order.sequence_offsets[keep] - order.sequence_offsets[self.kept]) as usize);
            self.sample_offsets.drain(..keep - self.kept);
            self.kept = keep;
        }
    }

    fn load(&mut self, source: SweepSource<'_>, end: usize) -> Result<()> {
        let SweepSource { order, table } = source;
        if end <= self.loaded {
            return Ok(());
        }
        self.entries.reserve((order.sequence_offsets[end] - order.sequence_offsets[self.loaded]) as usize)?;
        for position in self.loaded..end {
            let chunk = order.chunks[position];
            let info = table.chunks()[chunk as usize];
            let (origin, count) = (position as u32, info.sequences as usize);
            let lengths = table.lengths(chunk);
            check_lengths(chunk, info, lengths, E::ONES)?;
            match lengths {
                Lengths::Each(lengths) => {
                    self.entries.extend(count, |index| E::new(origin, index as u32, lengths[index]));
                }
                Lengths::Ones => self.entries.extend(count, |index| E::new(origin, index as u32, 1)),
            }
        }
        self.loaded = end;
        Ok(())
    }

    /// Makes the draws for all places of a position.
    fn draw(&mut self, order: &SweepOrder, position: usize) {
        let base = order.sequence_offsets[self.kept];
        let Span { begin, end } = order.windows[position];
        let (low, high) = (order.sequence_offsets[begin as usize], order.sequence_offsets[end as usize]);
        if low == high {
            return;
        }
        let modulus = Modulus::new(high - low);
        let reach: &[Reach] = &order.reach;
        // Below, places are counted from the first kept one.
        let place = (low - base) as usize;
        let to = (order.sequence_offsets[position + 1] - base) as usize;
        let mut at = (order.sequence_offsets[position] - base) as usize;

        let (slots, circle) = self.entries.slots();
        let mut places = [0_usize; DRAWN_AHEAD];
        while at < to {
            let outputs = self.random.peek(DRAWN_AHEAD.min(to - at));
            let count = outputs.len();
            for (drawn, &output) in places.iter_mut().zip(outputs) {
                *drawn = place + modulus.reduce(output) as usize;
                prefetch(slots, circle.slot(*drawn));
            }
            self.random.consume(count);
            for &other in &places[..count] {
                let (here, there) = (circle.slot(at), circle.slot(other));
                let (mine, theirs) = (slots[here], slots[there]);
                let origin = theirs.origin();
                let reach = reach[mine.origin() as usize];
                let other = other as u64 + base;
                let both = (origin >= begin) & (origin < end) & (other >= reach.begin) & (other < reach.end);
                if both {
                    slots[here] = theirs;
                    slots[there] = mine;
                    at += 1;
                }
            }
        }
    }

    /// Sums the samples of the entries between two places of the sweep.
    fn sum(&self, order: &SweepOrder, from: u64, to: u64) -> u64 {
        if E::ONES {
            return to - from;
        }
        let base = order.sequence_offsets[self.kept];
        let (mut at, end) = ((from - base) as usize, (to - base) as usize);
        let mut sum = 0;
        while at < end {
            let stretch = self.entries.stretch(at, end);
            sum += stretch.iter().map(|entry| entry.samples()).sum::<u64>();
            at += stretch.len();
        }
        sum
    }

    /// Returns the remaining entries of the current position, up to the end of the ring's array.
    fn stretch(&self, order: &SweepOrder) -> &[E] {
        let base = order.sequence_offsets[self.kept];
        let end = order.sequence_offsets[self.position + 1] - base;
        self.entries.stretch((self.sequence - base) as usize, end as usize)
    }

    /// Returns the samples before a position, which must be kept, and final or the first non-final
    /// one.
    fn start(&self, position: usize) -> u64 {
        self.sample_offsets[position - self.kept]
    }
}

impl<E: Entry> SequenceOrder for RollingOrder<E> {
    fn reset(&mut self, seed: u64) {
        self.seed = seed;
        self.random.seed(seed);
        self.entries.clear();
        self.sample_offsets.clear();
        self.sample_offsets.push_back(0);
        (self.kept, self.done, self.cursor, self.loaded) = (0, 0, 0, 0);
        (self.position, self.sequence, self.samples) = (0, 0, 0);
    }

    fn seek(&mut self, source: SweepSource<'_>, offset: u64) -> Result<u64> {
        if offset < self.samples {
            if self.kept > 0 && offset <= self.start(self.kept) {
                self.reset(self.seed);
            } else {
                let after = self.sample_offsets.partition_point(|&start| start < offset);
                self.position = self.kept + after.saturating_sub(1);
                self.sequence = source.order.sequence_offsets[self.position];
                self.samples = self.start(self.position);
            }
        }
        while self.samples < offset && self.ready(source)? {
            let end = self.start(self.position + 1);
            if end < offset {
                self.sequence = source.order.sequence_offsets[self.position + 1];
                self.samples = end;
            } else if E::ONES {
                self.sequence += offset - self.samples;
                self.samples = offset;
            } else {
                let (mut count, mut samples) = (0, self.samples);
                for entry in self.stretch(source.order) {
                    if samples >= offset {
                        break;
                    }
                    samples += entry.samples();
                    count += 1;
                }
                self.sequence += count;
                self.samples = samples;
            }
        }
        self.skip_used_up(source.order);
        Ok(self.samples)
    }

    fn take(
        &mut self,
        source: SweepSource<'_>,
        own_chunks: OwnChunks<'_>,
        limits: Limits,
        sequences: &mut Vec<SequenceId>,
    ) -> Result<Taken> {
        let Limits { global, local, full, epoch, mut at_least_one, of_any } = limits;
        let mut taken = Taken::default();
        let own = own_chunks.chunks;
        while self.ready(source)? {
            let stretch = self.stretch(source.order);
            let (count, samples) = if E::ONES && own_chunks.is_all {
                let bound = global.min(local).min(epoch);
                let count = bound.saturating_sub(taken.global).min(stretch.len() as u64);
                let entries = &stretch[..count as usize];
                room::reserve(sequences, entries.len(), room::MINIBATCH)?;
                sequences.extend(
                    entries.iter().map(|entry| SequenceId {
                        chunk: own[entry.origin() as usize],
                        index: entry.index(),
                    }),
                );
                taken.local += count;
                (count as usize, count)
            } else {
                let (mut count, mut samples) = (0, taken.global);
                for entry in stretch {
                    let chunk = own[entry.origin() as usize];
                    let length = entry.samples();
                    let is_own = chunk != FOREIGN;
                    let fits = samples + length <= global && !(is_own && taken.local + length > local);
                    if samples >= epoch || taken.local >= full || !(fits || at_least_one) {
                        break;
                    }
                    if is_own {
                        room::push(sequences, SequenceId { chunk, index: entry.index() }, room::MINIBATCH)?;
                        taken.local += length;
                    }
                    at_least_one &= !(is_own || of_any);
                    samples += length;
                    count += 1;
                }
                (count, samples - taken.global)
            };
            let stopped = count < stretch.len();
            if count > 0 {
                taken.last_position = Some(self.position);
            }
            taken.global += samples;
            self.sequence += count as u64;
            self.samples += samples;
            if stopped {
                break;
            }
        }
        self.skip_used_up(source.order);
        Ok(taken)
    }

    fn position(&self) -> usize {
        self.position
    }
}

/// Prefetches the memory of a slot. Plain reads stall once too many are pending: without
/// prefetching, drawing the order is 10 % slower for windows of 10 MB, and 20 % slower for 80 MB.
#[inline]
fn prefetch<E: Entry>(slots: &[E], slot: usize) {
    cntk_reader_core::cpu::prefetch::line(slots.as_ptr().wrapping_add(slot).cast());
}

/// Checks lengths against the chunk table, because a timeline over contradictory data would never
/// end.
fn check_lengths(chunk: ChunkId, info: ChunkInfo, lengths: Lengths<'_>, ones: bool) -> Result<()> {
    let (sequences, samples) = match lengths {
        Lengths::Ones => (u64::from(info.sequences), u64::from(info.sequences)),
        Lengths::Each(lengths) => {
            (lengths.len() as u64, lengths.iter().map(|&length| u64::from(length)).sum())
        }
    };
    let as_before =
        !ones || !matches!(lengths, Lengths::Each(lengths) if lengths.iter().any(|&length| length != 1));
    if sequences == u64::from(info.sequences) && samples == info.samples && as_before {
        return Ok(());
    }
    Err(Error::internal(format!(
        "Chunk {chunk} was announced with {} sequences and {} samples, but its list of lengths has {sequences} and {samples}.",
        info.sequences, info.samples
    )))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::randomize::WindowSize;
    use crate::randomize::block::chunk_order;
    use crate::randomize::reference::Lists;
    use cntk_reader_core::testing::cases;

    fn arranged(table: &Lists, size: WindowSize, seed: u64) -> SweepOrder {
        let mut order = SweepOrder::default();
        chunk_order(seed, 0, table.chunks().len() as u32, &mut order.chunks);
        order.arrange(size, table.chunks()).expect("memory");
        order
    }

    /// Takes all sequences that fit into `most` samples, but at least one.
    fn take<E: Entry>(
        sequences: &mut RollingOrder<E>,
        source: SweepSource<'_>,
        most: u64,
    ) -> (Vec<SequenceId>, Taken) {
        let limits = Limits {
            global: most,
            local: most,
            full: u64::MAX,
            epoch: u64::MAX,
            at_least_one: true,
            of_any: false,
        };
        let own_chunks = OwnChunks { chunks: &source.order.chunks, is_all: true };
        let mut ids = Vec::new();
        let taken = sequences.take(source, own_chunks, limits, &mut ids).expect("no error");
        (ids, taken)
    }

    #[test]
    fn used_up_positions_are_released() {
        let table = Lists::ones(&[1; 40]);
        let order = arranged(&table, WindowSize::Chunks(16), 3);
        let source = SweepSource { order: &order, table: &*table };
        let mut sequences = RollingOrder::<One>::new();
        sequences.reset(3);
        for position in 0..40_usize {
            take(&mut sequences, source, 1);
            // Three positions before the next one are spare: one, and an eighth of the window.
            let next = (position + 1).min(39);
            assert_eq!(sequences.kept, next.saturating_sub(3), "position {position}");
            assert_eq!(sequences.sample_offsets.len(), sequences.done + 1 - sequences.kept);
        }
    }

    #[test]
    fn going_back_to_kept_positions_draws_nothing() {
        let table = Lists::ones(&[1; 40]);
        let order = arranged(&table, WindowSize::Chunks(16), 3);
        let source = SweepSource { order: &order, table: &*table };
        let mut sequences = RollingOrder::<One>::new();
        sequences.reset(3);
        take(&mut sequences, source, 3);
        assert_eq!((sequences.kept, sequences.done), (0, 4));
        assert_eq!(sequences.seek(source, 0).expect("no error"), 0);
        assert_eq!(sequences.done, 4, "the start is still kept");
        take(&mut sequences, source, 20);
        assert_eq!((sequences.kept, sequences.done), (17, 21));
        assert_eq!(sequences.seek(source, 18).expect("no error"), 18);
        assert_eq!((sequences.position, sequences.done), (18, 21));
        // Sequences at the end of earlier positions may have no samples.
        assert_eq!(sequences.seek(source, 17).expect("no error"), 17);
        assert_eq!((sequences.position, sequences.done), (17, 17));
    }

    /// Goes to random offsets in a sweep, and compares what follows with the whole sweep.
    fn check_seeks<E: Entry>(table: &Lists, size: WindowSize, random: &mut Random) {
        let seed = random.range(0, 9);
        let order = arranged(table, size, seed);
        let source = SweepSource { order: &order, table };
        let mut sequences = RollingOrder::<E>::new();
        sequences.reset(seed);
        let (whole, _) = take(&mut sequences, source, u64::MAX);
        // The start of each sequence, and the end of the last one.
        let mut starts = vec![0];
        starts.extend(whole.iter().scan(0, |end, id| {
            *end += u64::from(table.lengths[id.chunk as usize][id.index as usize]);
            Some(*end)
        }));
        let mut at = whole.len();
        for _ in 0..20 {
            let what = || format!("{:?}, {size:?}, seed {seed}: from {at} in {starts:?}", table.lengths);
            let offset = random.range(0, table.samples() + 1);
            // The current position may lie behind other sequences without samples.
            let found = match starts[at] == offset {
                true => at,
                false => starts.partition_point(|&start| start < offset),
            };
            assert_eq!(sequences.seek(source, offset).expect("no error"), starts[found], "{}", what());
            let most = random.range(1, 5);
            let (ids, taken) = take(&mut sequences, source, most);
            let fits = |&end: &usize| end == found + 1 || starts[end] - starts[found] <= most;
            let end = (found + 1..=whole.len()).take_while(fits).last().unwrap_or(found);
            assert_eq!(ids, whole[found..end], "offset {offset}, {}", what());
            assert_eq!((taken.global, taken.local), (starts[end] - starts[found], taken.global));
            at = end;
        }
    }

    #[test]
    fn seek_finds_the_first_sequence_at_or_after_an_offset() {
        let mut random = Random::new(4);
        for case in 0..cases(1000) {
            let chunks = if case % 10 == 0 { 30 } else { 8 };
            let table = Lists::random(&mut random, chunks, u64::from(case % 3 == 0));
            let size = match random.range(0, 2) {
                0 => WindowSize::Chunks(random.range(1, 5)),
                _ => WindowSize::Samples(random.range(0, 20)),
            };
            check_seeks::<Long>(&table, size, &mut random);
            let sequences = (0..30).map(|_| random.range(1, 6) as usize).collect::<Vec<_>>();
            check_seeks::<One>(&Lists::ones(&sequences[..chunks as usize]), size, &mut random);
        }
    }

    #[test]
    fn lists_of_lengths_must_match_the_table() {
        for (samples, sequences, lengths, ones, is_valid) in [
            (2, 2, Lengths::Ones, true, true),
            (2, 2, Lengths::Ones, false, true),
            (3, 2, Lengths::Ones, false, false),
            (2, 2, Lengths::Each(&[1, 1]), true, true),
            // The sums agree, but these are not ones.
            (2, 2, Lengths::Each(&[2, 0]), true, false),
            (2, 2, Lengths::Each(&[2, 0]), false, true),
            (5, 2, Lengths::Each(&[2, 3]), false, true),
            (6, 2, Lengths::Each(&[2, 3]), false, false),
            (5, 3, Lengths::Each(&[2, 3]), false, false),
        ] {
            let checked = check_lengths(4, ChunkInfo { samples, sequences }, lengths, ones);
            assert_eq!(checked.is_ok(), is_valid, "{samples} {sequences} {lengths:?} {ones}");
        }
    }

    #[test]
    fn entries_keep_what_they_are_made_of() {
        fn parts<E: Entry>() -> (u32, u32, u64) {
            let entry = E::new(5, 7, 9);
            (entry.origin(), entry.index(), entry.samples())
        }
        assert_eq!(parts::<One>(), (5, 7, 1));
        assert_eq!(parts::<Long>(), (5, 7, 9));
    }
}
