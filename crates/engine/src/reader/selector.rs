//! Selects the sequences of the next minibatches, and loads their chunks, before anything is
//! packed.

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
    /// The timeline's position after the selection.
    pub position: ReaderPosition,
}

/// Selected minibatches of one window, to be packed.
#[derive(Default)]
pub(super) struct Plan {
    /// Items outside of `open` are kept to reuse their memory.
    minibatches: Vec<PlannedMinibatch>,
    /// The minibatches not taken yet.
    open: Range<usize>,
    /// The error that follows them.
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

    /// Appends a minibatch. Swaps `selection` with an old one, to reuse its memory.
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

    /// Takes up to `wanted` minibatches. Returns their range, and the failure that follows them, if
    /// any.
    pub(super) fn take(&mut self, wanted: usize) -> (Range<usize>, Option<Error>) {
        let taken = self.open.start..self.open.end.min(self.open.start + wanted);
        self.open.start = taken.end;
        (taken, self.failure.take_if(|_| self.open.is_empty()))
    }

    /// Returns minibatches that were taken.
    pub(super) fn taken(&self, taken: Range<usize>) -> &[PlannedMinibatch] {
        self.minibatches.get(taken).unwrap_or_default()
    }

    /// Whether all planned minibatches were taken, and the epoch continues.
    pub(super) fn goes_on(&self) -> bool {
        self.is_empty() && !self.ends_epoch()
    }

    /// Whether fewer than `wanted` minibatches are planned and there may be more.
    fn lacks(&self, wanted: usize) -> bool {
        let is_complete = !self.open.is_empty() && self.ends_epoch();
        self.failure.is_none() && self.open.len() < wanted && !is_complete
    }

    /// Whether the last planned minibatch ends the epoch.
    fn ends_epoch(&self) -> bool {
        let last = self.open.end.checked_sub(1).and_then(|last| self.minibatches.get(last));
        last.is_some_and(|planned| planned.selection.end_of_epoch)
    }
}

/// Selects sequences of a timeline, and loads their chunks.
pub(super) struct Selector {
    pub timeline: TimelineSource,
    /// The last selection.
    pub selection: Selection,
    /// Whether `selection` is drawn but waits for the next window.
    is_drawn: bool,
}

impl Selector {
    pub(super) fn new(timeline: TimelineSource) -> Selector {
        Selector { timeline, selection: Selection::default(), is_drawn: false }
    }

    /// Whether it selects from a chunk table.
    pub(super) fn is_global(&self) -> bool {
        matches!(self.timeline, TimelineSource::Global(..))
    }

    /// Whether a selection is drawn but not used yet.
    pub(super) fn is_ahead(&self) -> bool {
        self.is_drawn
    }

    /// Drops a drawn selection, because the timeline is about to move.
    pub(super) fn forget(&mut self) {
        self.is_drawn = false;
    }

    /// Plans minibatches of one window until `wanted` are planned, or until a failure. With
    /// `moves`, the window may move before the first one.
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

    /// Plans minibatches while previous ones are packed: only in the same window, and without
    /// waiting.
    pub(super) fn fill_ahead(&mut self, plan: &mut Plan, limits: Limits, wanted: usize) {
        if let TimelineSource::Global(_, store) = &self.timeline
            && store.knows_all_chunks()
        {
            self.fill(plan, limits, wanted, false);
        }
    }

    /// Selects the next sequences, and loads their chunks if they are not in memory. With `stays`,
    /// the window must not move: returns false if the sequences need another window, and keeps the
    /// selection for the next call.
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

/// A timeline of either kind, with its chunk store.
pub(super) enum TimelineSource {
    /// Over a chunk table.
    Global(Box<dyn Timeline>, Box<ChunkStore>),
    /// Over chunks that list their sequences only when loaded.
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

    /// Sets an epoch that [`TimelineSource::resume`] continues in its middle.
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

