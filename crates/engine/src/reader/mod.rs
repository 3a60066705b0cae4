//! The reader: builds the pipeline from its options and drives it, one batch of minibatches ahead of the caller.

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

pub use build::Others;
pub use epoch::{Epoch, ReadConfig};
pub use epochs::EpochState;
pub use inspect::{EpochProgress, Member, MemoryUse, Sizes};
pub use position::{LOCAL_KEYS, POSITION_KEY, State};

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
/// *Threads*: one at a time may use it; it may move between threads. *Fork*: in a child process every call fails, and
/// dropping it leaks its memory rather than waiting for threads that are not there.
pub struct Reader {
    streams: Vec<StreamInfo>,
    shapes: Arc<LateShapes>,
    corpus: Arc<Corpus>,
    facts: Facts,
    /// CNTK's names of the two numbers of a local timeline's window.
    window_keys: [&'static str; 2],
    log: Logger,
    /// Workers get whole chunks, not sequences in turn.
    deals_chunks: bool,
    /// Each worker reads as many minibatches as the others.
    lockstep: bool,
    /// The number of workers that was warned of last.
    warned_workers: Option<u64>,
    /// Minibatches are truncated.
    is_truncated: bool,
    /// The place among the workers that a restored checkpoint has, if no other one continues
    /// exactly from there; until something is read.
    bound: Option<(u64, u64)>,
    /// The number of workers and the rank that the caller gave; a restored checkpoint does not
    /// change them.
    worker: Option<(u64, u64)>,
    /// Minibatches are truncated, or what is said of truncation is ignored as CNTK does.
    takes_truncation: bool,
    /// The epoch and the configuration in force; `None` before the first epoch.
    epoch: Option<(Epoch, ReadConfig)>,
    /// How far that epoch has come, as the caller knows.
    state: EpochState,
    /// Its last minibatch was delivered.
    is_ended: bool,
    /// Where that epoch starts.
    start: EpochStart,
    inspection: Inspection,
    /// Memory of minibatches, wherever they are.
    memory: MinibatchMemory,
    /// Where the minibatch last delivered ended: what a checkpoint holds, however far reading ahead has come.
    delivered: Progress,
    /// Detects sweeps without data; `None` in CNTK's place, where empty sweeps follow each other.
    barren: Option<BarrenSweep>,
    /// Ends calls.
    canceller: Option<Canceller>,
    /// What a call that was cancelled or failed has left to the next one.
    unsettled: Unsettled,
    /// Sequences are fetched, which is not begun again for a call that is cancelled: it goes on, on the thread that reads ahead.
    is_fetched: bool,
    /// Has the threads and the memory that they write to; see `Drop`.
    engine: ManuallyDrop<Engine>,
    process: Process,
}

/// What has to be done before the pipeline is used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unsettled {
    Nothing,
    /// The pipeline has gone beyond the minibatch last delivered.
    Position,
    /// The same, beyond a minibatch that could not be read for now: what is read ahead is not delivered either.
    Beyond,
    /// A call that would have changed the epoch, the configuration or the position was cancelled.
    Epoch,
}

impl Reader {
    /// Builds a reader; opens and indexes its files, loads no data yet. A large text file that is read in its own order
    /// is indexed while it is read; an error in it past its start is an error of the minibatch that would need it.
    pub fn open(options: &ReaderSettings) -> Result<Reader> {
        Reader::open_with(options, &Others::default())
    }

