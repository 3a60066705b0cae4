//! The pipeline: timeline, chunks and packer, one batch of minibatches per read. Reads nothing ahead but chunks.

use super::checkpoint::Progress;
use super::epoch::{Epoch, ReadConfig};
use super::fetcher::Fetcher;
use super::inspect::EpochStart;
use super::listed::ListedChunks;
use super::parallel_packer::{PackContext, ParallelPacker, PlannedMinibatch};
use super::position::{ReaderPosition, local_position_of, samples_of};
use super::prefetch_batch::{Assembled, PrefetchBatch};
use super::store::ChunkStore;
use crate::config::options::{Order, Packing, ReaderSettings};
use crate::corpus::Corpus;
use crate::deserialize::{AnyDeserializer, Chunk, ChunkSource};
use crate::error::ExceptionClass;
use crate::helpers::WaitingCaller;
use crate::memory::Meter;
use crate::pack::explain::Explain;
use crate::pack::{
    Feed, Limits, LoadedSelection, Minibatch, PackConfig, PackSpec, Packer, Queue, SequencePacker,
    TruncatedPacker,
};
use crate::pool::{Pool, cpus};
use crate::randomize::block::BlockRandomizer;
use crate::randomize::in_order::InOrder;
use crate::randomize::local::LocalTimeline;
use crate::randomize::{EpochConfig, Selection, Timeline, WorkerConfig};
use crate::sequence::{ChunkId, SequenceId, SequenceKey};
use crate::stream::LateShapes;
use crate::{Error, ErrorKind, Result, cancel, exit};
use std::sync::Arc;
use std::time::Instant;

/// Everything between the deserializer and the minibatch.
pub(super) struct Pipeline {
    source: Source,
    packer: Box<dyn Packer>,
    packing: Packing,
    /// See [`ReaderSettings::lanes_by_epoch`].
    lanes_by_epoch: Option<Vec<u64>>,
    /// Packs several minibatches in parallel, where each can be packed without the ones before it.
    parallel: ParallelPacker,
    /// The minibatches of the batch that is being read. Emptied, not freed, after each batch.
    planned: Vec<PlannedMinibatch>,
    /// Objects for later plans, kept for their memory.
    spare_planned: Vec<PlannedMinibatch>,
}

/// The timeline with the chunks it needs: what the packer is fed from.
struct Source {
    deserializer: Arc<dyn ChunkSource>,
    timeline: TimelineSource,
    /// Fetches sequences from chunks that do not have them ready; `None` if every chunk does.
    fetcher: Option<Fetcher>,
    selection: Selection,
    /// Whether `selection` was drawn and is left for the next batch.
    is_drawn: bool,
    truncated: bool,
    /// Invalid sequences so far.
    invalid: u64,
    /// Invalid sequences that are tolerated; one more is an error.
    tolerated: u64,
}

/// A timeline of one of the two kinds, with the store that goes with it.
enum TimelineSource {
    /// Over a table of chunks.
    Global(Box<dyn Timeline>, ChunkStore),
    /// Over chunks that list their sequences when they are loaded.
    Local(Box<LocalTimeline>, ListedChunks),
}

impl Pipeline {
    pub(super) fn new(
        options: &ReaderSettings,
        deserializer: &AnyDeserializer,
        corpus: &Arc<Corpus>,
        shapes: &Arc<LateShapes>,
        pool: Pool,
        packing_threads: usize,
        meter: &Meter,
    ) -> Result<Self> {
        let explain = Explain::new(deserializer, corpus, options.packing_key.clone());
        let truncated = matches!(options.packing, Packing::Truncated { .. });
        let threads = options.multithreaded.then(|| pool.clone());
        let timeline = TimelineSource::new(options, deserializer, pool)?;
        let deserializer = deserializer.source();
        // Minibatches whose sequences are fetched are packed one by one.
        let is_fetched = deserializer.is_fetched();
        let copying = threads.as_ref().filter(|_| is_fetched).map_or(1, |pool| pool.threads().min(cpus()));
        let fetcher = Fetcher::of(&*deserializer, &explain, truncated, shapes, threads);
        let streams = deserializer.streams().to_vec();
        let packer: Box<dyn Packer> = match options.packing {
            Packing::Sequence => {
                let packer = SequencePacker::new(streams, options.local_timeline);
                Box::new(packer.metered(meter).copied_by(copying).explained(explain))
            }
            Packing::Frame => {
                let packer = SequencePacker::of_frames(streams, options.local_timeline);
                Box::new(packer.metered(meter).copied_by(copying).explained(explain))
            }
            Packing::Truncated { .. } => {
                let packer = TruncatedPacker::new(streams, options.local_timeline);
                Box::new(packer.metered(meter).explained(explain))
            }
        };
        let source = Source {
            deserializer,
            timeline,
            fetcher,
            selection: Selection::default(),
            is_drawn: false,
            truncated,
            invalid: 0,
            tolerated: options.max_errors,
        };
        Ok(Pipeline {
            source,
            packer,
            packing: options.packing,
            lanes_by_epoch: options.lanes_by_epoch.clone(),
            parallel: ParallelPacker::new(packing_threads, meter),
            planned: Vec::new(),
            spare_planned: Vec::new(),
        })
    }

