//! Opens files a little ahead of reading them, as jobs of the library's pool.
//!
//! A file gets its position once all chunks of the files before it are known, because its chunk
//! numbers continue theirs. If a file cannot be opened, the call that asks for its first chunk
//! fails; if the error may pass, the next call opens the file again.

#[cfg(test)]
mod tests;

use super::{Files, Format};
use cntk_reader_core::file::{DataFile, changed};
use cntk_reader_core::format::{
    ChunkInfo, ChunkSource, ChunkTable, ChunkTableExt, IncrementalTable, IndexProgress,
};
use cntk_reader_core::runtime::cancel::{self, Wake};
use cntk_reader_core::runtime::pool::Pool;
use cntk_reader_core::runtime::sync::{Condvar, Mutex, MutexGuard};
use cntk_reader_core::sequence::ChunkId;
use cntk_reader_core::{Error, Result};
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// Bytes of the files after the current one that are opened ahead: the same distance by which the
/// index of a large file is ahead of reading.
const BYTES_AHEAD: u64 = 128 << 20;

/// Maximum number of files that are opened ahead, even if they are small.
const FILES_AHEAD: usize = 1024;

/// Size of a file, which must exist.
pub(super) fn size_of(path: &str) -> Result<u64> {
    DataFile::open(path)?.size()
}

/// Opens files while data are read.
pub(super) struct Opening<F: Format>(Arc<Background<F>>);

struct Background<F: Format> {
    files: Arc<Files<F>>,
    sizes: Vec<u64>,
    pool: Pool,
    state: Mutex<OpeningState<F::File>>,
    /// Signalled when a file has been opened.
    changed: Condvar,
}

struct OpeningState<T> {
    /// Number of files that have positions.
    placed: usize,
    /// The files after these for which opening has started, in order; `None` while one is being
    /// opened.
    opened: VecDeque<Option<Result<T>>>,
    /// Number of the last file that is in use.
    used: usize,
    /// Bytes of the files after `used` for which opening has started.
    ahead: u64,
    /// Why no more files are opened.
    failure: Option<Error>,
}

impl<F: Format> Opening<F> {
    /// Starts opening files. The first file must have its position.
    pub fn new(files: Arc<Files<F>>, sizes: Vec<u64>, pool: Pool) -> Opening<F> {
        let placed = files.iter().count();
        let state = OpeningState { placed, opened: VecDeque::new(), used: 0, ahead: 0, failure: None };
        let shared =
            Arc::new(Background { files, sizes, pool, state: Mutex::new(state), changed: Condvar::new() });
        shared.advance(&mut shared.state.lock());
        Opening(shared)
    }

    /// Waits until a file has its position. Returns false if there is no such file. Must not be
    /// called on a thread of the pool.
    fn wait_for_file(&self, number: usize) -> Result<bool> {
        let waiting = cancel::waiting(&self.0);
        let mut state = self.0.state.lock();
        loop {
            self.0.use_file(&mut state, number.saturating_sub(1));
            if number < state.placed {
                return Ok(true);
            }
            if number >= self.0.sizes.len() {
                return Ok(false);
            }
            if let Some(failure) = &state.failure {
                return Err(failure.clone());
            }
            if let Some(error) = self.0.open_again(&mut state) {
                return Err(error);
            }
            waiting.check()?;
            self.0.changed.wait(&mut state);
        }
    }

    /// Records that a file is in use, and opens the following ones.
    fn stay_ahead_of(&self, number: usize) {
        self.0.use_file(&mut self.0.state.lock(), number);
    }

    /// Waits until all chunks are known. [`IncrementalTable::wait_for`] reports an error again to
    /// the caller that asks for the first chunk after it.
    pub fn wait_for_all(&self) -> Result<()> {
        let mut chunk = self.progress().chunks as ChunkId;
        while IncrementalTable::wait_for(self, chunk)?.is_some() {
            chunk = chunk.saturating_add(1).max(self.progress().chunks as ChunkId);
        }
        Ok(())
    }

    /// Stops opening files: waiting threads get an error.
    fn close(&self) {
        let closed = || Error::state("The reader was closed while its files were opened.");
        let mut state = self.0.state.lock();
        state.failure.get_or_insert_with(closed);
        let opened = std::mem::take(&mut state.opened);
        drop(state);
        self.0.changed.notify_all();
        drop(opened);
    }
}

impl<F: Format> IncrementalTable for Opening<F> {
    fn wait_for(&self, chunk: ChunkId) -> Result<Option<ChunkInfo>> {
        while let Some((number, place)) = self.0.files.find(chunk) {
            if let Some(info) = place.file.chunk(chunk - place.first)? {
                self.stay_ahead_of(number);
                return Ok(Some(info));
            }
            if !self.wait_for_file(number + 1)? {
                break;
            }
        }
        Ok(None)
    }

