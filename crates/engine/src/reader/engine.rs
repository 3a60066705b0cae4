//! The pipeline and the batches read with it, on the caller's thread or ahead of it.

use super::handoff::{HandoffThread, READ_AHEAD};
use super::parallel_packer::PackingThreads;
use super::pipeline::Pipeline;
use super::prefetch_batch::{BatchSize, PrefetchBatch};
use crate::reader::settings::ReaderSettings;
use cntk_reader_core::format::ChunkSource;
use cntk_reader_core::runtime::cancel;
use cntk_reader_core::runtime::helpers::WaitingCaller;
use cntk_reader_core::{Error, Result};
use std::mem;
use std::time::{Duration, Instant};

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

/// The thread that reads batches ahead.
type PrefetchThread = HandoffThread<PrefetchJob>;

/// Who has the pipeline.
enum Place {
    /// The reader. Its thread waits, or has not been started.
    Here { pipeline: Box<Pipeline>, thread: Option<PrefetchThread> },
    /// The thread, which reads a batch.
    Away(PrefetchThread),
    /// Nobody: a panic on the caller's thread dropped it.
    Lost,
}

/// How waiting for a batch ended.
pub(super) enum Refill {
    Ready,
    /// The deadline has passed. The thread goes on reading, for a later call.
    Pending,
    /// The read was cancelled. Minibatches that were complete before are ready.
    Cancelled(Error),
}

/// The pipeline, and the minibatches that it has read for the caller.
pub(super) struct Engine {
    place: Place,
    prefetch: Prefetch,
    packing_threads: PackingThreads,
    size: BatchSize,
    waiting_caller: WaitingCaller,
    /// The minibatches that the caller takes next.
    pub batch: PrefetchBatch,
    /// An empty batch, kept for its memory.
    spare: PrefetchBatch,
    /// When the caller last got a batch.
    returned: Option<Instant>,
}

impl Engine {
    pub(super) fn new(
        pipeline: Box<Pipeline>,
        prefetch: Prefetch,
        packing_threads: PackingThreads,
    ) -> Engine {
        Engine {
            waiting_caller: pipeline.waiting_caller(),
            place: Place::Here { pipeline, thread: None },
            prefetch,
            packing_threads,
            size: BatchSize::FIRST,
            batch: PrefetchBatch::default(),
            spare: PrefetchBatch::default(),
            returned: None,
        }
    }

    /// The pipeline, unless the thread has it.
    pub(super) fn pipeline(&mut self) -> Option<&mut Pipeline> {
        match &mut self.place {
            Place::Here { pipeline, .. } => Some(pipeline),
            Place::Away(_) | Place::Lost => None,
        }
    }

    /// Whether a minibatch, or an error in its place, can be taken from the batch.
    pub(super) fn is_ready(&self) -> bool {
        !self.batch.ready.is_empty()
    }

    /// Gets the next batch: the one that is read ahead, or else one that the caller's thread reads.
    /// With `is_apart` the call can be cancelled without the read, and with a `deadline` it can end
    /// before the read, so that the thread has to read, if there can be one. Then reads ahead if
    /// `goes_on`, and if that saves time.
    pub(super) fn refill(
        &mut self,
        is_apart: bool,
        deadline: Option<Instant>,
        goes_on: bool,
    ) -> Result<Refill> {
        // At the first read the caller is assumed to do something between reads.
        let away = self.returned.map_or(Duration::MAX, |returned| returned.elapsed());
        if is_apart || deadline.is_some() {
            self.send(self.packing_threads.all);
        }
        let batch = match self.place {
            Place::Here { .. } => self.read(is_apart).map(Some),
            Place::Away(_) => self.receive(deadline),
            Place::Lost => Err(unusable()),
        };
        let refill = batch.map(|batch| match batch {
            Some(batch) => self.accept(batch, away, goes_on),
            None => Refill::Pending,
        });
        self.returned = Some(Instant::now());
        refill
    }

    /// Reads a batch on the caller's thread.
    fn read(&mut self, is_apart: bool) -> Result<PrefetchBatch> {
        let Place::Here { pipeline, thread } = mem::replace(&mut self.place, Place::Lost) else {
            return Err(unusable());
        };
        let mut job = self.job(pipeline, self.packing_threads.all);
        match is_apart {
            true => cancel::apart(|| job.read()),
            false => job.read(),
        }
        self.place = Place::Here { pipeline: job.pipeline, thread };
        Ok(job.batch)
    }

