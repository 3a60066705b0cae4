//! The chunks in memory: the timeline's window, and the next chunks, prefetched on the library's
//! pool.

use crate::randomize::{Selection, Timeline, Window};
use cntk_reader_core::format::loading::{Load, Loads};
use cntk_reader_core::format::{Chunk, ChunkSource, ChunkTableExt, Deserializer, Loading};
use cntk_reader_core::memory::room;
use cntk_reader_core::runtime::cancel;
use cntk_reader_core::runtime::pool::Pool;
use cntk_reader_core::sequence::ChunkId;
use cntk_reader_core::{Error, Result};
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

/// Number of chunks prefetched after the window. Together with the window, this bounds the memory
/// use.
const AHEAD: usize = 2;

/// Chunks in memory, by chunk id.
pub(super) type Resident = Arc<Vec<Option<Arc<dyn Chunk>>>>;

/// Loads the chunks that the timeline needs, and releases the rest.
pub(super) struct ChunkStore {
    deserializer: Arc<dyn Deserializer>,
    loading: Loading,
    /// The chunks ready for packing, by chunk id: loaded, with errors counted
    /// ([`ChunkErrors::commit`](cntk_reader_core::format::ChunkErrors::commit)). Sized for the
    /// largest chunk id needed so far. Shared with the packing threads, which finish before the
    /// window moves.
    resident: Resident,
    /// The ids of the chunks in `resident`.
    held: Vec<ChunkId>,
    /// Chunks that are loading, or loaded but not in the window yet.
    loads: HashMap<ChunkId, Load>,
    window: Window,
    /// The timeline's stamp at the last call of `follow`.
    stamp: Option<u64>,
    /// Chunks of the current window that could not be loaded. Loading is retried when the window
    /// moves.
    failed: HashMap<ChunkId, Error>,
    /// Whether the new window needs each chunk, by chunk id. Used only in `move_window`; all false
    /// otherwise.
    needed: Vec<bool>,
    /// The number of the current batch, and the effects of the last batches on the count of errors
    /// in the data.
    batch: u64,
    counts: VecDeque<(u64, Counted)>,
    /// Chunks in the window to which the timeline was rewound. Their errors are already counted.
    waived: HashSet<ChunkId>,
    /// Starts loading chunks. Must be the last field: dropping it waits for running loads, after
    /// the fields before it have released all chunks.
    loader: Loads,
}

/// A change of the window that involves a chunk with errors.
enum Counted {
    /// It entered the window, and its errors were counted.
    Entered(ChunkId, Arc<dyn Chunk>),
    /// It left the window: if it returns, its errors count again.
    Left(ChunkId),
}

/// Number of batches whose error counts can be undone: the one being delivered, the prefetched one,
/// and one more.
const UNDOABLE: u64 = 3;

impl ChunkStore {
    pub(super) fn new(deserializer: Arc<dyn Deserializer>, pool: Pool) -> Self {
        ChunkStore {
            loader: Loads::new(Arc::clone(&deserializer) as Arc<dyn ChunkSource>, pool),
            loading: deserializer.facts().loading,
            deserializer,
            resident: Resident::default(),
            held: Vec::new(),
            loads: HashMap::new(),
            window: Window::default(),
            stamp: None,
            failed: HashMap::new(),
            needed: Vec::new(),
            batch: 0,
            counts: VecDeque::new(),
            waived: HashSet::new(),
        }
    }

    /// Returns the loaded chunks by id, for packing.
    pub(super) fn chunks(&self) -> &Resident {
        &self.resident
    }

    /// Begins the batch with this number. Numbers ascend.
    pub(super) fn begin_batch(&mut self, batch: u64) {
        self.batch = batch;
        while self.counts.front().is_some_and(|&(number, _)| number + UNDOABLE < batch) {
            self.counts.pop_front();
        }
    }

    /// Undoes the effects of batches after this one on the count of errors, because the timeline is
    /// rewound to it. Must be called before the window is used again.
    pub(super) fn rewind(&mut self, batch: u64) {
        while self.counts.back().is_some_and(|&(number, _)| number > batch)
            && let Some((_, counted)) = self.counts.pop_back()
        {
            match counted {
                Counted::Left(chunk) => _ = self.waived.insert(chunk),
                Counted::Entered(chunk, loaded) => {
                    self.waived.remove(&chunk);
                    loaded.errors().retract();
                    self.take_out(chunk);
                }
            }
        }
    }

