//! An index that is extended while its file is read, so that reading a large file can begin before
//! the whole file is indexed.
//!
//! The file is scanned in steps, which are jobs of the library's pool. A step adds the chunks that
//! it completes to the index. Another step starts when the chunk in use is near the end of the
//! indexed part, or when a thread waits for a chunk beyond it. So scanning stays slightly ahead of
//! reading: no thread waits, and scanned text is still in the page cache when it is parsed. The
//! chunks are the same as in an index that is built at once.
//!
//! Malformed input is reported by the call that asks for the chunk in which it lies.

use super::indexer::{Indexer, Scan};
use super::lookup::Fingerprint;
use super::main_stream::Needle;
use super::parts::{IndexPart, IndexParts};
use super::scan::Cut;
use super::source::SourceFile;
use super::start::Start;
use super::table::IndexTable;
use super::{IndexOptions, warnings};
use cntk_reader_core::corpus::Corpus;
use cntk_reader_core::file::{DataFile, FileState};
use cntk_reader_core::format::handle::FileHandle;
use cntk_reader_core::format::{ChunkInfo, IncrementalTable, IndexProgress};
use cntk_reader_core::runtime::cancel::{self, Waiting, Wake};
use cntk_reader_core::runtime::exit;
use cntk_reader_core::runtime::log::Level;
use cntk_reader_core::runtime::pool::Pool;
use cntk_reader_core::runtime::sync::{Condvar, Mutex, MutexGuard};
use cntk_reader_core::sequence::ChunkId;
use cntk_reader_core::{Error, ErrorKind, Result};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Bytes of a step: two chunks of CNTK's default size, which take a few hundredths of a second to
/// scan.
pub const STEP: u64 = 64 << 20;

/// Number of steps by which scanning stays ahead of reading.
const STEPS_AHEAD: u64 = 2;

/// Minimum time between two progress reports to a waiting thread.
const REPORT_EVERY: Duration = Duration::from_secs(5);

/// An index that is not complete yet.
pub(super) struct IncrementalIndex(Arc<Background>);

struct Background {
    file: DataFile,
    file_state: FileState,
    options: IndexOptions,
    corpus: Arc<Corpus>,
    needle: Option<Needle>,
    by_line: bool,
    pool: Pool,
    step: u64,
    begun: Instant,
    parts: Arc<IndexParts>,
    state: Mutex<IndexingState>,
    /// Notified when a step has ended.
    changed: Condvar,
    /// Set when the index is not needed any more: the current step then ends early.
    cancelled: AtomicBool,
}

struct IndexingState {
    /// Taken by the current step, and put back when it ends.
    indexer: Option<Indexer>,
    /// Numbers of indexed parts and chunks, and of scanned bytes of the file.
    parts: usize,
    chunks: usize,
    scanned: u64,
    /// The fingerprint of all indexed chunks.
    fingerprint: Fingerprint,
    /// Result of indexing; `None` while there is more to scan.
    outcome: Option<Result<()>>,
    /// Why the last step has to be repeated: a lack of memory.
    failure: Option<Error>,
    /// The largest number of chunks that a thread waits for.
    wanted: usize,
    /// End of the last requested chunk in the file.
    used: u64,
    /// Time of the last progress report.
    reported: Instant,
}

impl IncrementalIndex {
    /// Scans until the first chunk or the whole file is indexed. Call it on a thread of the pool.
    pub fn begin(
        file: &DataFile,
        options: &IndexOptions,
        corpus: &Arc<Corpus>,
        pool: &Pool,
        step: u64,
    ) -> Result<IncrementalIndex> {
        let source = SourceFile::new(file)?;
        let start = Start::read(&source, options, corpus)?;
        warnings::of_ignored_ids(&source, options, start, &options.log)?;
        // One part for each step, which adds at most one.
        let steps = (source.size() - start.content).div_ceil(step) as usize;
        let state = IndexingState {
            indexer: None,
            parts: 0,
            chunks: 0,
            scanned: start.content,
            fingerprint: Fingerprint::default(),
            outcome: None,
            failure: None,
            wanted: 1,
            used: start.content,
            reported: Instant::now(),
        };
        let shared = Background {
            file_state: source.state,
            file: file.clone(),
            options: options.clone(),
            corpus: Arc::clone(corpus),
            needle: options.main_stream.as_deref().map(Needle::new),
            by_line: start.by_line,
            pool: pool.clone(),
            step,
            begun: Instant::now(),
            parts: Arc::new(IndexParts::with_capacity(steps)?),
            state: Mutex::new(state),
            changed: Condvar::new(),
            cancelled: AtomicBool::new(false),
        };
        let mut indexer = Indexer::new(start, source.size(), options.chunk_size);
        loop {
            let mut state = shared.step(indexer);
            if let Some(Err(error)) = &state.outcome {
                return Err(error.clone());
            }
            if let Some(error) = state.failure.take() {
                return Err(error);
            }
            match state.indexer.take() {
                Some(next) if state.chunks == 0 => indexer = next,
                next => {
                    state.indexer = next;
                    break;
                }
            }
        }
        Ok(IncrementalIndex(Arc::new(shared)))
    }

