//! The pipeline: timeline, chunks and packer. Reads one batch of minibatches at a time, and
//! prefetches only chunks.

use super::checkpoint::Progress;
use super::epoch::{Epoch, ReadConfig};
use super::fetcher::Fetcher;
use super::inspect::EpochStart;
use super::parallel_packer::{PackContext, ParallelPacker};
use super::position::{local_position_of, samples_of};
use super::prefetch_batch::{Assembled, PrefetchBatch};
use super::selector::{Plan, Selector, TimelineSource};
use crate::pack::Packing;
use crate::pack::explain::Explain;
use crate::pack::{
    Feed, Limits, LoadedSelection, Minibatch, MinibatchMemory, PackConfig, PackSpec, Packer, Queue,
    SequencePacker, TruncatedPacker,
};
use crate::randomize::{EpochConfig, WorkerConfig};
use crate::reader::settings::ReaderSettings;
use cntk_reader_core::corpus::Corpus;
use cntk_reader_core::error::ExceptionClass;
use cntk_reader_core::format::fetch::Failure;
use cntk_reader_core::format::{AnyDeserializer, Chunk, ChunkSource};
use cntk_reader_core::runtime::helpers::WaitingCaller;
use cntk_reader_core::runtime::pool::{Pool, cpus};
use cntk_reader_core::runtime::{cancel, exit};
use cntk_reader_core::sequence::{SequenceId, SequenceKey};
use cntk_reader_core::stream::LateShapes;
use cntk_reader_core::{Error, ErrorKind, Result};
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

/// Everything between the deserializer and the minibatch.
pub(super) struct Pipeline {
    source: PipelineSource,
    packer: Box<dyn Packer>,
    packing: Packing,
    /// See [`ReaderSettings::lanes_by_epoch`].
    lanes_by_epoch: Option<Vec<u64>>,
    /// Packs several minibatches in parallel, if they are independent of each other.
    parallel: ParallelPacker,
}

/// The packer's feed: the timeline with its chunks.
struct PipelineSource {
    deserializer: Arc<dyn ChunkSource>,
    selector: Selector,
    /// The minibatches of the current batch.
    plan: Plan,
    /// The minibatches of the next batch, which are selected while the current one is packed.
    ahead: Plan,
    /// Fetches sequences from chunks that do not hold them ready to use; `None` if all chunks do.
    fetcher: Option<Fetcher>,
    truncated: bool,
    invalid: InvalidSequences,
    /// See [`Progress::selected`].
    selected: u64,
    /// The number of the current batch.
    batch: u64,
}

/// Counts invalid sequences.
struct InvalidSequences {
    count: u64,
    /// Number tolerated; one more is an error.
    tolerated: u64,
}

impl Pipeline {
    pub(super) fn new(
        options: &ReaderSettings,
        deserializer: &AnyDeserializer,
        corpus: &Arc<Corpus>,
        shapes: &Arc<LateShapes>,
        pool: Pool,
        packing_threads: usize,
        memory: &MinibatchMemory,
    ) -> Result<Self> {
        let explain = Explain::new(deserializer, corpus, options.packing_key.clone());
        let truncated = matches!(options.packing, Packing::Truncated { .. });
        let threads = options.multithreaded.then(|| pool.threads());
        let selector = Selector::new(TimelineSource::new(options, deserializer, pool)?);
        let deserializer = deserializer.source();
        // With fetched sequences, minibatches are packed one by one.
        let is_fetched = deserializer.facts().is_fetched;
        let copying = threads.filter(|_| is_fetched).map_or(1, |threads| threads.min(cpus()));
        let fetcher = Fetcher::of(&*deserializer, &explain, truncated, shapes, threads);
        let streams = deserializer.streams().to_vec();
        let packer: Box<dyn Packer> = match options.packing {
            Packing::Sequence => {
                let packer = SequencePacker::new(streams, options.local_timeline);
                Box::new(packer.of_memory(memory).copied_by(copying).explained(explain))
            }
            Packing::Frame => {
                let packer = SequencePacker::of_frames(streams, options.local_timeline);
                Box::new(packer.of_memory(memory).copied_by(copying).explained(explain))
            }
            Packing::Truncated { .. } => {
                let mut packer = TruncatedPacker::new(streams, options.local_timeline);
                if options.in_place_of.is_some() {
                    packer = packer.with_last_of_repeats();
                }
                if !options.expand_sparse {
                    packer = packer.with_sparse_streams();
                }
                Box::new(packer.of_memory(memory).explained(explain))
            }
        };
        let source = PipelineSource {
            deserializer,
            selector,
            plan: Plan::default(),
            ahead: Plan::default(),
            fetcher,
            truncated,
            invalid: InvalidSequences { count: 0, tolerated: options.max_errors },
            selected: 0,
            batch: 0,
        };
        Ok(Pipeline {
            source,
            packer,
            packing: options.packing,
            lanes_by_epoch: options.lanes_by_epoch.clone(),
            parallel: ParallelPacker::new(packing_threads, memory),
        })
    }