    /// Starts an epoch at its first sample. CNTK 2.7: the configuration's truncation length and right splice take the
    /// place of the epoch's.
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
        // An epoch that is refused leaves everything as it was.
        self.packer.check(&epoch.read.pack())?;
        self.source.start_epoch(&epoch)?;
        self.packer.configure(&epoch.read.pack())?;
        self.packer.reset();
        Ok(epoch)
    }

    pub(super) fn configure(&mut self, config: &ReadConfig) -> Result<()> {
        config.workers().check()?;
        self.packer.configure(&config.pack())?;
        self.source.timeline.configure(&config.workers())
    }

    /// What a caller needs to help while another thread has the pipeline.
    pub(super) fn waiting_caller(&self) -> WaitingCaller {
        self.parallel.waiting_caller()
    }

    /// Reads up to `wanted` minibatches into an empty batch, which up to `threads` threads pack.
    pub(super) fn read(&mut self, wanted: usize, threads: usize, batch: &mut PrefetchBatch) {
        let start = Instant::now();
        // Packing reads the arrays of users' chunks in place, so the process must not end while it runs.
        let inside = self.source.deserializer.is_foreign().then(exit::enter);
        if let Some(None) = inside {
            let error = Error::state("The process ends, so nothing is read any more.");
            return self.deliver(Err(error), batch);
        }
        let failure = match (self.packer.spec(), &self.source) {
            (Some((spec, limits)), Source { timeline: TimelineSource::Global(..), fetcher: None, .. }) => {
                let spec = Arc::clone(spec);
                let failure = self.plan(limits, wanted);
                // What was selected is packed in any case, which is soon done: nobody else would.
                failure.or(cancel::apart(|| self.pack(spec, threads, batch)).err())
            }
            _ => self.packer.read(&mut self.source).map(|minibatch| self.deliver(Ok(minibatch), batch)).err(),
        };
        if let Some(error) = failure {
            self.deliver(Err(error), batch);
        }
        batch.took = start.elapsed();
    }

    /// Whether a selection was drawn that has not been delivered.
    pub(super) fn is_ahead(&self) -> bool {
        self.source.is_drawn
    }

    fn deliver(&mut self, minibatch: Result<Minibatch>, batch: &mut PrefetchBatch) {
        batch.ready.push_back(match self.progress(std::mem::take(&mut batch.spare)) {
            Ok(progress) => Assembled { minibatch, progress },
            // The reader goes back to where the minibatch before it ended.
            Err(error) => Assembled { minibatch: Err(error), progress: Progress::default() },
        });
    }

    /// Selects the sequences of up to `wanted` minibatches of one window. Returns the failure that ended this early, if any;
    /// it is delivered after the minibatches selected before it.
    fn plan(&mut self, limits: Limits, wanted: usize) -> Option<Error> {
        while self.planned.len() < wanted {
            let mut planned = self.spare_planned.pop().unwrap_or_default();
            match self.source.select(limits.global, limits.local, !self.planned.is_empty()) {
                Ok(true) => {
                    std::mem::swap(&mut planned.selection, &mut self.source.selection);
                    planned.position = self.source.timeline.position();
                    let is_last = planned.selection.end_of_epoch;
                    self.planned.push(planned);
                    if is_last {
                        return None;
                    }
                }
                Ok(false) => {
                    self.spare_planned.push(planned);
                    return None;
                }
                Err(error) => return Some(error),
            }
        }
        None
    }

    /// Packs the planned minibatches and appends them to the batch in order.
    fn pack(&mut self, spec: Arc<PackSpec>, threads: usize, batch: &mut PrefetchBatch) -> Result<()> {
        let TimelineSource::Global(_, store) = &self.source.timeline else { return Ok(()) };
        let chunks = Arc::clone(store.chunks());
        let context = PackContext { spec, deserializer: Arc::clone(&self.source.deserializer), chunks };
        let source = &mut self.source;
        self.parallel.pack(&mut self.planned, &context, threads, |planned, packed| {
            // Too many invalid sequences take precedence over an error of packing: CNTK counts before it packs.
            let counted = source.count_invalid(packed.invalid, packed.delivers);
            let progress =
                Progress { position: planned.position, invalid: source.invalid, queues: Vec::new(), held: 0 };
            batch.ready.push_back(Assembled { minibatch: counted.and(packed.minibatch), progress });
        })?;
        self.spare_planned.append(&mut self.planned);
        Ok(())
    }

    /// Where the pipeline stands, for [`Pipeline::resume`]. `before` is overwritten: its memory is used again.
    pub(super) fn progress(&self, before: Progress) -> Result<Progress> {
        let mut queues = before.queues;
        self.packer.queued(&mut queues)?;
        let position = self.source.timeline.position();
        Ok(Progress { position, invalid: self.source.invalid, queues, held: self.held_samples() })
    }

    /// Samples that the packer holds for later minibatches.
    pub(super) fn held_samples(&self) -> u64 {
        self.packer.held_samples()
    }

    /// Continues at the position that CNTK's state names. Queued sequences are dropped.
    pub(super) fn set_state(&mut self, state: &[(&str, u64)]) -> Result<()> {
        self.source.is_drawn = false;
        match &mut self.source.timeline {
            TimelineSource::Global(timeline, _) => {
                let samples = samples_of(state)?;
                self.packer.reset();
                timeline.seek(samples)
            }
            TimelineSource::Local(timeline, _) => {
                let position = local_position_of(state, timeline.keys())?;
                timeline.resume(position)?;
                self.packer.reset();
                Ok(())
            }
        }
    }

    /// Where the epoch begins that was just started. Valid until the epoch's first read.
    pub(super) fn epoch_start(&self) -> EpochStart {
        let own = match &self.source.timeline {
            TimelineSource::Global(..) => None,
            TimelineSource::Local(timeline, _) => timeline.limit_in_samples(),
        };
        EpochStart { first: self.source.timeline.position().samples(), own }
    }

    /// CNTK's names of the two numbers that describe a local timeline's window; empty texts for a global timeline.
    pub(super) fn window_keys(&self) -> [&'static str; 2] {
        match &self.source.timeline {
            TimelineSource::Global(..) => [""; 2],
            TimelineSource::Local(timeline, _) => timeline.keys(),
        }
    }

    /// Returns exactly to the position at which [`Pipeline::progress`] was taken in this pipeline.
    pub(super) fn resume(&mut self, progress: &Progress) -> Result<()> {
        self.source.resume(progress)?;
        let source = &mut self.source;
        self.packer.requeue(&progress.queues, &mut |id| source.fetch(id))
    }

    /// Brings a new pipeline to the position at which [`Pipeline::progress`] was taken in another pipeline. `epoch` is the
    /// epoch that was started there, and `read` the configuration that was last in force. Returns where that epoch starts.
    pub(super) fn restore(
        &mut self,
        epoch: &Epoch,
        read: &ReadConfig,
        progress: &Progress,
    ) -> Result<EpochStart> {
        read.workers().check()?;
        self.source.check(&progress.queues)?;
        self.source.start_epoch(epoch)?;
        let start = self.epoch_start();
        self.source.timeline.configure(&read.workers())?;
        self.source.resume(progress)?;
        let source = &mut self.source;
        self.packer.restore(&read.pack(), &progress.queues, &mut |id| source.fetch(id))?;
        Ok(start)
    }
}

