//! The reader: builds the pipeline from its options and drives it, one minibatch ahead of the caller.

mod assembler;
mod build;
mod checkpoint;
mod fetcher;
mod listed;
mod pipeline;
mod place;
mod store;
#[cfg(test)]
mod tests;

pub use place::{LOCAL_KEYS, POSITION_KEY, State};

use crate::config::options::ReaderOptions;
use crate::corpus::Corpus;
use crate::deserialize::Deserializer;
use crate::deserialize::custom::{Factory, Registered};
use crate::fork::Process;
use crate::pack::{Minibatch, output_streams};
use crate::pool::Pool;
use crate::stream::{LateShapes, StreamInfo};
use crate::{Error, Result};
use assembler::{Assembled, Assembler};
use checkpoint::{Checkpoint, Facts, Progress};
use pipeline::Pipeline;
use std::mem::ManuallyDrop;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Sizes, workers and flags of the minibatches to come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadConfig {
    /// Number of workers, at least 1.
    pub workers: u64,
    /// This worker, from 0.
    pub rank: u64,
    /// Minibatch size in samples of all workers.
    pub minibatch: u64,
    /// Steps of a truncated minibatch. When an epoch starts, the configuration's `truncationLength` takes its place.
    pub truncation: u64,
    /// Overlap of truncated minibatches. When an epoch starts, the configuration's `rightSplice` takes its place.
    pub right_splice: u64,
    /// A minibatch may go on behind the end of a sweep.
    pub cross_sweeps: bool,
}

/// An epoch to start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EpochStart {
    /// Sizes, workers and flags.
    pub read: ReadConfig,
    /// Epoch size in samples, see [`crate::randomize::EpochConfig::samples`].
    pub samples: u64,
    /// Epoch size in sweeps, see [`crate::randomize::EpochConfig::sweeps`].
    pub sweeps: u64,
    /// Which epoch, from 0.
    pub index: u64,
}

/// A minibatch is assembled ahead if both that and what the caller does between two reads take at least this long:
/// handing the pipeline to another thread and back, with the waking of both, costs about as much, and there is nothing to
/// gain where the caller only waits. (Counts of words in minibatches of 256, read by a caller that does nothing: a fifth of
/// the time went into changing threads.) Chunks are loaded ahead in any case.
const WORTH_A_THREAD: Duration = Duration::from_micros(50);

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
    prefetch: bool,
    /// The epoch and the configuration in force; `None` before the first epoch.
    epoch: Option<(EpochStart, ReadConfig)>,
    /// Where the minibatch last delivered ended: what a checkpoint holds, however far reading ahead has come.
    delivered: Progress,
    /// A progress that is not needed any more, for its memory.
    spare: Progress,
    /// When the last read returned.
    returned: Option<Instant>,
    /// Has the threads and the memory that they write to; see `Drop`.
    engine: ManuallyDrop<Engine>,
    process: Process,
}

/// Deserializers that are not the library's own.
#[derive(Default)]
pub struct Others<'a> {
    /// Those of users, by name.
    pub registered: &'a [Registered],
    /// Makes those that the configuration names and this library does not have.
    pub factory: Option<&'a dyn Factory>,
}

/// The pipeline, and the thread that has it while a minibatch is assembled ahead.
struct Engine {
    pipeline: Option<Box<Pipeline>>,
    assembler: Option<Assembler>,
}

impl Reader {
    /// Builds a reader; opens and indexes its files, loads no data yet. A large text file that is read in its own order
    /// is indexed while it is read; what is wrong behind its start is an error of the minibatch that would need it.
    pub fn open(options: &ReaderOptions) -> Result<Reader> {
        Reader::open_with(options, &Others::default())
    }

    /// Builds a reader of the library's deserializers and others.
    pub fn open_with(options: &ReaderOptions, others: &Others<'_>) -> Result<Reader> {
        let process = Process::current();
        let pool = Pool::shared()?;
        let corpus = build::corpus(options);
        let deserializer = build::deserializer(options, others, &corpus, &pool)?;
        Ok(Reader::over(deserializer, options, corpus, pool, process))
    }

