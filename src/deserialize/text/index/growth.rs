//! An index that grows while its file is read: nobody has to wait for the end of a large file to see its start.
//!
//! The file is scanned in steps, as work of the library's pool. A step adds the chunks that are complete to the index
//! and is followed by another one as long as the chunk that is read is near the end of what is known, or somebody waits
//! for a chunk that is not known. So scanning stays a little ahead of reading: nobody waits, and what has been
//! scanned is still in the page cache when it is parsed. Chunks are the same as of an index that is made whole.
//!
//! What is wrong in the file is an error for whoever asks for the chunk it would be in.

use super::indexer::{Indexer, Scan};
use super::lookup::Fingerprint;
use super::main_stream::Needle;
use super::parts::{Part, Parts};
use super::scan::Cut;
use super::source::Source;
use super::start::Start;
use super::table::Table;
use super::{IndexOptions, warnings};
use crate::corpus::Corpus;
use crate::deserialize::{ChunkInfo, Known};
use crate::file::{DataFile, FileState};
use crate::log::{Level, Logger};
use crate::pool::Pool;
use crate::sequence::ChunkId;
use crate::{Error, Result};
use parking_lot::{Condvar, Mutex, MutexGuard};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Bytes of a step: two chunks of CNTK's default size, some hundredths of a second.
pub const STEP: u64 = 64 << 20;

/// Steps that scanning stays ahead of reading.
const STEPS_AHEAD: u64 = 2;

/// Who waits is told how far it is, but not more often than this.
const PATIENCE: Duration = Duration::from_secs(5);

/// An index in the making.
pub(super) struct Growth(Arc<Shared>);

struct Shared {
    file: DataFile,
    file_state: FileState,
    options: IndexOptions,
    corpus: Arc<Corpus>,
    needle: Option<Needle>,
    pool: Pool,
    step: u64,
    begun: Instant,
    parts: Arc<Parts>,
    state: Mutex<State>,
    /// A step has ended.
    changed: Condvar,
    /// The index is not needed any more.
    abandoned: AtomicBool,
}

struct State {
    /// Waits for the next step; a step takes it along.
    indexer: Option<Indexer>,
    /// How many parts and chunks are known, and how far the file is scanned.
    parts: usize,
    chunks: usize,
    scanned: u64,
    /// The fingerprint of all known chunks.
    fingerprint: Fingerprint,
    /// How it ended; `None` while there is more to be scanned.
    outcome: Option<Result<()>>,
    /// So many chunks are waited for.
    wanted: usize,
    /// Where the farthest chunk in use ends.
    used: u64,
    /// When somebody who waits was last told how far it is.
    told: Instant,
}

impl Growth {
    /// Scans until a first chunk is known, or all. Runs on a thread of the pool.
    pub fn begin(
        file: &DataFile,
        options: &IndexOptions,
        corpus: &Arc<Corpus>,
        pool: &Pool,
        step: u64,
    ) -> Result<Growth> {
        let source = Source::new(file)?;
        let start = Start::read(&source, options.skip_sequence_ids, corpus)?;
        warnings::of_ignored_ids(&source, options, start, &Logger { trace_level: options.trace_level })?;
        // One part for each step that completes a chunk.
        let steps = (source.size() - start.content).div_ceil(step) as usize;
        let state = State {
            indexer: None,
            parts: 0,
            chunks: 0,
            scanned: start.content,
            fingerprint: Fingerprint::default(),
            outcome: None,
            wanted: 1,
            used: start.content,
            told: Instant::now(),
        };
        let shared = Shared {
            file_state: source.state,
            file: file.clone(),
            options: options.clone(),
            corpus: Arc::clone(corpus),
            needle: options.main_stream.as_deref().map(Needle::new),
            pool: pool.clone(),
            step,
            begun: Instant::now(),
            parts: Arc::new(Parts::room(steps)),
            state: Mutex::new(state),
            changed: Condvar::new(),
            abandoned: AtomicBool::new(false),
        };
        let mut indexer = Indexer::new(start, source.size(), options.chunk_size);
        loop {
            let mut state = shared.step(indexer);
            if let Some(Err(error)) = &state.outcome {
                return Err(error.clone());
            }
            match state.indexer.take() {
                Some(next) if state.chunks == 0 => indexer = next,
                next => {
                    state.indexer = next;
                    break;
                }
            }
        }
        Ok(Growth(Arc::new(shared)))
    }

    pub fn parts(&self) -> &Arc<Parts> {
        &self.0.parts
    }

    /// A chunk; `None` behind the last one. Waits until that is known.
    pub fn chunk(&self, chunk: ChunkId) -> Result<Option<ChunkInfo>> {
        let mut state = self.0.state.lock();
        if chunk as usize >= state.chunks {
            self.0.wait(&mut state, chunk as usize + 1)?;
        }
        let Some((part, chunk)) = self.0.parts.find(chunk) else { return Ok(None) };
        state.used = state.used.max(part.table.places[chunk].end);
        self.0.go_on(&mut state);
        Ok(Some(part.table.chunks[chunk]))
    }

