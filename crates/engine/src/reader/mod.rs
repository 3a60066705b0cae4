//! The reader: builds the pipeline from its options, and prefetches one batch of minibatches for
//! the caller.

#![allow(unsafe_code, reason = "a field that is dropped before the others")]

mod barren;
pub mod build;
mod capacity;
mod checkpoint;
mod engine;
mod epoch;
mod epochs;
mod fetcher;
mod handoff;
mod inspect;
mod listed;
mod next;
pub mod parallel_packer;
mod pipeline;
mod position;
mod prefetch_batch;
mod selector;
pub mod settings;
mod store;
#[cfg(test)]
mod tests;

pub use build::Extensions;
pub use epoch::{Epoch, ReadConfig};
pub use epochs::EpochState;
pub use inspect::{EpochProgress, Member, MemoryUse, Sizes};
pub use position::{CntkState, LOCAL_KEYS, POSITION_KEY};

use crate::pack::{MinibatchMemory, Packing, PageLock, output_streams};
use crate::randomize::{Order, WindowSize};
use crate::reader::settings::ReaderSettings;
use barren::BarrenSweep;
use capacity::Capacity;
use checkpoint::{Checkpoint, Facts, Progress, Values};
use cntk_reader_core::corpus::Corpus;
use cntk_reader_core::error::ExceptionClass;
use cntk_reader_core::format::AnyDeserializer;
use cntk_reader_core::runtime::cancel::{self, Canceller};
use cntk_reader_core::runtime::exit;
use cntk_reader_core::runtime::fork::Process;
use cntk_reader_core::runtime::log::{Level, Logger};
use cntk_reader_core::runtime::pool::Pool;
use cntk_reader_core::stream::{LateShapes, StreamInfo};
use cntk_reader_core::{Error, ErrorKind, Result};
use engine::{Engine, Prefetch, Refill, unusable};
use inspect::{EpochStart, Inspection};
use parallel_packer::PackingThreads;
use pipeline::Pipeline;
use std::mem::ManuallyDrop;
use std::sync::Arc;
use std::time::Instant;

/// Reads minibatches.
///
/// *Threads*: it may move between threads, but only one may use it at a time. *Fork*: in a child
/// process, every call fails, and dropping it leaks its memory instead of waiting for threads that
/// do not exist there.
pub struct Reader {
    streams: Vec<StreamInfo>,
    shapes: Arc<LateShapes>,
    corpus: Arc<Corpus>,
    facts: Facts,
    /// CNTK's names for the two numbers of a local timeline's window.
    window_keys: [&'static str; 2],
    log: Logger,
    /// Workers get whole chunks, instead of sequences in turn.
    deals_chunks: bool,
    /// All workers read the same number of minibatches.
    lockstep: bool,
    /// The number of workers in the last warning.
    warned_workers: Option<u64>,
    /// Minibatches are truncated.
    is_truncated: bool,
    /// The number of workers and the rank of a restored checkpoint, if no other worker can continue
    /// exactly from it. Reset by the next read.
    bound: Option<(u64, u64)>,
    /// The number of workers and the rank set by the caller. Restoring a checkpoint does not change
    /// them.
    worker: Option<(u64, u64)>,
    /// Truncation sizes are accepted: minibatches are truncated, or the sizes are ignored, as in
    /// CNTK.
    takes_truncation: bool,
    /// The current epoch and configuration; `None` before the first epoch.
    epoch: Option<(Epoch, ReadConfig)>,
    /// The state of that epoch, as known to the caller.
    state: EpochState,
    /// Whether its last minibatch was delivered.
    is_ended: bool,
    /// The start of that epoch.
    start: EpochStart,
    inspection: Inspection,
    /// The memory of all minibatches, in use or idle.
    memory: MinibatchMemory,
    /// The end of the last delivered minibatch: the position for checkpoints, regardless of
    /// prefetching.
    delivered: Progress,
    /// Detects sweeps without data; `None` in CNTK's place, where empty sweeps are legal.
    barren: Option<BarrenSweep>,
    /// Cancels calls.
    canceller: Option<Canceller>,
    /// Work left to the next call by a cancelled or failed one.
    unsettled: Unsettled,
    /// Sequences are fetched. A cancelled call does not restart that: it continues on the prefetch
    /// thread.
    is_fetched: bool,
    /// Owns the threads and the memory that they write to; see `Drop`.
    engine: ManuallyDrop<Engine>,
    process: Process,
}

/// Work to be done before the pipeline is used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unsettled {
    Nothing,
    /// The pipeline has passed the last delivered minibatch.
    Position,
    /// Like `Position`, past a minibatch that could not be read for now: prefetched minibatches
    /// must not be delivered.
    Beyond,
    /// A call that changes the epoch, the configuration or the position was cancelled.
    Epoch,
}

