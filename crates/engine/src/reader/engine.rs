//! The pipeline, and the batches read with it on the caller's thread or prefetched on another.

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

/// How much to prefetch for the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Prefetch {
    /// Nothing.
    None,
    /// A batch of minibatches, if that gains more than the handover costs.
    Batch,
    /// Always exactly one minibatch.
    One,
}

impl Prefetch {
    pub(super) fn of(options: &ReaderSettings, source: &dyn ChunkSource) -> Prefetch {
        match (options.prefetch, source.facts().is_fetched) {
            (false, _) => Prefetch::None,
            (true, false) => Prefetch::Batch,
            // Random transforms also draw for dropped minibatches, so prefetch exactly one, as in
            // CNTK 2.7. In CNTK's place, the host prefetches by itself, so this reader must not
            // draw ahead.
            (true, true) if source.facts().is_fetched_ahead && options.in_place_of.is_none() => Prefetch::One,
            // The results of users' code may depend on the number of calls: never fetch a sequence
            // that the caller may not get.
            (true, true) => Prefetch::None,
        }
    }
}

/// The thread that prefetches batches.
type PrefetchThread = HandoffThread<PrefetchJob>;

/// The owner of the pipeline.
enum PipelinePlace {
    /// The reader. The prefetch thread is idle, or not started.
    Here { pipeline: Box<Pipeline>, thread: Option<PrefetchThread> },
    /// The prefetch thread, which is reading a batch.
    Away(PrefetchThread),
    /// Dropped by a panic on the caller's thread.
    Lost,
}

/// The result of waiting for a batch.
pub(super) enum Refill {
    Ready,
    /// The deadline has passed. The thread continues reading for a later call.
    Pending,
    /// The read was cancelled. Minibatches completed before that are ready.
    Cancelled(Error),
}

