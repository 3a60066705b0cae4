//! Local timelines, for data whose chunks list their sequences only once loaded.
//!
//! Only the number of chunks is known in advance, so each worker has its own timeline. A local
//! timeline is a series of *windows*, each a list of this worker's sequences with a marker wherever
//! a sweep ends. CNTK produces a window as a whole. Here it is produced in *segments*, each the
//! part of one window that lies in one sweep, because a window larger than the data spans many
//! sweeps. A segment depends only on where it begins, so positions are the same as CNTK's: the
//! start of the window, and the number of its entries passed so far, markers included.
//!
//! A position is resolved at the next read, because resolving it loads chunks.

#[cfg(test)]
mod differential;
mod in_order;
#[cfg(test)]
mod reference;
#[cfg(test)]
mod tests;
mod tumbling;
mod window;

pub(crate) use window::{Chunks, LocalPosition};

use super::{EpochConfig, Selection, WorkerConfig};
use crate::randomize::Order;
use cntk_reader_core::error::ExceptionClass;
use cntk_reader_core::limits::{LARGEST_MINIBATCH, LONGEST_WAY};
use cntk_reader_core::memory::room;
use cntk_reader_core::sequence::{ChunkId, SequenceId};
use cntk_reader_core::{Error, ErrorKind, Result};
use in_order::InOrder;
use tumbling::Tumbling;
use window::{Next, Segment, Windows};

/// The length of an epoch.
#[derive(Debug, Clone, Copy)]
enum EpochLimit {
    Sweeps(u64),
    /// Samples of this worker.
    Samples(u64),
}

/// A timeline over chunks that list their own sequences.
pub struct LocalTimeline {
    windows: Box<dyn Windows>,
    workers: WorkerConfig,
    /// The epoch started last.
    epoch: Option<EpochConfig>,
    /// Reject every epoch but the first, as CNTK 2.7 does.
    knows_first_epoch_only: bool,
    limit: EpochLimit,
    position: LocalPosition,
    segment: Option<Segment>,
    /// The workers changed within a window, so the window may have become shorter.
    reshaped: bool,
    /// Chunks of the current selection from segments before the current one.
    carried: Vec<ChunkId>,
    /// The chunks of the current segment.
    wanted: Vec<ChunkId>,
    /// The chunks after the current segment.
    ahead: Vec<ChunkId>,
    kept: Vec<ChunkId>,
}

impl LocalTimeline {
    /// Creates a timeline over `chunks` chunks.
    pub fn new(chunks: u32, order: Order) -> Result<Self> {
        let windows: Box<dyn Windows> = match order {
            Order::InOrder => Box::new(InOrder::new(chunks)),
            Order::Block { window, seed } => Box::new(Tumbling::new(chunks, window, seed)?),
        };
        Ok(LocalTimeline {
            windows,
            workers: WorkerConfig { workers: 1, rank: 0, cross_sweeps: true },
            epoch: None,
            knows_first_epoch_only: false,
            limit: EpochLimit::Sweeps(1),
            position: LocalPosition::default(),
            segment: None,
            reshaped: false,
            carried: Vec::new(),
            wanted: Vec::new(),
            ahead: Vec::new(),
            kept: Vec::new(),
        })
    }

    /// Sets whether to reject every epoch but the first, as CNTK 2.7 does.
    #[must_use]
    pub(crate) fn with_first_epoch_only(mut self, is_so: bool) -> Self {
        self.knows_first_epoch_only = is_so;
        self
    }

    /// Starts an epoch at its beginning. An epoch measured in samples must be the first one, or
    /// follow one that was read to its end: the location of a sample is unknown before it is read.
    pub(crate) fn start_epoch(&mut self, epoch: &EpochConfig) -> Result<()> {
        epoch.workers.check()?;
        let start = self.start_of(epoch)?;
        self.enter_epoch(epoch)?;
        self.position = start;
        Ok(())
    }

