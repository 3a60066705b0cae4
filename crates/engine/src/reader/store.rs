//! The chunks in memory: those of the timeline's window, and the next ones, loaded ahead on the library's pool.

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

/// Chunks loaded beyond the window. With the window itself they bound the memory in use.
const AHEAD: usize = 2;

/// Chunks in memory, by chunk id.
pub(super) type Resident = Arc<Vec<Option<Arc<dyn Chunk>>>>;

/// Loads the chunks that the timeline needs, and releases them when it needs them no more.
pub(super) struct ChunkStore {
    deserializer: Arc<dyn Deserializer>,
    loading: Loading,
    /// The chunks ready for packing, by chunk id: loaded, and their errors counted
    /// ([`ChunkErrors::commit`](cntk_reader_core::format::ChunkErrors::commit)). As long as the
    /// greatest chunk id needed so far requires. Shared with the threads that pack, which finish
    /// before the window moves.
    resident: Resident,
    /// The ids of the chunks in `resident`.
    held: Vec<ChunkId>,
    /// Chunks that are being loaded, or are loaded but not yet in the window.
    loads: HashMap<ChunkId, Load>,
    window: Window,
    /// The timeline's stamp when the store last followed it.
    stamp: Option<u64>,
    /// Chunks of the current window that could not be loaded. Loading is tried again when the window moves.
    failed: HashMap<ChunkId, Error>,
    /// Whether the new window needs a chunk, by chunk id. Used only inside `move_window`; all false otherwise.
    needed: Vec<bool>,
    /// The number of the batch that is being read, and what the last batches did to the count of
    /// errors in the data.
    batch: u64,
    counts: VecDeque<(u64, Counted)>,
    /// Chunks that were in the window where the timeline was taken back to. Their errors are
    /// counted already.
    waived: HashSet<ChunkId>,
    /// Starts loading chunks. Must be the last field: dropping it waits for the loads that still run, and by then the fields
    /// before it have released all chunks.
    loader: Loads,
}

/// A change of the window that concerns a chunk with errors.
enum Counted {
    /// It came into the window, and its errors were counted.
    Entered(ChunkId, Arc<dyn Chunk>),
    /// It left the window: if it comes back, its errors count again.
    Left(ChunkId),
}