    pub fn parts(&self) -> &Arc<IndexParts> {
        &self.0.parts
    }

    /// Whether every line is a sequence.
    pub fn is_by_line(&self) -> bool {
        self.0.by_line
    }

    /// Waits until all chunks are indexed.
    pub fn wait_for_all(&self) -> Result<()> {
        self.0.wait(&mut self.0.state.lock(), usize::MAX)
    }
}

impl IncrementalTable for IncrementalIndex {
    fn wait_for(&self, chunk: ChunkId) -> Result<Option<ChunkInfo>> {
        let mut state = self.0.state.lock();
        if chunk as usize >= state.chunks {
            self.0.wait(&mut state, chunk as usize + 1)?;
        }
        let Some((part, chunk)) = self.0.parts.find(chunk) else { return Ok(None) };
        state.used = state.used.max(part.table.chunk_spans[chunk].end);
        state.failure = None;
        self.0.start_step(&mut state);
        Ok(Some(part.table.chunks[chunk]))
    }

    fn progress(&self) -> IndexProgress {
        let state = self.0.state.lock();
        IndexProgress { chunks: state.chunks, all: matches!(state.outcome, Some(Ok(()))) }
    }

    /// Makes the current step end early, and waiting threads return an error.
    fn cancel(&self) {
        self.0.cancelled.store(true, Ordering::Relaxed);
        let closed = || Err(Error::state("The reader was closed while its data were indexed."));
        self.0.state.lock().outcome.get_or_insert_with(closed);
        self.0.changed.notify_all();
    }
}

impl Drop for IncrementalIndex {
    fn drop(&mut self) {
        // The current step shares `Background`, and drops it when it ends, which is soon.
        self.0.cancelled.store(true, Ordering::Relaxed);
    }
}

impl Wake for Background {
    fn wake(&self) {
        drop(self.state.lock());
        self.changed.notify_all();
    }
}

impl Background {
    /// Scans one step and adds the chunks that it completes.
    fn step(&self, indexer: Indexer) -> MutexGuard<'_, IndexingState> {
        let outcome = catch_unwind(AssertUnwindSafe(|| self.scan(indexer)));
        let (mut advanced, table, indexer) = outcome.unwrap_or_else(|_| {
            let error = Error::internal("Indexing panicked.").in_file(self.file.path());
            (Err(error), IndexTable::default(), None)
        });
        // Steps run one after the other, and only steps change the fingerprint.
        let before = self.state.lock().fingerprint;
        let mut fingerprint = before;
        fingerprint.add(&table, table.chunks.len());

