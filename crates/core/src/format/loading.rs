//! Loading of chunks. Loads are started on one thread and awaited on another.
//!
//! [`ChunkSource::start`] starts the jobs that a chunk needs, each on the threads of the
//! deserializer that has the data: the pool for the library's formats, the [`Loader`] for users'
//! code. It returns a [`Load`] at once. A wrapper builds its load from the wrapped deserializer's
//! load, a bundle from those of its members; the thread that waits for the load assembles the
//! chunk. So no pool thread ever waits for a load, and users' code may wait for readers of this
//! library.
//!
//! All loads for a reader end before the reader is destroyed, because users' code may be unloaded
//! after that.

use super::loader::Loader;
use super::{Chunk, ChunkSource};
use crate::runtime::cancel::{self, Current, Wake};
use crate::runtime::exit;
use crate::runtime::pool::Pool;
use crate::runtime::sync::{Condvar, Mutex};
use crate::sequence::ChunkId;
use crate::{Error, Result};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Weak};

type Outcome = Result<Arc<dyn Chunk>>;

/// A chunk that is being loaded or has been loaded. Clones share one load. Once the last clone is
/// dropped, jobs that have not started are skipped.
#[derive(Clone)]
pub struct Load(Progress);

#[derive(Clone)]
enum Progress {
    /// Finished. A single image as a chunk is loaded without a job, and without allocating one.
    Loaded(Arc<dyn Chunk>),
    Started(Arc<Step>),
}

pub(super) enum Step {
    /// Runs on some thread.
    Job(Slot),
    /// Assembled from other loads by the thread that waits.
    Made(Vec<Load>, Box<Make>),
}

/// Makes a chunk from the chunks of other loads, in their order.
type Make = dyn Fn(&[Arc<dyn Chunk>]) -> Arc<dyn Chunk> + Send + Sync;

/// The result of a job.
pub(super) struct Slot {
    outcome: Mutex<Option<Outcome>>,
    done: Condvar,
}

impl Slot {
    fn new(outcome: Option<Outcome>) -> Slot {
        Slot { outcome: Mutex::new(outcome), done: Condvar::new() }
    }
}

impl Wake for Step {
    fn wake(&self) {
        if let Step::Job(slot) = self {
            drop(slot.outcome.lock());
            slot.done.notify_all();
        }
    }
}

impl Load {
    /// Creates a finished load.
    pub fn done(outcome: Outcome) -> Load {
        Load(match outcome {
            Ok(chunk) => Progress::Loaded(chunk),
            Err(_) => Progress::Started(Arc::new(Step::Job(Slot::new(Some(outcome))))),
        })
    }

    /// Combines loads, at least one. The load fails if any of them does, with the error of the
    /// first such load in their order.
    pub fn of(
        loads: Vec<Load>,
        make: impl Fn(&[Arc<dyn Chunk>]) -> Arc<dyn Chunk> + Send + Sync + 'static,
    ) -> Load {
        Load(Progress::Started(Arc::new(Step::Made(loads, Box::new(make)))))
    }

    /// Wraps the chunk of this load in another chunk.
    pub fn wrapped(self, wrap: impl Fn(Arc<dyn Chunk>) -> Arc<dyn Chunk> + Send + Sync + 'static) -> Load {
        Load::of(vec![self], move |chunks| wrap(Arc::clone(&chunks[0])))
    }

    /// Returns a reference that does not keep the load alive.
    pub fn downgrade(&self) -> WeakLoad {
        match &self.0 {
            Progress::Loaded(chunk) => WeakLoad(WeakProgress::Loaded(Arc::downgrade(chunk))),
            Progress::Started(step) => WeakLoad(WeakProgress::Started(Arc::downgrade(step))),
        }
    }

    /// Whether a job has failed, so that loading again may succeed.
    pub fn has_failed(&self) -> bool {
        let Progress::Started(step) = &self.0 else { return false };
        match &**step {
            Step::Job(slot) => matches!(&*slot.outcome.lock(), Some(Err(_))),
            Step::Made(loads, _) => loads.iter().any(Load::has_failed),
        }
    }