impl Source {
    /// Refuses a checkpoint's queues if they name sequences that the data do not have.
    fn check(&mut self, queues: &[Queue]) -> Result<()> {
        for (id, _) in queues.iter().flat_map(|queue| &queue.sequences) {
            let sequences = match &mut self.timeline {
                TimelineSource::Global(_, store) => store.sequences_of(id.chunk),
                TimelineSource::Local(_, store) if store.chunks().len() <= id.chunk as usize => 0,
                TimelineSource::Local(_, store) => {
                    store.fetch(id.chunk)?.listing().map_or(0, |listing| listing.sequences)
                }
            };
            if id.index >= sequences {
                let message = "The checkpoint is damaged: it has sequences that the data do not have.";
                let detail = "Restore an earlier checkpoint, with the data that it was made with.";
                return Err(Error::checkpoint(ExceptionClass::Runtime, message).with_detail(detail));
            }
        }
        Ok(())
    }

    fn start_epoch(&mut self, epoch: &Epoch) -> Result<()> {
        self.is_drawn = false;
        self.timeline.start_epoch(&epoch.timeline())
    }

    /// Selects the next sequences, and loads their chunks if they are not in memory. With `stays`, the window does not move:
    /// returns false if the sequences need another window, and keeps the selection for the next call.
    fn select(&mut self, global: u64, local: u64, stays: bool) -> Result<bool> {
        match &mut self.timeline {
            TimelineSource::Global(timeline, store) => {
                if !std::mem::take(&mut self.is_drawn) {
                    store.begin(&**timeline)?;
                    timeline.next(global, local, &mut self.selection)?;
                }
                if self.selection.passed || !self.selection.sequences.is_empty() {
                    if stays && store.is_left_by(&**timeline) {
                        self.is_drawn = true;
                        return Ok(false);
                    }
                    store.follow(&**timeline, &self.selection)?;
                }
            }
            TimelineSource::Local(timeline, store) => timeline.next(local, store, &mut self.selection)?,
        }
        Ok(true)
    }