    /// Starts an epoch at its first sample. CNTK 2.7: the configuration's truncation length and
    /// right splice replace the epoch's.
    pub(super) fn start_epoch(&mut self, epoch: &Epoch) -> Result<Epoch> {
        let mut epoch = *epoch;
        if let Packing::Truncated { length, right_splice } = self.packing {
            epoch.read.truncation_length = length;
            epoch.read.right_splice = right_splice;
        }
        if let Some(lanes) = &self.lanes_by_epoch {
            epoch = epoch.truncated_to_its_minibatch_size(lanes)?;
        }
        epoch.read.workers().check()?;
        // A rejected epoch changes nothing.
        self.packer.check(&epoch.read.pack())?;
        self.source.start_epoch(&epoch)?;
        self.packer.configure(&epoch.read.pack())?;
        self.packer.reset();
        Ok(epoch)
    }

    pub(super) fn configure(&mut self, config: &ReadConfig) -> Result<()> {
        config.workers().check()?;
        self.packer.configure(&config.pack())?;
        self.source.selector.timeline.configure(&config.workers())
    }

    /// Returns a handle with which a caller helps while another thread has the pipeline.
    pub(super) fn waiting_caller(&self) -> WaitingCaller {
        self.parallel.waiting_caller()
    }

    /// Reads up to `wanted` minibatches into an empty batch, packing on up to `threads` threads.
    pub(super) fn read(&mut self, wanted: usize, threads: usize, batch: &mut PrefetchBatch) {
        let start = Instant::now();
        self.source.begin_batch();
        // Packing reads the arrays of users' chunks in place, so the process must not exit
        // meanwhile.
        let inside = self.source.deserializer.facts().is_foreign.then(exit::enter);
        if let Some(None) = inside {
            let error = exit::refusal("nothing is read any more");
            return self.deliver(Err(error), batch);
        }
        let failure = match (self.packer.spec(), &self.source) {
            (Some((spec, limits)), PipelineSource { selector, fetcher: None, .. })
                if selector.is_global() =>
            {
                let spec = Arc::clone(spec);
                let (planned, failure) = self.source.plan(limits, wanted);
                // After a failure, the timeline stays at its position for delivery.
                let ahead = if failure.is_none() && self.source.plan.goes_on() { wanted } else { 0 };
                // Always pack the selected sequences, even if cancelled: no other thread will, and
                // it is fast.
                let packed = cancel::apart(|| self.pack((spec, limits), planned, ahead, threads, batch));
                failure.or(packed.err())
            }
            _ => self.packer.read(&mut self.source).map(|minibatch| self.deliver(Ok(minibatch), batch)).err(),
        };
        if let Some(error) = failure {
            self.deliver(Err(error), batch);
        }
        batch.took = start.elapsed();
    }

    /// Whether there is an undelivered selection.
    pub(super) fn is_ahead(&self) -> bool {
        let PipelineSource { selector, plan, ahead, .. } = &self.source;
        selector.is_ahead() || !plan.is_empty() || !ahead.is_empty()
    }

    fn deliver(&mut self, minibatch: Result<Minibatch>, batch: &mut PrefetchBatch) {
        batch.ready.push_back(match self.progress(std::mem::take(&mut batch.spare)) {
            Ok(progress) => Assembled { minibatch, progress },
            // The reader returns to the end of the previous minibatch.
            Err(error) => Assembled { minibatch: Err(error), progress: Progress::default() },
        });
    }

