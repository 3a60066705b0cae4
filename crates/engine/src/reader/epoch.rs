//! The parameters of reading: the size of minibatches, the workers, and the length of an epoch.

use crate::randomize::{SIZE_OF_SWEEP, SIZE_UNLIMITED, SWEEPS_UNLIMITED};
use cntk_reader_core::error::ExceptionClass;
use cntk_reader_core::{Error, Result};

/// Minibatch size, workers and flags of the following minibatches.
///
/// ```
/// # use cntk_reader_engine::reader as cntk_reader;
/// use cntk_reader::ReadConfig;
///
/// // The second of four workers, which share minibatches of 1024 samples.
/// let config = ReadConfig::new(1024).worker(1, 4);
/// assert_eq!((config.minibatch_size, config.rank, config.workers), (1024, 1, 4));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReadConfig {
    /// Number of workers that share the data, at least 1.
    pub workers: u64,
    /// The rank of this reader's worker, from 0.
    pub rank: u64,
    /// Minibatch size in samples of all workers together. There is no default: 0 is rejected.
    pub minibatch_size: u64,
    /// Steps of a truncated minibatch. Used by `Reader::configure`; at the start of an epoch, the
    /// configuration's `truncationLength` replaces it.
    pub truncation_length: u64,
    /// Steps by which truncated minibatches of one sequence overlap. Used by `Reader::configure`;
    /// at the start of an epoch, the configuration's `rightSplice` replaces it.
    pub right_splice: u64,
    /// A minibatch may continue past the end of a sweep; otherwise, the last minibatch of a sweep
    /// is shorter.
    pub cross_sweeps: bool,
}

/// One worker, minibatches that cross sweeps, and no minibatch size.
impl Default for ReadConfig {
    fn default() -> Self {
        ReadConfig {
            workers: 1,
            rank: 0,
            minibatch_size: 0,
            truncation_length: 0,
            right_splice: 0,
            cross_sweeps: true,
        }
    }
}

impl ReadConfig {
    /// Creates a configuration with minibatches of this many samples for a single worker.
    #[must_use]
    pub fn new(minibatch_size: u64) -> ReadConfig {
        ReadConfig { minibatch_size, ..ReadConfig::default() }
    }

    /// Reads the share of one of several workers: `rank` counts from 0 to `workers - 1`.
    #[must_use]
    pub fn worker(mut self, rank: u64, workers: u64) -> ReadConfig {
        (self.rank, self.workers) = (rank, workers);
        self
    }

    /// Sets the number of steps of a truncated minibatch, see
    /// [`ReadConfig::truncation_length`](#structfield.truncation_length).
    #[must_use]
    pub fn truncation_length(mut self, steps: u64) -> ReadConfig {
        self.truncation_length = steps;
        self
    }

    /// Sets the overlap of truncated minibatches in steps, see
    /// [`ReadConfig::right_splice`](#structfield.right_splice).
    #[must_use]
    pub fn right_splice(mut self, steps: u64) -> ReadConfig {
        self.right_splice = steps;
        self
    }

    /// Sets whether a minibatch may continue past the end of a sweep. The default is true.
    #[must_use]
    pub fn cross_sweeps(mut self, cross_sweeps: bool) -> ReadConfig {
        self.cross_sweeps = cross_sweeps;
        self
    }
}

/// An epoch for `Reader::epoch`: how far to read, and in which minibatches.
///
/// The data repeat endlessly, each pass (*sweep*) in its own order. An epoch is a part of that
/// endless sequence: the epoch with index `i` begins at sample `i * size`.
///
/// ```
/// # use cntk_reader_engine::reader as cntk_reader;
/// use cntk_reader::Epoch;
///
/// let one_pass = Epoch::sweeps(1).minibatch_size(256);
/// let third_of_worker_0 = Epoch::samples(100_000).index(2).minibatch_size(256).worker(0, 4);
/// assert_ne!(one_pass, third_of_worker_0);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Epoch {
    #[doc(hidden)]
    pub read: ReadConfig,
    /// Size in samples of all workers, or a special value: see
    /// [`crate::randomize::EpochConfig::samples`].
    #[doc(hidden)]
    pub samples: u64,
    /// Size in sweeps, see [`crate::randomize::EpochConfig::sweeps`].
    #[doc(hidden)]
    pub sweeps: u64,
    #[doc(hidden)]
    pub index: u64,
}