    /// Waits for the chunk. If the call is cancelled, the next call can still wait for it. Must not
    /// be called on a pool thread, which may be needed for loading.
    pub fn wait(&self) -> Outcome {
        let step = match &self.0 {
            Progress::Loaded(chunk) => return Ok(Arc::clone(chunk)),
            Progress::Started(step) => step,
        };
        match &**step {
            Step::Made(loads, make) => Ok(make(&loads.iter().map(Load::wait).collect::<Result<Vec<_>>>()?)),
            Step::Job(slot) => {
                self.settle()?;
                slot.outcome.lock().clone().unwrap_or_else(|| Err(Error::internal("A load has not ended.")))
            }
        }
    }

    /// Waits until all jobs have succeeded or failed. Fails if the call is cancelled.
    pub fn settle(&self) -> Result<()> {
        let Progress::Started(step) = &self.0 else { return Ok(()) };
        let slot = match &**step {
            Step::Made(loads, _) => return loads.iter().try_for_each(Load::settle),
            Step::Job(slot) if slot.outcome.lock().is_some() => return Ok(()),
            Step::Job(slot) => slot,
        };
        let waiting = cancel::waiting(step);
        exit::outside(|| {
            let mut outcome = slot.outcome.lock();
            while outcome.is_none() {
                waiting.check()?;
                if exit::has_lost_threads() {
                    return Err(nothing_more());
                }
                slot.done.wait_for(&mut outcome, exit::LOOK);
            }
            Ok(())
        })
    }
}

/// The error of a load that is refused because the process is exiting.
fn nothing_more() -> Error {
    exit::refusal("nothing is loaded any more")
}

/// A [`Load`] that lives only while another owner has it.
pub struct WeakLoad(WeakProgress);

enum WeakProgress {
    Loaded(Weak<dyn Chunk>),
    Started(Weak<Step>),
}

impl WeakLoad {
    /// Returns the load, if another owner still has it.
    pub fn upgrade(&self) -> Option<Load> {
        Some(Load(match &self.0 {
            WeakProgress::Loaded(chunk) => Progress::Loaded(chunk.upgrade()?),
            WeakProgress::Started(step) => Progress::Started(step.upgrade()?),
        }))
    }
}

/// Starts the jobs of loads.
pub struct Starter {
    pool: Pool,
    session: Arc<Session>,
    /// The call to which jobs on the pool belong.
    call: Current,
}

impl Starter {
    /// Loads a chunk of `source` on the pool.
    pub fn on_pool<S: Send + Sync + 'static>(
        &self,
        source: &Arc<S>,
        chunk: ChunkId,
        load: impl FnOnce(&S, ChunkId) -> Outcome + Send + 'static,
    ) -> Load {
        let (result, job) = self.job(source, chunk, load);
        let call = self.call.clone();
        self.pool.spawn(move || call.within(|| job(true)));
        result
    }

    /// Loads a chunk of `source` on users' threads.
    pub(crate) fn on_loader<S: Send + Sync + 'static>(
        &self,
        loader: &Arc<Loader>,
        source: &Arc<S>,
        chunk: ChunkId,
        load: impl FnOnce(&S, ChunkId) -> Outcome + Send + 'static,
    ) -> Load {
        self.session.will_drain(loader);
        let (result, job) = self.job(source, chunk, load);
        loader.spawn(job);
        result
    }

    /// Creates a job and its load. The job owns nothing of the source before it starts or after the
    /// session has ended. It gets `false` once the process is exiting.
    fn job<S: Send + Sync + 'static>(
        &self,
        source: &Arc<S>,
        chunk: ChunkId,
        load: impl FnOnce(&S, ChunkId) -> Outcome + Send + 'static,
    ) -> (Load, impl FnOnce(bool) + Send + 'static) {
        let started = Arc::new(Step::Job(Slot::new(None)));
        let (step, source) = (Arc::downgrade(&started), Arc::downgrade(source));
        let session = Arc::clone(&self.session);
        let job = move |may_run: bool| {
            // The load may have been dropped already.
            let Some(step) = step.upgrade() else { return };
            let Step::Job(slot) = &*step else { return };
            let end = |outcome| {
                *slot.outcome.lock() = Some(outcome);
                slot.done.notify_all();
            };
            if !may_run {
                return end(Err(nothing_more()));
            }
            if !session.begin() {
                return end(Err(Error::internal("A chunk was loaded for a reader that has ended.")));
            }
            let source = source.upgrade();
            let outcome = catch_unwind(AssertUnwindSafe(|| match &source {
                Some(source) => load(source, chunk),
                None => Err(Error::internal("A deserializer was dropped before its reader.")),
            }));
            let panicked = |_| Err(Error::internal(format!("Loading chunk {chunk} panicked.")));
            end(outcome.unwrap_or_else(panicked));
            // These may be the last owners of a chunk and of the deserializer, whose destructors
            // may be user code.
            drop(step);
            drop(source);
            session.end();
        };
        (Load(Progress::Started(started)), job)
    }
}