/// The pipeline, and the minibatches it has read for the caller.
pub(super) struct Engine {
    place: PipelinePlace,
    prefetch: Prefetch,
    packing_threads: PackingThreads,
    size: BatchSize,
    waiting_caller: WaitingCaller,
    /// The minibatches that the caller takes next.
    pub batch: PrefetchBatch,
    /// An empty batch, kept to reuse its memory.
    spare: PrefetchBatch,
    /// When the caller last received a batch.
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
            place: PipelinePlace::Here { pipeline, thread: None },
            prefetch,
            packing_threads,
            size: BatchSize::FIRST,
            batch: PrefetchBatch::default(),
            spare: PrefetchBatch::default(),
            returned: None,
        }
    }

    /// Returns the pipeline, unless the prefetch thread has it.
    pub(super) fn pipeline(&mut self) -> Option<&mut Pipeline> {
        match &mut self.place {
            PipelinePlace::Here { pipeline, .. } => Some(pipeline),
            PipelinePlace::Away(_) | PipelinePlace::Lost => None,
        }
    }

    /// Whether a minibatch, or an error in its place, is ready.
    pub(super) fn is_ready(&self) -> bool {
        !self.batch.ready.is_empty()
    }

    /// Gets the next batch: the prefetched one, or one read on the caller's thread. With `is_apart`
    /// (the call can be cancelled without cancelling the read) or a `deadline` (the call can return
    /// before the read ends), reads on the prefetch thread if it can be started. Then prefetches if
    /// `goes_on` is set and that saves time.
    pub(super) fn refill(
        &mut self,
        is_apart: bool,
        deadline: Option<Instant>,
        goes_on: bool,
    ) -> Result<Refill> {
        // For the first read, assume that the caller is busy between reads.
        let away = self.returned.map_or(Duration::MAX, |returned| returned.elapsed());
        if is_apart || deadline.is_some() {
            self.send(self.packing_threads.all);
        }
        let batch = match self.place {
            PipelinePlace::Here { .. } => self.read(is_apart).map(Some),
            PipelinePlace::Away(_) => self.receive(deadline),
            PipelinePlace::Lost => Err(unusable()),
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
        let PipelinePlace::Here { pipeline, thread } = mem::replace(&mut self.place, PipelinePlace::Lost)
        else {
            return Err(unusable());
        };
        let mut job = self.job(pipeline, self.packing_threads.all);
        match is_apart {
            true => cancel::apart(|| job.read()),
            false => job.read(),
        }
        self.place = PipelinePlace::Here { pipeline: job.pipeline, thread };
        Ok(job.batch)
    }

    /// Makes the prefetch thread read a batch, if the pipeline is here and the thread can be
    /// started.
    fn send(&mut self, packing_threads: usize) {
        self.place = match mem::replace(&mut self.place, PipelinePlace::Lost) {
            PipelinePlace::Here { pipeline, thread } => {
                match thread.or_else(|| HandoffThread::start("cntk-reader-mb", PrefetchJob::read)) {
                    Some(thread) => {
                        self.waiting_caller.begin();
                        thread.give(self.job(pipeline, packing_threads));
                        PipelinePlace::Away(thread)
                    }
                    None => PipelinePlace::Here { pipeline, thread: None },
                }
            }
            place => place,
        };
    }

    fn job(&mut self, pipeline: Box<Pipeline>, threads: usize) -> PrefetchJob {
        PrefetchJob { pipeline, wanted: self.size.wanted, threads, batch: mem::take(&mut self.spare) }
    }

    /// Waits for the thread's batch, and helps to pack meanwhile. Returns `None` at the deadline.
    fn receive(&mut self, deadline: Option<Instant>) -> Result<Option<PrefetchBatch>> {
        if let PipelinePlace::Away(thread) = &self.place {
            self.waiting_caller.help(|| thread.is_done());
            if let Some(deadline) = deadline
                && !thread.is_done_by(deadline)?
            {
                return Ok(None);
            }
        }
        self.take_back()
    }

    /// Waits until the thread returns the pipeline with its batch. Returns `None` if the thread
    /// does not have it. If the call is cancelled, the thread keeps both.
    fn take_back(&mut self) -> Result<Option<PrefetchBatch>> {
        let job = match &self.place {
            PipelinePlace::Away(thread) => thread.take()?,
            PipelinePlace::Here { .. } | PipelinePlace::Lost => return Ok(None),
        };
        if let PipelinePlace::Away(thread) = mem::replace(&mut self.place, PipelinePlace::Lost) {
            self.place = PipelinePlace::Here { pipeline: job.pipeline, thread: Some(thread) };
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

    /// Whether prefetching saves time, assuming that the caller takes the same time between batches
    /// as before the last one.
    fn pays_to_read_ahead(&self, away: Duration) -> bool {
        match self.prefetch {
            Prefetch::None => false,
            Prefetch::Batch => READ_AHEAD.is_repaid(self.batch.took.min(away), self.batch.ready.len()),
            Prefetch::One => true,
        }
    }

    /// Waits until the pipeline is here, and drops prefetched minibatches. Returns whether the
    /// pipeline has passed the minibatch that the caller took last.
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

    /// Leaks the engine in a forked child, in which its threads do not exist.
    pub(super) fn forget(self) {
        let Engine { place, waiting_caller, batch, spare, .. } = self;
        mem::forget((waiting_caller, batch, spare));
        let thread = match place {
            PipelinePlace::Here { pipeline, thread } => {
                mem::forget(pipeline);
                thread
            }
            PipelinePlace::Away(thread) => Some(thread),
            PipelinePlace::Lost => None,
        };
        if let Some(thread) = thread {
            thread.forget();
        }
    }
}

pub(super) fn unusable() -> Error {
    Error::internal("The reader failed internally and can no longer be used.")
}

/// A request to read a batch: the pipeline, the number of minibatches, the number of packing
/// threads, and the destination.
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

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;
    use crate::pack::MinibatchMemory;
    use crate::reader::Epoch;
    use crate::reader::tests::settings;
    use crate::reader::tests::source::Source;
    use cntk_reader_core::corpus::Corpus;
    use cntk_reader_core::option::release::Release;
    use cntk_reader_core::runtime::pool::Pool;
    use cntk_reader_core::stream::LateShapes;
    use std::sync::Arc;

    /// Minibatches of two samples from chunks of four.
    fn engine(source: &Arc<Source>, prefetch: Prefetch) -> Engine {
        let (corpus, shapes) = (Arc::new(Corpus::Numeric), Arc::new(LateShapes::new(1)));
        let (pool, memory) = (Pool::shared().expect("threads"), MinibatchMemory::default());
        let deserializer = source.known();
        let mut pipeline =
            Pipeline::new(&settings(), &deserializer, &corpus, &shapes, pool, 2, &memory).expect("memory");
        pipeline.start_epoch(&Epoch::sweeps(1).minibatch_size(2)).expect("an epoch");
        Engine::new(Box::new(pipeline), prefetch, PackingThreads { all: 2, beside_caller: 1 })
    }

    fn is_here(engine: &Engine) -> bool {
        matches!(engine.place, PipelinePlace::Here { .. })
    }

    fn is_refilled(engine: &mut Engine, deadline: Option<Instant>, goes_on: bool) -> bool {
        matches!(engine.refill(false, deadline, goes_on).expect("no error"), Refill::Ready)
    }

    fn long() -> Option<Instant> {
        Some(Instant::now() + Duration::from_secs(60))
    }

    #[test]
    fn prefetching_depends_on_fetched_sequences() {
        for (prefetch, is_fetched, is_fetched_ahead, in_place_of, expected) in [
            (false, false, false, None, Prefetch::None),
            (false, true, true, None, Prefetch::None),
            (true, false, false, None, Prefetch::Batch),
            (true, false, false, Some(Release::Current), Prefetch::Batch),
            (true, true, false, None, Prefetch::None),
            (true, true, true, None, Prefetch::One),
            (true, true, true, Some(Release::Current), Prefetch::None),
        ] {
            let mut source = Source::twelve();
            (source.facts.is_fetched, source.facts.is_fetched_ahead) = (is_fetched, is_fetched_ahead);
            let settings = ReaderSettings { prefetch, in_place_of, ..settings() };
            assert_eq!(Prefetch::of(&settings, &source), expected);
        }
    }

    #[test]
    fn batches_are_read_on_the_callers_thread() {
        let source = Arc::new(Source::twelve());
        let mut engine = engine(&source, Prefetch::None);
        assert!(!engine.is_ready() && engine.pipeline().is_some());
        assert!(is_refilled(&mut engine, None, true));
        assert_eq!((engine.batch.ready.len(), engine.size.wanted), (1, 1));
        assert!(is_here(&engine) && engine.is_ready());
        engine.batch.pop();
        assert!(!engine.recall().expect("no error"), "nothing was read ahead");
        assert!(is_refilled(&mut engine, None, true));
        assert!(engine.recall().expect("no error"), "a minibatch was not taken");
        assert!(!engine.is_ready());
    }

    #[test]
    fn one_minibatch_is_prefetched_if_another_read_follows() {
        let source = Arc::new(Source::twelve());
        let mut engine = engine(&source, Prefetch::One);
        assert!(is_refilled(&mut engine, None, false));
        assert!(is_here(&engine));
        for _ in 0..4 {
            engine.batch.pop();
            assert!(is_refilled(&mut engine, None, true));
            assert!(!is_here(&engine) && engine.pipeline().is_none());
        }
        engine.batch.pop();
        assert!(is_refilled(&mut engine, None, true));
        assert!(is_here(&engine), "the epoch has ended");
    }

    #[test]
    fn prefetched_minibatches_are_dropped() {
        let source = Arc::new(Source::twelve());
        let mut engine = engine(&source, Prefetch::One);
        assert!(is_refilled(&mut engine, None, true));
        engine.batch.pop();
        engine.size.wanted = 9;
        assert!(engine.recall().expect("no error"), "one was prefetched");
        assert_eq!((is_here(&engine), engine.size.wanted), (true, 1));
        assert!(!engine.recall().expect("no error"), "it was dropped");
    }

    #[test]
    fn read_with_a_deadline_uses_the_thread() {
        let source = Arc::new(Source::twelve());
        source.closes_gate(true);
        let mut engine = engine(&source, Prefetch::None);
        let soon = Instant::now() + Duration::from_millis(3);
        assert!(!is_refilled(&mut engine, Some(soon), false));
        assert!(!is_here(&engine) && !engine.is_ready());
        source.closes_gate(false);
        assert!(is_refilled(&mut engine, long(), false));
        assert!(engine.is_ready());
        assert!(matches!(engine.place, PipelinePlace::Here { thread: Some(_), .. }));
    }

    #[test]
    fn prefetching_must_gain_more_than_it_costs() {
        let source = Arc::new(Source::twelve());
        let (short, long) = (Duration::from_micros(1), Duration::from_millis(1));
        for (prefetch, took, away, pays) in [
            (Prefetch::Batch, long, long, true),
            (Prefetch::Batch, short, long, false),
            (Prefetch::Batch, long, short, false),
            (Prefetch::None, long, long, false),
            (Prefetch::One, short, short, true),
        ] {
            let mut engine = engine(&source, prefetch);
            engine.batch.took = took;
            assert_eq!(engine.pays_to_read_ahead(away), pays, "{prefetch:?}");
        }
    }

    #[test]
    fn only_batches_grow() {
        let source = Arc::new(Source::twelve());
        for (prefetch, wanted) in [(Prefetch::Batch, 128), (Prefetch::One, 1), (Prefetch::None, 1)] {
            let mut engine = engine(&source, prefetch);
            assert!(is_refilled(&mut engine, None, false));
            assert_eq!(engine.size.wanted, wanted);
            engine.batch.pop();
            assert!(is_refilled(&mut engine, None, false));
            // A batch ends with its window.
            assert_eq!(engine.batch.ready.len(), 1);
        }
    }

    #[test]
    fn planned_minibatches_are_ahead_of_the_caller() {
        let source = Arc::new(Source::new(&[&[1; 1000]]));
        let mut engine = engine(&source, Prefetch::Batch);
        assert!(is_refilled(&mut engine, None, false));
        engine.batch.pop();
        assert!(is_refilled(&mut engine, None, false));
        assert_eq!(engine.batch.ready.len(), 128);
        engine.batch.ready.clear();
        // Another batch was selected while this one was packed.
        assert!(engine.recall().expect("no error"));
    }

    #[test]
    fn forgotten_engine_is_not_waited_for() {
        let source = Arc::new(Source::twelve());
        source.closes_gate(true);
        let mut engine = engine(&source, Prefetch::None);
        assert!(!is_refilled(&mut engine, Some(Instant::now()), false));
        let opener = {
            let source = Arc::clone(&source);
            std::thread::spawn(move || {
                std::thread::sleep(Duration::from_secs(2));
                source.closes_gate(false);
            })
        };
        engine.forget();
        assert!(source.is_gate_closed(), "the thread still reads");
        source.closes_gate(false);
        drop(opener);
    }
}
