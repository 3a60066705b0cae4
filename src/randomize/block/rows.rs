//! The order of sequences in one sweep, drawn as a window rolls over the chunks.
//!
//! A *row* belongs to a position of the sweep and holds as many entries as that position's chunk has sequences; an
//! entry names a sequence by its *home* (the position of its chunk) and its index there. Rows are loaded in the data's
//! order and their entries then change places: the entry at place `t` with that at a drawn place `j`, if each home
//! lies in the window of the other's row; else `j` is drawn again. A row is *final* once no later draw can touch it.
//!
//! The draws of one row do not depend on their outcome, only how many of them are used does. So they are made in
//! batches: first the places, so that the memory they lie in is on its way, then the exchanges.

use super::order::{Reach, Span, SweepOrder};
use super::ring::Ring;
use crate::deserialize::ChunkTable;
use crate::deserialize::{ChunkInfo, Lengths};
use crate::randomize::random::{Modulus, Random};
use crate::sequence::{ChunkId, SequenceId};
use crate::{Error, Result};
use std::collections::VecDeque;

/// The chunks of one worker.
#[derive(Clone, Copy)]
pub struct Share<'a> {
    /// The chunk at each position, or [`FOREIGN`].
    pub chunks: &'a [ChunkId],
    /// No chunk is foreign.
    pub is_all: bool,
}

/// Stands for a chunk that is not this worker's. No chunk has this number.
pub const FOREIGN: ChunkId = ChunkId::MAX;

/// Places drawn ahead: enough to hide the memory's latency.
const BATCH: usize = 64;

/// A sequence on its way to its place.
pub trait Entry: Copy + Default + Send {
    /// Every sequence is one sample long.
    const ONES: bool;
    /// The entry of a sequence.
    fn new(home: u32, index: u32, length: u32) -> Self;
    /// The position of its chunk.
    fn home(self) -> u32;
    /// Its index there.
    fn index(self) -> u32;
    /// Its length in samples.
    fn samples(self) -> u64;
}

/// An entry of one sample.
#[derive(Debug, Clone, Copy, Default)]
pub struct One {
    home: u32,
    index: u32,
}

impl Entry for One {
    const ONES: bool = true;
    fn new(home: u32, index: u32, _length: u32) -> Self {
        One { home, index }
    }
    fn home(self) -> u32 {
        self.home
    }
    fn index(self) -> u32 {
        self.index
    }
    fn samples(self) -> u64 {
        1
    }
}

/// An entry of any length.
#[derive(Debug, Clone, Copy, Default)]
pub struct Long {
    home: u32,
    index: u32,
    length: u32,
}

impl Entry for Long {
    const ONES: bool = false;
    fn new(home: u32, index: u32, length: u32) -> Self {
        Long { home, index, length }
    }
    fn home(self) -> u32 {
        self.home
    }
    fn index(self) -> u32 {
        self.index
    }
    fn samples(self) -> u64 {
        u64::from(self.length)
    }
}

/// How much may be taken at once.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Samples of all workers.
    pub global: u64,
    /// Samples of this worker.
    pub local: u64,
    /// Samples until the epoch's end: what starts behind it is not taken.
    pub epoch: u64,
    /// The two first limits wait for the first sequence of this worker.
    pub at_least_one: bool,
}

/// What was taken.
#[derive(Debug, Clone, Copy, Default)]
pub struct Taken {
    /// Samples of all workers.
    pub global: u64,
    /// Samples of this worker.
    pub local: u64,
    /// The row that the last entry came from.
    pub last_row: Option<usize>,
}

/// What the rows are made of: the sweep's order and the table behind it.
#[derive(Clone, Copy)]
pub struct Source<'a> {
    /// The sweep's order.
    pub order: &'a SweepOrder,
    /// The chunk table.
    pub table: &'a dyn ChunkTable,
}

/// The order of the sequences of a sweep, as far as it is drawn.
pub trait Rows: Send {
    /// Goes to the start of a sweep, whose generator starts from `seed`.
    fn reset(&mut self, seed: u64);
    /// Goes to the first sequence that starts at or after `offset` samples, and returns its start.
    fn seek(&mut self, source: Source<'_>, offset: u64) -> Result<u64>;
    /// Takes the next sequences and appends this worker's.
    fn take(
        &mut self,
        source: Source<'_>,
        share: Share<'_>,
        limits: Limits,
        sequences: &mut Vec<SequenceId>,
    ) -> Result<Taken>;
    /// The current row.
    fn row(&self) -> usize;
}

/// Rows with one kind of entry.
pub struct RollingRows<E> {
    seed: u64,
    random: Random,
    /// Entries of the rows `kept..loaded`.
    entries: Ring<E>,
    /// Samples before each final row that is kept, and before the first row that is not final.
    starts: VecDeque<u64>,
    kept: usize,
    /// Rows before this one are final.
    done: usize,
    /// The places of rows before this one have been drawn for.
    cursor: usize,
    loaded: usize,
    row: usize,
    /// Sequences of the sweep before the current one.
    sequence: u64,
    /// Samples of the sweep before the current sequence.
    samples: u64,
}

impl<E: Entry> RollingRows<E> {
    /// Rows of no sweep yet.
    pub fn new() -> Self {
        RollingRows {
            seed: 0,
            random: Random::new(0),
            entries: Ring::default(),
            starts: VecDeque::from([0]),
            kept: 0,
            done: 0,
            cursor: 0,
            loaded: 0,
            row: 0,
            sequence: 0,
            samples: 0,
        }
    }