    /// Builds a reader of the library's deserializers and others.
    pub fn open_with(options: &ReaderSettings, others: &Others<'_>) -> Result<Reader> {
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

    /// A reader of the sequences of a deserializer that is open already.
    pub fn of_opened(
        deserializer: AnyDeserializer,
        options: &ReaderSettings,
        corpus: Arc<Corpus>,
        pool: Pool,
    ) -> Result<Reader> {
        let packing_threads = PackingThreads::of(&pool);
        Reader::over((deserializer, Vec::new()), options, corpus, pool, packing_threads, Process::current())
    }

    /// Has this canceller end calls.
    #[cfg(feature = "test-support")]
    pub fn set_canceller(&mut self, canceller: &Canceller) {
        self.canceller = Some(canceller.clone());
    }

    /// Number of minibatches that were packed ahead.
    #[cfg(feature = "test-support")]
    pub fn minibatches_ready(&self) -> usize {
        self.engine.batch.ready.len()
    }

    /// A reader of a source that is open, with these threads.
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
        // Nothing is queued yet, so that no memory is needed.
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

    /// The streams as delivered, by number: sparse streams are dense in truncated mode.
    pub fn streams(&self) -> &[StreamInfo] {
        &self.streams
    }

    /// Shapes that become known with the first data, of streams whose descriptions leave them open.
    pub fn shapes(&self) -> &Arc<LateShapes> {
        &self.shapes
    }

    /// The texts of sequence keys.
    pub fn corpus(&self) -> &Arc<Corpus> {
        &self.corpus
    }

    /// Changes sizes, workers and flags between two minibatches; the position stays, queued data of the truncated mode
    /// is dropped (CNTK 2.7 does so).
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

    /// Warns, once for each number of workers, if there are fewer chunks to deal out than workers.
    fn warn_of_idle_workers(&mut self, workers: u64) {
        if !self.deals_chunks || self.warned_workers == Some(workers) {
            return;
        }
        if let Some(warning) = self.inspection.about_idle_workers(workers, self.lockstep) {
            self.warned_workers = Some(workers);
            self.log.write(Level::Warning, &warning);
        }
    }

    /// Sizes, workers and flags in force.
    pub fn config(&self) -> Result<ReadConfig> {
        self.epoch().map(|(_, read)| read)
    }

    fn move_barren(&mut self, to: fn(&mut BarrenSweep, &Progress)) {
        if let Some(barren) = &mut self.barren {
            to(barren, &self.delivered);
        }
    }

    /// Gets the next batch. False if it has not come by the `deadline`: the thread keeps it for the
    /// next call.
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

    /// How much data the reader has: of several deserializers the sequences that all of them have.
    pub fn sizes(&self) -> Sizes {
        self.inspection.sizes()
    }

    /// The deserializers, in the configuration's order; the first one is primary.
    pub fn members(&self) -> &[Member] {
        self.inspection.members()
    }

    /// How far the epoch has come with the minibatch last delivered, however much is read ahead. After
    /// [`Reader::restore`] it is as it was when the checkpoint was taken. An error before the first epoch.
    pub fn progress(&self) -> Result<EpochProgress> {
        let (epoch, _) = self.epoch()?;
        self.inspection.progress(&epoch, self.start, &self.delivered)
    }

    /// Whether the workers read in lockstep: then a minibatch without data is a step like others,
    /// up to the end of the epoch.
    pub fn is_in_lockstep(&self) -> bool {
        self.lockstep
    }

    /// Memory in use. Counted are the arrays of chunks, minibatches and indexes, not the small objects around them; of
    /// users' deserializers the arrays that they hand over.
    pub fn memory(&self) -> MemoryUse {
        self.inspection.memory(self.memory.meter().bytes())
    }

    /// Page-locks the large blocks of minibatches packed from now on, so that a device can copy
    /// from them directly. Whoever copies keeps each minibatch until the device is done. Only the
    /// first call has an effect.
    pub fn lock_pages(&self, by: Arc<dyn PageLock>) {
        self.memory.lock_pages(by);
    }

    /// A `chunkSizeInBytes` with which this many workers share the data evenly.
    ///
    /// Randomized sequences go to the worker that their chunk is dealt to. So a window should have several chunks for
    /// each worker: the suggestion is `bytes of a window / (8 * workers)`, between 256 KiB and CNTK's default of 32 MiB, and
    /// less than 256 KiB only where all data together would not have 8 chunks a worker otherwise. The bytes of a window
    /// are the share of the primary deserializer's file that the window, if it is given in samples, has of all samples; a
    /// window in chunks counts as the whole file. Without a file, as for users' deserializers, it is the default.
    pub fn suggest_chunk_size(&self, workers: u64) -> u64 {
        self.inspection.suggest_chunk_size(workers)
    }

    /// CNTK's checkpoint state: that of the minibatch last delivered.
    pub fn state(&self) -> State {
        self.delivered.position.state(self.window_keys)
    }

    /// Restores CNTK's checkpoint state; keys that are not known are ignored, a missing one is an error.
    ///
    /// In truncated mode this loses what the minibatches delivered so far had left over, as in CNTK 2.7;
    /// [`Reader::restore`] does not. Without randomization and with several workers the sequences may be shared out
    /// differently than before, as in CNTK 2.7. A position in data that are not indexed yet is waited for.
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

    /// A checkpoint that continues exactly after the minibatch last delivered, in every mode: opaque, versioned,
    /// checksummed. In the first sweep over a file that is still being indexed it knows the data by the chunks up to
    /// here; it never waits for the rest.
    pub fn checkpoint(&self) -> Result<Vec<u8>> {
        let (epoch, read) = self.epoch()?;
        let facts = self.facts.at(&self.delivered)?;
        checkpoint::encode(&facts, &epoch, &read, &self.delivered, self.state == EpochState::Over)
    }

    /// Restores a [checkpoint](Reader::checkpoint). Also starts the epoch that it was taken in, so a
    /// new reader can continue at once, as the worker that took it. A reader whose worker was set, by
    /// [`Reader::start_epoch`] or [`Reader::configure`], stays that worker. Refuses a checkpoint of
    /// other data or another configuration, saying what differs, and one that these workers cannot
    /// continue; the reader is then as before.
    pub fn restore(&mut self, checkpoint: &[u8]) -> Result<()> {
        self.restore_if(checkpoint, Values::Same)
    }

    /// [`Reader::restore`] where the values of the data were changed on purpose: the sequences must
    /// be the same, in keys and lengths.
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
            // The next call goes back to where the reader stood.
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

    /// Refuses sizes of truncated minibatches where none are packed. CNTK ignores them.
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
        let detail = "Both have to be 0. To truncate, open the reader with ‹truncation›.";
        Err(Error::argument(message).with_detail(detail))
    }

