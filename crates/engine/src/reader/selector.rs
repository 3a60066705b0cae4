//! Which sequences the next minibatches have: they are selected, and their chunks loaded, before anything is packed.

use super::listed::ListedChunks;
use super::position::ReaderPosition;
use super::store::ChunkStore;
use crate::pack::Limits;
use crate::randomize::Order;
use crate::randomize::block::BlockRandomizer;
use crate::randomize::in_order::InOrder;
use crate::randomize::local::LocalTimeline;
use crate::randomize::{EpochConfig, Selection, Timeline, WorkerConfig};
use crate::reader::settings::ReaderSettings;
use cntk_reader_core::error::ExceptionClass;
use cntk_reader_core::format::{AnyDeserializer, Chunk};
use cntk_reader_core::runtime::pool::Pool;
use cntk_reader_core::sequence::ChunkId;
use cntk_reader_core::{Error, Result};
use std::ops::Range;
use std::sync::Arc;

/// A minibatch whose sequences are selected.
#[derive(Default)]
pub(super) struct PlannedMinibatch {
    pub selection: Selection,
    /// Where the timeline stood after the minibatch was selected.
    pub position: ReaderPosition,
}

/// Minibatches of one window that are selected before they are packed.
#[derive(Default)]
pub(super) struct Plan {
    /// Others than those of `open` are kept for their memory.
    minibatches: Vec<PlannedMinibatch>,
    /// Those that nobody has taken yet.
    open: Range<usize>,
    /// What comes after them instead of a minibatch.
    failure: Option<Error>,
}

impl Plan {
    pub(super) fn is_empty(&self) -> bool {
        self.open.is_empty() && self.failure.is_none()
    }

    pub(super) fn clear(&mut self) {
        self.open = 0..0;
        self.failure = None;
    }

    /// Appends a minibatch: gets its selection, and gives another one for its memory.
    fn push(&mut self, selection: &mut Selection, position: ReaderPosition) {
        if self.open.is_empty() {
            self.open = 0..0;
        }
        if self.open.end == self.minibatches.len() {
            self.minibatches.push(PlannedMinibatch::default());
        }
        if let Some(planned) = self.minibatches.get_mut(self.open.end) {
            std::mem::swap(&mut planned.selection, selection);
            planned.position = position;
            self.open.end += 1;
        }
    }

    /// Takes the next minibatches, up to `wanted`. Returns where they are, and the failure that comes after them, if any.
    pub(super) fn take(&mut self, wanted: usize) -> (Range<usize>, Option<Error>) {
        let taken = self.open.start..self.open.end.min(self.open.start + wanted);
        self.open.start = taken.end;
        (taken, self.failure.take_if(|_| self.open.is_empty()))
    }

    /// Minibatches that were taken.
    pub(super) fn taken(&self, taken: Range<usize>) -> &[PlannedMinibatch] {
        self.minibatches.get(taken).unwrap_or_default()
    }

    /// Whether all that was planned is taken, and the epoch goes on.
    pub(super) fn goes_on(&self) -> bool {
        self.is_empty() && !self.ends_epoch()
    }

    /// Whether fewer than `wanted` minibatches are planned, and there may be more.
    fn lacks(&self, wanted: usize) -> bool {
        let is_complete = !self.open.is_empty() && self.ends_epoch();
        self.failure.is_none() && self.open.len() < wanted && !is_complete
    }

    /// Whether the last minibatch that was planned ends the epoch.
    fn ends_epoch(&self) -> bool {
        let last = self.open.end.checked_sub(1).and_then(|last| self.minibatches.get(last));
        last.is_some_and(|planned| planned.selection.end_of_epoch)
    }
}

/// Selects sequences of a timeline, and has their chunks loaded.
pub(super) struct Selector {
    pub timeline: TimelineSource,
    /// What was selected last.
    pub selection: Selection,
    /// Whether `selection` was drawn and is left for the next window.
    is_drawn: bool,
}

impl Selector {
    pub(super) fn new(timeline: TimelineSource) -> Selector {
        Selector { timeline, selection: Selection::default(), is_drawn: false }
    }

    /// Whether it selects from a table of chunks.
    pub(super) fn is_global(&self) -> bool {
        matches!(self.timeline, TimelineSource::Global(..))
    }

    /// Whether a selection was drawn that nobody has got.
    pub(super) fn is_ahead(&self) -> bool {
        self.is_drawn
    }

    /// Forgets what is drawn, because the timeline goes somewhere else.
    pub(super) fn forget(&mut self) {
        self.is_drawn = false;
    }

    /// Plans minibatches of one window until `wanted` are planned, or what comes next fails. With `moves`, the window may move before the
    /// first one.
    pub(super) fn fill(&mut self, plan: &mut Plan, limits: Limits, wanted: usize, moves: bool) {
        while plan.lacks(wanted) {
            let stays = !moves || !plan.open.is_empty();
            match self.select(limits.global, limits.local, stays) {
                Ok(true) => plan.push(&mut self.selection, self.timeline.position()),
                Ok(false) => return,
                Err(error) => plan.failure = Some(error),
            }
        }
    }

