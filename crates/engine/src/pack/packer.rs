//! The interface of all packers.

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

/// Packs sequences into minibatches.
pub trait Packer: Send {
    /// Fails for sizes that [`Packer::configure`] would reject. Changes nothing.
    fn check(&self, config: &PackConfig) -> Result<()>;

    /// Sets new sizes. Drops held sequences, like [`Packer::reset`].
    fn configure(&mut self, config: &PackConfig) -> Result<()>;

    /// Drops held sequences. Only the truncated packer holds any between minibatches.
    fn reset(&mut self);

    /// Packs the next minibatch.
    fn read(&mut self, feed: &mut dyn Feed) -> Result<Minibatch>;

    /// Returns how minibatches are packed, and their limits, if minibatches are independent of each
    /// other. Several threads can then pack minibatches concurrently.
    fn spec(&self) -> Option<(&Arc<PackSpec>, Limits)> {
        None
    }

    /// Returns the number of undelivered samples in held sequences.
    fn held_samples(&self) -> u64 {
        0
    }

    /// Saves the held sequences, for a checkpoint that continues exactly: one queue for each slot
    /// of the truncated packer, and none for other packers. Called after each read; reuses the
    /// memory of `queues`.
    fn queued(&self, queues: &mut Vec<Queue>) -> Result<()>;

    /// Restores sequences saved by [`Packer::queued`], after [`Packer::configure`] with the same
    /// sizes. `chunk` loads the chunk of a sequence. The number of queues becomes the number of
    /// slots.
    ///
    /// This is a step of [`Packer::restore`]. To continue from a checkpoint, call that instead.
    fn requeue(
        &mut self,
        queues: &[Queue],
        chunk: &mut dyn FnMut(SequenceId) -> Result<Arc<dyn Chunk>>,
    ) -> Result<()>;

    /// Restores the state of another packer in a new one, given the other's last sizes and the
    /// sequences saved by its [`Packer::queued`].
    ///
    /// The number of slots is not a function of these sizes (CNTK 2.7 keeps it when only the
    /// workers change), so a packer in use may have accepted sizes that a new one rejects.
    /// Therefore, this sets them in two steps.
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

/// The sequences queued in one slot of the truncated packer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Queue {
    /// Samples of the first sequence that are already delivered.
    pub cursor: u64,
    /// The sequences in order, each with the end-of-sweep flag of its selection.
    pub sequences: Vec<(SequenceId, bool)>,
}

/// Returns the streams as a packer delivers them: in truncated mode, sparse streams become dense
/// if `expands_sparse` says so.
pub fn output_streams(streams: &[StreamInfo], packing: Packing, expands_sparse: bool) -> Vec<StreamInfo> {
    let mut streams = streams.to_vec();
    if expands_sparse && matches!(packing, Packing::Truncated { .. }) {
        for stream in &mut streams {
            stream.storage = Storage::Dense;
        }
    }
    streams
}
