//! Chunks on their way into memory. Loading is started, never waited for where it runs.
//!
//! [`ChunkSource::start`] starts the jobs that a chunk needs, each on the threads of the deserializer that has the data: the
//! pool for the library's formats, the [`Loader`] for users' code. It returns a [`Load`] at once. A wrapper makes its load of
//! that of the wrapped deserializer, a bundle of those of its members; the thread that waits for the load puts the chunk
//! together. So no thread of the pool ever waits for a load, and users' code may wait for readers of this library.
//!
//! Whatever is loaded for a reader has ended when the reader is destroyed: users' code may be unloaded then.

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

/// A chunk that is being loaded, or was. Clones are the same load. Jobs that have not begun when nobody has the load any more
/// never do.
#[derive(Clone)]
pub struct Load(Progress);

#[derive(Clone)]
enum Progress {
    /// It has ended. An image that is a chunk by itself is loaded without a job, and without memory for one.
    Loaded(Arc<dyn Chunk>),
    Started(Arc<Step>),
}

pub(super) enum Step {
    /// Runs on some thread.
    Job(Slot),
    /// Put together from other loads by whoever waits.
    Made(Vec<Load>, Box<Make>),
}

/// Makes a chunk of the chunks of other loads, in their order.
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
    /// One that has ended.
    pub fn done(outcome: Outcome) -> Load {
        Load(match outcome {
            Ok(chunk) => Progress::Loaded(chunk),
            Err(_) => Progress::Started(Arc::new(Step::Job(Slot::new(Some(outcome))))),
        })
    }

    /// Of several loads, at least one. It fails if one of them does, with the error of the first in their order.
    pub fn of(
        loads: Vec<Load>,
        make: impl Fn(&[Arc<dyn Chunk>]) -> Arc<dyn Chunk> + Send + Sync + 'static,
    ) -> Load {
        Load(Progress::Started(Arc::new(Step::Made(loads, Box::new(make)))))
    }

    /// The same load with another chunk around that of this one.
    pub fn wrapped(self, wrap: impl Fn(Arc<dyn Chunk>) -> Arc<dyn Chunk> + Send + Sync + 'static) -> Load {
        Load::of(vec![self], move |chunks| wrap(Arc::clone(&chunks[0])))
    }

    /// Does not keep the load alive.
    pub fn downgrade(&self) -> WeakLoad {
        match &self.0 {
            Progress::Loaded(chunk) => WeakLoad(WeakProgress::Loaded(Arc::downgrade(chunk))),
            Progress::Started(step) => WeakLoad(WeakProgress::Started(Arc::downgrade(step))),
        }
    }

    /// Whether a job has failed, so that another load may fare better.
    pub fn has_failed(&self) -> bool {
        let Progress::Started(step) = &self.0 else { return false };
        match &**step {
            Step::Job(slot) => matches!(&*slot.outcome.lock(), Some(Err(_))),
            Step::Made(loads, _) => loads.iter().any(Load::has_failed),
        }
    }

    /// Waits for the chunk. A call that is cancelled leaves it for the next one. Never on a thread of the pool, which may have to
    /// do the loading.
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

    /// Waits until all jobs have ended, in failure or not. An error if the call is cancelled.
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

/// The error of what is not loaded because the process ends.
fn nothing_more() -> Error {
    exit::refusal("nothing is loaded any more")
}

/// A [`Load`] for as long as somebody else has it.
pub struct WeakLoad(WeakProgress);

enum WeakProgress {
    Loaded(Weak<dyn Chunk>),
    Started(Weak<Step>),
}

impl WeakLoad {
    /// The load, if somebody still has it.
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
    /// The call that jobs on the pool belong to.
    call: Current,
}

impl Starter {
    /// Has the pool load a chunk of `source`.
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

    /// Has users' threads load a chunk of `source`.
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

    /// The job holds nothing of the source's before it begins, and nothing when the session has ended. It is given false once the
    /// process ends.
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
            // Perhaps nobody has the load any more.
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
                return end(Err(Error::internal("The reader has ended that a chunk was loaded for.")));
            }
            let source = source.upgrade();
            let outcome = catch_unwind(AssertUnwindSafe(|| match &source {
                Some(source) => load(source, chunk),
                None => Err(Error::internal("A deserializer was dropped before its reader.")),
            }));
            let panicked = |_| Err(Error::internal(format!("Loading chunk {chunk} panicked.")));
            end(outcome.unwrap_or_else(panicked));
            // Perhaps the last owners of a chunk and of the deserializer, whose destructors may be the user's code.
            drop(step);
            drop(source);
            session.end();
        };
        (Load(Progress::Started(started)), job)
    }
}