    /// Packs planned minibatches, and appends them to the batch in order. Meanwhile, plans up to
    /// `wanted_ahead` minibatches of the next batch.
    fn pack(
        &mut self,
        (spec, limits): (Arc<PackSpec>, Limits),
        planned: Range<usize>,
        wanted_ahead: usize,
        threads: usize,
        batch: &mut PrefetchBatch,
    ) -> Result<()> {
        let PipelineSource { deserializer, selector, plan, ahead, invalid, selected, batch: number, .. } =
            &mut self.source;
        let TimelineSource::Global(_, store) = &selector.timeline else { return Ok(()) };
        let chunks = Arc::clone(store.chunks());
        let context = PackContext { spec, deserializer: Arc::clone(deserializer), chunks };
        let plan_ahead = || selector.fill_ahead(ahead, limits, wanted_ahead);
        self.parallel.pack(plan.taken(planned), &context, threads, plan_ahead, |planned, packed| {
            // An excess of invalid sequences takes precedence over packing errors: CNTK counts
            // before it packs.
            let counted = invalid.add(packed.invalid, packed.delivers);
            *selected += planned.selection.sequences.len() as u64;
            let progress = Progress {
                position: planned.position,
                invalid: invalid.count,
                selected: *selected,
                batch: *number,
                ..Progress::default()
            };
            batch.ready.push_back(Assembled { minibatch: counted.and(packed.minibatch), progress });
        })
    }

    /// Returns the current progress, for [`Pipeline::resume`]. Reuses the memory of `before`.
    pub(super) fn progress(&self, before: Progress) -> Result<Progress> {
        let mut queues = before.queues;
        self.packer.queued(&mut queues)?;
        let PipelineSource { selector, invalid, selected, batch, .. } = &self.source;
        Ok(Progress {
            position: selector.timeline.position(),
            invalid: invalid.count,
            queues,
            held: self.held_samples(),
            selected: *selected,
            batch: *batch,
        })
    }

    /// Returns the number of samples held by the packer for later minibatches.
    pub(super) fn held_samples(&self) -> u64 {
        self.packer.held_samples()
    }

    /// Continues at the position in CNTK's state. Drops queued sequences.
    pub(super) fn set_state(&mut self, state: &[(&str, u64)]) -> Result<()> {
        self.source.forget_planned();
        match &mut self.source.selector.timeline {
            TimelineSource::Global(timeline, _) => {
                timeline.seek(samples_of(state)?)?;
                self.packer.reset();
                Ok(())
            }
            TimelineSource::Local(timeline, _) => {
                let position = local_position_of(state, timeline.keys())?;
                timeline.resume(position)?;
                self.packer.reset();
                Ok(())
            }
        }
    }

    /// Resets the count of errors in the data.
    pub(super) fn forget_errors(&mut self) {
        if let TimelineSource::Global(_, store) = &mut self.source.selector.timeline {
            store.forget_errors();
        }
    }

    /// Returns the number of chunks if they list their sequences only when loaded and all are
    /// empty.
    pub(super) fn empty_chunks(&self) -> Option<u32> {
        match &self.source.selector.timeline {
            TimelineSource::Global(..) => None,
            TimelineSource::Local(timeline, _) => timeline.empty_chunks(),
        }
    }

    /// Returns the start of the epoch just started. Valid until the epoch's first read.
    pub(super) fn epoch_start(&self) -> EpochStart {
        let own = match &self.source.selector.timeline {
            TimelineSource::Global(..) => None,
            TimelineSource::Local(timeline, _) => timeline.limit_in_samples(),
        };
        EpochStart { first: self.source.selector.timeline.position().samples(), own }
    }

    /// Returns CNTK's names for the two numbers of a local timeline's window; empty for a global
    /// timeline.
    pub(super) fn window_keys(&self) -> [&'static str; 2] {
        match &self.source.selector.timeline {
            TimelineSource::Global(..) => [""; 2],
            TimelineSource::Local(timeline, _) => timeline.keys(),
        }
    }

    /// Returns exactly to a position at which [`Pipeline::progress`] was called on this pipeline.
    /// Uncounts errors in the data that only occurred in later batches: these batches were not
    /// delivered, and their chunks are used again.
    pub(super) fn resume(&mut self, progress: &Progress) -> Result<()> {
        self.source.resume(progress)?;
        let source = &mut self.source;
        self.packer.requeue(&progress.queues, &mut |id| source.fetch(id))
    }

