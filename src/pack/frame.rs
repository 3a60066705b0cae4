//! Packing single samples: one step, one row a sample.

use super::buffer::BufferPool;
use super::minibatch::Minibatch;
use super::sequence::WholePacker;
use super::{Feed, PackConfig, Packer, Queue};
use crate::Result;
use crate::deserialize::Chunk;
use crate::sequence::SequenceId;
use crate::stream::StreamInfo;
use std::sync::Arc;

/// Packs sequences of one sample and refuses all others.
pub struct FramePacker(WholePacker);

impl FramePacker {
    /// A packer for these streams. With `local_timeline` each worker fills its share of the minibatch size.
    pub fn new(streams: Vec<StreamInfo>, pool: BufferPool, local_timeline: bool) -> FramePacker {
        FramePacker(WholePacker::new(streams, pool, local_timeline, true))
    }
}

impl Packer for FramePacker {
    fn configure(&mut self, config: &PackConfig) -> Result<()> {
        self.0.configure(config)
    }

    fn reset(&mut self) {}

    /// Sequences that were refused are consumed: the next read goes on behind them.
    fn read(&mut self, feed: &mut dyn Feed) -> Result<Minibatch> {
        self.0.read(feed)
    }

    fn queued(&self) -> Vec<Queue> {
        Vec::new()
    }

    fn requeue(
        &mut self,
        _queues: &[Queue],
        _chunk: &mut dyn FnMut(SequenceId) -> Result<Arc<dyn Chunk>>,
    ) -> Result<()> {
        Ok(())
    }
}