impl Reader {
    /// Builds a reader: opens and indexes its files, but loads no data yet. A large text file that
    /// is read in its own order is indexed during reading; an error past its beginning is reported
    /// by the minibatch that needs the data.
    pub fn open(options: &ReaderSettings) -> Result<Reader> {
        Reader::open_with(options, &Extensions::default())
    }

    /// Builds a reader that may use extensions from outside the library.
    pub fn open_with(options: &ReaderSettings, others: &Extensions<'_>) -> Result<Reader> {
        let process = Process::current();
        let pool = Pool::shared()?;
        let mut reader = others.run(|| {
            let corpus = build::corpus(options);
            let source = build::deserializer(options, others, &corpus, &pool)?;
            if source.0.source().facts().is_foreign {
                exit::register();
            }
            let packing_threads = PackingThreads::of(&pool);
            Reader::over(source, options, corpus, pool.clone(), packing_threads, process)
        })?;
        reader.canceller = others.canceller.cloned();
        Ok(reader)
    }

    /// Builds a reader over an open deserializer.
    pub fn of_opened(
        deserializer: AnyDeserializer,
        options: &ReaderSettings,
        corpus: Arc<Corpus>,
        pool: Pool,
    ) -> Result<Reader> {
        let packing_threads = PackingThreads::of(&pool);
        Reader::over((deserializer, Vec::new()), options, corpus, pool, packing_threads, Process::current())
    }

    /// Sets the canceller of this reader's calls.
    #[cfg(any(test, feature = "test-support"))]
    pub fn set_canceller(&mut self, canceller: &Canceller) {
        self.canceller = Some(canceller.clone());
    }

    /// Returns the number of prefetched minibatches.
    #[cfg(any(test, feature = "test-support"))]
    pub fn minibatches_ready(&self) -> usize {
        self.engine.batch.ready.len()
    }

    /// Builds a reader over an open source, with these threads.
    pub fn over(
        (deserializer, members): (AnyDeserializer, Vec<Member>),
        options: &ReaderSettings,
        corpus: Arc<Corpus>,
        pool: Pool,
        packing_threads: PackingThreads,
        process: Process,
    ) -> Result<Reader> {
        let source = deserializer.source();
        let streams = output_streams(source.streams(), options.packing);
        let facts = Facts::new(options, deserializer.clone());
        let window = match options.order {
            Order::Block { window: WindowSize::Samples(samples), .. } => Some(samples),
            _ => None,
        };
        let inspection = Inspection::new(deserializer.clone(), members, window);
        let memory = MinibatchMemory::default();
        let prefetch = Prefetch::of(options, &*source);
        let is_fetched = source.facts().is_fetched;
        let shapes = Arc::new(LateShapes::new(streams.len()));
        let pipeline =
            Pipeline::new(options, &deserializer, &corpus, &shapes, pool, packing_threads.all, &memory)?;
        let pipeline = Box::new(pipeline);
        // Nothing is queued yet, so this needs no memory.
        let delivered = pipeline.progress(Progress::default()).unwrap_or_default();
        Ok(Reader {
            streams,
            shapes,
            corpus,
            facts,
            window_keys: pipeline.window_keys(),
            log: Logger { trace_level: options.trace_level, front_end: options.front_end },
            deals_chunks: matches!(options.order, Order::Block { .. }),
            lockstep: options.lockstep,
            warned_workers: None,
            is_truncated: matches!(options.packing, Packing::Truncated { .. }),
            bound: None,
            worker: None,
            takes_truncation: options.in_place_of.is_some()
                || matches!(options.packing, Packing::Truncated { .. })
                || has_images_alone(options),
            epoch: None,
            state: EpochState::Started,
            is_ended: false,
            start: EpochStart::default(),
            inspection,
            memory,
            delivered,
            barren: options.in_place_of.is_none().then(|| BarrenSweep::new(options.max_errors)),
            canceller: None,
            unsettled: Unsettled::Nothing,
            is_fetched,
            engine: ManuallyDrop::new(Engine::new(pipeline, prefetch, packing_threads)),
            process,
        })
    }

