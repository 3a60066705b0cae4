//! Packing: from sequences to one minibatch, in one pass of copying.
//!
//! A packer asks its [`Feed`] for sequences and writes them into buffers with a [`layout::Layout`].

pub mod buffer;
pub mod frame;
pub mod layout;
pub mod minibatch;
pub mod sequence;
pub mod truncated;
mod write;

pub use minibatch::Minibatch;

use crate::Result;
use crate::deserialize::Chunk;
use crate::sequence::{ChunkId, SequenceId, SequenceKey};
use std::sync::Arc;

/// Where a packer gets its sequences: the timeline, with the chunks it needs in memory.
pub trait Feed {
    /// Selects the next sequences and sees to it that their chunks are loaded.
    fn next(&mut self, global: u64, local: u64) -> Result<Batch<'_>>;

    /// Counts sequences that turned out to be invalid and were left out. Fails if they are more than the reader
    /// tolerates; a packer calls this once for each minibatch that still has data.
    fn count_invalid(&mut self, sequences: u64) -> Result<()>;

    /// Appends the keys of sequences.
    fn keys(&self, sequences: &[SequenceId], keys: &mut Vec<SequenceKey>);
}

/// What a [`Feed`] hands out: sequences whose chunks are in memory.
pub struct Batch<'a> {
    /// The sequences, in order.
    pub sequences: &'a [SequenceId],
    /// The end of a sweep was reached or crossed.
    pub end_of_sweep: bool,
    /// The end of the epoch was reached.
    pub end_of_epoch: bool,
    /// The loaded chunks, by chunk id; only those of `sequences` are certain to be there.
    pub chunks: &'a [Option<Arc<dyn Chunk>>],
}

impl<'a> Batch<'a> {
    /// The chunk of a sequence, to be kept beyond this batch.
    pub fn chunk(&self, chunk: ChunkId) -> Option<&'a Arc<dyn Chunk>> {
        self.chunks[chunk as usize].as_ref()
    }
}

/// Sizes of the minibatches to pack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PackConfig {
    /// Number of workers.
    pub workers: u64,
    /// This worker.
    pub rank: u64,
    /// Minibatch size in samples of all workers.
    pub minibatch: u64,
    /// Steps of a truncated minibatch.
    pub truncation: u64,
    /// Steps by which truncated minibatches of one sequence overlap.
    pub right_splice: u64,
}

/// A way of packing.
pub trait Packer: Send {
    /// Takes new sizes. Sequences that the packer holds are dropped, as by [`Packer::reset`].
    fn configure(&mut self, config: &PackConfig) -> Result<()>;

    /// Drops the sequences that the packer holds (truncated mode; the others hold none).
    fn reset(&mut self);

    /// Packs the next minibatch.
    fn read(&mut self, feed: &mut dyn Feed) -> Result<Minibatch>;

    /// What the packer holds, for a checkpoint that continues exactly. Empty for packers that hold nothing.
    fn queued(&self) -> Vec<Queue>;

    /// Takes back what [`Packer::queued`] gave, after [`Packer::configure`] with the same sizes; `chunk` loads chunks.
    fn requeue(
        &mut self,
        queues: &[Queue],
        chunk: &mut dyn FnMut(ChunkId) -> Result<Arc<dyn Chunk>>,
    ) -> Result<()>;
}

/// The sequences that wait in one slot of the truncated packer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Queue {
    /// Samples of the first sequence that were delivered already.
    pub cursor: u64,
    /// The sequences in order, each with the end-of-sweep flag of the fetch that brought it.
    pub sequences: Vec<(SequenceId, bool)>,
}