    fn over(
        deserializer: Arc<dyn Deserializer>,
        options: &ReaderOptions,
        corpus: Arc<Corpus>,
        pool: Pool,
        process: Process,
    ) -> Reader {
        let streams = output_streams(deserializer.streams(), options.packing);
        let facts = Facts::new(options, Arc::clone(&deserializer));
        // What users' code makes of a sequence may depend on how often it is asked, as CNTK's random transforms do:
        // nothing is fetched that the caller may not get.
        let prefetch = options.prefetch && !deserializer.is_fetched();
        let shapes = Arc::new(LateShapes::new(streams.len()));
        let pipeline = Box::new(Pipeline::new(options, deserializer, &shapes, pool));
        let delivered = pipeline.progress(Progress::default());
        Reader {
            streams,
            shapes,
            corpus,
            facts,
            window_keys: pipeline.window_keys(),
            prefetch,
            epoch: None,
            delivered,
            spare: Progress::default(),
            returned: None,
            engine: ManuallyDrop::new(Engine { pipeline: Some(pipeline), assembler: None }),
            process,
        }
    }

    /// The streams as delivered, by number: sparse streams are dense in truncated mode.
    pub fn streams(&self) -> &[StreamInfo] {
        &self.streams
    }

    /// Shapes of streams that the first data tell: those are incomplete in the descriptions.
    pub fn shapes(&self) -> &Arc<LateShapes> {
        &self.shapes
    }

    /// The texts of sequence keys.
    pub fn corpus(&self) -> &Arc<Corpus> {
        &self.corpus
    }

    /// Starts an epoch. Needed before the first read.
    pub fn start_epoch(&mut self, epoch: &EpochStart) -> Result<()> {
        let pipeline = self.recall()?;
        let epoch = pipeline.start_epoch(epoch)?;
        let progress = pipeline.progress(Progress::default());
        self.epoch = Some((epoch, epoch.read));
        self.delivered = progress;
        Ok(())
    }

    /// Changes sizes, workers and flags between two minibatches; the position stays, queued data of the truncated mode
    /// is dropped (CNTK 2.7 does so).
    pub fn configure(&mut self, config: &ReadConfig) -> Result<()> {
        let (epoch, _) = self.epoch()?;
        let pipeline = self.recall()?;
        pipeline.configure(config)?;
        let progress = pipeline.progress(Progress::default());
        self.epoch = Some((epoch, *config));
        self.delivered = progress;
        Ok(())
    }

    /// Sizes, workers and flags in force.
    pub fn config(&self) -> Result<ReadConfig> {
        self.epoch().map(|(_, read)| read)
    }

    /// Reads the next minibatch. At the end of the epoch: one without streams, again and again.
    ///
    /// After an error the reader goes on behind the sequences that could not be delivered, as CNTK 2.7 does.
    pub fn read(&mut self) -> Result<Minibatch> {
        self.epoch()?;
        // Who reads for the first time is taken to have something to do in between.
        let away = self.returned.map_or(Duration::MAX, |returned| returned.elapsed());
        let minibatch = self.next(away);
        self.returned = Some(Instant::now());
        minibatch
    }

    /// Reads the next minibatch for a caller who has been away for so long.
    fn next(&mut self, away: Duration) -> Result<Minibatch> {
        let engine = &mut *self.engine;
        let (pipeline, assembled) = match (engine.pipeline.take(), &engine.assembler) {
            (Some(mut pipeline), _) => {
                let assembled = Assembled::by(&mut pipeline, std::mem::take(&mut self.spare));
                (pipeline, assembled)
            }
            (None, Some(assembler)) => assembler.take()?,
            (None, None) => return Err(unusable()),
        };
        let Assembled { minibatch, progress, took } = assembled;
        self.spare = std::mem::replace(&mut self.delivered, progress);
        let more = minibatch.as_ref().is_ok_and(|minibatch| !minibatch.end_of_epoch);
        if more && self.prefetch && took.min(away) >= WORTH_A_THREAD {
            if engine.assembler.is_none() {
                engine.assembler = Some(Assembler::start()?);
            }
            if let Some(assembler) = &engine.assembler {
                return assembler.give(pipeline, std::mem::take(&mut self.spare)).and(minibatch);
            }
        }
        engine.pipeline = Some(pipeline);
        minibatch
    }

