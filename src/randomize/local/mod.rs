//! Local timelines: for data whose chunks tell what sequences they have only when they are loaded.
//!
//! Nothing is known in advance but the number of chunks, so every worker walks a timeline of its own. The timeline is a
//! row of *windows*, each a list of this worker's sequences with a marker wherever a sweep ends. CNTK produces a window
//! whole; here it is produced in *segments*, each the part of one window in one sweep, because with fewer chunks than
//! the window has room for, a window runs over many sweeps. A segment is a function of where it begins, so positions
//! are CNTK's: the place where the window begins and the number of entries, markers included, before the next one.
//!
//! Where a position leads is found out at the next read, since chunks have to be loaded for it.

mod in_order;
#[cfg(test)]
mod naive;
#[cfg(test)]
mod tests;
mod tumbling;

use super::{EpochConfig, SIZE_OF_SWEEP, SWEEPS_UNLIMITED, Selection, WorkerConfig};
use crate::config::options::Order;
use crate::deserialize::Listing;
use crate::error::ExceptionClass;
use crate::sequence::{ChunkId, SequenceId};
use crate::{Error, ErrorKind, Result};
use in_order::InOrder;
use tumbling::Tumbling;

/// The largest minibatch of a worker: CNTK refuses more.
const LARGEST_MINIBATCH: u64 = i32::MAX as u64;

/// Chunks that are loaded beyond the segment.
const AHEAD: usize = 2;

/// Segments that are passed at most on the way to a restored position. A checkpoint that leads further is damaged: that
/// many sweeps do not fit into a window.
const LONGEST_WAY: u32 = 1 << 20;

/// The chunks, as a local timeline needs them.
pub trait Chunks {
    /// Begins to load a chunk, if it is neither loaded nor on its way.
    fn expect(&mut self, chunk: ChunkId);

    /// Waits for a chunk, and tells its sequences.
    fn list(&mut self, chunk: ChunkId) -> Result<Listing<'_>>;

    /// Lets go of all chunks but these, which are in ascending order.
    fn keep(&mut self, chunks: &[ChunkId]);
}

/// Where a local timeline stands: the numbers of CNTK's checkpoints.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LocalPosition {
    /// Where the current window begins; what the two numbers mean is the order's affair.
    pub window: [u64; 2],
    /// Ends of sweeps that were passed.
    pub sweeps: u64,
    /// Samples that this worker was given.
    pub samples: u64,
    /// Entries of the window, sequences and markers, before the next one.
    pub entries: u64,
}

/// How far an epoch goes.
#[derive(Debug, Clone, Copy)]
enum Limit {
    Sweeps(u64),
    /// Of this worker.
    Samples(u64),
}

/// A place between two sequences of a sweep, on the way through a window.
#[derive(Debug, Clone, Copy)]
struct Cursor {
    /// Position in the order of chunks.
    at: u64,
    sweep: u64,
    /// What is left of the window's size.
    budget: i64,
}

/// What follows a segment.
#[derive(Debug, Clone, Copy)]
enum Next {
    Segment(Cursor),
    /// The window is complete; the next one begins here.
    Window([u64; 2]),
}

/// A part of a window that lies within one sweep.
struct Segment {
    /// Where its window begins.
    window: [u64; 2],
    /// Entries of the window before it.
    begin: u64,
    sequences: Vec<(SequenceId, u32)>,
    /// The chunks of its sequences.
    chunks: Vec<ChunkId>,
    /// It reaches the end of the sweep: after its sequences there is a marker.
    ends_sweep: bool,
    /// What seeds its shuffle, until it was shuffled.
    seed: Option<u64>,
    next: Next,
}

impl Segment {
    fn entries(&self) -> u64 {
        self.sequences.len() as u64 + u64::from(self.ends_sweep)
    }

    fn end(&self) -> u64 {
        self.begin + self.entries()
    }

    fn has(&self, position: &LocalPosition) -> bool {
        self.window == position.window && (self.begin..self.end()).contains(&position.entries)
    }
}

