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
