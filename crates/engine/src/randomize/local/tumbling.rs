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

#[cfg(test)]
mod tests {
    use super::super::tests::{Lists, workers};
    use super::*;
    use WindowSize::{Chunks as InChunks, Samples};
    use cntk_reader_core::format::Lengths;
    use cntk_reader_core::testing::cases;

    fn of(lengths: &[u32]) -> Listing<'_> {
        Listing { sequences: lengths.len() as u32, lengths: Lengths::Each(lengths) }
    }

    fn planned(windows: &mut Tumbling, place: [u64; 2], share: &WorkerConfig) -> (Vec<ChunkId>, [u64; 2]) {
        let mut chunks = Vec::new();
        let from = windows.start(place).expect("a chunk");
        let next = windows.plan(from, share, &mut chunks);
        (chunks, place_of(next))
    }

    fn place_of(next: Next) -> [u64; 2] {
        match next {
            Next::Segment(Cursor { at, sweep, .. }) => [at, sweep],
            Next::Window(place) => place,
        }
    }

    #[test]
    fn windows_are_located_by_chunk_and_sweep() {
        let windows = Tumbling::new(3, InChunks(2), 0).expect("memory");
        assert_eq!((windows.keys(), windows.first_of(4)), (["chunkPosition", "sweepIndex"], [0, 4]));
        for (size, budget) in [(InChunks(0), 1), (InChunks(u64::MAX), i64::MAX), (Samples(7), 7)] {
            let windows = Tumbling::new(3, size, 0).expect("memory");
            let Cursor { at, sweep, budget: found } = windows.start([2, 9]).expect("a chunk");
            assert_eq!((at, sweep, found), (2, 9, budget), "{size:?}");
            assert!(windows.start([3, 9]).is_none());
        }
    }

    #[test]
    fn plan_ends_where_the_window_or_knowledge_ends() {
        let alone = workers(1, 0);
        let mut order = Vec::new();
        chunk_order(0, 0, 5, &mut order);
        let mut windows = Tumbling::new(5, InChunks(2), 0).expect("memory");
        assert_eq!(planned(&mut windows, [0, 0], &alone), (order[..2].to_vec(), [2, 0]));
        assert_eq!(planned(&mut windows, [3, 0], &alone), (order[3..].to_vec(), [0, 1]));
        assert_eq!(planned(&mut windows, [4, 0], &alone), (vec![order[4]], [0, 1]));
        assert_eq!(planned(&mut windows, [0, 0], &workers(2, 1)), (vec![order[1], order[3]], [4, 0]));
        let mut windows = Tumbling::new(5, Samples(4), 0).expect("memory");
        assert_eq!(planned(&mut windows, [0, 0], &alone), (vec![order[0]], [0, 0]));
        assert_eq!(windows.note(order[0], of(&[2, 1])), 3);
        assert_eq!(planned(&mut windows, [0, 0], &alone), (order[..2].to_vec(), [1, 0]));
        windows.note(order[1], of(&[1]));
        assert_eq!(planned(&mut windows, [0, 0], &alone), (order[..2].to_vec(), [2, 0]));
    }

    #[test]
    fn plan_foresees_the_chunks_of_a_segment() {
        let mut random = Random::new(6);
        for _ in 0..cases(500) {
            let lengths: Vec<Vec<u32>> = (0..random.range(1, 7))
                .map(|_| (0..random.range(0, 4)).map(|_| random.range(1, 4) as u32).collect())
                .collect();
            let size = match random.range(0, 2) {
                0 => InChunks(random.range(1, 9)),
                _ => Samples(random.range(1, 20)),
            };
            let count = random.range(1, 4);
            let share = workers(count, random.range(0, count));
            let mut windows = Tumbling::new(lengths.len() as u32, size, random.range(0, 5)).expect("memory");
            for (chunk, lengths) in (0..).zip(&lengths) {
                windows.note(chunk, of(lengths));
            }
            let mut lists = Lists::new(&lengths);
            let mut from = windows.start([0, 3]).expect("a chunk");
            for _ in 0..10 {
                let (mut chunks, next) = (Vec::new(), Next::Window([0; 2]));
                let foreseen = windows.plan(from, &share, &mut chunks);
                let (sequences, ends_sweep) = (Vec::new(), false);
                let (window, begin, seed) = ([0; 2], 0, None);
                let mut segment =
                    Segment { window, begin, sequences, chunks: Vec::new(), ends_sweep, seed, next };
                windows.produce(from, &share, &mut lists, &mut segment).expect("no error");
                let what = format!("{lengths:?}, {size:?}, {share:?}: {from:?}");
                assert_eq!((chunks, place_of(foreseen)), (segment.chunks, place_of(segment.next)), "{what}");
                from = match segment.next {
                    Next::Segment(cursor) => cursor,
                    Next::Window(place) => windows.start(place).expect("a chunk"),
                };
            }
        }
    }

    #[test]
    fn chunks_ahead_of_a_segment() {
        let (alone, second) = (workers(1, 0), workers(2, 1));
        let (mut this, mut next) = (Vec::new(), Vec::new());
        chunk_order(0, 0, 5, &mut this);
        chunk_order(0, 1, 5, &mut next);
        let mut windows = Tumbling::new(5, InChunks(2), 0).expect("memory");
        let mut ahead = Vec::new();
        windows.ahead(Next::Window([0, 0]), &alone, true, &mut ahead);
        assert_eq!(ahead, [], "the order is not known yet");
        planned(&mut windows, [0, 0], &alone);
        for (place, share, across, expected) in [
            ([1, 0], alone, false, vec![this[1], this[2]]),
            ([4, 0], alone, false, vec![this[4]]),
            ([4, 0], alone, true, vec![this[4], next[0]]),
            ([0, 1], alone, false, vec![]),
            ([0, 1], alone, true, vec![next[0], next[1]]),
            ([2, 1], alone, true, vec![next[2], next[3]]),
            ([0, 0], second, true, vec![this[1], this[3]]),
            ([2, 0], second, true, vec![this[3], next[1]]),
        ] {
            let [at, sweep] = place;
            for next in [Next::Window(place), Next::Segment(Cursor { at, sweep, budget: 1 })] {
                ahead.clear();
                windows.ahead(next, &share, across, &mut ahead);
                assert_eq!(ahead, expected, "{next:?}, {across}");
            }
        }
    }

    #[test]
    fn each_empty_chunk_counts_once() {
        let mut windows = Tumbling::new(2, InChunks(1), 0).expect("memory");
        let mut state = |chunk, lengths: &[u32]| {
            windows.note(chunk, of(lengths));
            (windows.empty_chunks(), windows.is_barren(&workers(1, 0)))
        };
        assert_eq!(state(0, &[]), (None, false));
        assert_eq!(state(0, &[]), (None, false));
        assert_eq!(state(1, &[]), (Some(2), true));
        // The data have changed.
        assert_eq!(state(1, &[3]), (None, false));
        assert_eq!(state(0, &[]), (None, false));
        assert_eq!(state(1, &[]), (Some(2), true));
    }

    #[test]
    fn workers_beyond_the_chunks_are_barren() {
        for (chunks, count, rank, is_barren) in
            [(2, 3, 2, true), (2, 3, 1, false), (2, 1, 0, false), (0, 1, 0, true)]
        {
            let windows = Tumbling::new(chunks, InChunks(1), 0).expect("memory");
            assert_eq!(windows.is_barren(&workers(count, rank)), is_barren, "{rank} of {count}");
        }
    }
}