    /// Has the thread read a batch, if the pipeline is here and there can be a thread.
    fn send(&mut self, packing_threads: usize) {
        self.place = match mem::replace(&mut self.place, Place::Lost) {
            Place::Here { pipeline, thread } => {
                match thread.or_else(|| HandoffThread::start("cntk-reader-mb", PrefetchJob::read)) {
                    Some(thread) => {
                        self.waiting_caller.begin();
                        thread.give(self.job(pipeline, packing_threads));
                        Place::Away(thread)
                    }
                    None => Place::Here { pipeline, thread: None },
                }
            }
            place => place,
        };
    }

    fn job(&mut self, pipeline: Box<Pipeline>, threads: usize) -> PrefetchJob {
        PrefetchJob { pipeline, wanted: self.size.wanted, threads, batch: mem::take(&mut self.spare) }
    }

    /// Waits for the thread's batch, and packs with it meanwhile. `None` at the deadline.
    fn receive(&mut self, deadline: Option<Instant>) -> Result<Option<PrefetchBatch>> {
        if let Place::Away(thread) = &self.place {
            self.waiting_caller.help(|| thread.is_done());
            if let Some(deadline) = deadline
                && !thread.is_done_by(deadline)?
            {
                return Ok(None);
            }
        }
        self.take_back()
    }

    /// Waits until the thread gives the pipeline back, with its batch. `None` if the thread does
    /// not have it. If the call is cancelled, the thread keeps it.
    fn take_back(&mut self) -> Result<Option<PrefetchBatch>> {
        let job = match &self.place {
            Place::Away(thread) => thread.take()?,
            Place::Here { .. } | Place::Lost => return Ok(None),
        };
        if let Place::Away(thread) = mem::replace(&mut self.place, Place::Lost) {
            self.place = Place::Here { pipeline: job.pipeline, thread: Some(thread) };
        }
        Ok(Some(job.batch))
    }

    fn accept(&mut self, mut batch: PrefetchBatch, away: Duration, goes_on: bool) -> Refill {
        let cancelled = batch.pop_cancelled();
        self.spare = mem::replace(&mut self.batch, batch);
        if let Some(error) = cancelled {
            return Refill::Cancelled(error);
        }
        if self.prefetch == Prefetch::Batch {
            self.size.follow(&self.batch, self.packing_threads.all);
        }
        if goes_on && self.batch.goes_on() && self.pays_to_read_ahead(away) {
            self.send(self.packing_threads.beside_caller);
        }
        Refill::Ready
    }

    /// Whether reading ahead costs no more than it saves, where a caller takes as long between
    /// batches as before the last one.
    fn pays_to_read_ahead(&self, away: Duration) -> bool {
        match self.prefetch {
            Prefetch::None => false,
            Prefetch::Batch => READ_AHEAD.is_repaid(self.batch.took.min(away), self.batch.ready.len()),
            Prefetch::One => true,
        }
    }

    /// Waits until the pipeline is here, and drops what was read ahead. True if the pipeline has
    /// gone beyond the minibatch that the caller took last.
    pub(super) fn recall(&mut self) -> Result<bool> {
        let mut is_beyond = self.is_ready();
        if let Some(mut batch) = self.take_back()? {
            batch.ready.clear();
            self.spare = batch;
            is_beyond = true;
        }
        self.batch.ready.clear();
        is_beyond |= self.pipeline().is_some_and(|pipeline| pipeline.is_ahead());
        if is_beyond {
            self.size.wanted = 1;
        }
        Ok(is_beyond)
    }

    /// Leaks it, in a forked child, where its threads do not exist.
    pub(super) fn forget(self) {
        let Engine { place, waiting_caller, batch, spare, .. } = self;
        mem::forget((waiting_caller, batch, spare));
        let thread = match place {
            Place::Here { pipeline, thread } => {
                mem::forget(pipeline);
                thread
            }
            Place::Away(thread) => Some(thread),
            Place::Lost => None,
        };
        if let Some(thread) = thread {
            thread.forget();
        }
    }
}

pub(super) fn unusable() -> Error {
    Error::internal("The reader failed inside and cannot be used any more.")
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
