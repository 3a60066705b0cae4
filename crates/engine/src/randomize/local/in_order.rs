//! The data's own order, with windows of one chunk.
//!
//! A sequence belongs to the worker `running number in the sweep mod workers`, so every worker
//! loads every chunk.

use super::window::{AHEAD, Chunks, Cursor, Next, Segment, Windows};
use crate::randomize::WorkerConfig;
use cntk_reader_core::Result;
use cntk_reader_core::memory::room;
use cntk_reader_core::sequence::{ChunkId, SequenceId};

/// Windows of one chunk each.
pub(super) struct InOrder {
    chunks: u64,
    /// Consecutive windows without a sequence of this worker.
    empty: u64,
    /// Consecutive windows without any sequence.
    hollow: u64,
}

impl InOrder {
    pub(super) fn new(chunks: u32) -> Self {
        InOrder { chunks: chunks.into(), empty: 0, hollow: 0 }
    }
}

impl Windows for InOrder {
    fn keys(&self) -> [&'static str; 2] {
        ["currentChunkPosition", "currentSequencePosition"]
    }

    fn first_of(&self, _sweep: u64) -> [u64; 2] {
        [0, 0]
    }

    /// The cursor's `sweep` holds the running number of the chunk's first sequence.
    fn start(&self, [chunk, number]: [u64; 2]) -> Option<Cursor> {
        (chunk < self.chunks).then_some(Cursor { at: chunk, sweep: number, budget: 1 })
    }

    fn plan(&mut self, from: Cursor, _workers: &WorkerConfig, chunks: &mut Vec<ChunkId>) -> Next {
        chunks.push(from.at as ChunkId);
        Next::Window([(from.at + 1) % self.chunks, 0])
    }

    fn produce(
        &mut self,
        from: Cursor,
        workers: &WorkerConfig,
        chunks: &mut dyn Chunks,
        segment: &mut Segment,
    ) -> Result<()> {
        let chunk = from.at as ChunkId;
        let listing = chunks.list(chunk)?;
        self.hollow = if listing.sequences == 0 { self.hollow + 1 } else { 0 };
        let all = listing.iter().map(|(index, length)| (SequenceId { chunk, index }, length));
        let mut number = from.sweep;
        if workers.workers == 1 {
            // CNTK 2.7 counts sequences only with several workers.
            room::reserve(&mut segment.sequences, listing.sequences as usize, room::ORDER)?;
            segment.sequences.extend(all);
        } else {
            for sequence in all {
                if number % workers.workers == workers.rank {
                    room::push(&mut segment.sequences, sequence, room::ORDER)?;
                }
                number = number.wrapping_add(1);
            }
        }
        self.empty = if segment.sequences.is_empty() { self.empty + 1 } else { 0 };
        segment.chunks.push(chunk);
        segment.ends_sweep = from.at + 1 == self.chunks;
        segment.seed = None;
        segment.next = Next::Window(if segment.ends_sweep { [0, 0] } else { [from.at + 1, number] });
        Ok(())
    }

    fn shuffle(&mut self, _segment: &mut Segment) {}

    fn ahead(&self, next: Next, _workers: &WorkerConfig, across: bool, chunks: &mut Vec<ChunkId>) {
        let Next::Window([first, _]) = next else { return };
        // The first chunk follows the last one, so `first` is 0 exactly at the end of a sweep.
        let end = if across { first + self.chunks } else { self.chunks };
        if first > 0 || across {
            let ahead = (first..end).take(AHEAD.min(self.chunks as usize));
            chunks.extend(ahead.map(|chunk| (chunk % self.chunks) as ChunkId));
        }
    }

    fn reshape(&mut self) {
        self.empty = 0;
    }

    fn empty_chunks(&self) -> Option<u32> {
        (self.chunks > 0 && self.hollow >= self.chunks).then_some(self.chunks as u32)
    }