    /// Returns the current sweep, from 0.
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
            (own, _) => {
                let message = match own {
                    TimelineSource::Global(..) => {
                        "The checkpoint is of a reader whose chunks list their sequences only when they are loaded, but \
                         this reader knows its sequences in advance."
                    }
                    TimelineSource::Local(..) => {
                        "The checkpoint is of a reader that knows its sequences in advance, but the chunks of this reader \
                         list their sequences only when they are loaded."
                    }
                };
                let detail = "Restore it with the original data and options.";
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

    /// Returns the loaded chunks, by chunk id.
    pub(super) fn chunks(&self) -> &[Option<Arc<dyn Chunk>>] {
        match self {
            TimelineSource::Global(_, store) => store.chunks(),
            TimelineSource::Local(_, store) => store.chunks(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::randomize::Position;
    use crate::reader::tests::settings;
    use crate::reader::tests::source::Source;

    fn position(samples: u64) -> ReaderPosition {
        ReaderPosition::Global(Position { samples, counter: 0 })
    }

    /// Appends minibatches that end at these positions, the last one at the end of the epoch.
    fn push(plan: &mut Plan, positions: &[u64], ends_epoch: bool) {
        for (number, &samples) in positions.iter().enumerate() {
            let is_last = ends_epoch && number + 1 == positions.len();
            let mut selection = Selection::default();
            selection.end_of_epoch = is_last;
            plan.push(&mut selection, position(samples));
        }
    }

    fn positions(plan: &Plan, taken: Range<usize>) -> Vec<u64> {
        plan.taken(taken).iter().map(|planned| planned.position.samples()).collect()
    }

    #[test]
    fn planned_minibatches_are_taken_in_order() {
        let mut plan = Plan::default();
        assert!(plan.is_empty() && plan.lacks(1) && plan.goes_on());
        push(&mut plan, &[3, 6, 9], false);
        assert!(!plan.is_empty() && !plan.goes_on());
        assert!(plan.lacks(4) && !plan.lacks(3));
        let (taken, failure) = plan.take(2);
        assert_eq!((positions(&plan, taken), failure.is_none()), (vec![3, 6], true));
        push(&mut plan, &[12], false);
        assert!(plan.lacks(3) && !plan.lacks(2));
        let (taken, _) = plan.take(5);
        assert_eq!(positions(&plan, taken), [9, 12]);
        // The places of taken minibatches are used again.
        assert!(plan.is_empty() && plan.goes_on());
        push(&mut plan, &[15], false);
        assert_eq!((plan.open.clone(), plan.minibatches.len()), (0..1, 4));
        plan.clear();
        assert!(plan.is_empty());
        assert_eq!(positions(&plan, 4..5), []);
    }

    #[test]
    fn end_of_epoch_completes_a_plan() {
        let mut plan = Plan::default();
        push(&mut plan, &[3, 6], true);
        assert!(plan.ends_epoch() && !plan.lacks(5));
        plan.take(2);
        assert!(plan.is_empty() && !plan.goes_on());
        // Minibatches after the end can still be read.
        assert!(plan.lacks(1));
    }

    #[test]
    fn failure_follows_the_last_minibatch() {
        let mut plan = Plan::default();
        push(&mut plan, &[3, 6], false);
        plan.failure = Some(Error::data("bad"));
        assert!(!plan.lacks(5));
        let (taken, failure) = plan.take(1);
        assert_eq!((positions(&plan, taken), failure.is_none()), (vec![3], true));
        assert!(!plan.is_empty());
        let (taken, failure) = plan.take(1);
        assert_eq!((positions(&plan, taken), failure.is_some()), (vec![6], true));
        assert!(plan.is_empty());
        plan.failure = Some(Error::data("bad"));
        assert!(!plan.is_empty());
        plan.clear();
        assert!(plan.is_empty());
    }

    /// A selector of minibatches of two samples from eight chunks of four.
    fn selector(source: &Arc<Source>) -> Selector {
        let pool = Pool::shared().expect("threads");
        let mut timeline = TimelineSource::new(&settings(), &source.known(), pool).expect("memory");
        let workers = WorkerConfig { workers: 1, rank: 0, cross_sweeps: true };
        let epoch = EpochConfig { workers, samples: 64, sweeps: u64::MAX, index: 0 };
        timeline.start_epoch(&epoch).expect("an epoch");
        Selector::new(timeline)
    }

    #[test]
    fn plan_stays_in_one_window() {
        let source = Arc::new(Source::ones(8, 4));
        let mut selector = selector(&source);
        let limits = Limits { global: 2, local: 2 };
        let mut plan = Plan::default();
        assert!(selector.is_global() && !selector.is_ahead());
        selector.fill(&mut plan, limits, 5, true);
        assert_eq!(plan.open, 0..2, "the next minibatch needs another window");
        assert!(selector.is_ahead());
        assert_eq!(selector.timeline.position().samples(), 6);
        plan.take(5);
        // The selection that was drawn is the first one of the next plan.
        selector.fill_ahead(&mut plan, limits, 5);
        assert_eq!((plan.open.clone(), selector.is_ahead()), (2..2, true));
        selector.fill(&mut plan, limits, 1, true);
        let (taken, _) = plan.take(1);
        assert_eq!((positions(&plan, taken), selector.is_ahead()), (vec![6], false));
        selector.fill_ahead(&mut plan, limits, 5);
        let (taken, _) = plan.take(5);
        assert_eq!((positions(&plan, taken), selector.is_ahead()), (vec![8], true));
        selector.forget();
        assert!(!selector.is_ahead());
    }

    #[test]
    fn plan_ends_with_a_failure() {
        let source = Arc::new(Source::ones(8, 4));
        source.breaks(0, Some(Error::data("bad")));
        let mut selector = selector(&source);
        let mut plan = Plan::default();
        selector.fill(&mut plan, Limits { global: 2, local: 2 }, 5, true);
        let (taken, failure) = plan.take(5);
        assert_eq!((taken.len(), failure.expect("an error").message()), (0, "bad"));
    }

    /// Planning ahead must not wait for chunks that are not known yet.
    #[test]
    fn growing_table_is_not_planned_ahead() {
        let source = Arc::new(Source { grows_from: Some(1), ..Source::ones(8, 4) });
        let mut selector = selector(&source);
        let mut plan = Plan::default();
        selector.fill_ahead(&mut plan, Limits { global: 2, local: 2 }, 5);
        assert!(plan.is_empty() && !selector.is_ahead());
        assert_eq!(selector.timeline.position().samples(), 0);
    }

    #[test]
    fn timelines_of_both_kinds() {
        let source = Arc::new(Source::ones(2, 4));
        let pool = Pool::shared().expect("threads");
        let workers = |workers| WorkerConfig { workers, rank: 0, cross_sweeps: true };
        let epoch = EpochConfig { workers: workers(1), samples: 1, sweeps: 3, index: 1 };
        for deserializer in [source.known(), source.listing()] {
            let mut timeline = TimelineSource::new(&settings(), &deserializer, pool.clone()).expect("memory");
            timeline.start_epoch(&epoch).expect("an epoch");
            assert_eq!(timeline.sweep(), 3);
            assert!(timeline.configure(&workers(0)).is_err());
            let position = timeline.position();
            timeline.enter_epoch(&EpochConfig { index: 0, ..epoch }).expect("an epoch");
            assert_ne!(timeline.position(), position);
            timeline.resume(position).expect("its own position");
            assert_eq!((timeline.position(), timeline.sweep()), (position, 3));
            assert!(timeline.start_epoch(&EpochConfig { workers: workers(0), ..epoch }).is_err());
            assert!(timeline.enter_epoch(&EpochConfig { workers: workers(0), ..epoch }).is_err());
            assert!(timeline.fetch(1).is_ok() && timeline.fetch(2).is_err());
        }
    }
}