/// State shared by the loads of one reader.
struct Session {
    state: Mutex<SessionState>,
    /// Signalled when no load is running.
    idle: Condvar,
}

#[derive(Default)]
struct SessionState {
    /// No more loads may start.
    has_ended: bool,
    running: usize,
    /// Users' threads that were given jobs.
    loaders: Vec<Arc<Loader>>,
}

impl Session {
    /// Returns whether a load may start now. If so, it must call [`Session::end`] later.
    fn begin(&self) -> bool {
        let mut state = self.state.lock();
        state.running += usize::from(!state.has_ended);
        !state.has_ended
    }

    /// Records that a load has ended and dropped everything of the deserializer's.
    fn end(&self) {
        let mut state = self.state.lock();
        state.running -= 1;
        if state.running == 0 {
            self.idle.notify_all();
        }
    }

    fn is_idle(&self) -> bool {
        self.state.lock().running == 0
    }

    fn will_drain(&self, loader: &Arc<Loader>) {
        let mut state = self.state.lock();
        if !state.loaders.iter().any(|known| Arc::ptr_eq(known, loader)) {
            state.loaders.push(Arc::clone(loader));
        }
    }
}

/// Loads the chunks of a source. Dropping it prevents loads from starting and waits for those that
/// are running.
pub struct Loads {
    source: Arc<dyn ChunkSource>,
    starter: Starter,
}

impl Loads {
    /// Creates loads that outlive the calls that start them.
    pub fn new(source: Arc<dyn ChunkSource>, pool: Pool) -> Loads {
        let session = Arc::new(Session { state: Mutex::default(), idle: Condvar::new() });
        let call = cancel::apart(Current::get);
        Loads { source, starter: Starter { pool, session, call } }
    }

    /// Creates loads that are part of this call, and end early if it is cancelled.
    pub fn of_this_call(source: Arc<dyn ChunkSource>, pool: Pool) -> Loads {
        let mut loads = Loads::new(source, pool);
        loads.starter.call = Current::get();
        loads
    }

    /// Starts loading a chunk.
    pub fn start(&self, chunk: ChunkId) -> Load {
        Arc::clone(&self.source).start(chunk, &self.starter)
    }

    /// Loads a chunk and waits for it.
    pub fn load(&self, chunk: ChunkId) -> Result<Arc<dyn Chunk>> {
        self.start(chunk).wait()
    }

    /// Waits until no load is running.
    fn finish(&self) {
        let Starter { pool, session, .. } = &self.starter;
        exit::outside(|| {
            // A pool thread must do pool work itself, or it might wait for that work forever.
            while !session.is_idle() && !exit::has_lost_threads() {
                if !pool.help() {
                    let mut state = session.state.lock();
                    while state.running > 0 && !exit::has_lost_threads() {
                        session.idle.wait_for(&mut state, exit::LOOK);
                    }
                }
            }
        });
    }
}

impl Drop for Loads {
    fn drop(&mut self) {
        self.starter.session.state.lock().has_ended = true;
        self.finish();
        // Their own threads return chunks to the user.
        let loaders = std::mem::take(&mut self.starter.session.state.lock().loaders);
        loaders.iter().for_each(|loader| loader.drain());
    }
}

/// Loads a chunk of a source that belongs to no reader.
#[cfg(any(test, feature = "test-support"))]
pub fn load(source: Arc<dyn ChunkSource>, chunk: ChunkId) -> Outcome {
    Loads::new(source, Pool::shared()?).load(chunk)
}

#[cfg(all(test, shuttle))]
mod schedules {
    use super::*;
    use crate::format::content::Sampler;
    use crate::format::diagnostics::{Diagnostics, NoDiagnostics};
    use crate::format::{LeafChunk, SourceFacts, SourceMemory};
    use crate::runtime::sync::{explore, thread};
    use crate::sequence::{Loaded, SequenceId, SequenceKey};
    use crate::stream::StreamInfo;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// Chunks without data. Loading an odd chunk fails, and loading chunk 6 panics.
    struct TestSource {
        loader: Option<Arc<Loader>>,
        loading: AtomicUsize,
    }