    /// Returns the beginning of an epoch.
    fn start_of(&self, epoch: &EpochConfig) -> Result<LocalPosition> {
        if epoch.index == 0 {
            return Ok(LocalPosition::default());
        }
        if self.knows_first_epoch_only {
            let message = "LocalTimelineRandomizerBase is not supported for old configs.";
            return Err(Error::new(ErrorKind::InvalidArgument, ExceptionClass::Logic, message));
        }
        if epoch.is_in_sweeps() {
            let sweeps = epoch.first_sweep();
            return Ok(LocalPosition {
                window: self.windows.first_of(sweeps),
                sweeps,
                ..LocalPosition::default()
            });
        }
        let before = EpochConfig { index: epoch.index - 1, ..*epoch };
        let is_over = self.is_over() || self.windows.is_barren(&self.workers);
        if self.epoch == Some(before) && self.workers == epoch.workers && is_over {
            return Ok(LocalPosition { samples: 0, ..self.position });
        }
        let EpochConfig { samples, index, .. } = epoch;
        let message = format!("Epoch {index} of {samples} samples cannot start here.");
        Err(Error::state(message).with_detail(
            "These data list their sequences only when loaded, so the epoch's first sample is known only to a reader that has just read \
             the previous epoch to its end, as the same worker. Use epochs of whole sweeps, or have the deserializer describe its \
             sequences before they are loaded.",
        ))
    }

    /// Sets the epoch; [`LocalTimeline::resume`] then sets the position in it.
    pub(crate) fn enter_epoch(&mut self, epoch: &EpochConfig) -> Result<()> {
        epoch.workers.check()?;
        let limit = if epoch.is_in_sweeps() {
            EpochLimit::Sweeps(epoch.last_sweep())
        } else {
            let size = EpochConfig { index: 0, ..*epoch }.span(0)?.end;
            let WorkerConfig { workers, rank, .. } = epoch.workers;
            // CNTK 2.7 truncates the size to a signed 32-bit number before it computes the
            // remainder.
            let rest = (size as i32 as u64) % workers;
            EpochLimit::Samples(size / workers + u64::from(rest > rank))
        };
        self.limit = limit;
        self.epoch = Some(*epoch);
        self.workers = epoch.workers;
        self.position = LocalPosition::default();
        self.segment = None;
        self.reshaped = false;
        self.windows.reshape();
        Ok(())
    }

    /// Changes the workers. The position stays, and so does the limit in samples (as in CNTK 2.7),
    /// but the worker's share of the current window changes.
    pub(crate) fn configure(&mut self, workers: &WorkerConfig) -> Result<()> {
        workers.check()?;
        if (workers.workers, workers.rank) != (self.workers.workers, self.workers.rank) {
            self.segment = None;
            self.reshaped = true;
            self.windows.reshape();
        }
        self.workers = *workers;
        Ok(())
    }

    /// Returns the current position.
    pub(crate) fn position(&self) -> LocalPosition {
        self.position
    }

    /// Goes to a position taken from this or another timeline over the same data.
    pub(crate) fn resume(&mut self, position: LocalPosition) -> Result<()> {
        if self.windows.start(position.window).is_none() {
            let [key, _] = self.windows.keys();
            let message =
                format!("The checkpoint's '{key}' is {}: there is no such chunk.", position.window[0]);
            return Err(Error::checkpoint(ExceptionClass::Runtime, message));
        }
        self.position = position;
        Ok(())
    }

    /// Returns the number of this worker's samples in the epoch, or `None` if it is measured in
    /// sweeps.
    pub(crate) fn limit_in_samples(&self) -> Option<u64> {
        match self.limit {
            EpochLimit::Samples(samples) => Some(samples),
            EpochLimit::Sweeps(_) => None,
        }
    }

    /// Returns the number of chunks if all of them were listed and all are empty.
    pub(crate) fn empty_chunks(&self) -> Option<u32> {
        self.windows.empty_chunks()
    }

    /// Returns CNTK's names for the two numbers of a window.
    pub fn keys(&self) -> [&'static str; 2] {
        self.windows.keys()
    }

