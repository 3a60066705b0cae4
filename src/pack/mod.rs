//! Packing: from sequences to one minibatch, in one pass of copying.
//!
//! A packer asks its [`Feed`] for sequences and writes them into buffers with a [`layout::Layout`].
//!
//! A sequence that is missing in one stream ([`Loaded::Invalid`](crate::deserialize::Loaded),
//! [`Loaded::Skipped`](crate::deserialize::Loaded)) is left out of all streams.

pub mod buffer;
mod first_fit;
pub mod layout;
mod limits;
pub mod minibatch;
pub mod sequence;
#[cfg(test)]
mod test_feed;
pub mod truncated;
mod write;

pub use buffer::BufferPool;
pub use limits::Limits;
pub use minibatch::Minibatch;
pub use sequence::{Desk, Packed, Recipe, SequencePacker};
pub use truncated::TruncatedPacker;

use crate::config::options::Packing;
use crate::deserialize::Chunk;
use crate::deserialize::fetch::Fetched;
use crate::sequence::{SequenceId, SequenceKey, SequenceView};
use crate::stream::{LateShapes, Storage, StreamInfo};
use crate::{Error, Result};
use std::sync::Arc;

/// Minibatches that are packed together, at most.
pub const MOST_AT_ONCE: usize = 64;

/// Where a packer gets its sequences: the timeline, with the chunks it needs in memory.
pub trait Feed {
    /// Selects the next sequences and sees to it that their chunks are loaded.
    fn next(&mut self, global: u64, local: u64) -> Result<Batch<'_>>;

    /// Counts sequences that turned out to be invalid and were left out. With `delivers` it fails if those of all calls are
    /// more than the reader tolerates: a packer says so for each batch that still has data, also with 0 sequences.
    /// (CNTK 2.7 does not compare their number with its limit while there is no data.)
    fn count_invalid(&mut self, sequences: u64, delivers: bool) -> Result<()>;

    /// The chunk of a sequence of the last batch, by its position there, to be kept beyond it. Asked once for each.
    fn keep(&mut self, position: usize) -> Option<Arc<dyn Chunk>>;

    /// What was fetched for the last batch is not needed any more, but for what was kept.
    fn release(&mut self) {}

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
    /// Where sequences were fetched one by one: each by its position in `sequences`, and the shapes that data have told.
    pub fetched: Option<(&'a [Fetched], &'a LateShapes)>,
}

impl<'a> Batch<'a> {
    /// The chunk of a sequence. `position` is the sequence's place in `sequences`.
    pub fn chunk(&self, position: usize, id: SequenceId) -> Option<&'a dyn Chunk> {
        match self.fetched {
            Some((fetched, _)) => fetched.get(position).map(|fetched| fetched as &dyn Chunk),
            None => self.chunks.get(id.chunk as usize)?.as_deref(),
        }
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

    /// How to pack any minibatch, and how much to select for it, if one does not depend on what others left over: then
    /// several threads can pack several at once.
    fn recipe(&self) -> Option<(&Arc<Recipe>, Limits)> {
        None
    }

    /// Samples of the sequences that the packer holds which are still to be delivered.
    fn held_samples(&self) -> u64 {
        0
    }

    /// Tells what the packer holds, for a checkpoint that continues exactly: one queue for each slot of the truncated
    /// packer, nothing for packers that hold nothing. The list's memory is used again: this is asked after each read.
    fn queued(&self, queues: &mut Vec<Queue>);

    /// Takes back what [`Packer::queued`] gave, after [`Packer::configure`] with the same sizes; `chunk` loads the chunk of
    /// a sequence.
    /// The number of queues becomes the number of slots. To continue from a checkpoint use [`Packer::restore`].
    fn requeue(
        &mut self,
        queues: &[Queue],
        chunk: &mut dyn FnMut(SequenceId) -> Result<Arc<dyn Chunk>>,
    ) -> Result<()>;

    /// Brings a new packer to where another one was: the sizes that the other one took last, and what its
    /// [`Packer::queued`] gave.
    ///
    /// The number of slots is not a function of these sizes (CNTK 2.7 keeps it when only workers change), so a packer
    /// at work may have accepted sizes that a new one refuses. They are therefore taken in two steps here.
    fn restore(
        &mut self,
        config: &PackConfig,
        queues: &[Queue],
        chunk: &mut dyn FnMut(SequenceId) -> Result<Arc<dyn Chunk>>,
    ) -> Result<()> {
        self.configure(&PackConfig { workers: 1, rank: 0, ..*config })?;
        self.configure(config)?;
        self.requeue(queues, chunk)
    }
}

/// The sequences that wait in one slot of the truncated packer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Queue {
    /// Samples of the first sequence that were delivered already.
    pub cursor: u64,
    /// The sequences in order, each with the end-of-sweep flag of the fetch that brought it.
    pub sequences: Vec<(SequenceId, bool)>,
}

/// The streams as a packer delivers them: sparse ones come out dense in truncated mode.
pub fn output_streams(streams: &[StreamInfo], packing: Packing) -> Vec<StreamInfo> {
    let mut streams = streams.to_vec();
    if matches!(packing, Packing::Truncated { .. }) {
        for stream in &mut streams {
            stream.storage = Storage::Dense;
        }
    }
    streams
}

/// Holds a view's sizes against each other, so that a chunk's mistake cannot make a copy leave its bounds. Returns the
/// number of sparse values.
fn check_view(view: &SequenceView<'_>, element: usize, sample_size: usize) -> Result<usize> {
    let samples = view.samples as usize;
    let element = view.form.size(element);
    let Some(sparse) = &view.sparse else {
        return if samples.checked_mul(sample_size * element) == Some(view.values.len()) {
            Ok(0)
        } else {
            Err(Error::internal("A chunk's dense sequence has not the size of its samples."))
        };
    };
    let row = if sparse.narrow { 2 } else { 4 };
    let nnz = sparse.indices.len() / row;
    // One number, first and last, if there is no sample.
    let (Some(&first), Some(&last)) = (sparse.offsets.first(), sparse.offsets.last()) else {
        return Err(Error::internal("A chunk's sparse sequence has no entry numbers."));
    };
    let fits = sparse.offsets.len() - 1 == samples
        && last.checked_sub(first).is_some_and(|count| count as usize == nnz)
        && sparse.indices.len() == nnz * row
        && view.values.len() == nnz * element;
    if fits { Ok(nnz) } else { Err(Error::internal("A chunk's sparse sequence is not consistent.")) }
}