    /// Waits until all chunks are known.
    pub fn wait_for_all(&self) -> Result<()> {
        self.0.wait(&mut self.0.state.lock(), usize::MAX)
    }

    pub fn known(&self) -> Known {
        let state = self.0.state.lock();
        Known { chunks: state.chunks, all: matches!(state.outcome, Some(Ok(()))) }
    }

    /// Ends it: the step under way ends early, and whoever waits gets an error.
    pub fn abandon(&self) {
        self.0.abandoned.store(true, Ordering::Relaxed);
        let closed = || Err(Error::state("The reader was closed while its data were indexed."));
        self.0.state.lock().outcome.get_or_insert_with(closed);
        self.0.changed.notify_all();
    }
}

impl Drop for Growth {
    fn drop(&mut self) {
        // A step holds on to the rest of it for as long as it runs; nobody waits for that.
        self.0.abandoned.store(true, Ordering::Relaxed);
    }
}

impl Shared {
    /// Scans a step further and adds what that completes.
    fn step(&self, indexer: Indexer) -> MutexGuard<'_, State> {
        let at = indexer.at();
        let outcome = catch_unwind(AssertUnwindSafe(|| self.scan(indexer)));
        let (mut advanced, table, indexer) = outcome.unwrap_or_else(|_| {
            let error = Error::internal("Indexing panicked.").in_file(self.file.path());
            (Err(error), Table::default(), None)
        });
        // Steps come one after the other: nobody else changes this.
        let before = self.state.lock().fingerprint;
        let mut fingerprint = before;
        fingerprint.add(&table, table.chunks.len());

        let mut state = self.state.lock();
        state.scanned = at.saturating_add(self.step).min(self.file_state.size);
        state.fingerprint = fingerprint;
        let chunks = table.chunks.len();
        if chunks > 0 {
            if self.parts.add(state.parts, Part::new(table, state.chunks, before)) {
                state.parts += 1;
                state.chunks += chunks;
            } else {
                advanced = Err(Error::internal("an index of more parts than there is room for"));
            }
        }
        let is_abandoned = state.outcome.is_some();
        let is_done = indexer.is_none();
        state.indexer = indexer;
        if !is_abandoned && (is_done || advanced.is_err()) {
            state.outcome = Some(advanced.clone());
        }
        self.changed.notify_all();
        MutexGuard::unlocked(&mut state, || {
            let log = Logger { trace_level: self.options.trace_level };
            match advanced {
                _ if is_abandoned => {}
                Ok(()) if !is_done => {}
                Ok(()) => {
                    self.parts.announce(&log, self.file.path(), ", while it was read", self.begun.elapsed());
                    warnings::of_repeats(&self.file, &self.corpus, &self.parts, &log);
                }
                Err(error) => log.write(Level::Warning, &format!("Reading will end with an error: {error}")),
            }
        });
        state
    }

    /// How far scanning came, what that completed, and the indexer if there is more to do.
    fn scan(&self, mut indexer: Indexer) -> (Result<()>, Table, Option<Indexer>) {
        let Shared { file, file_state, corpus, needle, .. } = self;
        let source = Source { file, state: *file_state, cancelled: Some(&self.abandoned) };
        let scan = Scan { source: &source, corpus, main_stream: needle.as_ref(), cut: Cut::default() };
        let to = indexer.at().saturating_add(self.step);
        match indexer.advance(&scan, to) {
            Ok(()) if indexer.is_done() => (Ok(()), indexer.finish(), None),
            Ok(()) => (Ok(()), indexer.take_complete(), Some(indexer)),
            Err(error) => (Err(error.in_file(file.path())), indexer.take_complete(), None),
        }
    }

    /// Starts a step if one is needed and none is under way.
    fn go_on(self: &Arc<Self>, state: &mut State) {
        let near = state.used.saturating_add(STEPS_AHEAD * self.step) > state.scanned;
        if (state.wanted > state.chunks || near)
            && let Some(indexer) = state.indexer.take()
        {
            let shared = Arc::clone(self);
            self.pool.spawn(move || shared.go_on(&mut shared.step(indexer)));
        }
    }

    /// Waits until so many chunks are known, or all that there are.
    fn wait(self: &Arc<Self>, state: &mut MutexGuard<'_, State>, chunks: usize) -> Result<()> {
        let log = Logger { trace_level: self.options.trace_level };
        while state.chunks < chunks {
            if let Some(outcome) = &state.outcome {
                return outcome.clone();
            }
            state.wanted = state.wanted.max(chunks);
            self.go_on(state);
            self.changed.wait_for(state, PATIENCE);
            if state.told.elapsed() >= PATIENCE && log.shows(Level::Info) {
                state.told = Instant::now();
                let (done, all) = (state.scanned >> 20, self.file_state.size >> 20);
                let line = format!("Indexing '{}': {done} of {all} MB are done.", self.file.path());
                MutexGuard::unlocked(state, || log.write(Level::Info, &line));
            }
        }
        Ok(())
    }
}