    fn resume(&mut self, progress: &Progress) -> Result<()> {
        self.is_drawn = false;
        self.invalid = progress.invalid;
        self.timeline.resume(progress.position)
    }

    /// Loads a sequence that the packer held when a checkpoint was made: its chunk, or the fetched sequence.
    fn fetch(&mut self, id: SequenceId) -> Result<Arc<dyn Chunk>> {
        let chunk = self.timeline.fetch(id.chunk)?;
        match &mut self.fetcher {
            Some(fetcher) => fetcher.refetch(&*self.deserializer, id, &chunk, self.timeline.sweep()),
            None => Ok(chunk),
        }
    }
}

impl TimelineSource {
    fn new(options: &ReaderSettings, deserializer: &AnyDeserializer, pool: Pool) -> Result<TimelineSource> {
        let (order, pace) = (options.order, options.pace());
        let deserializer = match deserializer {
            AnyDeserializer::Known(deserializer) => deserializer,
            AnyDeserializer::Listing(deserializer) => {
                let timeline = Box::new(LocalTimeline::new(deserializer.chunk_count(), order)?);
                return Ok(TimelineSource::Local(timeline, ListedChunks::new(deserializer, pool)?));
            }
        };
        let timeline: Box<dyn Timeline> = match order {
            Order::InOrder => Box::new(InOrder::new(deserializer.clone()).at_pace(pace)),
            Order::Block { window, seed } => {
                Box::new(BlockRandomizer::new(deserializer.clone(), window, seed).at_pace(pace))
            }
        };
        Ok(TimelineSource::Global(timeline, ChunkStore::new(deserializer.clone(), pool)))
    }

    fn start_epoch(&mut self, epoch: &EpochConfig) -> Result<()> {
        match self {
            TimelineSource::Global(timeline, _) => timeline.start_epoch(epoch),
            TimelineSource::Local(timeline, _) => timeline.start_epoch(epoch),
        }
    }

    fn configure(&mut self, workers: &WorkerConfig) -> Result<()> {
        match self {
            TimelineSource::Global(timeline, _) => timeline.configure(workers),
            TimelineSource::Local(timeline, _) => timeline.configure(workers),
        }
    }

    fn position(&self) -> ReaderPosition {
        match self {
            TimelineSource::Global(timeline, _) => ReaderPosition::Global(timeline.position()),
            TimelineSource::Local(timeline, _) => ReaderPosition::Local(timeline.position()),
        }
    }