    /// Takes a chunk out of the window, but keeps it in memory, to enter again.
    fn take_out(&mut self, chunk: ChunkId) {
        let slot = Arc::make_mut(&mut self.resident).get_mut(chunk as usize);
        if let Some(loaded) = slot.and_then(Option::take) {
            self.held.retain(|&held| held != chunk);
            self.loads.insert(chunk, Load::done(Ok(loaded)));
            self.stamp = None;
        }
    }

    /// Resets the count of errors in the data, as in a new reader.
    pub(super) fn forget_errors(&mut self) {
        self.counts.clear();
        self.waived.clear();
        self.deserializer.diagnostics().forget_errors();
        let has_errors = |chunk: &ChunkId| {
            self.resident[*chunk as usize].as_ref().is_some_and(|loaded| loaded.errors().has_counted())
        };
        let with_errors: Vec<ChunkId> = self.held.iter().copied().filter(has_errors).collect();
        for chunk in with_errors {
            // A new load will count its errors when it enters the window.
            self.take_out(chunk);
            self.loads.remove(&chunk);
        }
    }

    /// Whether the timeline's window has moved since the last [`ChunkStore::follow`], so that the
    /// next call replaces chunks.
    pub(super) fn is_left_by(&self, timeline: &dyn Timeline) -> bool {
        self.stamp != Some(timeline.window_stamp())
    }

    /// Starts loading the first window while the timeline still draws its order, which takes up to
    /// 10 % of a first sweep over short binary sequences. Chunks from users' code are not requested
    /// before they are needed.
    pub(super) fn begin(&mut self, timeline: &dyn Timeline) -> Result<()> {
        if self.held.is_empty() && self.loads.is_empty() && self.loading != Loading::ByUsers {
            timeline.window(0, &mut self.window);
            self.make_room()?;
            self.start_window();
        }
        Ok(())
    }

    /// Loads the timeline's window, including all chunks of `selection`.
    ///
    /// An error in any chunk of a window makes its first minibatch fail, as in CNTK 2.7, which
    /// loads a whole window before it delivers anything from it. Later minibatches of that window
    /// fail only if they need a chunk that could not be loaded. If the window has not moved, a call
    /// costs one comparison.
    pub(super) fn follow(&mut self, timeline: &dyn Timeline, selection: &Selection) -> Result<()> {
        if self.is_left_by(timeline) {
            self.make_room_for(timeline)?;
            self.stamp = Some(timeline.window_stamp());
            let moved = self.move_window();
            let may_pass = self.failed.values().any(Error::may_pass);
            if may_pass || cancel::ended(&moved) {
                // The next read retries the same minibatch: it moves the window again, and loads
                // missing chunks.
                self.stamp = None;
            }
            if may_pass {
                // Prefetched chunks may have failed for the same reason.
                self.loads.clear();
            }
            moved?;
        }
        if self.failed.is_empty() {
            return Ok(());
        }
        let failure = selection.sequences.iter().find_map(|sequence| self.failed.get(&sequence.chunk));
        failure.map_or(Ok(()), |error| Err(error.clone()))
    }

    /// Releases chunks that the new window does not need, and loads missing ones. Of several
    /// errors, returns the first in the timeline's order.
    fn move_window(&mut self) -> Result<()> {
        self.failed.clear();
        let resident = Arc::make_mut(&mut self.resident);
        self.window.resident.iter().for_each(|&chunk| self.needed[chunk as usize] = true);
        let (needed, ahead) = (&self.needed, &self.window.ahead);
        self.held.retain(|&chunk| {
            if !needed[chunk as usize]
                && let Some(left) = resident[chunk as usize].take()
                && left.errors().has_counted()
            {
                self.counts.push_back((self.batch, Counted::Left(chunk)));
            }
            needed[chunk as usize]
        });
        self.loads.retain(|&chunk, _| needed[chunk as usize] || ahead.contains(&chunk));
        // Clear only the window's marks: there may be far more chunks in total.
        self.window.resident.iter().for_each(|&chunk| self.needed[chunk as usize] = false);

        // The first window gets the whole pool, because the first read waits for it; prefetching
        // starts once it is loaded. Later windows are mostly prefetched already. Users' code may
        // load a chunk on one thread, which leaves the others free, so its chunks are always
        // prefetched at once.
        let waits = self.held.is_empty() && self.loading != Loading::ByUsers;
        self.start_window();
        if !waits {
            self.start_ahead();
        }
        if self.loading == Loading::ByUsers {
            // Loads finish roughly in order of starting, so most are done when the last one is.
            // Waking up for each of many small chunks would take longer than loading them.
            let last = self.window.resident.iter().rev().find_map(|chunk| self.loads.get(chunk));
            last.map_or(Ok(()), |load| load.settle())?;
        }
        let mut first = Ok(());
        for i in 0..self.window.resident.len() {
            let chunk = self.window.resident[i];
            let made = self.make_resident(chunk);
            if cancel::ended(&made) {
                return made;
            }
            if let Err(error) = made {
                self.failed.insert(chunk, error.clone());
                first = first.and(Err(error));
            }
        }
        self.start_ahead();
        // Chunks of the former window that did not return have left it.
        self.waived.clear();
        first
    }