    fn progress(&self) -> IndexProgress {
        let files = &self.0.files;
        let Some((number, place)) = files.last() else { return IndexProgress { chunks: 0, all: true } };
        let IndexProgress { chunks, all } = place.file.index_progress();
        IndexProgress { chunks: place.first as usize + chunks, all: all && number + 1 == files.places.len() }
    }

    fn cancel(&self) {
        self.close();
        let indexed = self.0.files.iter().filter_map(|place| place.file.incremental());
        indexed.for_each(IncrementalTable::cancel);
    }
}

impl<F: Format> Drop for Opening<F> {
    fn drop(&mut self) {
        // Running jobs share the rest, and drop it soon, when they end.
        self.close();
    }
}

impl<F: Format> Wake for Background<F> {
    fn wake(&self) {
        drop(self.state.lock());
        self.changed.notify_all();
    }
}

impl<F: Format> Background<F> {
    fn use_file(self: &Arc<Self>, state: &mut OpeningState<F::File>, number: usize) {
        while state.used < number {
            state.used += 1;
            state.ahead -= self.sizes[state.used];
        }
        self.advance(state);
    }

    /// Sets the positions of files that are ready, and starts opening more.
    fn advance(self: &Arc<Self>, state: &mut OpeningState<F::File>) {
        while state.failure.is_none()
            && self.is_known(state.placed)
            && let Some(Some(opened)) = state.opened.front()
            && !opened.as_ref().is_err_and(Error::may_pass)
            && let Some(Some(file)) = state.opened.pop_front()
        {
            // The position also serves later calls, so it must not depend on this one.
            match file.and_then(|file| cancel::apart(|| self.files.place(state.placed, file))) {
                Ok(()) => state.placed += 1,
                Err(error) => state.failure = Some(error),
            }
        }
        while state.failure.is_none() && self.wants_more(state) {
            let number = state.placed + state.opened.len();
            state.opened.push_back(None);
            state.ahead += self.sizes[number];
            let shared = Arc::clone(self);
            self.pool.spawn(move || shared.open(number));
        }
    }

    /// Takes the error of the next file if opening it failed temporarily, and starts opening it
    /// again, along with all later files that failed likewise.
    fn open_again(self: &Arc<Self>, state: &mut OpeningState<F::File>) -> Option<Error> {
        let failed = |opened: &mut Result<F::File>| opened.as_ref().is_err_and(Error::may_pass);
        let error = state.opened.front_mut()?.take_if(failed)?.err();
        for (place, opened) in state.opened.iter_mut().enumerate() {
            if place == 0 || opened.take_if(failed).is_some() {
                let (shared, number) = (Arc::clone(self), state.placed + place);
                self.pool.spawn(move || shared.open(number));
            }
        }
        error
    }

    /// Whether all chunks of the first `placed` files, which have positions, are known.
    fn is_known(&self, placed: usize) -> bool {
        let last = placed.checked_sub(1).and_then(|last| self.files.get(last));
        last.is_none_or(|last| last.file.index_progress().all)
    }

    /// Whether the next file should be opened now.
    fn wants_more(&self, state: &OpeningState<F::File>) -> bool {
        let begun = state.placed + state.opened.len();
        let is_near = state.ahead < BYTES_AHEAD && begun - state.used < FILES_AHEAD;
        let is_next =
            !self.files.format.opens_in_turn() || state.opened.is_empty() && self.is_known(state.placed);
        begun < self.sizes.len() && is_near && is_next
    }

    /// Opens a file. Runs as a job of the pool.
    fn open(self: &Arc<Self>, number: usize) {
        if self.state.lock().failure.is_some() {
            return;
        }
        let (path, size) = (&self.files.paths[number], self.sizes[number]);
        let open = || {
            let file = self.files.format.open(path, Some(&self.pool))?;
            match file.file_bytes() {
                Some(now) if now != size => Err(changed(path, Some(size), now)),
                _ => Ok(file),
            }
        };
        let opened = catch_unwind(AssertUnwindSafe(open))
            .unwrap_or_else(|_| Err(Error::internal("Opening a file panicked.").in_file(path)));
        let mut state = self.state.lock();
        if state.failure.is_none() {
            let place = number - state.placed;
            state.opened[place] = Some(opened);
            self.advance(&mut state);
        } else {
            // Close a file that is not needed outside the lock.
            MutexGuard::unlocked(&mut state, || drop(opened));
        }
        self.changed.notify_all();
    }
}