    /// Returns the streams as delivered, by number: sparse streams are dense in truncated mode.
    pub fn streams(&self) -> &[StreamInfo] {
        &self.streams
    }

    /// Returns the shapes discovered with the first data, for streams whose descriptions leave them
    /// open.
    pub fn shapes(&self) -> &Arc<LateShapes> {
        &self.shapes
    }

    /// Returns the corpus, which maps sequence keys to text.
    pub fn corpus(&self) -> &Arc<Corpus> {
        &self.corpus
    }

    /// Changes sizes, workers and flags between two minibatches. The position stays, but data
    /// queued in truncated mode are dropped, as in CNTK 2.7.
    pub fn configure(&mut self, config: &ReadConfig) -> Result<()> {
        let (epoch, _) = self.epoch()?;
        self.check_sizes(config)
            .and_then(|()| self.check_capacity(&epoch, config))
            .and_then(|()| self.check_bound(config))
            .map_err(|error| self.worded(error))?;
        let progress = self.change(|pipeline| {
            pipeline.configure(config)?;
            pipeline.progress(Progress::default())
        })?;
        self.epoch = Some((epoch, *config));
        self.worker = Some((config.workers, config.rank));
        self.delivered = progress;
        self.warn_of_idle_workers(config.workers);
        Ok(())
    }

    /// Warns, once for each number of workers, if there are fewer chunks than workers.
    fn warn_of_idle_workers(&mut self, workers: u64) {
        if !self.deals_chunks || self.warned_workers == Some(workers) {
            return;
        }
        if let Some(warning) = self.inspection.about_idle_workers(workers, self.lockstep) {
            self.warned_workers = Some(workers);
            self.log.write(Level::Warning, &warning);
        }
    }

    /// Returns the current sizes, workers and flags.
    pub fn config(&self) -> Result<ReadConfig> {
        self.epoch().map(|(_, read)| read)
    }

    fn move_barren(&mut self, to: fn(&mut BarrenSweep, &Progress)) {
        if let Some(barren) = &mut self.barren {
            to(barren, &self.delivered);
        }
    }

    /// Gets the next batch. Returns false if it is not ready by the `deadline`: the thread keeps it
    /// for the next call.
    fn refill(&mut self, deadline: Option<Instant>) -> Result<bool> {
        self.settle()?;
        let is_apart = self.is_fetched && cancel::is_possible();
        match self.engine.refill(is_apart, deadline, self.unsettled == Unsettled::Nothing)? {
            Refill::Ready => Ok(true),
            Refill::Pending => Ok(false),
            Refill::Cancelled(error) => {
                self.unsettled = Unsettled::Position;
                if self.engine.is_ready() { Ok(true) } else { Err(error) }
            }
        }
    }

    /// Returns the amount of data. With several deserializers, counts the sequences that all of
    /// them have.
    pub fn sizes(&self) -> Sizes {
        self.inspection.sizes()
    }

    /// Returns the deserializers in the configuration's order; the first one is primary.
    pub fn members(&self) -> &[Member] {
        self.inspection.members()
    }