    /// Whether any workers can go on from where the reader stands, each sequence being read once:
    /// in lockstep all of them stand there, and a single worker has read whatever lies before.
    fn fits_any_workers(&self, read: &ReadConfig) -> bool {
        let is_alone = read.workers == 1 && self.delivered.queues.is_empty() && !self.inspection.is_listed();
        let is_between = self.progress().is_ok_and(|progress| progress.delivered == 0 && progress.sweep == 0);
        self.lockstep || is_alone || is_between || self.is_at_common_end()
    }

    /// Refuses other workers than those of a checkpoint that was just restored, if they would lose
    /// and repeat sequences.
    fn check_bound(&self, config: &ReadConfig) -> Result<()> {
        let Some((workers, rank)) = self.bound.filter(|bound| *bound != (config.workers, config.rank)) else {
            return Ok(());
        };
        let message = format!(
            "The checkpoint is that of worker {rank} of {workers} in the middle of an epoch, and worker {} of {} cannot go on from there.",
            config.rank, config.workers
        );
        let detail = "Each worker goes through the data at a pace of its own, so sequences would be lost and others repeated. Restore the \
                      checkpoint of this worker, save checkpoints at the end of an epoch, or let the workers read in lockstep.";
        Err(Error::checkpoint(ExceptionClass::Runtime, message).with_detail(detail))
    }

    /// Refuses minibatches that no memory can hold.
    fn check_capacity(&self, epoch: &Epoch, read: &ReadConfig) -> Result<()> {
        if self.is_truncated {
            return Ok(());
        }
        let sizes = self.inspection.sizes();
        let is_listed = self.inspection.is_listed();
        Capacity { streams: &self.streams, sizes, is_listed }.check(epoch, read)
    }

    /// Epoch and configuration in force, if the reader can be used at all.
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
        Err(Error::state("The reader was created before this process was forked; create another one here.")
            .with_detail("A forked process has the memory of a reader, but not its threads."))
    }

    /// Takes the pipeline back from the thread, to where the minibatch last delivered ended. Minibatches that were read
    /// ahead are dropped; if one ended in an error, the error comes again when it is read.
    fn recall(&mut self) -> Result<&mut Pipeline> {
        self.check_process()?;
        if self.engine.recall()? && self.unsettled == Unsettled::Nothing {
            self.unsettled = Unsettled::Position;
        }
        self.settle()?;
        self.engine.pipeline().ok_or_else(unusable)
    }

    /// Brings the pipeline, unless the thread has it, to where the minibatch last delivered ended.
    fn settle(&mut self) -> Result<()> {
        let Some(pipeline) = self.engine.pipeline() else { return Ok(()) };
        match (self.unsettled, &self.epoch) {
            (Unsettled::Nothing, _) => return Ok(()),
            (Unsettled::Position | Unsettled::Beyond, _) => pipeline.resume(&self.delivered)?,
            (Unsettled::Epoch, Some((epoch, read))) => _ = pipeline.restore(epoch, read, &self.delivered)?,
            // The first epoch is still to be started, and that sets everything.
            (Unsettled::Epoch, None) => {}
        }
        self.unsettled = Unsettled::Nothing;
        Ok(())
    }

    /// Changes where the pipeline stands, and how it goes on. If that is cancelled, or ends for lack of memory, the next call undoes it first.
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

    /// Runs a call, which the reader's canceller ends if it has one.
    fn run<R>(&mut self, work: impl FnOnce(&mut Reader) -> Result<R>) -> Result<R> {
        match self.canceller.clone() {
            Some(canceller) => canceller.run(|| work(self)),
            None => work(self),
        }
        .map_err(|error| self.worded(error))
    }

    /// An error in the words of the front end that the reader was opened with.
    fn worded(&self, error: Error) -> Error {
        error.in_words_of(self.log.front_end)
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        // SAFETY: the engine is not used again; this is the only place that takes it.
        let engine = unsafe { ManuallyDrop::take(&mut self.engine) };
        if self.process.is_current() {
            // A minibatch that is assembled ahead may wait for a table that grows.
            self.facts.cancel();
            return drop(engine);
        }
        engine.forget();
    }
}

/// Whether each sequence is one image, so that there is nothing to truncate: CNTK 2.7 then packs
/// frames, although the configuration says 'truncated = true'.
fn has_images_alone(options: &ReaderSettings) -> bool {
    options.packing == Packing::Frame
        && matches!(options.deserializers.as_slice(), [one] if one.facts().has_images)
}