/// An order of chunks and of the sequences in a window.
trait Windows: Send {
    /// CNTK's names of the two numbers that say where a window begins.
    fn keys(&self) -> [&'static str; 2];

    /// The first segment's place in a window, or None if there is no such window.
    fn start(&self, window: [u64; 2]) -> Option<Cursor>;

    /// Adds the chunks of a segment, as far as they are known before it is produced, and tells what will follow them.
    fn plan(&mut self, from: Cursor, workers: &WorkerConfig, chunks: &mut Vec<ChunkId>) -> Next;

    /// Fills in everything of a segment but its window and begin. `sequences` and `chunks` are empty.
    fn produce(
        &mut self,
        from: Cursor,
        workers: &WorkerConfig,
        chunks: &mut dyn Chunks,
        segment: &mut Segment,
    ) -> Result<()>;

    /// Shuffles a segment that was produced.
    fn shuffle(&mut self, segment: &mut Segment);

    /// Adds the first [`AHEAD`] of this worker's chunks behind a segment, those of the next sweep only `across`.
    fn ahead(&self, next: Next, workers: &WorkerConfig, across: bool, chunks: &mut Vec<ChunkId>);

    /// Other workers share the data from now on.
    fn reshape(&mut self);

    /// No segment has anything for this worker, as far as is known by now.
    fn is_barren(&self, workers: &WorkerConfig) -> bool;
}

/// A timeline over chunks that list their sequences themselves.
pub struct LocalTimeline {
    windows: Box<dyn Windows>,
    workers: WorkerConfig,
    limit: Limit,
    position: LocalPosition,
    segment: Option<Segment>,
    /// Workers changed within a window: the new one may be shorter.
    reshaped: bool,
    /// Chunks of the current selection from segments before the current one.
    carried: Vec<ChunkId>,
    /// The chunks of the current segment.
    wanted: Vec<ChunkId>,
    /// Those behind it.
    ahead: Vec<ChunkId>,
    kept: Vec<ChunkId>,
}

impl LocalTimeline {
    /// A timeline over so many chunks.
    pub fn new(chunks: u32, order: Order) -> Self {
        let windows: Box<dyn Windows> = match order {
            Order::InOrder => Box::new(InOrder::new(chunks)),
            Order::Block { window, seed } => Box::new(Tumbling::new(chunks, window, seed)),
        };
        LocalTimeline {
            windows,
            workers: WorkerConfig { workers: 1, rank: 0, cross_sweeps: true },
            limit: Limit::Sweeps(1),
            position: LocalPosition::default(),
            segment: None,
            reshaped: false,
            carried: Vec::new(),
            wanted: Vec::new(),
            ahead: Vec::new(),
            kept: Vec::new(),
        }
    }

    /// Starts an epoch, at the very beginning. CNTK has only one here.
    pub fn start_epoch(&mut self, epoch: &EpochConfig) -> Result<()> {
        epoch.workers.check()?;
        if epoch.index != 0 {
            let message = "LocalTimelineRandomizerBase is not supported for old configs.";
            return Err(Error::new(ErrorKind::InvalidArgument, ExceptionClass::Logic, message));
        }
        let limit = if epoch.sweeps != SWEEPS_UNLIMITED {
            Limit::Sweeps(epoch.sweeps)
        } else if epoch.samples == SIZE_OF_SWEEP {
            Limit::Sweeps(1)
        } else {
            let size = EpochConfig { index: 0, ..*epoch }.span(0)?.end;
            let WorkerConfig { workers, rank, .. } = epoch.workers;
            // CNTK 2.7 shares out the rest of the size cut to a signed 32-bit number.
            let rest = (size as i32 as u64) % workers;
            Limit::Samples(size / workers + u64::from(rest > rank))
        };
        self.limit = limit;
        self.workers = epoch.workers;
        self.position = LocalPosition::default();
        self.segment = None;
        self.reshaped = false;
        self.windows.reshape();
        Ok(())
    }

    /// Changes workers; the position stays, and so does the limit in samples (CNTK 2.7). The worker's share of the
    /// current window is another one afterwards.
    pub fn configure(&mut self, workers: &WorkerConfig) -> Result<()> {
        workers.check()?;
        if (workers.workers, workers.rank) != (self.workers.workers, self.workers.rank) {
            self.segment = None;
            self.reshaped = true;
            self.windows.reshape();
        }
        self.workers = *workers;
        Ok(())
    }

    /// Where the timeline stands.
    pub fn position(&self) -> LocalPosition {
        self.position
    }

    /// Goes to a position of this or another timeline over the same data.
    pub fn resume(&mut self, position: LocalPosition) -> Result<()> {
        if self.windows.start(position.window).is_none() {
            let [key, _] = self.windows.keys();
            let message =
                format!("The checkpoint's '{key}' is {}: there is no such chunk.", position.window[0]);
            return Err(Error::checkpoint(ExceptionClass::Runtime, message));
        }
        self.position = position;
        Ok(())
    }

    /// This worker's samples of the epoch; `None` if that is measured in sweeps.
    pub fn limit_in_samples(&self) -> Option<u64> {
        match self.limit {
            Limit::Samples(samples) => Some(samples),
            Limit::Sweeps(_) => None,
        }
    }

    /// CNTK's names of the two numbers of a window.
    pub fn keys(&self) -> [&'static str; 2] {
        self.windows.keys()
    }