    /// Makes the current row final; false at the end of the sweep.
    fn ready(&mut self, source: Source<'_>) -> Result<bool> {
        self.settle(source.order);
        if self.row == source.order.len() {
            return Ok(false);
        }
        while self.done <= self.row {
            if let Err(error) = self.advance(source) {
                self.reset(self.seed);
                return Err(error);
            }
        }
        Ok(true)
    }

    /// Leaves rows that are used up.
    fn settle(&mut self, order: &SweepOrder) {
        while self.row < order.len() && self.sequence == order.first[self.row + 1] {
            self.row += 1;
        }
    }

    /// Makes one more row final: loads what the draws for it may touch, and draws for all places that may touch it.
    fn advance(&mut self, source: Source<'_>) -> Result<()> {
        let order = source.order;
        let windows = &order.windows;
        self.release(order);

        let mut next = windows[self.done].end as usize;
        while next < windows.len() && windows[next].begin as usize <= self.done {
            next += 1;
        }
        self.load(source, windows[next - 1].end as usize)?;
        for row in self.cursor..next {
            self.draw(order, row);
        }
        self.cursor = self.cursor.max(next);

        let (from, to) = (order.first[self.done], order.first[self.done + 1]);
        let start = self.starts.back().copied().unwrap_or(0);
        self.starts.push_back(start + self.sum(order, from, to));
        self.done += 1;
        Ok(())
    }

    /// Drops rows that neither draws nor reads need. A few that were read stay, so that going back over the last
    /// minibatches costs nothing.
    fn release(&mut self, order: &SweepOrder) {
        let window = order.windows[self.row];
        let behind = 1 + (window.end - window.begin) as usize / 8;
        let drawn = order.windows.get(self.cursor).map_or(order.len(), |window| window.begin as usize);
        let keep = self.row.saturating_sub(behind).min(drawn);
        if keep > self.kept {
            self.entries.drop_front((order.first[keep] - order.first[self.kept]) as usize);
            self.starts.drain(..keep - self.kept);
            self.kept = keep;
        }
    }

    fn load(&mut self, source: Source<'_>, end: usize) -> Result<()> {
        let Source { order, table } = source;
        if end <= self.loaded {
            return Ok(());
        }
        self.entries.reserve((order.first[end] - order.first[self.loaded]) as usize);
        for row in self.loaded..end {
            let chunk = order.chunks[row];
            let info = table.chunks()[chunk as usize];
            let (home, count) = (row as u32, info.sequences as usize);
            let lengths = table.lengths(chunk);
            check_lengths(chunk, info, lengths, E::ONES)?;
            match lengths {
                Lengths::Each(lengths) if !E::ONES => {
                    self.entries.extend(count, |index| E::new(home, index as u32, lengths[index]));
                }
                _ => self.entries.extend(count, |index| E::new(home, index as u32, 1)),
            }
        }
        self.loaded = end;
        Ok(())
    }

    /// Draws for all places of a row.
    fn draw(&mut self, order: &SweepOrder, row: usize) {
        let base = order.first[self.kept];
        let Span { begin, end } = order.windows[row];
        let (low, high) = (order.first[begin as usize], order.first[end as usize]);
        if low == high {
            return;
        }
        let modulus = Modulus::new(high - low);
        let reach: &[Reach] = &order.reach;
        // Places count from the first kept one.
        let place = (low - base) as usize;
        let to = (order.first[row + 1] - base) as usize;
        let mut at = (order.first[row] - base) as usize;

        let (slots, circle) = self.entries.slots();
        let mut places = [0_usize; BATCH];
        while at < to {
            let outputs = self.random.peek(BATCH.min(to - at));
            let count = outputs.len();
            for (drawn, &output) in places.iter_mut().zip(outputs) {
                *drawn = place + modulus.reduce(output) as usize;
                prefetch(slots, circle.slot(*drawn));
            }
            self.random.consume(count);
            for &other in &places[..count] {
                let (here, there) = (circle.slot(at), circle.slot(other));
                let (mine, theirs) = (slots[here], slots[there]);
                let home = theirs.home();
                let reach = reach[mine.home() as usize];
                let other = other as u64 + base;
                let both = (home >= begin) & (home < end) & (other >= reach.begin) & (other < reach.end);
                if both {
                    slots[here] = theirs;
                    slots[there] = mine;
                    at += 1;
                }
            }
        }
    }

