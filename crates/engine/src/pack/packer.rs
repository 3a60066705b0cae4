//! What all ways of packing have in common.

use super::feed::Feed;
use super::limits::{Limits, PackConfig};
use super::minibatch::Minibatch;
use super::spec::PackSpec;
use crate::pack::Packing;
use cntk_reader_core::Result;
use cntk_reader_core::format::Chunk;
use cntk_reader_core::sequence::SequenceId;
use cntk_reader_core::stream::{Storage, StreamInfo};
use std::sync::Arc;

/// A way of packing.
pub trait Packer: Send {
    /// Refuses sizes that [`Packer::configure`] would refuse, and changes nothing.
    fn check(&self, config: &PackConfig) -> Result<()>;

    /// Takes new sizes. Sequences that the packer holds are dropped, as by [`Packer::reset`].
    fn configure(&mut self, config: &PackConfig) -> Result<()>;

    /// Drops the sequences that the packer holds. Only the truncated packer holds any between minibatches.
    fn reset(&mut self);

    /// Packs the next minibatch.
    fn read(&mut self, feed: &mut dyn Feed) -> Result<Minibatch>;

    /// How any minibatch is packed and how much is to be selected for it, if no minibatch depends on what others left over.
    /// Several threads can then pack several minibatches at once.
    fn spec(&self) -> Option<(&Arc<PackSpec>, Limits)> {
        None
    }

    /// Samples of the sequences that the packer holds which are still to be delivered.
    fn held_samples(&self) -> u64 {
        0
    }

    /// Writes down what the packer holds, for a checkpoint that continues exactly: one queue for each slot of the truncated
    /// packer, nothing for packers that hold nothing. Called after each read; reuses the memory of `queues`.
    fn queued(&self, queues: &mut Vec<Queue>) -> Result<()>;

    /// Takes back what [`Packer::queued`] wrote down, after [`Packer::configure`] with the same sizes. `chunk` loads the
    /// chunk of a sequence. The number of queues becomes the number of slots.
    ///
    /// This is a step of [`Packer::restore`], which is the one to call when a reader continues from a checkpoint.
    fn requeue(
        &mut self,
        queues: &[Queue],
        chunk: &mut dyn FnMut(SequenceId) -> Result<Arc<dyn Chunk>>,
    ) -> Result<()>;

    /// Puts a new packer into the state of another one, given the sizes that the other one took last and what its
    /// [`Packer::queued`] wrote down.
    ///
    /// The number of slots is not a function of these sizes (CNTK 2.7 keeps it when only the workers change), so a packer
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
    /// The sequences in order, each with the end-of-sweep flag of the selection that brought it.
    pub sequences: Vec<(SequenceId, bool)>,
}

/// The streams as a packer delivers them: in truncated mode sparse streams come out dense.
pub fn output_streams(streams: &[StreamInfo], packing: Packing) -> Vec<StreamInfo> {
    let mut streams = streams.to_vec();
    if matches!(packing, Packing::Truncated { .. }) {
        for stream in &mut streams {
            stream.storage = Storage::Dense;
        }
    }
    streams
}
