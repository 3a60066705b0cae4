//! Chunks on their way into memory. Whatever is loaded for a reader has ended when the reader is destroyed: users' code may
//! be unloaded then.

use crate::deserialize::{Chunk, ChunkSource};
use crate::pool::Pool;
use crate::sequence::ChunkId;
use crate::{Error, Result, exit};
use parking_lot::{Condvar, Mutex};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// A chunk that is being loaded, or was and is not taken yet.
#[derive(Default)]
pub(super) struct Load {
    outcome: Mutex<Option<Result<Arc<dyn Chunk>>>>,
    done: Condvar,
}

impl Load {
    /// Waits until it is done, for [`Load::wait`] to find it so.
    pub(super) fn finish(&self) {
        exit::outside(|| {
            let mut outcome = self.outcome.lock();
            while outcome.is_none() {
                self.done.wait(&mut outcome);
            }
        });
    }

    /// Waits for the chunk, and takes it.
    pub(super) fn wait(&self) -> Result<Arc<dyn Chunk>> {
        exit::outside(|| {
            let mut outcome = self.outcome.lock();
            loop {
                match outcome.take() {
                    Some(outcome) => return outcome,
                    None => self.done.wait(&mut outcome),
                }
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
                false => result.end(Err(Error::state("The process ends, so nothing is loaded any more."))),
            }),
            None => self.pool.spawn(move || session.load(result, chunk)),
        }
        load
    }

    /// Loads a chunk, and waits for it.
    pub(super) fn load(&self, chunk: ChunkId) -> Result<Arc<dyn Chunk>> {
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
            while !self.session.is_idle() {
                if !self.pool.help() {
                    let mut state = self.session.state.lock();
                    while state.running > 0 {
                        self.session.idle.wait(&mut state);
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
