//! Chunks on their way into memory. Whatever is loaded for a reader has ended when the reader is destroyed: users' code may
//! be unloaded then.

use crate::cancel::{self, Wake};
use crate::deserialize::{Chunk, ChunkSource};
use crate::pool::Pool;
use crate::sequence::ChunkId;
use crate::sync::{Condvar, Mutex};
use crate::{Error, Result, exit};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// A chunk that is being loaded, or was and is not taken yet.
#[derive(Default)]
pub(super) struct Load {
    outcome: Mutex<Outcome>,
    done: Condvar,
}

type Outcome = Option<Result<Arc<dyn Chunk>>>;

impl Wake for Load {
    fn wake(&self) {
        drop(self.outcome.lock());
        self.done.notify_all();
    }
}

impl Load {
    /// One that has loaded a chunk.
    pub(super) fn done(chunk: Arc<dyn Chunk>) -> Load {
        Load { outcome: Mutex::new(Some(Ok(chunk))), done: Condvar::new() }
    }

    /// Waits until it is done, for [`Load::wait`] to find it so.
    pub(super) fn finish(self: &Arc<Self>) -> Result<()> {
        self.wait_for(|outcome| outcome.is_some().then_some(Ok(())))
    }

    /// Waits for the chunk, and takes it. A call that is cancelled leaves it for the next one.
    pub(super) fn wait(self: &Arc<Self>) -> Result<Arc<dyn Chunk>> {
        self.wait_for(Option::take)
    }

    /// Waits until `look` finds something, or the call is cancelled.
    fn wait_for<R>(self: &Arc<Self>, look: impl Fn(&mut Outcome) -> Option<Result<R>>) -> Result<R> {
        let waiting = cancel::waiting(self);
        exit::outside(|| {
            let mut outcome = self.outcome.lock();
            loop {
                if let Some(found) = look(&mut outcome) {
                    return found;
                }
                waiting.check()?;
                if exit::has_lost_threads() {
                    return Err(exit::refusal("nothing is loaded any more"));
                }
                self.done.wait_for(&mut outcome, exit::LOOK);
            }
        })
    }

    fn end(&self, outcome: Result<Arc<dyn Chunk>>) {
        *self.outcome.lock() = Some(outcome);
        self.done.notify_all();
    }
}

/// Starts loads, on the deserializer's own threads or on the pool, and ends them when it is dropped: those that have not
/// begun never do, and it waits for those that have.
pub(super) struct Loads {
    deserializer: Arc<dyn ChunkSource>,
    pool: Pool,
    session: Arc<Session>,
}

/// What the loads of one reader share.
struct Session {
    state: Mutex<State>,
    /// No load is running any more.
    idle: Condvar,
}

struct State {
    /// Gone when the reader ends.
    deserializer: Option<Arc<dyn ChunkSource>>,
    running: usize,
}

impl Session {
    /// The deserializer for a load that begins now; `None` if the reader has ended.
    fn begin(&self) -> Option<Arc<dyn ChunkSource>> {
        let mut state = self.state.lock();
        let deserializer = state.deserializer.clone()?;
        state.running += 1;
        Some(deserializer)
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

    fn load(&self, load: Arc<Load>, chunk: ChunkId) {
        // The store may have let go of the load by now.
        if Arc::strong_count(&load) == 1 {
            return;
        }
        let Some(deserializer) = self.begin() else { return };
        let outcome = catch_unwind(AssertUnwindSafe(|| deserializer.load(chunk)))
            .unwrap_or_else(|_| Err(Error::internal(format!("Loading chunk {chunk} panicked."))));
        load.end(outcome);
        // Perhaps the last owners of a chunk and of the deserializer, whose destructors may be the user's code.
        drop(load);
        drop(deserializer);
        self.end();
    }
}

impl Loads {
    pub(super) fn new(deserializer: Arc<dyn ChunkSource>, pool: Pool) -> Loads {
        let state = State { deserializer: Some(Arc::clone(&deserializer)), running: 0 };
        let session = Arc::new(Session { state: Mutex::new(state), idle: Condvar::new() });
        Loads { deserializer, pool, session }
    }

