//! The timeline: which sequence comes next, for which worker.
//!
//! The global order is a pure function of (seed, sweep, window, chunk table); each worker's share is a function of that
//! order. A timeline's state is its position, valid at any moment.

pub mod block;
mod epoch;
pub mod in_order;
pub mod local;
#[cfg(test)]
mod lockstep;
pub mod random;
#[cfg(test)]
mod reference;

mod options;
mod pace;

pub use epoch::{EpochConfig, SIZE_OF_SWEEP, SIZE_UNLIMITED, SWEEPS_UNLIMITED};
pub(crate) use epoch::{EpochSpan, WorkerConfig};

pub use options::{Order, WindowSize};
pub use pace::Pace;

use cntk_reader_core::error::ExceptionClass;
use cntk_reader_core::format::ChunkTable;
use cntk_reader_core::sequence::{ChunkId, SequenceId};
use cntk_reader_core::{Error, ErrorKind, Result};

/// The next sequences of one worker, with their flags. Used again from call to call; [`Timeline::next`] clears it.
#[derive(Debug, Default)]
pub struct Selection {
    /// This worker's sequences, in order.
    pub sequences: Vec<SequenceId>,
    /// Where the sequences of each sweep begin: the position of the first one in `sequences`, and the number of the sweep,
    /// from 0. Ascending; see [`Selection::sweep_of`].
    sweeps: Vec<(usize, u64)>,
    /// The end of a sweep was reached or crossed.
    pub end_of_sweep: bool,
    /// The end of the epoch was reached.
    pub end_of_epoch: bool,
    /// The window is to be loaded even if there is no sequence, because sequences of other workers were passed. CNTK 2.7 loads
    /// the window then too, and fails if it cannot; only without randomization it does not.
    pub passed: bool,
}

impl Selection {
    /// Notes that the sequences that are appended from here on belong to this sweep.
    fn begin_sweep(&mut self, sweep: u64) {
        let first = self.sequences.len();
        match self.sweeps.last_mut() {
            Some((_, last)) if *last == sweep => {}
            Some((begin, last)) if *begin == first => *last = sweep,
            _ => self.sweeps.push((first, sweep)),
        }
    }

    /// The sweep, from 0, that the sequence at this position belongs to.
    pub fn sweep_of(&self, position: usize) -> u64 {
        let later = self.sweeps.partition_point(|&(first, _)| first <= position);
        later.checked_sub(1).map_or(0, |own| self.sweeps[own].1)
    }

    /// Removes all sequences and clears the flags.
    pub(crate) fn clear(&mut self) {
        self.sequences.clear();
        self.sweeps.clear();
        self.end_of_sweep = false;
        self.end_of_epoch = false;
        self.passed = false;
    }
}

/// The chunks around a timeline's position. Both lists are in the order in which the chunks will be needed.
#[derive(Debug, Default)]
pub struct Window {
    /// This worker's chunks that must be in memory, including those of the last selection.
    pub resident: Vec<ChunkId>,
    /// This worker's chunks that come next, nearest first, at most the number that was asked for.
    pub ahead: Vec<ChunkId>,
}

/// Where a timeline stands. It holds more than the position in CNTK's checkpoints: the running number that decides the
/// workers' shares of unrandomized data continues across sweeps, and CNTK's position does not contain it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Position {
    /// Samples of all workers since the start of sweep 0.
    pub samples: u64,
    /// The running number of the next sequence: sequences of all workers since the last [`Timeline::seek`], plus the index
    /// in the sweep that it went to. 0 for randomized timelines, which do not use it.
    pub counter: u64,
}

/// An order of sequences: which one comes next, for which worker.
pub trait Timeline: Send {
    /// Starts an epoch: takes over workers, limits and flags, and goes to the epoch's first sample.
    fn start_epoch(&mut self, epoch: &EpochConfig) -> Result<()>;

    /// Changes workers and the sweep-crossing flag; the position stays.
    fn configure(&mut self, workers: &WorkerConfig) -> Result<()>;

    /// Selects the next sequences: at most `global` samples of all workers and `local` samples of this worker, but at least
    /// one sequence of this worker while there is one.
    fn next(&mut self, global: u64, local: u64, selection: &mut Selection) -> Result<()>;

    /// Where the timeline stands.
    fn position(&self) -> Position;

    /// Goes to the first sequence that starts at or after `samples`, as a restored checkpoint does.
    fn seek(&mut self, samples: u64) -> Result<()>;

    /// Goes to a position that [`Timeline::position`] once returned.
    fn resume(&mut self, position: Position) -> Result<()>;

    /// A number that changes when [`Timeline::window`]'s resident chunks may have changed.
    fn window_stamp(&self) -> u64;

    /// The chunks to keep in memory now, and the next `ahead` chunks.
    fn window(&self, ahead: usize, window: &mut Window);
}

/// Number of samples of a sweep.
fn total_samples(table: &dyn ChunkTable) -> u64 {
    table.chunks().iter().fold(0, |sum, chunk| sum.saturating_add(chunk.samples))
}

/// The error for data without samples.
fn no_samples() -> Error {
    Error::data(
        "NoRandomizer: Expected input to contain samples, but the number of successfully read samples was 0.",
    )
}

/// Refuses limits of 0 samples.
fn check_limits(global: u64, local: u64) -> Result<()> {
    let refuse = |what| {
        let message = format!("{what} sample count must not be zero.");
        Err(Error::new(ErrorKind::InvalidArgument, ExceptionClass::Logic, message))
    };
    match (global, local) {
        (0, _) => refuse("Global"),
        (_, 0) => refuse("Local"),
        _ => Ok(()),
    }
}