    /// Moves a new pipeline to a position at which [`Pipeline::progress`] was called on another
    /// pipeline, with the other's epoch and last configuration. Returns the start of that epoch. On
    /// failure, the pipeline is left between the two positions.
    pub(super) fn restore(
        &mut self,
        epoch: &Epoch,
        read: &ReadConfig,
        progress: &Progress,
    ) -> Result<EpochStart> {
        read.workers().check()?;
        self.source.check(&progress.queues)?;
        self.source.enter_epoch(epoch)?;
        let start = self.epoch_start();
        self.source.selector.timeline.configure(&read.workers())?;
        self.source.resume(progress)?;
        let source = &mut self.source;
        self.packer.restore(&read.pack(), &progress.queues, &mut |id| source.fetch(id))?;
        Ok(start)
    }
}

impl PipelineSource {
    /// Fails if a checkpoint's queues name sequences that the data do not have.
    fn check(&mut self, queues: &[Queue]) -> Result<()> {
        for (id, _) in queues.iter().flat_map(|queue| &queue.sequences) {
            let sequences = match &mut self.selector.timeline {
                TimelineSource::Global(_, store) => store.sequences_of(id.chunk),
                TimelineSource::Local(_, store) if store.chunks().len() <= id.chunk as usize => 0,
                TimelineSource::Local(_, store) => {
                    store.fetch(id.chunk)?.listing().map_or(0, |listing| listing.sequences)
                }
            };
            if id.index >= sequences {
                let message = "The checkpoint is damaged: it has sequences that the data do not have.";
                let detail = "Restore an earlier checkpoint, with its original data.";
                return Err(Error::checkpoint(ExceptionClass::Runtime, message).with_detail(detail));
            }
        }
        Ok(())
    }

    /// Starts an epoch at its first sample.
    fn start_epoch(&mut self, epoch: &Epoch) -> Result<()> {
        self.forget_planned();
        self.selector.timeline.start_epoch(&epoch.timeline())
    }

    /// Sets an epoch that [`PipelineSource::resume`] continues in its middle.
    fn enter_epoch(&mut self, epoch: &Epoch) -> Result<()> {
        self.forget_planned();
        self.selector.timeline.enter_epoch(&epoch.timeline())
    }

    /// Begins a new batch.
    fn begin_batch(&mut self) {
        self.batch += 1;
        if let TimelineSource::Global(_, store) = &mut self.selector.timeline {
            store.begin_batch(self.batch);
        }
    }

    /// Plans minibatches, and takes up to `wanted` of them from the plan. Returns their range, and
    /// the failure that follows them, if any.
    fn plan(&mut self, limits: Limits, wanted: usize) -> (Range<usize>, Option<Error>) {
        if self.plan.is_empty() {
            std::mem::swap(&mut self.plan, &mut self.ahead);
        }
        self.selector.fill(&mut self.plan, limits, wanted, true);
        self.plan.take(wanted)
    }

    /// Drops selections, because the timeline is about to move.
    fn forget_planned(&mut self) {
        self.selector.forget();
        self.plan.clear();
        self.ahead.clear();
    }

    fn resume(&mut self, progress: &Progress) -> Result<()> {
        self.forget_planned();
        (self.invalid.count, self.selected) = (progress.invalid, progress.selected);
        if let TimelineSource::Global(_, store) = &mut self.selector.timeline {
            store.rewind(progress.batch);
        }
        self.selector.timeline.resume(progress.position)
    }

    /// Loads a sequence that the packer held when a checkpoint was taken: its chunk, or the fetched
    /// sequence.
    fn fetch(&mut self, id: SequenceId) -> Result<Arc<dyn Chunk>> {
        let chunk = self.selector.timeline.fetch(id.chunk)?;
        match &mut self.fetcher {
            Some(fetcher) => fetcher.refetch(&*self.deserializer, id, &chunk, self.selector.timeline.sweep()),
            None => Ok(chunk),
        }
    }
}

impl InvalidSequences {
    /// Counts the invalid sequences of a minibatch. Fails if there are too many and the minibatch
    /// has valid ones, as in CNTK 2.7. If it has none, the reader checks the limit at the end of a
    /// sweep (`barren`).
    fn add(&mut self, sequences: u64, delivers: bool) -> Result<()> {
        self.count += sequences;
        if !delivers || self.count <= self.tolerated {
            return Ok(());
        }
        Err(too_many_invalid(self.count, self.tolerated))
    }
}