    /// Selects the next sequences: at most `local` samples, but at least one sequence if any is
    /// left. On failure the position does not change.
    pub(crate) fn next(
        &mut self,
        local: u64,
        chunks: &mut dyn Chunks,
        selection: &mut Selection,
    ) -> Result<()> {
        selection.clear();
        super::check_limits(u64::MAX, local)?;
        if local > LARGEST_MINIBATCH {
            let message = "The size of a minibatch cannot exceed max int.";
            return Err(Error::new(ErrorKind::InvalidArgument, ExceptionClass::Runtime, message));
        }
        let start = self.position;
        if !self.carried.is_empty() {
            self.carried.clear();
            self.release_others(chunks);
        }
        if let Err(error) = self.select(local, chunks, selection) {
            self.position = start;
            selection.clear();
            return Err(error);
        }
        Ok(())
    }

    fn select(&mut self, local: u64, chunks: &mut dyn Chunks, selection: &mut Selection) -> Result<()> {
        let mut taken = 0;
        let mut exhausted = false;
        while taken < local && !self.is_over() {
            let before = selection.sequences.len();
            if !self.segment.as_ref().is_some_and(|segment| segment.has(&self.position))
                && !self.enter(chunks)?
            {
                exhausted = true;
                break;
            }
            let Some(segment) = &self.segment else { break };
            let left = match self.limit {
                EpochLimit::Samples(limit) => limit - self.position.samples,
                EpochLimit::Sweeps(_) => u64::MAX,
            };
            selection.begin_sweep(self.position.sweeps);
            let first = (self.position.entries - segment.begin) as usize;
            let (mut count, mut samples, mut is_full) = (0, 0, false);
            for &(sequence, length) in &segment.sequences[first..] {
                let length = u64::from(length);
                is_full = taken + samples >= local
                    || samples >= left
                    || (before + count > 0 && taken + samples + length > local);
                if is_full {
                    break;
                }
                room::push(&mut selection.sequences, sequence, room::MINIBATCH)?;
                samples += length;
                count += 1;
            }
            taken += samples;
            self.position.samples = self.position.samples.saturating_add(samples);
            self.position.entries += count as u64;
            // A marker is passed only if the minibatch has room left; a full minibatch leaves it to
            // the next one.
            let at_marker = segment.ends_sweep && self.position.entries + 1 == segment.end();
            if at_marker && taken < local && !self.is_over() {
                self.position.entries += 1;
                self.position.sweeps = self.position.sweeps.saturating_add(1);
                selection.end_of_sweep = true;
            }
            if self.position.entries == segment.end() {
                self.leave(&selection.sequences[before..])?;
            } else if is_full {
                break;
            }
        }
        selection.end_of_epoch = exhausted || self.is_over();
        Ok(())
    }

    fn is_over(&self) -> bool {
        match self.limit {
            // CNTK 2.7 compares for equality, so from a state past the limit it never stops.
            EpochLimit::Sweeps(sweeps) => self.position.sweeps >= sweeps,
            EpochLimit::Samples(samples) => self.position.samples >= samples,
        }
    }

    /// Leaves the exhausted current segment. The selection's chunks stay in memory.
    fn leave(&mut self, used: &[SequenceId]) -> Result<()> {
        let Some(segment) = &self.segment else { return Ok(()) };
        room::reserve(&mut self.carried, used.len(), room::ORDER)?;
        let is_empty = segment.sequences.is_empty();
        if let Next::Window(window) = segment.next {
            self.position.window = window;
            self.position.entries = 0;
            if is_empty {
                // The next window may be this one again; it must not be mistaken for the segment
                // just left.
                self.segment = None;
            }
        }
        let old = self.carried.len();
        self.carried.extend(used.iter().map(|sequence| sequence.chunk));
        self.carried[old..].sort_unstable();
        self.carried.dedup();
        Ok(())
    }