    /// Returns the progress of the epoch at the end of the last delivered minibatch, regardless of
    /// prefetching. [`Reader::restore`] restores it as well. Fails before the first epoch.
    pub fn progress(&self) -> Result<EpochProgress> {
        let (epoch, _) = self.epoch()?;
        self.inspection.progress(&epoch, self.start, &self.delivered)
    }

    /// Whether the workers read in lockstep. In that case, a minibatch without data is a step like
    /// any other, up to the end of the epoch.
    pub fn is_in_lockstep(&self) -> bool {
        self.lockstep
    }

    /// Whether minibatches have pieces of sequences, cut after a fixed number of steps.
    pub fn is_truncated(&self) -> bool {
        self.is_truncated
    }

    /// Returns the memory in use. Counts the arrays of chunks, minibatches and indexes, but not the
    /// small objects around them; for users' deserializers, the arrays that they provide.
    pub fn memory(&self) -> MemoryUse {
        self.inspection.memory(self.memory.meter().bytes())
    }

    /// Page-locks the large blocks of minibatches packed from now on, so that a device can copy
    /// from them directly. The caller must keep each minibatch until the device is done. Only the
    /// first call has an effect.
    pub fn lock_pages(&self, by: Arc<dyn PageLock>) {
        self.memory.lock_pages(by);
    }

    /// Suggests a `chunkSizeInBytes` with which this many workers share the data evenly.
    ///
    /// Randomized sequences go to the worker to which their chunk is assigned. So a window should
    /// have several chunks for each worker. The suggestion is `bytes of a window / (8 * workers)`,
    /// between 256 KiB and CNTK's default of 32 MiB, and less than 256 KiB only if all data would
    /// otherwise have fewer than 8 chunks per worker. The bytes of a window given in samples are
    /// its proportional share of the primary deserializer's file; a window given in chunks counts
    /// as the whole file. Without a file, as for users' deserializers, the suggestion is the
    /// default.
    pub fn suggest_chunk_size(&self, workers: u64) -> u64 {
        self.inspection.suggest_chunk_size(workers)
    }

    /// Returns CNTK's checkpoint state at the end of the last delivered minibatch.
    pub fn state(&self) -> CntkState {
        self.delivered.position.state(self.window_keys)
    }

    /// Restores CNTK's checkpoint state. Ignores unknown keys, but fails if one is missing.
    ///
    /// In truncated mode, this loses queued sequences, as in CNTK 2.7; [`Reader::restore`] does
    /// not. Without randomization and with several workers, sequences may be assigned to other
    /// workers than before, as in CNTK 2.7. Waits if the position is not indexed yet.
    pub fn set_state(&mut self, state: &[(&str, u64)]) -> Result<()> {
        self.delivered = self.change(|pipeline| {
            pipeline.set_state(state)?;
            pipeline.progress(Progress::default())
        })?;
        (self.state, self.is_ended) = (EpochState::Started, false);
        self.bound = None;
        self.move_barren(BarrenSweep::begin);
        Ok(())
    }

    /// Takes a checkpoint that continues exactly after the last delivered minibatch, in every mode.
    /// It is opaque, versioned and checksummed. While a file is still being indexed, the checkpoint
    /// identifies the data by the chunks up to this position; it never waits for the rest.
    pub fn checkpoint(&self) -> Result<Vec<u8>> {
        let (epoch, read) = self.epoch()?;
        let facts = self.facts.at(&self.delivered)?;
        checkpoint::encode(&facts, &epoch, &read, &self.delivered, self.state == EpochState::Over)
    }

    /// Restores a [checkpoint](Reader::checkpoint). Also starts its epoch, so a new reader can
    /// continue at once, as the worker that took the checkpoint. A reader whose worker was set by
    /// [`Reader::start_epoch`] or [`Reader::configure`] keeps it. Fails for a checkpoint of
    /// different data or a different configuration, naming the differences, and for one that these
    /// workers cannot continue; the reader is then unchanged.
    pub fn restore(&mut self, checkpoint: &[u8]) -> Result<()> {
        self.restore_if(checkpoint, Values::Same)
    }

