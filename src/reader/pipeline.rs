//! The pipeline: timeline, chunks and packer, one minibatch per read. Reads nothing ahead but chunks.

use super::checkpoint::Progress;
use super::store::ChunkStore;
use super::{EpochStart, ReadConfig};
use crate::config::options::{Order, Packing, ReaderOptions};
use crate::deserialize::Deserializer;
use crate::error::ExceptionClass;
use crate::pack::buffer::BufferPool;
use crate::pack::frame::FramePacker;
use crate::pack::sequence::SequencePacker;
use crate::pack::truncated::TruncatedPacker;
use crate::pack::{Batch, Feed, Minibatch, PackConfig, Packer};
use crate::pool::Pool;
use crate::randomize::block::BlockRandomizer;
use crate::randomize::in_order::InOrder;
use crate::randomize::{EpochConfig, Selection, Timeline, WorkerConfig};
use crate::sequence::{ChunkId, SequenceId, SequenceKey};
use crate::{Error, ErrorKind, Result};
use std::sync::Arc;

/// Everything between the deserializer and the minibatch.
pub(super) struct Pipeline {
    source: Source,
    packer: Box<dyn Packer>,
    packing: Packing,
}

/// The timeline with the chunks it needs: what the packer is fed from.
struct Source {
    deserializer: Arc<dyn Deserializer>,
    timeline: Box<dyn Timeline>,
    store: ChunkStore,
    selection: Selection,
    truncated: bool,
    /// Invalid sequences so far, and how many are tolerated.
    invalid: u64,
    tolerated: u64,
}

impl Pipeline {
    pub(super) fn new(options: &ReaderOptions, deserializer: Arc<dyn Deserializer>, pool: Pool) -> Self {
        let timeline: Box<dyn Timeline> = match options.order {
            Order::InOrder => Box::new(InOrder::new(deserializer.clone())),
            Order::Block { window, seed } => {
                Box::new(BlockRandomizer::new(deserializer.clone(), window, seed))
            }
        };
        let (streams, buffers) = (deserializer.streams().to_vec(), BufferPool::default());
        let packer: Box<dyn Packer> = match options.packing {
            Packing::Sequence => Box::new(SequencePacker::new(streams, buffers, options.local_timeline)),
            Packing::Frame => Box::new(FramePacker::new(streams, buffers, options.local_timeline)),
            Packing::Truncated { .. } => {
                Box::new(TruncatedPacker::new(streams, buffers, options.local_timeline))
            }
        };
        let store = ChunkStore::new(deserializer.clone(), pool);
        let source = Source {
            deserializer,
            timeline,
            store,
            selection: Selection::default(),
            truncated: matches!(options.packing, Packing::Truncated { .. }),
            invalid: 0,
            tolerated: options.max_errors,
        };
        Pipeline { source, packer, packing: options.packing }
    }

    /// Starts an epoch at its first sample. CNTK 2.7: the configuration's truncation length and right splice take the
    /// place of the epoch's.
    pub(super) fn start_epoch(&mut self, epoch: &EpochStart) -> Result<EpochStart> {
        let mut epoch = *epoch;
        if let Packing::Truncated { length, right_splice } = self.packing {
            epoch.read.truncation = length;
            epoch.read.right_splice = right_splice;
        }
        epoch.read.workers().check()?;
        self.packer.configure(&epoch.read.pack())?;
        self.source.timeline.start_epoch(&epoch.timeline())?;
        self.packer.reset();
        Ok(epoch)
    }

    pub(super) fn configure(&mut self, config: &ReadConfig) -> Result<()> {
        config.workers().check()?;
        self.packer.configure(&config.pack())?;
        self.source.timeline.configure(&config.workers())
    }

    pub(super) fn read(&mut self) -> Result<Minibatch> {
        self.packer.read(&mut self.source)
    }

    /// Where the pipeline stands; [`Pipeline::resume`] brings it back here.
    pub(super) fn progress(&self) -> Progress {
        Progress {
            position: self.source.timeline.position(),
            invalid: self.source.invalid,
            queues: self.packer.queued(),
        }
    }

    /// Goes to a position in samples, as CNTK's state map gives it. Queued sequences are dropped.
    pub(super) fn seek(&mut self, samples: u64) -> Result<()> {
        self.packer.reset();
        self.source.timeline.seek(samples)
    }

    /// Goes back exactly to where [`Pipeline::progress`] was taken.
    pub(super) fn resume(&mut self, progress: &Progress) -> Result<()> {
        self.source.resume(progress)?;
        let store = &mut self.source.store;
        self.packer.requeue(&progress.queues, &mut |chunk: ChunkId| store.fetch(chunk))
    }

    /// Brings a new pipeline to where [`Pipeline::progress`] was taken in another one, in an epoch that was started so
    /// and with the configuration that was last in force.
    pub(super) fn restore(
        &mut self,
        epoch: &EpochStart,
        read: &ReadConfig,
        progress: &Progress,
    ) -> Result<()> {
        read.workers().check()?;
        self.source.timeline.start_epoch(&epoch.timeline())?;
        self.source.timeline.configure(&read.workers())?;
        self.source.resume(progress)?;
        let store = &mut self.source.store;
        self.packer.restore(&read.pack(), &progress.queues, &mut |chunk: ChunkId| store.fetch(chunk))
    }
}

impl Source {
    fn resume(&mut self, progress: &Progress) -> Result<()> {
        self.invalid = progress.invalid;
        self.timeline.resume(progress.position)
    }
}

impl EpochStart {
    fn timeline(&self) -> EpochConfig {
        let EpochStart { read, samples, sweeps, index } = *self;
        EpochConfig { workers: read.workers(), samples, sweeps, index }
    }
}

impl ReadConfig {
    fn workers(&self) -> WorkerConfig {
        WorkerConfig { workers: self.workers, rank: self.rank, cross_sweeps: self.cross_sweeps }
    }

    fn pack(&self) -> PackConfig {
        PackConfig {
            workers: self.workers,
            rank: self.rank,
            minibatch: self.minibatch,
            truncation: self.truncation,
            right_splice: self.right_splice,
        }
    }
}

impl Feed for Source {
    fn next(&mut self, global: u64, local: u64) -> Result<Batch<'_>> {
        self.timeline.next(global, local, &mut self.selection)?;
        if !self.selection.sequences.is_empty() {
            self.store.follow(&*self.timeline, &self.selection)?;
        }
        Ok(Batch {
            sequences: &self.selection.sequences,
            end_of_sweep: self.selection.end_of_sweep,
            end_of_epoch: self.selection.end_of_epoch,
            chunks: self.store.chunks(),
        })
    }

    fn count_invalid(&mut self, sequences: u64) -> Result<()> {
        self.invalid += sequences;
        if self.invalid <= self.tolerated {
            return Ok(());
        }
        // CNTK 2.7's words.
        let message = format!(
            "Number of invalid sequences '{}' in the input exceeded the specified maximum number '{}'",
            self.invalid, self.tolerated
        );
        Err(Error::new(ErrorKind::Data, ExceptionClass::Runtime, message))
    }

    fn keys(&self, sequences: &[SequenceId], keys: &mut Vec<SequenceKey>) {
        self.deserializer.reported_keys(sequences, self.truncated, keys);
    }
}