    /// Makes the segment at the position current. Returns false if this worker will never get a
    /// sequence.
    fn enter(&mut self, chunks: &mut dyn Chunks) -> Result<bool> {
        let old = self.segment.take();
        let mut place = old.as_ref().and_then(|segment| match segment.next {
            Next::Segment(cursor)
                if segment.window == self.position.window && segment.end() <= self.position.entries =>
            {
                Some((segment.end(), cursor))
            }
            _ => None,
        });
        let mut segment = old.unwrap_or_else(|| Segment {
            window: [0; 2],
            begin: 0,
            sequences: Vec::new(),
            chunks: Vec::new(),
            ends_sweep: false,
            seed: None,
            next: Next::Window([0; 2]),
        });
        for _ in 0..LONGEST_WAY {
            if self.windows.is_barren(&self.workers) {
                return Ok(false);
            }
            let window = self.position.window;
            let (begin, cursor) = match place {
                Some(place) => place,
                None => (0, self.windows.start(window).ok_or_else(|| beyond(window))?),
            };
            (segment.window, segment.begin) = (window, begin);
            segment.sequences.clear();
            segment.chunks.clear();
            self.wanted.clear();
            let next = self.windows.plan(cursor, &self.workers, &mut self.wanted);
            self.ahead.clear();
            self.windows.ahead(next, &self.workers, true, &mut self.ahead);
            self.release_others(chunks);
            self.wanted.iter().for_each(|&chunk| chunks.expect(chunk));
            // Only `start_segment` knows whether chunks of the next sweep are needed.
            self.ahead.clear();
            self.windows.ahead(next, &self.workers, false, &mut self.ahead);
            self.ahead.iter().for_each(|&chunk| chunks.expect(chunk));
            self.windows.produce(cursor, &self.workers, chunks, &mut segment)?;
            if segment.has(&self.position) {
                self.start_segment(segment, chunks);
                return Ok(true);
            }
            match segment.next {
                Next::Segment(cursor) => place = Some((segment.end(), cursor)),
                Next::Window(window) => {
                    let is_past = self.position.entries > segment.end();
                    // Other workers may have had more sequences before the marker.
                    let is_at_end = self.position.entries == segment.end();
                    if is_past || (is_at_end && self.reshaped && segment.ends_sweep) {
                        self.fit(&segment)?;
                        // The position is now at the marker at the very end of the window.
                        if segment.has(&self.position) {
                            self.start_segment(segment, chunks);
                            return Ok(true);
                        }
                    }
                    // The window has nothing for this worker.
                    self.position.window = window;
                    self.position.entries = 0;
                    place = None;
                }
            }
        }
        Err(far_off())
    }

    /// Makes a produced segment the current one.
    fn start_segment(&mut self, mut segment: Segment, chunks: &mut dyn Chunks) {
        self.reshaped = false;
        self.windows.shuffle(&mut segment);
        // The segment lies in the sweep that ends next. After the epoch's last sweep, no chunk is
        // needed.
        let sweep = self.position.sweeps.saturating_add(1);
        let is_last = matches!(self.limit, EpochLimit::Sweeps(sweeps) if sweep >= sweeps);
        self.wanted.clone_from(&segment.chunks);
        self.ahead.clear();
        self.windows.ahead(segment.next, &self.workers, !is_last, &mut self.ahead);
        self.release_others(chunks);
        self.ahead.iter().for_each(|&chunk| chunks.expect(chunk));
        self.segment = Some(segment);
    }

    /// Moves a position at or past the end of its window back to its last marker, or to the end if
    /// it has none there. Fails unless the workers have changed.
    fn fit(&mut self, last: &Segment) -> Result<()> {
        if !self.reshaped {
            return Err(far_off());
        }
        self.position.entries = last.end() - u64::from(last.ends_sweep);
        Ok(())
    }

    /// Releases chunks that are neither wanted, nor next, nor part of the selection.
    fn release_others(&mut self, chunks: &mut dyn Chunks) {
        self.kept.clear();
        self.kept.extend(&self.wanted);
        self.kept.extend(&self.ahead);
        self.kept.extend(&self.carried);
        self.kept.sort_unstable();
        self.kept.dedup();
        chunks.keep(&self.kept);
    }
}

fn far_off() -> Error {
    let message = "The checkpoint's position lies past the end of its window: data, window, seed or workers have changed.";
    Error::checkpoint(ExceptionClass::Runtime, message)
}

fn beyond(window: [u64; 2]) -> Error {
    Error::internal(format!("There is no window at chunk {}.", window[0]))
}
