//! Randomization in tumbling windows: chunks are shuffled across the sweep, sequences within a
//! window of chunks, and each window begins where the last one ended.
//!
//! A chunk belongs to the worker `position in the sweep's order mod workers`. The window's size
//! counts this worker's chunks, or their samples.

use super::window::{AHEAD, Chunks, Cursor, Next, Segment, Windows};
use crate::randomize::WindowSize;
use crate::randomize::WorkerConfig;
use crate::randomize::block::chunk_order;
use crate::randomize::random::Random;
use cntk_reader_core::Result;
use cntk_reader_core::format::Listing;
use cntk_reader_core::memory::room;
use cntk_reader_core::sequence::{ChunkId, SequenceId};

/// Windows of shuffled chunks.
pub(super) struct Tumbling {
    size: WindowSize,
    seed: u64,
    random: Random,
    /// The order of chunks in `sweep`, and in the sweep after it.
    orders: [Vec<ChunkId>; 2],
    sweep: Option<u64>,
    /// The samples of each chunk when it was last listed. Used only for prefetching.
    samples: Vec<Option<u64>>,
    /// Whether each chunk was found empty, reset whenever a non-empty chunk is found.
    empty: Vec<bool>,
    empties: usize,
}

impl Tumbling {
    pub(super) fn new(chunks: u32, size: WindowSize, seed: u64) -> Result<Self> {
        let chunks = chunks as usize;
        let order = || room::zeroed(chunks, room::ORDER);
        Ok(Tumbling {
            size,
            seed,
            random: Random::new(0),
            orders: [order()?, order()?],
            sweep: None,
            samples: room::filled(chunks, None, room::ORDER)?,
            empty: room::filled(chunks, false, room::ORDER)?,
            empties: 0,
        })
    }

    fn count(&self) -> u64 {
        self.samples.len() as u64
    }

    /// Computes the chunk orders of a sweep and the one after it.
    fn arrange(&mut self, sweep: u64) {
        if self.sweep == Some(sweep) {
            return;
        }
        let count = self.count() as u32;
        let [this, next] = &mut self.orders;
        if self.sweep.map(|before| before.wrapping_add(1)) == Some(sweep) {
            std::mem::swap(this, next);
        } else {
            chunk_order(self.seed, sweep, count, this);
        }
        chunk_order(self.seed, sweep.wrapping_add(1), count, next);
        self.sweep = Some(sweep);
    }

    /// Returns how much of the window's size a chunk with this many samples takes up.
    fn cost(&self, samples: u64) -> i64 {
        match self.size {
            WindowSize::Chunks(_) => 1,
            WindowSize::Samples(_) => i64::try_from(samples).unwrap_or(i64::MAX),
        }
    }

    /// Records the size of a listed chunk. Returns its number of samples.
    fn note(&mut self, chunk: ChunkId, listing: Listing<'_>) -> u64 {
        let samples = listing.samples();
        let i = chunk as usize;
        self.samples[i] = Some(samples);
        if listing.sequences > 0 {
            if self.empties > 0 {
                self.empty.fill(false);
                self.empties = 0;
            }
        } else if !std::mem::replace(&mut self.empty[i], true) {
            self.empties += 1;
        }
        samples
    }
}

/// Iterates over this worker's positions from `at` on.
fn own(at: u64, count: u64, workers: &WorkerConfig) -> impl Iterator<Item = u64> + use<> {
    let WorkerConfig { workers, rank, .. } = *workers;
    let first = at + (rank + workers - at % workers) % workers;
    (first..count).step_by(usize::try_from(workers).unwrap_or(usize::MAX))
}

impl Windows for Tumbling {
    fn keys(&self) -> [&'static str; 2] {
        ["chunkPosition", "sweepIndex"]
    }

    fn first_of(&self, sweep: u64) -> [u64; 2] {
        [0, sweep]
    }