/// Returns the error for more invalid sequences than tolerated.
pub(super) fn too_many_invalid(count: u64, tolerated: u64) -> Error {
    // CNTK 2.7's message.
    let message = format!(
        "Number of invalid sequences '{count}' in the input exceeded the specified maximum number '{tolerated}'"
    );
    let found = match count {
        1 => format!("1 sequence is invalid, and ‹max_errors› of the reader is {tolerated}."),
        _ => format!("{count} sequences are invalid, and ‹max_errors› of the reader is {tolerated}."),
    };
    let detail = "A sequence is invalid if its data cannot be read in one of the streams, or end before those of the first deserializer. \
                  The warnings above name them, and a check of the data lists all of them. Fix the data, or set ‹max_errors› of the reader \
                  to the number of invalid sequences to tolerate.";
    Error::new(ErrorKind::Data, ExceptionClass::Runtime, message)
        .as_cntk()
        .with_detail(found)
        .with_detail(detail)
}

impl Epoch {
    #[doc(hidden)]
    pub fn timeline(&self) -> EpochConfig {
        let Epoch { read, samples, sweeps, index } = *self;
        EpochConfig { workers: read.workers(), samples, sweeps, index }
    }
}

impl ReadConfig {
    fn workers(&self) -> WorkerConfig {
        WorkerConfig { workers: self.workers, rank: self.rank, cross_sweeps: self.cross_sweeps }
    }

    #[doc(hidden)]
    pub fn pack(&self) -> PackConfig {
        PackConfig {
            workers: self.workers,
            rank: self.rank,
            minibatch: self.minibatch_size,
            truncation: self.truncation_length,
            right_splice: self.right_splice,
        }
    }
}

impl Feed for PipelineSource {
    fn next(&mut self, global: u64, local: u64) -> Result<LoadedSelection<'_>> {
        self.selector.select(global, local, false)?;
        self.selected += self.selector.selection.sequences.len() as u64;
        if let Some(fetcher) = &mut self.fetcher {
            fetcher.fetch(&*self.deserializer, &self.selector.selection, self.selector.timeline.chunks())?;
        }
        let fetcher = self.fetcher.as_ref();
        Ok(LoadedSelection {
            sequences: &self.selector.selection.sequences,
            end_of_sweep: self.selector.selection.end_of_sweep,
            end_of_epoch: self.selector.selection.end_of_epoch,
            chunks: self.selector.timeline.chunks(),
            fetched: fetcher.map(|fetcher| (fetcher.fetched(), fetcher.shapes())),
        })
    }

    fn keep(&mut self, position: usize) -> Option<Arc<dyn Chunk>> {
        match &mut self.fetcher {
            Some(fetcher) => fetcher.keep(position),
            None => {
                let id = self.selector.selection.sequences.get(position)?;
                self.selector.timeline.chunks().get(id.chunk as usize)?.clone()
            }
        }
    }

    fn release(&mut self) {
        if let Some(fetcher) = &mut self.fetcher {
            fetcher.release();
        }
    }

    fn count_invalid(&mut self, sequences: u64, delivers: bool) -> Result<()> {
        let failure = self.fetcher.as_mut().and_then(Fetcher::take_failure);
        // An image that makes CNTK fail must not pass without an error here.
        let ends_alone = failure.as_ref().is_some_and(|failure| failure.ends_alone);
        let counted = self.invalid.add(sequences, delivers || ends_alone);
        if counted.is_err() && ends_alone {
            // The error replaces these sequences, and the next read continues after them.
            self.invalid.count -= sequences;
        }
        counted.map_err(|limit| match failure {
            Some(Failure { error, ends_alone: true }) => {
                let advice = "Set ‹max_errors› of the reader to the number of images that may be left out.";
                error.with_detail(format!("{}.", limit.message())).with_detail(advice)
            }
            Some(Failure { error, .. }) => limit.with_detail(format!("The first of this minibatch: {error}")),
            None => limit,
        })
    }

    fn keys(&self, sequences: &[SequenceId], keys: &mut Vec<SequenceKey>) {
        match &self.fetcher {
            Some(fetcher) => fetcher.keys(sequences, keys),
            None => self.deserializer.reported_keys(sequences, self.truncated, keys),
        }
    }
}