    /// Starts loading a chunk.
    pub(super) fn start(&self, chunk: ChunkId) -> Arc<Load> {
        let load = Arc::new(Load::default());
        let (result, session) = (Arc::clone(&load), Arc::clone(&self.session));
        match self.deserializer.loader() {
            Some(loader) => loader.spawn(move |may_run| match may_run {
                true => session.load(result, chunk),
                false => result.end(Err(exit::refusal("nothing is loaded any more"))),
            }),
            None => self.pool.spawn(move || session.load(result, chunk)),
        }
        load
    }

    /// Loads a chunk, and waits for it.
    pub(super) fn load(&self, chunk: ChunkId) -> Result<Arc<dyn Chunk>> {
        match cancel::is_possible() {
            // What is loaded may be shared with others who need it, so it is not cancelled; waiting for it is.
            true => self.start(chunk).wait(),
            false => self.load_here(chunk),
        }
    }

    fn load_here(&self, chunk: ChunkId) -> Result<Arc<dyn Chunk>> {
        let deserializer = &self.deserializer;
        match deserializer.loader() {
            Some(_) => deserializer.load(chunk),
            None => self.pool.install(|| deserializer.load(chunk)),
        }
    }

    /// Waits until no load is running.
    fn finish(&self) {
        exit::outside(|| {
            // A thread of the pool has to do the pool's work itself, or it might wait for it in vain.
            while !self.session.is_idle() && !exit::has_lost_threads() {
                if !self.pool.help() {
                    let mut state = self.session.state.lock();
                    while state.running > 0 && !exit::has_lost_threads() {
                        self.session.idle.wait_for(&mut state, exit::LOOK);
                    }
                }
            }
        });
    }
}

impl Drop for Loads {
    fn drop(&mut self) {
        // Dropped without the lock: it may be the last owner.
        let last = self.session.state.lock().deserializer.take();
        drop(last);
        self.finish();
        // Chunks go back to the user on threads of their own.
        self.deserializer.finish();
    }
}

#[cfg(all(test, shuttle))]
mod schedules {
    use super::*;
    use crate::deserialize::SourceMemory;
    use crate::deserialize::loader::Loader;
    use crate::sequence::{Loaded, SequenceId, SequenceKey};
    use crate::stream::StreamInfo;
    use crate::sync::{explore, thread};
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// Chunks without data. An odd chunk cannot be loaded, and chunk 6 panics.
    struct Source {
        loader: Option<Loader>,
        loading: AtomicUsize,
    }

    struct Empty;

    impl Chunk for Empty {
        fn sequence(&self, _stream: usize, _index: u32) -> Loaded<'_> {
            Loaded::Invalid
        }
    }

    impl Source {
        fn new(with_loader: bool) -> Arc<Source> {
            let loader = with_loader.then(|| Loader::start(2).expect("threads"));
            Arc::new(Source { loader, loading: AtomicUsize::new(0) })
        }
    }

    impl ChunkSource for Source {
        fn streams(&self) -> &[StreamInfo] {
            &[]
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

        fn reported_keys(&self, _: &[SequenceId], _: bool, _: &mut Vec<SequenceKey>) {}

        fn fingerprint(&self) -> u64 {
            0
        }

        fn memory(&self) -> SourceMemory {
            SourceMemory::default()
        }

        fn loader(&self) -> Option<&Loader> {
            self.loader.as_ref()
        }
    }

    /// Loads chunks, waits for some of them, lets go of others, and ends the reader while loads run.
    fn use_and_drop(with_loader: bool) {
        let (source, pool) = (Source::new(with_loader), Pool::of_model(2));
        let loads = Loads::new(Arc::clone(&source) as Arc<dyn ChunkSource>, pool);
        let mut started: Vec<_> = [2, 3, 4, 6, 8].map(|chunk| loads.start(chunk)).into();
        drop(started.remove(2));
        assert!(started[0].wait().is_ok());
        started[1].finish().expect("no call is cancelled");
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
            let (ended, end) = crate::sync::mpsc::sync_channel(1);
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