    /// Like [`Reader::restore`], but for data whose values were changed on purpose: only the keys
    /// and lengths of the sequences must match.
    pub fn restore_over_changed_values(&mut self, checkpoint: &[u8]) -> Result<()> {
        self.restore_if(checkpoint, Values::Any)
    }

    fn restore_if(&mut self, checkpoint: &[u8], values: Values) -> Result<()> {
        let Checkpoint { epoch, read, progress, is_over } =
            self.run(|reader| checkpoint::decode(checkpoint, &reader.facts, values))?;
        let before = (self.start, self.delivered.clone(), self.epoch, self.bound);
        let restored = self.change(|pipeline| {
            let start = pipeline.restore(&epoch, &read, &progress)?;
            Ok((start, pipeline.progress(Progress::default())?))
        });
        if restored.is_err() {
            // The next call returns to the previous position.
            self.unsettled = Unsettled::Epoch;
        }
        (self.start, self.delivered) = restored?;
        self.epoch = Some((epoch, read));
        self.bound = (!self.fits_any_workers(&read)).then_some((read.workers, read.rank));
        if let Some((workers, rank)) = self.worker.filter(|worker| *worker != (read.workers, read.rank)) {
            self.configure(&ReadConfig { workers, rank, ..read }).inspect_err(|_| {
                // As above.
                (self.start, self.delivered, self.epoch, self.bound) = before;
                self.unsettled = Unsettled::Epoch;
            })?;
        }
        self.is_ended = is_over || self.is_at_end();
        self.state = if is_over { EpochState::Over } else { EpochState::Resumed };
        if let Some(pipeline) = self.engine.pipeline() {
            pipeline.forget_errors();
        }
        self.move_barren(BarrenSweep::begin);
        Ok(())
    }

    /// Rejects truncation sizes if minibatches are not truncated. CNTK ignores them.
    fn check_sizes(&self, read: &ReadConfig) -> Result<()> {
        let is_given = read.truncation_length != 0 || read.right_splice != 0;
        if !is_given || self.takes_truncation {
            return Ok(());
        }
        let ReadConfig { truncation_length, right_splice, .. } = read;
        let message = format!(
            "The truncation length is {truncation_length} and the right splice {right_splice}, but the reader does not truncate \
             sequences."
        );
        let detail = "Both must be 0. To truncate, open the reader with ‹truncation›.";
        Err(Error::argument(message).with_detail(detail))
    }

    /// Whether any workers can continue from this position so that each sequence is read once: in
    /// lockstep, all workers are at this position, and a single worker has read everything before
    /// it.
    fn fits_any_workers(&self, read: &ReadConfig) -> bool {
        let is_alone = read.workers == 1 && self.delivered.queues.is_empty() && !self.inspection.is_listed();
        let is_between = self.progress().is_ok_and(|progress| progress.delivered == 0 && progress.sweep == 0);
        self.lockstep || is_alone || is_between || self.is_at_common_end()
    }

    /// Rejects workers other than those of a checkpoint that was just restored, if they would lose
    /// or repeat sequences.
    fn check_bound(&self, config: &ReadConfig) -> Result<()> {
        let Some((workers, rank)) = self.bound.filter(|bound| *bound != (config.workers, config.rank)) else {
            return Ok(());
        };
        let message = format!(
            "The checkpoint was taken by worker {rank} of {workers} in the middle of an epoch, and worker {} of {} cannot continue from there.",
            config.rank, config.workers
        );
        let detail = "Each worker reads at its own pace, so sequences would be lost and others repeated. Restore the \
                      checkpoint of this worker, save checkpoints at the end of an epoch, or let the workers read in lockstep.";
        Err(Error::checkpoint(ExceptionClass::Runtime, message).with_detail(detail))
    }