    /// Plans minibatches while those before them are packed: of the same window, and without waiting for anything.
    pub(super) fn fill_ahead(&mut self, plan: &mut Plan, limits: Limits, wanted: usize) {
        if let TimelineSource::Global(_, store) = &self.timeline
            && store.knows_all_chunks()
        {
            self.fill(plan, limits, wanted, false);
        }
    }

    /// Selects the next sequences, and loads their chunks if they are not in memory. With `stays`, the window does not move:
    /// returns false if the sequences need another window, and keeps the selection for the next call.
    pub(super) fn select(&mut self, global: u64, local: u64, stays: bool) -> Result<bool> {
        match &mut self.timeline {
            TimelineSource::Global(timeline, store) => {
                if !std::mem::take(&mut self.is_drawn) {
                    store.begin(&**timeline)?;
                    timeline.next(global, local, &mut self.selection)?;
                }
                if self.selection.passed || !self.selection.sequences.is_empty() {
                    if stays && store.is_left_by(&**timeline) {
                        self.is_drawn = true;
                        return Ok(false);
                    }
                    store.follow(&**timeline, &self.selection)?;
                }
            }
            TimelineSource::Local(timeline, store) => timeline.next(local, store, &mut self.selection)?,
        }
        Ok(true)
    }
}

/// A timeline of one of the two kinds, with the store that goes with it.
pub(super) enum TimelineSource {
    /// Over a table of chunks.
    Global(Box<dyn Timeline>, Box<ChunkStore>),
    /// Over chunks that list their sequences when they are loaded.
    Local(Box<LocalTimeline>, ListedChunks),
}

impl TimelineSource {
    pub(super) fn new(
        options: &ReaderSettings,
        deserializer: &AnyDeserializer,
        pool: Pool,
    ) -> Result<TimelineSource> {
        let (order, pace) = (options.order, options.pace());
        let deserializer = match deserializer {
            AnyDeserializer::Known(deserializer) => deserializer,
            AnyDeserializer::Listing(deserializer) => {
                let timeline = LocalTimeline::new(deserializer.chunk_count(), order)?
                    .with_first_epoch_only(options.in_place_of.is_some());
                return Ok(TimelineSource::Local(Box::new(timeline), ListedChunks::new(deserializer, pool)?));
            }
        };
        let timeline: Box<dyn Timeline> = match order {
            Order::InOrder => Box::new(InOrder::new(deserializer.clone()).at_pace(pace)),
            Order::Block { window, seed } => {
                Box::new(BlockRandomizer::new(deserializer.clone(), window, seed).at_pace(pace))
            }
        };
        Ok(TimelineSource::Global(timeline, Box::new(ChunkStore::new(deserializer.clone(), pool))))
    }

    pub(super) fn start_epoch(&mut self, epoch: &EpochConfig) -> Result<()> {
        match self {
            TimelineSource::Global(timeline, _) => timeline.start_epoch(epoch),
            TimelineSource::Local(timeline, _) => timeline.start_epoch(epoch),
        }
    }

    /// Takes over an epoch in whose middle it goes on, by [`TimelineSource::resume`].
    pub(super) fn enter_epoch(&mut self, epoch: &EpochConfig) -> Result<()> {
        match self {
            TimelineSource::Global(timeline, _) => timeline.start_epoch(epoch),
            TimelineSource::Local(timeline, _) => timeline.enter_epoch(epoch),
        }
    }

    pub(super) fn configure(&mut self, workers: &WorkerConfig) -> Result<()> {
        match self {
            TimelineSource::Global(timeline, _) => timeline.configure(workers),
            TimelineSource::Local(timeline, _) => timeline.configure(workers),
        }
    }

    pub(super) fn position(&self) -> ReaderPosition {
        match self {
            TimelineSource::Global(timeline, _) => ReaderPosition::Global(timeline.position()),
            TimelineSource::Local(timeline, _) => ReaderPosition::Local(timeline.position()),
        }
    }

    /// The sweep, from 0, that the timeline is in.
    pub(super) fn sweep(&self) -> u64 {
        match self {
            TimelineSource::Global(timeline, store) => {
                timeline.position().samples.checked_div(store.sweep_samples()).unwrap_or(0)
            }
            TimelineSource::Local(timeline, _) => timeline.position().sweeps,
        }
    }

    pub(super) fn resume(&mut self, position: ReaderPosition) -> Result<()> {
        match (self, position) {
            (TimelineSource::Global(timeline, _), ReaderPosition::Global(position)) => {
                timeline.resume(position)
            }
            (TimelineSource::Local(timeline, _), ReaderPosition::Local(position)) => {
                timeline.resume(position)
            }
            _ => {
                let message = "The checkpoint is of another kind of timeline.";
                let detail = "Restore it with the data and the options that it was made with.";
                Err(Error::checkpoint(ExceptionClass::Runtime, message).with_detail(detail))
            }
        }
    }

    pub(super) fn fetch(&mut self, chunk: ChunkId) -> Result<Arc<dyn Chunk>> {
        match self {
            TimelineSource::Global(_, store) => store.fetch(chunk),
            TimelineSource::Local(_, store) => store.fetch(chunk),
        }
    }

    /// The loaded chunks, by chunk id.
    pub(super) fn chunks(&self) -> &[Option<Arc<dyn Chunk>>] {
        match self {
            TimelineSource::Global(_, store) => store.chunks(),
            TimelineSource::Local(_, store) => store.chunks(),
        }
    }
}