    struct Empty;

    impl LeafChunk for Empty {
        fn sequence(&self, _stream: usize, _index: u32) -> Loaded<'_> {
            Loaded::Invalid
        }
    }

    impl TestSource {
        fn new(with_loader: bool) -> Arc<TestSource> {
            let loader = with_loader.then(|| Arc::new(Loader::start(2).expect("threads")));
            Arc::new(TestSource { loader, loading: AtomicUsize::new(0) })
        }

        fn load(&self, chunk: ChunkId) -> Result<Arc<dyn Chunk>> {
            self.loading.fetch_add(1, Ordering::SeqCst);
            thread::yield_now();
            self.loading.fetch_sub(1, Ordering::SeqCst);
            match chunk {
                6 => std::panic::resume_unwind(Box::new("on purpose")),
                _ if chunk % 2 == 1 => Err(Error::data("odd")),
                _ => Ok(Arc::new(Empty)),
            }
        }
    }

    impl ChunkSource for TestSource {
        fn streams(&self) -> &[StreamInfo] {
            &[]
        }

        fn facts(&self) -> SourceFacts {
            SourceFacts::ON_POOL
        }

        fn start(self: Arc<Self>, chunk: ChunkId, on: &Starter) -> Load {
            match &self.loader {
                Some(loader) => on.on_loader(loader, &self, chunk, Self::load),
                None => on.on_pool(&self, chunk, Self::load),
            }
        }

        fn reported_keys(&self, _: &[SequenceId], _: bool, _: &mut Vec<SequenceKey>) {}

        fn fingerprint(&self, _: Option<usize>) -> u64 {
            0
        }

        fn memory(&self) -> SourceMemory {
            SourceMemory::default()
        }

        fn sample_content(&self, _chunks: Option<usize>, sampler: &mut Sampler) -> Result<()> {
            sampler.skip();
            Ok(())
        }

        fn file_bytes(&self) -> Option<u64> {
            None
        }

        fn diagnostics(&self) -> &dyn Diagnostics {
            &NoDiagnostics
        }
    }

    /// Loads chunks, waits for some, drops others, and drops the reader while loads run.
    fn use_and_drop(with_loader: bool) {
        let (source, pool) = (TestSource::new(with_loader), Pool::of_model(2));
        let loads = Loads::new(Arc::clone(&source) as Arc<dyn ChunkSource>, pool);
        let mut started: Vec<_> = [2, 3, 4, 6, 8].map(|chunk| loads.start(chunk)).into();
        drop(started.remove(2));
        assert!(started[0].wait().is_ok());
        started[1].settle().expect("no call is cancelled");
        assert!(started[1].wait().is_err());
        assert!(started[2].wait().is_err());
        let last = started.pop().expect("the last one");
        drop(loads);
        // Everything that ran for the reader ended when it was dropped, and released the source.
        assert_eq!(source.loading.load(Ordering::SeqCst), 0);
        drop((last, started));
        assert_eq!(Arc::strong_count(&source), 1);
    }

    #[test]
    fn loads_on_the_pool_end_with_the_reader() {
        explore::random("loading on the pool, waited for, let go, dropped while busy", || {
            use_and_drop(false)
        });
    }

    #[test]
    fn loads_on_user_threads_end_with_the_reader() {
        explore::random("loading on users' threads, waited for, let go, dropped while busy", || {
            use_and_drop(true);
        });
    }

    /// A pool thread waits by doing pool work.
    #[test]
    fn loads_may_be_dropped_on_a_pool_thread() {
        explore::random("loading on the pool, dropped on a thread of it", || {
            let (source, pool) = (TestSource::new(false), Pool::of_model(1));
            let loads = Loads::new(Arc::clone(&source) as Arc<dyn ChunkSource>, pool.clone());
            let started = [2, 4].map(|chunk| loads.start(chunk));
            let (ended, end) = crate::runtime::sync::mpsc::sync_channel(1);
            pool.spawn(move || {
                drop(loads);
                ended.send(()).expect("somebody waits");
            });
            end.recv().expect("it ends");
            drop(started);
            assert_eq!(source.loading.load(Ordering::SeqCst), 0);
        });
    }
}
