//! What a reader reads with: the pipeline, the thread that has it while a batch is read ahead, and the minibatches that are ready.

use super::handoff::HandoffThread;
use super::pipeline::Pipeline;
use super::prefetch_batch::PrefetchBatch;
use crate::config::options::ReaderSettings;
use crate::deserialize::ChunkSource;
use crate::helpers::WaitingCaller;

/// What is read ahead of the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Prefetch {
    /// Nothing.
    None,
    /// A batch of minibatches, where that gains more than handing it over costs.
    Batch,
    /// Always one minibatch.
    One,
}

impl Prefetch {
    pub(super) fn of(options: &ReaderSettings, source: &dyn ChunkSource) -> Prefetch {
        match (options.prefetch, source.facts().is_fetched) {
            (false, _) => Prefetch::None,
            (true, false) => Prefetch::Batch,
            // Random transforms go on drawing for minibatches that are dropped: exactly one is read ahead, as in CNTK 2.7.
            // In CNTK's place its host does that, and must get what was drawn for its own calls alone.
            (true, true) if source.facts().is_fetched_ahead && options.in_place_of.is_none() => Prefetch::One,
            // What users' code makes of a sequence may depend on how often it is asked: nothing is fetched that the caller
            // may not get.
            (true, true) => Prefetch::None,
        }
    }
}

/// The pipeline, the thread that has it while a batch is read ahead, and the minibatches that are ready.
pub(super) struct Engine {
    pub pipeline: Option<Box<Pipeline>>,
    pub ahead: Option<HandoffThread<PrefetchJob>>,
    pub waiting_caller: WaitingCaller,
    pub batch: PrefetchBatch,
    /// An empty one, for its memory; not here while a batch is read ahead.
    pub spare: PrefetchBatch,
}

impl Engine {
    pub(super) fn new(pipeline: Box<Pipeline>) -> Engine {
        Engine {
            waiting_caller: pipeline.waiting_caller(),
            pipeline: Some(pipeline),
            ahead: None,
            batch: PrefetchBatch::default(),
            spare: PrefetchBatch::default(),
        }
    }

    /// See [`Pipeline::empty_chunks`]. Nothing is read ahead at the end of an epoch.
    pub(super) fn empty_chunks(&self) -> Option<u32> {
        self.pipeline.as_ref()?.empty_chunks()
    }

    /// Leaks it, in a forked child, where its threads do not exist.
    pub(super) fn forget(self) {
        let Engine { pipeline, ahead, waiting_caller, batch, spare } = self;
        std::mem::forget((pipeline, waiting_caller, batch, spare));
        if let Some(thread) = ahead {
            thread.forget();
        }
    }

    /// The thread that reads ahead, if there can be one.
    pub(super) fn thread(&mut self) -> Option<&HandoffThread<PrefetchJob>> {
        if self.ahead.is_none() {
            self.ahead = HandoffThread::start("cntk-reader-mb", PrefetchJob::read);
        }
        self.ahead.as_ref()
    }
}

/// A batch to be read: by which pipeline, of how many minibatches, packed by how many threads, and where they go.
pub(super) struct PrefetchJob {
    pub pipeline: Box<Pipeline>,
    pub wanted: usize,
    pub threads: usize,
    pub batch: PrefetchBatch,
}

impl PrefetchJob {
    pub(super) fn read(&mut self) {
        self.pipeline.read(self.wanted, self.threads, &mut self.batch);
    }
}