/// One sweep, without a minibatch size.
impl Default for Epoch {
    fn default() -> Self {
        Epoch::sweeps(1)
    }
}

impl Epoch {
    /// Creates an epoch of whole passes over the data.
    #[must_use]
    pub fn sweeps(sweeps: u64) -> Epoch {
        // The greatest number means "no limit" to the engine.
        let sweeps = sweeps.min(SWEEPS_UNLIMITED - 1);
        Epoch { read: ReadConfig::default(), samples: SIZE_UNLIMITED, sweeps, index: 0 }
    }

    /// Creates an epoch of this many samples of all workers together; it may end within a sweep.
    #[must_use]
    pub fn samples(samples: u64) -> Epoch {
        // 2^62-1 means "one sweep" to the engine; real data are shorter.
        let samples = if samples == SIZE_OF_SWEEP { samples + 1 } else { samples };
        Epoch { samples, sweeps: SWEEPS_UNLIMITED, ..Epoch::sweeps(0) }
    }

    /// Creates an epoch without an end.
    #[must_use]
    pub fn unlimited() -> Epoch {
        Epoch::samples(SIZE_UNLIMITED)
    }

    /// Sets the minibatch size in samples of all workers together. It has no default.
    #[must_use]
    pub fn minibatch_size(mut self, samples: u64) -> Epoch {
        self.read.minibatch_size = samples;
        self
    }

    /// Reads the share of one of several workers: `rank` counts from 0 to `workers - 1`.
    #[must_use]
    pub fn worker(mut self, rank: u64, workers: u64) -> Epoch {
        self.read = self.read.worker(rank, workers);
        self
    }

    /// Sets whether a minibatch may continue past the end of a sweep. The default is true.
    #[must_use]
    pub fn cross_sweeps(mut self, cross_sweeps: bool) -> Epoch {
        self.read.cross_sweeps = cross_sweeps;
        self
    }

    /// Sets the index of the epoch, from 0: it begins at sample `index * size` of the endless data.
    #[must_use]
    pub fn index(mut self, index: u64) -> Epoch {
        self.index = index;
        self
    }

    /// Sets minibatch size, workers and flags at once.
    #[must_use]
    pub fn read_config(mut self, read: ReadConfig) -> Epoch {
        self.read = read;
        self
    }

    /// Implements CNTK's old way to truncate sequences: the minibatch size gives the number of
    /// steps, and `lanes_by_epoch` the number of lanes.
    #[doc(hidden)]
    pub(crate) fn truncated_to_its_minibatch_size(mut self, lanes_by_epoch: &[u64]) -> Result<Epoch> {
        let index = usize::try_from(self.index).unwrap_or(usize::MAX);
        // The last number applies to all later epochs.
        let lanes = lanes_by_epoch.get(index).or(lanes_by_epoch.last()).copied().unwrap_or(1);
        self.read.truncation_length = self.read.minibatch_size;
        self.read.minibatch_size = self.read.minibatch_size.saturating_mul(lanes);
        if self.read.minibatch_size == 0 {
            let error = Error::config(ExceptionClass::Logic, "Minibatch size cannot be zero.");
            return Err(error.with_detail(format!(
                "It is the epoch's minibatch size, {}, times the value of 'nbruttsineachrecurrentiter' for epoch {}, \
                 {lanes}.",
                self.read.truncation_length, self.index
            )));
        }
        Ok(self)
    }

    /// Creates an epoch from the numbers used by CNTK and the C interface, in which 2^62-1 samples
    /// mean one sweep.
    #[doc(hidden)]
    pub fn from_numbers(read: ReadConfig, samples: u64, sweeps: u64, index: u64) -> Epoch {
        Epoch { read, samples, sweeps, index }
    }