    /// Rejects minibatches that exceed any memory.
    fn check_capacity(&self, epoch: &Epoch, read: &ReadConfig) -> Result<()> {
        if self.is_truncated {
            return Ok(());
        }
        let sizes = self.inspection.sizes();
        let is_listed = self.inspection.is_listed();
        Capacity { streams: &self.streams, sizes, is_listed }.check(epoch, read)
    }

    /// Returns the current epoch and configuration, if the reader can be used at all.
    fn epoch(&self) -> Result<(Epoch, ReadConfig)> {
        self.check_process()?;
        self.epoch.ok_or_else(|| {
            let error = Error::state("No epoch was started yet.");
            error.with_detail(
                "Start one first: an epoch sets the minibatch size, the workers, and how far to read.",
            )
        })
    }

    fn check_process(&self) -> Result<()> {
        if self.process.is_current() {
            return Ok(());
        }
        Err(Error::state("The reader was created before this process was forked; create a new one here.")
            .with_detail("A forked process has the memory of a reader, but not its threads."))
    }

    /// Takes the pipeline back from the thread, to the end of the last delivered minibatch. Drops
    /// prefetched minibatches; an error among them occurs again when that minibatch is read.
    fn recall(&mut self) -> Result<&mut Pipeline> {
        self.check_process()?;
        if self.engine.recall()? && self.unsettled == Unsettled::Nothing {
            self.unsettled = Unsettled::Position;
        }
        self.settle()?;
        self.engine.pipeline().ok_or_else(unusable)
    }

    /// Moves the pipeline, unless the thread has it, to the end of the last delivered minibatch.
    fn settle(&mut self) -> Result<()> {
        let Some(pipeline) = self.engine.pipeline() else { return Ok(()) };
        match (self.unsettled, &self.epoch) {
            (Unsettled::Nothing, _) => return Ok(()),
            (Unsettled::Position | Unsettled::Beyond, _) => pipeline.resume(&self.delivered)?,
            (Unsettled::Epoch, Some((epoch, read))) => _ = pipeline.restore(epoch, read, &self.delivered)?,
            // The first epoch is not started yet, and starting it sets everything.
            (Unsettled::Epoch, None) => {}
        }
        self.unsettled = Unsettled::Nothing;
        Ok(())
    }

    /// Changes the pipeline's position or configuration. If that is cancelled, or fails for lack of
    /// memory, the next call undoes it first.
    fn change<R>(&mut self, work: impl FnOnce(&mut Pipeline) -> Result<R>) -> Result<R> {
        let mut is_begun = false;
        let changed = self.run(|reader| {
            let pipeline = reader.recall()?;
            is_begun = true;
            work(pipeline)
        });
        let lacks_memory = changed.as_ref().is_err_and(|error| error.kind() == ErrorKind::Memory);
        if is_begun && (lacks_memory || cancel::ended(&changed)) {
            self.unsettled = Unsettled::Epoch;
        }
        changed
    }

    /// Runs a call, which can be cancelled if the reader has a canceller.
    fn run<R>(&mut self, work: impl FnOnce(&mut Reader) -> Result<R>) -> Result<R> {
        match self.canceller.clone() {
            Some(canceller) => canceller.run(|| work(self)),
            None => work(self),
        }
        .map_err(|error| self.worded(error))
    }

    /// Translates an error to the terms of the reader's front end.
    fn worded(&self, error: Error) -> Error {
        error.in_words_of(self.log.front_end)
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        // SAFETY: the engine is not used again; this is the only place that takes it.
        let engine = unsafe { ManuallyDrop::take(&mut self.engine) };
        if self.process.is_current() {
            // Prefetching may be waiting for an incremental table.
            self.facts.cancel();
            return drop(engine);
        }
        engine.forget();
    }
}

/// Whether each sequence is one image, so that there is nothing to truncate: CNTK 2.7 then packs
/// frames in spite of 'truncated = true'.
fn has_images_alone(options: &ReaderSettings) -> bool {
    options.packing == Packing::Frame
        && matches!(options.deserializers.as_slice(), [one] if one.facts().has_images)
}