/// Batches whose counting of errors can be undone: the one that is being handed out, the one that
/// is read ahead, and one more.
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

    /// The chunks by id, as packing takes them.
    pub(super) fn chunks(&self) -> &Resident {
        &self.resident
    }

    /// Begins the batch with this number: numbers ascend.
    pub(super) fn begin_batch(&mut self, batch: u64) {
        self.batch = batch;
        while self.counts.front().is_some_and(|&(number, _)| number + UNDOABLE < batch) {
            self.counts.pop_front();
        }
    }

    /// Takes back what later batches than this one did to the count of errors, because the timeline
    /// goes back to it. To be called before the window is asked for again.
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

    /// Takes a chunk out of the window. It stays in memory, to come in again.
    fn take_out(&mut self, chunk: ChunkId) {
        let slot = Arc::make_mut(&mut self.resident).get_mut(chunk as usize);
        if let Some(loaded) = slot.and_then(Option::take) {
            self.held.retain(|&held| held != chunk);
            self.loads.insert(chunk, Load::done(Ok(loaded)));
            self.stamp = None;
        }
    }

    /// Forgets all errors in the data that were counted: the reader continues as a new one would.
    pub(super) fn forget_errors(&mut self) {
        self.counts.clear();
        self.waived.clear();
        self.deserializer.diagnostics().forget_errors();
        let has_errors = |chunk: &ChunkId| {
            self.resident[*chunk as usize].as_ref().is_some_and(|loaded| loaded.errors().has_counted())
        };
        let with_errors: Vec<ChunkId> = self.held.iter().copied().filter(has_errors).collect();
        for chunk in with_errors {
            // As a load of its own: it counts when it comes into the window.
            self.take_out(chunk);
            self.loads.remove(&chunk);
        }
    }

    /// Whether the timeline's window has moved since the last [`ChunkStore::follow`], so that the next one replaces chunks.
    pub(super) fn is_left_by(&self, timeline: &dyn Timeline) -> bool {
        self.stamp != Some(timeline.window_stamp())
    }

    /// Starts loading the first window while the timeline still draws its order: drawing takes up to a tenth of the time of a
    /// first sweep over short sequences of binary data. Chunks from users' code are not requested before they are needed.
    pub(super) fn begin(&mut self, timeline: &dyn Timeline) -> Result<()> {
        if self.held.is_empty() && self.loads.is_empty() && self.loading != Loading::ByUsers {
            timeline.window(0, &mut self.window);
            self.make_room()?;
            self.start_window();
        }
        Ok(())
    }

    /// Loads the timeline's window, so that all chunks of `selection` are in memory.
    ///
    /// An error in any chunk of a window fails the window's first minibatch, as in CNTK 2.7, which loads a whole window before
    /// it delivers anything from it. Later minibatches of that window fail only if they need a chunk that could not be
    /// loaded. If the window has not moved, the call costs one comparison.
    pub(super) fn follow(&mut self, timeline: &dyn Timeline, selection: &Selection) -> Result<()> {
        if self.is_left_by(timeline) {
            self.make_room_for(timeline)?;
            self.stamp = Some(timeline.window_stamp());
            let moved = self.move_window();
            let may_pass = self.failed.values().any(Error::may_pass);
            if may_pass || cancel::ended(&moved) {
                // The next read tries the same minibatch: it moves the window anew, and loads what is missing.
                self.stamp = None;
            }
            if may_pass {
                // What was loaded ahead may have failed for the same reason.
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

    /// Releases the chunks that the new window does not need, and loads those that it lacks. Of several failures, returns the
    /// first in the order of the timeline.
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
        // Only the window's marks are cleared: there may be far more chunks than the window has.
        self.window.resident.iter().for_each(|&chunk| self.needed[chunk as usize] = false);

        // The first window gets all of the pool, because the first read waits for it; the chunks ahead are started once it is
        // loaded. Later windows were mostly loaded ahead. Users' code may load a chunk on one thread, which leaves the other
        // threads free, so its chunks ahead are always started at once.
        let waits = self.held.is_empty() && self.loading != Loading::ByUsers;
        self.start_window();
        if !waits {
            self.start_ahead();
        }
        if self.loading == Loading::ByUsers {
            // Loads finish roughly in the order in which they were started, so most are done when the last one is. Waking
            // up for each of many small chunks would take longer than loading them.
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
        // Chunks of the former window that have not come back have left it.
        self.waived.clear();
        first
    }

    /// Asks the timeline for its window, and makes room for it.
    fn make_room_for(&mut self, timeline: &dyn Timeline) -> Result<()> {
        timeline.window(AHEAD, &mut self.window);
        self.make_room()
    }

    /// Makes `resident` and `needed` long enough for the greatest chunk id of the window.
    fn make_room(&mut self) -> Result<()> {
        let last = self.window.resident.iter().chain(&self.window.ahead).max();
        let chunks = last.map_or(0, |&last| last as usize + 1).max(self.resident.len());
        room::resize(Arc::make_mut(&mut self.resident), chunks, None, room::ORDER)?;
        room::resize(&mut self.needed, chunks, false, room::ORDER)
    }

    /// Starts loading the window's chunks, except those that are loaded or being loaded.
    fn start_window(&mut self) {
        for i in 0..self.window.resident.len() {
            self.start(self.window.resident[i]);
        }
    }

    /// Starts loading the chunks after the window, except those that are loaded or being loaded.
    fn start_ahead(&mut self) {
        for i in 0..self.window.ahead.len() {
            self.start(self.window.ahead[i]);
        }
    }

    /// Number of sequences of a chunk; 0 past the last one.
    pub(super) fn sequences_of(&self, chunk: ChunkId) -> u32 {
        self.deserializer.chunks().get(chunk as usize).map_or(0, |info| info.sequences)
    }

    /// Whether all chunks are known, so that nothing has to wait for some.
    pub(super) fn knows_all_chunks(&self) -> bool {
        self.deserializer.index_progress().all
    }

    /// Samples of a sweep. Waits until an incremental table is complete.
    pub(super) fn sweep_samples(&self) -> u64 {
        self.deserializer.chunks().iter().fold(0, |sum, chunk| sum.saturating_add(chunk.samples))
    }

    /// Loads one chunk for a restored checkpoint, whether or not it is in the window. The store does not keep it.
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

    /// Starts loading a chunk, unless it is loaded or being loaded, or will be loaded at once when it is needed.
    fn start(&mut self, chunk: ChunkId) {
        if self.loading == Loading::AtOnce
            || self.resident[chunk as usize].is_some()
            || self.loads.contains_key(&chunk)
        {
            return;
        }
        self.loads.insert(chunk, self.loader.start(chunk));
    }

    /// Waits for a chunk that was started, and makes it resident.
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
                None if self.loading == Loading::AtOnce => self.loader.load(chunk)?,
                None => return Err(Error::internal(format!("Chunk {chunk} was never started."))),
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