    /// Returns the arguments of [`Epoch::from_numbers`].
    #[doc(hidden)]
    pub fn numbers(&self) -> (ReadConfig, u64, u64, u64) {
        (self.read, self.samples, self.sweeps, self.index)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn special_values_are_not_produced_by_accident() {
        assert_ne!(Epoch::sweeps(u64::MAX).sweeps, SWEEPS_UNLIMITED);
        assert_eq!(Epoch::samples(SIZE_OF_SWEEP).samples, SIZE_OF_SWEEP + 1);
        let unlimited = Epoch::unlimited();
        assert_eq!((unlimited.samples, unlimited.sweeps), (SIZE_UNLIMITED, SWEEPS_UNLIMITED));
    }

    #[test]
    fn builders_set_one_value_each() {
        let read = ReadConfig::new(5);
        let default = ReadConfig {
            workers: 1,
            rank: 0,
            minibatch_size: 0,
            truncation_length: 0,
            right_splice: 0,
            cross_sweeps: true,
        };
        assert_eq!(ReadConfig::default(), default);
        assert_eq!(read, ReadConfig { minibatch_size: 5, ..default });
        assert_eq!(read.worker(2, 3), ReadConfig { workers: 3, rank: 2, ..read });
        assert_eq!(read.truncation_length(4), ReadConfig { truncation_length: 4, ..read });
        assert_eq!(read.right_splice(4), ReadConfig { right_splice: 4, ..read });
        assert_eq!(read.cross_sweeps(false), ReadConfig { cross_sweeps: false, ..read });

        let epoch = Epoch { read: default, samples: SIZE_UNLIMITED, sweeps: 3, index: 0 };
        assert_eq!(Epoch::sweeps(3), epoch);
        assert_eq!(Epoch::default(), Epoch { sweeps: 1, ..epoch });
        assert_eq!(Epoch::samples(7), Epoch { samples: 7, sweeps: SWEEPS_UNLIMITED, ..epoch });
        let with = |read| Epoch { read, ..epoch };
        assert_eq!(epoch.minibatch_size(5), with(read));
        assert_eq!(epoch.worker(2, 3), with(default.worker(2, 3)));
        assert_eq!(epoch.cross_sweeps(false), with(default.cross_sweeps(false)));
        assert_eq!(epoch.read_config(read.worker(2, 3)), with(read.worker(2, 3)));
        assert_eq!(epoch.index(4), Epoch { index: 4, ..epoch });
        let numbers = (read, 11, 12, 13);
        assert_eq!(Epoch::from_numbers(read, 11, 12, 13).numbers(), numbers);
        assert_eq!(Epoch::from_numbers(read, 11, 12, 13), Epoch { read, samples: 11, sweeps: 12, index: 13 });
    }

    #[test]
    fn old_style_truncation_takes_its_length_from_the_minibatch_size() {
        let sizes = |minibatch: u64, index: u64, lanes: &[u64]| {
            let epoch = Epoch::sweeps(1).minibatch_size(minibatch).index(index);
            let read = epoch.truncated_to_its_minibatch_size(lanes)?.read;
            Ok::<_, Error>((read.truncation_length, read.minibatch_size))
        };
        assert_eq!(sizes(3, 0, &[1, 3]).unwrap(), (3, 3));
        assert_eq!(sizes(3, 1, &[1, 3]).unwrap(), (3, 9));
        // The last number applies to all later epochs.
        assert_eq!(sizes(3, u64::MAX, &[1, 3]).unwrap(), (3, 9));
        assert_eq!(sizes(u64::MAX, 0, &[2]).unwrap(), (u64::MAX, u64::MAX));
        for (minibatch, lanes) in [(3, 0), (0, 2)] {
            let error = sizes(minibatch, 0, &[lanes]).unwrap_err();
            assert_eq!(error.message(), "Minibatch size cannot be zero.");
            assert_eq!(error.class(), ExceptionClass::Logic);
        }
    }
}