    /// Samples of the entries between two places of the sweep.
    fn sum(&self, order: &SweepOrder, from: u64, to: u64) -> u64 {
        if E::ONES {
            return to - from;
        }
        let base = order.first[self.kept];
        let (mut at, end) = ((from - base) as usize, (to - base) as usize);
        let mut sum = 0;
        while at < end {
            let stretch = self.entries.stretch(at, end);
            sum += stretch.iter().map(|entry| entry.samples()).sum::<u64>();
            at += stretch.len();
        }
        sum
    }

    /// The entries of the current row from the current one on, as far as they lie together.
    fn stretch(&self, order: &SweepOrder) -> &[E] {
        let base = order.first[self.kept];
        let end = order.first[self.row + 1] - base;
        self.entries.stretch((self.sequence - base) as usize, end as usize)
    }

    /// Samples before a row that is kept and final, or the first that is not.
    fn start(&self, row: usize) -> u64 {
        self.starts[row - self.kept]
    }
}

impl<E: Entry> Rows for RollingRows<E> {
    fn reset(&mut self, seed: u64) {
        self.seed = seed;
        self.random.seed(seed);
        self.entries.clear();
        self.starts.clear();
        self.starts.push_back(0);
        (self.kept, self.done, self.cursor, self.loaded) = (0, 0, 0, 0);
        (self.row, self.sequence, self.samples) = (0, 0, 0);
    }

    fn seek(&mut self, source: Source<'_>, offset: u64) -> Result<u64> {
        if offset < self.samples {
            if self.kept > 0 && offset <= self.start(self.kept) {
                self.reset(self.seed);
            } else {
                let after = self.starts.partition_point(|&start| start < offset);
                self.row = self.kept + after.saturating_sub(1);
                self.sequence = source.order.first[self.row];
                self.samples = self.start(self.row);
            }
        }
        while self.samples < offset && self.ready(source)? {
            let end = self.start(self.row + 1);
            if end < offset {
                self.sequence = source.order.first[self.row + 1];
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
        self.settle(source.order);
        Ok(self.samples)
    }

    fn take(
        &mut self,
        source: Source<'_>,
        share: Share<'_>,
        limits: Limits,
        sequences: &mut Vec<SequenceId>,
    ) -> Result<Taken> {
        let Limits { global, local, epoch, mut at_least_one } = limits;
        let mut taken = Taken::default();
        let own = share.chunks;
        while self.ready(source)? {
            let stretch = self.stretch(source.order);
            let (count, samples) = if E::ONES && share.is_all {
                let bound = global.min(local).min(epoch);
                let count = bound.saturating_sub(taken.global).min(stretch.len() as u64);
                let entries = &stretch[..count as usize];
                sequences.extend(
                    entries
                        .iter()
                        .map(|entry| SequenceId { chunk: own[entry.home() as usize], index: entry.index() }),
                );
                taken.local += count;
                (count as usize, count)
            } else {
                let (mut count, mut samples) = (0, taken.global);
                for entry in stretch {
                    let chunk = own[entry.home() as usize];
                    let length = entry.samples();
                    let is_own = chunk != FOREIGN;
                    let fits = samples + length <= global && !(is_own && taken.local + length > local);
                    if samples >= epoch || !(fits || at_least_one) {
                        break;
                    }
                    if is_own {
                        sequences.push(SequenceId { chunk, index: entry.index() });
                        taken.local += length;
                        at_least_one = false;
                    }
                    samples += length;
                    count += 1;
                }
                (count, samples - taken.global)
            };
            let stopped = count < stretch.len();
            if count > 0 {
                taken.last_row = Some(self.row);
            }
            taken.global += samples;
            self.sequence += count as u64;
            self.samples += samples;
            if stopped {
                break;
            }
        }
        self.settle(source.order);
        Ok(taken)
    }

    fn row(&self) -> usize {
        self.row
    }
}

/// Has a slot's memory fetched. Reading it does so too, but then the processor stands still once too many reads wait:
/// the whole order is drawn a tenth slower for windows of 10 MB, and a fifth slower for 80 MB.
#[inline]
fn prefetch<E: Entry>(slots: &[E], slot: usize) {
    crate::prefetch::line(slots.as_ptr().wrapping_add(slot).cast());
}

/// Holds lengths against the chunk table: a timeline over data that contradict themselves would never end.
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
        "Chunk {chunk} was announced with {} sequences and {} samples but its lengths say {sequences} and {samples}.",
        info.sequences, info.samples
    )))
}