    /// CNTK's checkpoint state: that of the minibatch last delivered.
    pub fn state(&self) -> State {
        self.delivered.place.state(self.window_keys)
    }

    /// Restores CNTK's checkpoint state; keys that are not known are ignored, a missing one is an error.
    ///
    /// In truncated mode this loses what the minibatches delivered so far had left over, as in CNTK 2.7;
    /// [`Reader::restore`] does not. Without randomization and with several workers the sequences may be shared out
    /// differently than before, as in CNTK 2.7. A position in data that are not indexed yet is waited for.
    pub fn set_state(&mut self, state: &[(&str, u64)]) -> Result<()> {
        let pipeline = self.recall()?;
        pipeline.set_state(state)?;
        self.delivered = pipeline.progress(Progress::default());
        Ok(())
    }

    /// A checkpoint that continues exactly behind the minibatch last delivered, in every mode: opaque, versioned,
    /// checksummed. In the first sweep over a file that is still being indexed it knows the data by the chunks up to
    /// here; it never waits for the rest.
    pub fn checkpoint(&self) -> Result<Vec<u8>> {
        let (epoch, read) = self.epoch()?;
        let facts = self.facts.at(&self.delivered)?;
        Ok(checkpoint::encode(&facts, &Checkpoint { epoch, read, progress: self.delivered.clone() }))
    }

    /// Restores what [`Reader::checkpoint`] gave. Also starts the epoch that it was taken in, so a new reader can
    /// continue at once. Refuses a checkpoint of other data or another configuration, saying what differs; the reader
    /// is then as before.
    pub fn restore(&mut self, checkpoint: &[u8]) -> Result<()> {
        let Checkpoint { epoch, read, progress } = checkpoint::decode(checkpoint, &self.facts)?;
        let pipeline = self.recall()?;
        pipeline.restore(&epoch, &read, &progress)?;
        self.epoch = Some((epoch, read));
        self.delivered = progress;
        Ok(())
    }

    /// Epoch and configuration in force, if the reader can be used at all.
    fn epoch(&self) -> Result<(EpochStart, ReadConfig)> {
        self.check_process()?;
        self.epoch.ok_or_else(|| Error::state("No epoch was started yet."))
    }

    fn check_process(&self) -> Result<()> {
        if self.process.is_current() {
            return Ok(());
        }
        Err(Error::state("The reader was created before this process was forked; create another one here."))
    }

    /// Takes the pipeline back from the thread, to where the minibatch last delivered ended. A minibatch that was
    /// assembled ahead is dropped; if that ended in an error, the error comes again when it is read.
    fn recall(&mut self) -> Result<&mut Pipeline> {
        self.check_process()?;
        let engine = &mut *self.engine;
        if engine.pipeline.is_none() {
            let assembler = engine.assembler.as_ref().ok_or_else(unusable)?;
            let (mut pipeline, _) = assembler.take()?;
            pipeline.resume(&self.delivered)?;
            engine.pipeline = Some(pipeline);
        }
        engine.pipeline.as_deref_mut().ok_or_else(unusable)
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        // SAFETY: the engine is not used again; this is the only place that takes it.
        let engine = unsafe { ManuallyDrop::take(&mut self.engine) };
        if self.process.is_current() {
            // A minibatch that is assembled ahead may wait for a table that grows.
            self.facts.abandon();
            return drop(engine);
        }
        std::mem::forget(engine.pipeline);
        if let Some(assembler) = engine.assembler {
            assembler.abandon();
        }
    }
}

fn unusable() -> Error {
    Error::internal("The reader failed inside and cannot be used any more.")
}