    fn is_barren(&self, _workers: &WorkerConfig) -> bool {
        self.empty > self.chunks
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{Lists, workers};
    use super::*;

    /// Produces the window of a chunk. Returns its sequences, the next window, and whether it ends
    /// the sweep.
    fn produced(
        windows: &mut InOrder,
        lists: &mut Lists<'_>,
        place: [u64; 2],
        share: &WorkerConfig,
    ) -> (Vec<u32>, [u64; 2], bool) {
        let next = Next::Window([0; 2]);
        let (sequences, chunks) = (Vec::new(), Vec::new());
        let (window, begin, ends_sweep, seed) = (place, 0, false, Some(1));
        let mut segment = Segment { window, begin, sequences, chunks, ends_sweep, seed, next };
        let from = windows.start(place).expect("a chunk");
        windows.produce(from, share, lists, &mut segment).expect("no error");
        let Next::Window(next) = segment.next else { panic!("windows have one segment") };
        assert_eq!((segment.chunks, segment.seed), (vec![place[0] as ChunkId], None));
        let indices = segment.sequences.iter().map(|(id, _)| id.index).collect();
        (indices, next, segment.ends_sweep)
    }

    #[test]
    fn windows_are_chunks() {
        let mut windows = InOrder::new(3);
        assert_eq!(windows.keys(), ["currentChunkPosition", "currentSequencePosition"]);
        assert_eq!(windows.first_of(7), [0, 0]);
        let Cursor { at, sweep, budget } = windows.start([2, 5]).expect("a chunk");
        assert_eq!((at, sweep, budget), (2, 5, 1));
        assert!(windows.start([3, 0]).is_none());
        for (place, chunk, next) in [([0, 9], 0, [1, 0]), ([1, 9], 1, [2, 0]), ([2, 9], 2, [0, 0])] {
            let (mut chunks, from) = (Vec::new(), windows.start(place).expect("a chunk"));
            let planned = windows.plan(from, &workers(2, 1), &mut chunks);
            assert!(matches!(planned, Next::Window(found) if found == next), "{planned:?}");
            assert_eq!(chunks, [chunk]);
        }
    }

    #[test]
    fn running_number_continues_in_the_next_window() {
        let data = [vec![1, 1], vec![], vec![1]];
        let (mut windows, mut lists) = (InOrder::new(3), Lists::new(&data));
        let mut produced =
            |place, count, rank| produced(&mut windows, &mut lists, place, &workers(count, rank));
        assert_eq!(produced([0, 0], 2, 1), (vec![1], [1, 2], false));
        assert_eq!(produced([1, 2], 2, 1), (vec![], [2, 2], false));
        assert_eq!(produced([2, 2], 2, 1), (vec![], [0, 0], true));
        assert_eq!(produced([2, 3], 2, 1), (vec![0], [0, 0], true));
        // A single worker does not count.
        assert_eq!(produced([0, 5], 1, 0), (vec![0, 1], [1, 5], false));
    }

    #[test]
    fn chunks_ahead_of_a_window() {
        for (chunks, first, across, expected) in [
            (3, 1, false, vec![1, 2]),
            (3, 1, true, vec![1, 2]),
            (3, 2, false, vec![2]),
            (3, 2, true, vec![2, 0]),
            (3, 0, false, vec![]),
            (3, 0, true, vec![0, 1]),
            (1, 0, true, vec![0]),
            (2, 1, true, vec![1, 0]),
        ] {
            let mut ahead = Vec::new();
            InOrder::new(chunks).ahead(Next::Window([first, 9]), &workers(1, 0), across, &mut ahead);
            assert_eq!(ahead, expected, "chunk {first} of {chunks}, {across}");
        }
    }

    #[test]
    fn windows_in_vain_are_counted() {
        let single = [vec![1], vec![1]];
        let (mut windows, mut lists) = (InOrder::new(2), Lists::new(&single));
        let share = workers(3, 2);
        for (place, is_barren) in [([0, 0], false), ([1, 1], false), ([0, 0], true)] {
            assert!(produced(&mut windows, &mut lists, place, &share).0.is_empty());
            assert_eq!((windows.is_barren(&share), windows.empty_chunks()), (is_barren, None));
        }
        windows.reshape();
        assert!(!windows.is_barren(&share));
        produced(&mut windows, &mut lists, [0, 0], &share);
        // One sequence starts the count again.
        produced(&mut windows, &mut lists, [1, 0], &workers(1, 0));
        for place in [[0, 0], [1, 1]] {
            produced(&mut windows, &mut lists, place, &share);
        }
        assert!(!windows.is_barren(&share));

        let empty = [vec![], vec![]];
        let (mut windows, mut lists) = (InOrder::new(2), Lists::new(&empty));
        for (chunk, expected) in [(0, None), (1, Some(2)), (0, Some(2))] {
            produced(&mut windows, &mut lists, [chunk, 0], &workers(1, 0));
            assert_eq!(windows.empty_chunks(), expected);
        }
        // The data have changed.
        produced(&mut windows, &mut Lists::new(&single), [1, 0], &workers(1, 0));
        assert_eq!(windows.empty_chunks(), None);
    }
}