/// State shared by the loads of one reader.
struct Session {
    state: Mutex<State>,
    /// No load is running any more.
    idle: Condvar,
}

#[derive(Default)]
struct State {
    /// No load begins any more.
    has_ended: bool,
    running: usize,
    /// Users' threads that have got jobs.
    loaders: Vec<Arc<Loader>>,
}

impl Session {
    /// Whether a load may begin now; it must [end](Session::end) then.
    fn begin(&self) -> bool {
        let mut state = self.state.lock();
        state.running += usize::from(!state.has_ended);
        !state.has_ended
    }

    /// A load has ended, and has dropped all that is the deserializer's.
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

/// Loads the chunks of a source, and ends that when it is dropped: loads that have not begun never do, and it waits for those
/// that have.
pub struct Loads {
    source: Arc<dyn ChunkSource>,
    starter: Starter,
}

impl Loads {
    /// Loads that outlive the calls that start them.
    pub fn new(source: Arc<dyn ChunkSource>, pool: Pool) -> Loads {
        let session = Arc::new(Session { state: Mutex::default(), idle: Condvar::new() });
        let call = cancel::apart(Current::get);
        Loads { source, starter: Starter { pool, session, call } }
    }

    /// Loads that are part of this call, and end early if it is cancelled.
    pub fn of_this_call(source: Arc<dyn ChunkSource>, pool: Pool) -> Loads {
        let mut loads = Loads::new(source, pool);
        loads.starter.call = Current::get();
        loads
    }

    /// Starts loading a chunk.
    pub fn start(&self, chunk: ChunkId) -> Load {
        Arc::clone(&self.source).start(chunk, &self.starter)
    }

    /// Loads a chunk, and waits for it.
    pub fn load(&self, chunk: ChunkId) -> Result<Arc<dyn Chunk>> {
        self.start(chunk).wait()
    }

    /// Waits until no load is running.
    fn finish(&self) {
        let Starter { pool, session, .. } = &self.starter;
        exit::outside(|| {
            // A thread of the pool has to do the pool's work itself, or it might wait for it in vain.
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
        // Chunks go back to the user on threads of their own.
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

    /// Chunks without data. An odd chunk cannot be loaded, and chunk 6 panics.
    struct Source {
        loader: Option<Arc<Loader>>,
        loading: AtomicUsize,
    }

    struct Empty;

    impl LeafChunk for Empty {
        fn sequence(&self, _stream: usize, _index: u32) -> Loaded<'_> {
            Loaded::Invalid
        }
    }

    impl Source {
        fn new(with_loader: bool) -> Arc<Source> {
            let loader = with_loader.then(|| Arc::new(Loader::start(2).expect("threads")));
            Arc::new(Source { loader, loading: AtomicUsize::new(0) })
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

    impl ChunkSource for Source {
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

    /// Loads chunks, waits for some of them, lets go of others, and ends the reader while loads run.
    fn use_and_drop(with_loader: bool) {
        let (source, pool) = (Source::new(with_loader), Pool::of_model(2));
        let loads = Loads::new(Arc::clone(&source) as Arc<dyn ChunkSource>, pool);
        let mut started: Vec<_> = [2, 3, 4, 6, 8].map(|chunk| loads.start(chunk)).into();
        drop(started.remove(2));
        assert!(started[0].wait().is_ok());
        started[1].settle().expect("no call is cancelled");
        assert!(started[1].wait().is_err());
        assert!(started[2].wait().is_err());
        let last = started.pop().expect("the last one");
        drop(loads);
        // All that runs for a reader has ended when it is dropped: nothing else has the source.
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
    fn loads_on_threads_of_their_own_end_with_the_reader() {
        explore::random("loading on users' threads, waited for, let go, dropped while busy", || {
            use_and_drop(true);
        });
    }

    /// On a thread of the pool, waiting means doing the pool's work.
    #[test]
    fn loads_may_be_dropped_on_a_thread_of_the_pool() {
        explore::random("loading on the pool, dropped on a thread of it", || {
            let (source, pool) = (Source::new(false), Pool::of_model(1));
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