    fn start(&self, [at, sweep]: [u64; 2]) -> Option<Cursor> {
        let budget = match self.size {
            WindowSize::Chunks(size) | WindowSize::Samples(size) => i64::try_from(size).unwrap_or(i64::MAX),
        };
        // Windows of size 0 would never advance (CNTK 2.7 hangs), so they count as size 1.
        (at < self.count()).then_some(Cursor { at, sweep, budget: budget.max(1) })
    }

    fn plan(&mut self, from: Cursor, workers: &WorkerConfig, chunks: &mut Vec<ChunkId>) -> Next {
        self.arrange(from.sweep);
        let mut budget = from.budget;
        for at in own(from.at, self.count(), workers) {
            let chunk = self.orders[0][at as usize];
            chunks.push(chunk);
            let cost = match self.samples[chunk as usize] {
                Some(samples) => self.cost(samples),
                None if matches!(self.size, WindowSize::Samples(_)) => return Next::Window([at, from.sweep]),
                None => 1,
            };
            budget = budget.saturating_sub(cost);
            if budget <= 0 && at + 1 < self.count() {
                return Next::Window([at + 1, from.sweep]);
            }
        }
        Next::Window([0, from.sweep.wrapping_add(1)])
    }

    fn produce(
        &mut self,
        from: Cursor,
        workers: &WorkerConfig,
        chunks: &mut dyn Chunks,
        segment: &mut Segment,
    ) -> Result<()> {
        self.arrange(from.sweep);
        let count = self.count();
        let mut budget = from.budget;
        let mut end = count;
        for at in own(from.at, count, workers) {
            let chunk = self.orders[0][at as usize];
            let listing = chunks.list(chunk)?;
            let samples = self.note(chunk, listing);
            let sequences = listing.iter().map(|(index, length)| (SequenceId { chunk, index }, length));
            room::reserve(&mut segment.sequences, listing.sequences as usize, room::ORDER)?;
            segment.sequences.extend(sequences);
            room::push(&mut segment.chunks, chunk, room::ORDER)?;
            budget = budget.saturating_sub(self.cost(samples));
            if budget <= 0 {
                end = at + 1;
                break;
            }
        }
        segment.ends_sweep = end == count;
        // CNTK 2.7: the seed includes the window's start position, but only in the window's first
        // sweep.
        segment.seed = Some(
            (if segment.begin == 0 { segment.window[0] } else { 0 })
                .wrapping_add(from.sweep)
                .wrapping_add(self.seed),
        );
        let (at, sweep) =
            if segment.ends_sweep { (0, from.sweep.wrapping_add(1)) } else { (end, from.sweep) };
        segment.next =
            if budget > 0 { Next::Segment(Cursor { at, sweep, budget }) } else { Next::Window([at, sweep]) };
        Ok(())
    }

    fn shuffle(&mut self, segment: &mut Segment) {
        if let Some(seed) = segment.seed.take() {
            self.random.seed(seed);
            self.random.shuffle_forward(&mut segment.sequences);
        }
    }

    fn ahead(&self, next: Next, workers: &WorkerConfig, across: bool, chunks: &mut Vec<ChunkId>) {
        let (at, sweep) = match next {
            Next::Segment(Cursor { at, sweep, .. }) => (at, sweep),
            Next::Window([at, sweep]) => (at, sweep),
        };
        let Some(arranged) = self.sweep else { return };
        let mut missing = AHEAD;
        let mut add = |order: &[ChunkId], at| {
            for at in own(at, order.len() as u64, workers).take(missing) {
                chunks.push(order[at as usize]);
                missing -= 1;
            }
        };
        let [this, following] = &self.orders;
        if sweep == arranged {
            add(this, at);
        }
        if across {
            add(following, if sweep == arranged { 0 } else { at });
        }
    }

    fn reshape(&mut self) {}

    fn empty_chunks(&self) -> Option<u32> {
        (self.empties > 0 && self.empties == self.samples.len()).then_some(self.samples.len() as u32)
    }

    fn is_barren(&self, workers: &WorkerConfig) -> bool {
        workers.rank >= self.count() || self.empties == self.samples.len()
    }
}