    /// The sweep, from 0, that the timeline is in.
    fn sweep(&self) -> u64 {
        match self {
            TimelineSource::Global(timeline, store) => {
                timeline.position().samples.checked_div(store.sweep_samples()).unwrap_or(0)
            }
            TimelineSource::Local(timeline, _) => timeline.position().sweeps,
        }
    }

    fn resume(&mut self, position: ReaderPosition) -> Result<()> {
        match (self, position) {
            (TimelineSource::Global(timeline, _), ReaderPosition::Global(position)) => {
                timeline.resume(position)
            }
            (TimelineSource::Local(timeline, _), ReaderPosition::Local(position)) => {
                timeline.resume(position)
            }
            _ => {
                let message = "The checkpoint is of another kind of timeline.";
                let detail = "Restore it with the data and the configuration that it was made with.";
                Err(Error::checkpoint(ExceptionClass::Runtime, message).with_detail(detail))
            }
        }
    }

    fn fetch(&mut self, chunk: ChunkId) -> Result<Arc<dyn Chunk>> {
        match self {
            TimelineSource::Global(_, store) => store.fetch(chunk),
            TimelineSource::Local(_, store) => store.fetch(chunk),
        }
    }

    /// The loaded chunks, by chunk id.
    fn chunks(&self) -> &[Option<Arc<dyn Chunk>>] {
        match self {
            TimelineSource::Global(_, store) => store.chunks(),
            TimelineSource::Local(_, store) => store.chunks(),
        }
    }
}

impl Epoch {
    pub(crate) fn timeline(&self) -> EpochConfig {
        let Epoch { read, samples, sweeps, index } = *self;
        EpochConfig { workers: read.workers(), samples, sweeps, index }
    }
}

impl ReadConfig {
    fn workers(&self) -> WorkerConfig {
        WorkerConfig { workers: self.workers, rank: self.rank, cross_sweeps: self.cross_sweeps }
    }

    pub(crate) fn pack(&self) -> PackConfig {
        PackConfig {
            workers: self.workers,
            rank: self.rank,
            minibatch: self.minibatch_size,
            truncation: self.truncation_length,
            right_splice: self.right_splice,
        }
    }
}

impl Feed for Source {
    fn next(&mut self, global: u64, local: u64) -> Result<LoadedSelection<'_>> {
        self.select(global, local, false)?;
        if let Some(fetcher) = &mut self.fetcher {
            fetcher.fetch(&*self.deserializer, &self.selection, self.timeline.chunks())?;
        }
        let fetcher = self.fetcher.as_ref();
        Ok(LoadedSelection {
            sequences: &self.selection.sequences,
            end_of_sweep: self.selection.end_of_sweep,
            end_of_epoch: self.selection.end_of_epoch,
            chunks: self.timeline.chunks(),
            fetched: fetcher.map(|fetcher| (fetcher.fetched(), fetcher.shapes())),
        })
    }

    fn keep(&mut self, position: usize) -> Option<Arc<dyn Chunk>> {
        match &mut self.fetcher {
            Some(fetcher) => fetcher.keep(position),
            None => {
                let id = self.selection.sequences.get(position)?;
                self.timeline.chunks().get(id.chunk as usize)?.clone()
            }
        }
    }

    fn release(&mut self) {
        if let Some(fetcher) = &mut self.fetcher {
            fetcher.release();
        }
    }

    fn count_invalid(&mut self, sequences: u64, delivers: bool) -> Result<()> {
        self.invalid += sequences;
        if !delivers || self.invalid <= self.tolerated {
            return Ok(());
        }
        // CNTK 2.7's message.
        let message = format!(
            "Number of invalid sequences '{}' in the input exceeded the specified maximum number '{}'",
            self.invalid, self.tolerated
        );
        let detail = "A sequence is invalid if its data cannot be read in one of the streams, or end before those of the first deserializer. \
                      Warnings before this name them, and a check of the data lists all. Mend the data, or set 'maxErrors' of the reader \
                      to the number of invalid sequences to be left out.";
        Err(Error::new(ErrorKind::Data, ExceptionClass::Runtime, message).with_detail(detail))
    }

    fn keys(&self, sequences: &[SequenceId], keys: &mut Vec<SequenceKey>) {
        match &self.fetcher {
            Some(fetcher) => fetcher.keys(sequences, keys),
            None => self.deserializer.reported_keys(sequences, self.truncated, keys),
        }
    }
}