    /// Gets the timeline's window, and makes room for it.
    fn make_room_for(&mut self, timeline: &dyn Timeline) -> Result<()> {
        timeline.window(AHEAD, &mut self.window);
        self.make_room()
    }

    /// Grows `resident` and `needed` to the largest chunk id of the window.
    fn make_room(&mut self) -> Result<()> {
        let last = self.window.resident.iter().chain(&self.window.ahead).max();
        let chunks = last.map_or(0, |&last| last as usize + 1).max(self.resident.len());
        room::resize(Arc::make_mut(&mut self.resident), chunks, None, room::ORDER)?;
        room::resize(&mut self.needed, chunks, false, room::ORDER)
    }

    /// Starts loading the window's chunks, unless they are loaded or loading.
    fn start_window(&mut self) {
        for i in 0..self.window.resident.len() {
            self.start(self.window.resident[i]);
        }
    }

    /// Starts loading the chunks after the window, unless they are loaded or loading.
    fn start_ahead(&mut self) {
        for i in 0..self.window.ahead.len() {
            self.start(self.window.ahead[i]);
        }
    }

    /// Returns the number of sequences of a chunk, or 0 past the last one.
    pub(super) fn sequences_of(&self, chunk: ChunkId) -> u32 {
        self.deserializer.chunks().get(chunk as usize).map_or(0, |info| info.sequences)
    }

    /// Whether all chunks are known, so that selecting never waits.
    pub(super) fn knows_all_chunks(&self) -> bool {
        self.deserializer.index_progress().all
    }

    /// Returns the number of samples in a sweep. Waits until an incremental table is complete.
    pub(super) fn sweep_samples(&self) -> u64 {
        self.deserializer.chunks().iter().fold(0, |sum, chunk| sum.saturating_add(chunk.samples))
    }

    /// Loads a chunk for a restored checkpoint, whether or not it is in the window. The store does
    /// not keep it.
    pub(super) fn fetch(&mut self, chunk: ChunkId) -> Result<Arc<dyn Chunk>> {
        if let Some(Some(loaded)) = self.resident.get(chunk as usize) {
            return Ok(loaded.clone());
        }
        if self.deserializer.chunk(chunk)?.is_none() {
            return Err(Error::internal(format!("There is no chunk {chunk}.")));
        }
        let loaded = self.loader.load(chunk)?;
        loaded.warn();
        Ok(loaded)
    }

    /// Starts loading a chunk, unless it is loaded or loading, or is loaded synchronously on
    /// demand.
    fn start(&mut self, chunk: ChunkId) {
        if self.loading == Loading::AtOnce
            || self.resident[chunk as usize].is_some()
            || self.loads.contains_key(&chunk)
        {
            return;
        }
        self.loads.insert(chunk, self.loader.start(chunk));
    }

    /// Waits for a started chunk, and makes it resident.
    fn make_resident(&mut self, chunk: ChunkId) -> Result<()> {
        if self.resident[chunk as usize].is_none() {
            let loaded = match self.loads.get(&chunk) {
                Some(load) => {
                    let loaded = load.wait();
                    if !cancel::ended(&loaded) {
                        self.loads.remove(&chunk);
                    }
                    loaded?
                }
                // Chunks that are loaded at once are not started ahead.
                None => self.loader.load(chunk)?,
            };
            loaded.warn();
            if self.waived.remove(&chunk) {
                loaded.errors().waive();
            } else if loaded.errors().has_uncounted() {
                self.counts.push_back((self.batch, Counted::Entered(chunk, Arc::clone(&loaded))));
            }
            loaded.errors().commit()?;
            Arc::make_mut(&mut self.resident)[chunk as usize] = Some(loaded);
            self.held.push(chunk);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
