//! The timeline: which sequence comes next, for which worker.
//!
//! The global order is a pure function of (seed, sweep, window, chunk table); each worker's share
//! is a function of that order. A timeline's state is its position, valid at any moment.

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

/// The next sequences of one worker, with their flags. Reused between calls; [`Timeline::next`]
/// clears it.
#[derive(Debug, Default)]
pub struct Selection {
    /// This worker's sequences, in order.
    pub sequences: Vec<SequenceId>,
    /// For each sweep, the position in `sequences` of its first one, and the sweep's number, from
    /// 0. Ascending; see [`Selection::sweep_of`].
    sweeps: Vec<(usize, u64)>,
    /// The end of a sweep was reached or crossed.
    pub end_of_sweep: bool,
    /// The end of the epoch was reached.
    pub end_of_epoch: bool,
    /// The window must be loaded even if there is no sequence, because sequences of other workers
    /// were passed. CNTK 2.7 also loads the window in this case, and fails if it cannot, except
    /// without randomization.
    pub passed: bool,
}

impl Selection {
    /// Assigns sequences appended from now on to this sweep.
    fn begin_sweep(&mut self, sweep: u64) {
        let first = self.sequences.len();
        match self.sweeps.last_mut() {
            Some((_, last)) if *last == sweep => {}
            Some((begin, last)) if *begin == first => *last = sweep,
            _ => self.sweeps.push((first, sweep)),
        }
    }

    /// Returns the sweep, from 0, of the sequence at this position.
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

/// The chunks around a timeline's position. Both lists are in the order of use.
#[derive(Debug, Default)]
pub struct Window {
    /// This worker's chunks that must be in memory, including those of the last selection.
    pub resident: Vec<ChunkId>,
    /// This worker's next chunks, nearest first, at most the requested number.
    pub ahead: Vec<ChunkId>,
}

/// A position on a timeline. Holds more than the position in CNTK's checkpoints: the running number
/// that determines the workers' shares of unrandomized data continues across sweeps, and CNTK does
/// not save it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Position {
    /// Samples of all workers since the start of sweep 0.
    pub samples: u64,
    /// The running number of the next sequence: sequences of all workers since the last
    /// [`Timeline::seek`], plus the index in the sweep at which that call arrived. 0 for randomized
    /// timelines, which do not use it.
    pub counter: u64,
}

/// An order of sequences, and their assignment to workers.
pub trait Timeline: Send {
    /// Starts an epoch: sets workers, limits and flags, and goes to the epoch's first sample.
    fn start_epoch(&mut self, epoch: &EpochConfig) -> Result<()>;

    /// Changes workers and the sweep-crossing flag; the position stays.
    fn configure(&mut self, workers: &WorkerConfig) -> Result<()>;

    /// Selects the next sequences: at most `global` samples of all workers and `local` samples of
    /// this worker, but at least one sequence of this worker if any is left.
    fn next(&mut self, global: u64, local: u64, selection: &mut Selection) -> Result<()>;

    /// Returns the current position.
    fn position(&self) -> Position;

    /// Goes to the first sequence that starts at or after `samples`. Used to restore checkpoints.
    fn seek(&mut self, samples: u64) -> Result<()>;

    /// Goes to a position returned by [`Timeline::position`].
    fn resume(&mut self, position: Position) -> Result<()>;

    /// Returns a number that changes whenever [`Timeline::window`]'s resident chunks may have
    /// changed.
    fn window_stamp(&self) -> u64;

    /// Returns the chunks to keep in memory now, and the next `ahead` chunks.
    fn window(&self, ahead: usize, window: &mut Window);
}

/// Returns the number of samples in a sweep.
fn total_samples(table: &dyn ChunkTable) -> u64 {
    table.chunks().iter().fold(0, |sum, chunk| sum.saturating_add(chunk.samples))
}

/// The error for data without samples.
fn no_samples() -> Error {
    Error::data(
        "NoRandomizer: Expected input to contain samples, but the number of successfully read samples was 0.",
    )
}

/// Rejects limits of 0 samples.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::randomize::reference::Lists;

    #[test]
    fn sweeps_are_recorded_with_their_first_sequence() {
        let mut selection = Selection::default();
        // Sweep 2 continues after another call, and sweep 3 has no sequence.
        for (sweep, count) in [(2, 2), (2, 1), (3, 0), (4, 1), (4, 1), (5, 0)] {
            selection.begin_sweep(sweep);
            let count = selection.sequences.len() + count;
            selection.sequences.resize(count, SequenceId { chunk: 0, index: 0 });
        }
        assert_eq!(selection.sweeps, [(0, 2), (3, 4), (5, 5)]);
        assert_eq!([0, 2, 3, 4, 5, 9].map(|position| selection.sweep_of(position)), [2, 2, 4, 4, 5, 5]);
        (selection.end_of_sweep, selection.end_of_epoch, selection.passed) = (true, true, true);
        selection.clear();
        assert_eq!((selection.sequences.len(), selection.sweep_of(7)), (0, 0));
        assert!(!selection.end_of_sweep && !selection.end_of_epoch && !selection.passed);
    }

    #[test]
    fn limits_of_zero_are_rejected() {
        for (global, local, what) in [(0, 1, "Global"), (1, 0, "Local"), (0, 0, "Global")] {
            let error = check_limits(global, local).expect_err("a limit of 0");
            assert_eq!(error.message(), format!("{what} sample count must not be zero."));
            assert_eq!((error.kind(), error.class()), (ErrorKind::InvalidArgument, ExceptionClass::Logic));
        }
        assert!(check_limits(1, 1).is_ok());
    }

    #[test]
    fn samples_of_a_sweep_add_up() {
        assert_eq!(total_samples(&*Lists::new(vec![vec![3, 1], vec![2], vec![0]])), 6);
        assert_eq!(total_samples(&*Lists::new(vec![])), 0);
    }
}