        let mut state = self.state.lock();
        state.scanned = indexer.as_ref().map_or(self.file_state.size, Indexer::at);
        state.fingerprint = fingerprint;
        let chunks = table.chunks.len();
        if chunks > 0 {
            if self.parts.add(state.parts, IndexPart::new(table, state.chunks, before)) {
                state.parts += 1;
                state.chunks += chunks;
            } else {
                advanced = Err(Error::internal("an index has more parts than were reserved"));
            }
        }
        let is_cancelled = state.outcome.is_some();
        let is_done = indexer.is_none();
        state.indexer = indexer;
        if let Err(error) = &advanced
            && error.kind() == ErrorKind::Memory
        {
            state.failure = Some(error.clone());
        } else if !is_cancelled && (is_done || advanced.is_err()) {
            state.outcome = Some(advanced.clone());
        }
        self.changed.notify_all();
        MutexGuard::unlocked(&mut state, || {
            let log = self.options.log;
            match advanced {
                _ if is_cancelled => {}
                Ok(()) if !is_done => {}
                Ok(()) => {
                    self.parts.announce(&log, self.file.path(), ", while it was read", self.begun.elapsed());
                    if self.options.warns_of_repeats {
                        let file = FileHandle::Open(self.file.clone());
                        warnings::of_repeats(&[(&file, &self.parts)], &self.corpus, &log);
                    }
                }
                Err(error) if error.kind() == ErrorKind::Memory => {}
                // When the process ends, the failure does not come from the file.
                Err(_) if exit::is_closed() => {}
                Err(error) => log.write(
                    Level::Warning,
                    &format!("Reading will fail where the file has an error: {error}"),
                ),
            }
        });
        state
    }

    /// Scans one step. Returns its outcome, the chunks that it completed, and the indexer if there
    /// is more to scan. After a lack of memory, that indexer repeats the step.
    fn scan(&self, mut indexer: Indexer) -> (Result<()>, IndexTable, Option<Indexer>) {
        let Background { file, file_state, corpus, needle, .. } = self;
        let source = SourceFile { file, state: *file_state, cancelled: Some(&self.cancelled) };
        let scan = Scan { source: &source, corpus, main_stream: needle.as_ref(), cut: Cut::default() };
        let to = indexer.at().saturating_add(self.step);
        let restarted = indexer.restarted();
        let without_memory =
            |error: Error| (Err(error.in_file(file.path())), IndexTable::default(), Some(restarted));
        let advanced = match indexer.advance(&scan, to) {
            Err(error) if error.kind() == ErrorKind::Memory => return without_memory(error),
            advanced => advanced,
        };
        let (table, indexer) = match advanced.is_ok() && indexer.is_done() {
            true => (indexer.finish(), None),
            false => match indexer.take_complete() {
                Ok(table) => (table, advanced.is_ok().then_some(indexer)),
                Err(error) => return without_memory(error),
            },
        };
        if let Err(error) = table.check_keys(file, self.options.key_limit) {
            return (Err(error.in_file(file.path())), IndexTable::default(), None);
        }
        let placed = |error: Error| match error.kind() {
            // A scan cannot be resumed in the middle.
            ErrorKind::Io => {
                error.in_file(file.path()).with_detail("The index is not complete: open the reader again.")
            }
            _ => error.in_file(file.path()),
        };
        (advanced.map_err(placed), table, indexer)
    }

    /// Starts a step if one is needed and none is running.
    fn start_step(self: &Arc<Self>, state: &mut IndexingState) {
        let near = state.used.saturating_add(STEPS_AHEAD * self.step) > state.scanned;
        if (state.wanted > state.chunks || near)
            && state.failure.is_none()
            && let Some(indexer) = state.indexer.take()
        {
            let shared = Arc::clone(self);
            self.pool.spawn(move || shared.start_step(&mut shared.step(indexer)));
        }
    }

    /// Waits until `chunks` chunks, or all chunks of the file, are indexed.
    fn wait(self: &Arc<Self>, state: &mut MutexGuard<'_, IndexingState>, chunks: usize) -> Result<()> {
        if state.chunks >= chunks {
            return Ok(());
        }
        if let Some(outcome) = &state.outcome {
            return outcome.clone();
        }
        let waiting = MutexGuard::unlocked(state, || cancel::waiting(self));
        let waited = self.wait_for(state, chunks, &waiting);
        MutexGuard::unlocked(state, || drop(waiting));
        waited
    }

    fn wait_for(
        self: &Arc<Self>,
        state: &mut MutexGuard<'_, IndexingState>,
        chunks: usize,
        waiting: &Waiting,
    ) -> Result<()> {
        let log = self.options.log;
        // Retry a step that failed.
        state.failure = None;
        while state.chunks < chunks {
            if let Some(outcome) = &state.outcome {
                return outcome.clone();
            }
            waiting.check()?;
            if let Some(error) = &state.failure {
                return Err(error.clone());
            }
            state.wanted = state.wanted.max(chunks);
            self.start_step(state);
            self.changed.wait_for(state, REPORT_EVERY);
            if state.reported.elapsed() >= REPORT_EVERY && log.shows(Level::Info) {
                state.reported = Instant::now();
                let (done, all) = (state.scanned >> 20, self.file_state.size >> 20);
                let line = format!("Indexing '{}': {done} of {all} MB are done.", self.file.path());
                MutexGuard::unlocked(state, || log.write(Level::Info, &line));
            }
        }
        Ok(())
    }
}