    /// Selects the next sequences: at most `local` samples, but at least one sequence while there is one. On failure
    /// the position stays.
    pub fn next(&mut self, local: u64, chunks: &mut dyn Chunks, selection: &mut Selection) -> Result<()> {
        selection.clear();
        super::check_limits(u64::MAX, local)?;
        if local > LARGEST_MINIBATCH {
            let message = "The size of a minibatch cannot exceed max int.";
            return Err(Error::new(ErrorKind::InvalidArgument, ExceptionClass::Runtime, message));
        }
        let start = self.position;
        if !self.carried.is_empty() {
            self.carried.clear();
            self.make_room(chunks);
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
                Limit::Samples(limit) => limit - self.position.samples,
                Limit::Sweeps(_) => u64::MAX,
            };
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
                selection.sequences.push(sequence);
                samples += length;
                count += 1;
            }
            taken += samples;
            self.position.samples = self.position.samples.saturating_add(samples);
            self.position.entries += count as u64;
            // A marker is passed only if more is wanted: an exactly filled minibatch leaves it to the next one.
            let at_marker = segment.ends_sweep && self.position.entries + 1 == segment.end();
            if at_marker && !is_full && taken < local && !self.is_over() {
                self.position.entries += 1;
                self.position.sweeps = self.position.sweeps.saturating_add(1);
                selection.end_of_sweep = true;
            }
            if self.position.entries == segment.end() {
                self.leave(&selection.sequences[before..]);
            } else if is_full {
                break;
            }
        }
        selection.end_of_epoch = exhausted || self.is_over();
        Ok(())
    }

    fn is_over(&self) -> bool {
        match self.limit {
            // CNTK 2.7 compares for equality, so a state beyond the limit goes on for ever; here it is the end.
            Limit::Sweeps(sweeps) => self.position.sweeps >= sweeps,
            Limit::Samples(samples) => self.position.samples >= samples,
        }
    }

    /// The current segment is used up. Its chunks stay as far as the selection has sequences of them.
    fn leave(&mut self, used: &[SequenceId]) {
        let Some(segment) = &self.segment else { return };
        let is_empty = segment.sequences.is_empty();
        if let Next::Window(window) = segment.next {
            self.position.window = window;
            self.position.entries = 0;
            if is_empty {
                // The same window again would not be noticed as another one without sequences.
                self.segment = None;
            }
        }
        let old = self.carried.len();
        self.carried.extend(used.iter().map(|sequence| sequence.chunk));
        self.carried[old..].sort_unstable();
        self.carried.dedup();
    }

    /// Makes the segment that the position lies in the current one. False if nothing will ever come.
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
            self.make_room(chunks);
            self.wanted.iter().for_each(|&chunk| chunks.expect(chunk));
            // Those of the next sweep may not be needed, which is known only in `start_segment`.
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
                    if self.position.entries > segment.end() {
                        self.fit(&segment)?;
                        // At a marker at the window's very end.
                        if segment.has(&self.position) {
                            self.start_segment(segment, chunks);
                            return Ok(true);
                        }
                    }
                    // A window without anything for this worker.
                    self.position.window = window;
                    self.position.entries = 0;
                    place = None;
                }
            }
        }
        Err(far_off())
    }

    /// Begins to read a segment that was produced.
    fn start_segment(&mut self, mut segment: Segment, chunks: &mut dyn Chunks) {
        self.reshaped = false;
        self.windows.shuffle(&mut segment);
        // The segment lies in the sweep that ends next; behind the epoch's last one nothing is needed.
        let sweep = self.position.sweeps.saturating_add(1);
        let is_last = matches!(self.limit, Limit::Sweeps(sweeps) if sweep >= sweeps);
        self.wanted.clone_from(&segment.chunks);
        self.ahead.clear();
        self.windows.ahead(segment.next, &self.workers, !is_last, &mut self.ahead);
        self.make_room(chunks);
        self.ahead.iter().for_each(|&chunk| chunks.expect(chunk));
        self.segment = Some(segment);
    }

    /// Brings a position behind the end of its window back to it, if workers have changed meanwhile.
    fn fit(&mut self, last: &Segment) -> Result<()> {
        if !self.reshaped {
            return Err(far_off());
        }
        self.position.entries = last.end() - u64::from(last.ends_sweep);
        Ok(())
    }

    /// Lets go of chunks that are neither wanted nor part of the selection.
    fn make_room(&mut self, chunks: &mut dyn Chunks) {
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
    let message = "The checkpoint's position lies behind the end of its window: data, window, seed or workers have changed.";
    Error::checkpoint(ExceptionClass::Runtime, message)
}

fn beyond(window: [u64; 2]) -> Error {
    Error::internal(format!("There is no window at chunk {}.", window[0]))
}
