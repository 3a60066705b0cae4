//! Epochs: the range of samples that a worker reads, and its share of them.

use cntk_reader_core::{Error, Result};

/// Epoch size in samples that means one sweep (CNTK: `requestDataSize`, 2^62-1).
pub const SIZE_OF_SWEEP: u64 = u64::MAX >> 2;
/// Epoch size in samples that means no limit (CNTK's "infinitely repeat", 2^63-1).
pub const SIZE_UNLIMITED: u64 = u64::MAX / 2;
/// Number of sweeps that means no limit.
pub const SWEEPS_UNLIMITED: u64 = u64::MAX;

/// This worker's place among the workers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WorkerConfig {
    /// Number of workers, at least 1.
    pub workers: u64,
    /// This worker's rank, from 0.
    pub rank: u64,
    /// A minibatch may continue past the end of a sweep.
    pub cross_sweeps: bool,
}

impl WorkerConfig {
    /// Rejects configurations that CNTK crashes or hangs on.
    pub(crate) fn check(&self) -> Result<()> {
        if self.workers == 0 {
            return Err(Error::argument("The number of workers must not be 0."));
        }
        if self.rank >= self.workers {
            let message = format!(
                "The rank of a worker ({}) must be less than the number of workers ({}).",
                self.rank, self.workers
            );
            return Err(Error::argument(message).with_detail("Ranks count from 0."));
        }
        Ok(())
    }
}

/// The parameters of an epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EpochConfig {
    /// Workers and flags.
    pub workers: WorkerConfig,
    /// Epoch size in samples of all workers; [`SIZE_OF_SWEEP`] for one sweep. Ignored if `sweeps`
    /// is limited.
    pub samples: u64,
    /// Epoch size in sweeps, or [`SWEEPS_UNLIMITED`].
    pub sweeps: u64,
    /// Number of the epoch, from 0: it starts at sample `index * size`.
    pub index: u64,
}

/// The samples of an epoch on the timeline: `[start, end)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EpochSpan {
    /// First sample.
    pub start: u64,
    /// One past the last sample.
    pub end: u64,
}

impl EpochConfig {
    /// Whether the size is given in sweeps rather than samples.
    pub(crate) fn is_in_sweeps(&self) -> bool {
        self.sweeps != SWEEPS_UNLIMITED || self.samples == SIZE_OF_SWEEP
    }

    /// Returns the number of sweeps before an epoch that is measured in sweeps.
    pub(crate) fn first_sweep(&self) -> u64 {
        self.sweep_count().saturating_mul(self.index)
    }

    /// Returns the number of sweeps up to the end of an epoch that is measured in sweeps.
    pub(crate) fn last_sweep(&self) -> u64 {
        self.first_sweep().saturating_add(self.sweep_count())
    }

    fn sweep_count(&self) -> u64 {
        if self.sweeps == SWEEPS_UNLIMITED { 1 } else { self.sweeps }
    }

    /// Returns the span of this epoch over data with `sweep` samples per sweep.
    ///
    /// CNTK 2.7: the size is `sweep * sweeps` if sweeps are limited, otherwise one sweep if the
    /// size is [`SIZE_OF_SWEEP`], otherwise the size itself. CNTK's 64-bit product wraps; this one
    /// saturates.
    pub(crate) fn span(&self, sweep: u64) -> Result<EpochSpan> {
        let size = if self.sweeps != SWEEPS_UNLIMITED {
            sweep.saturating_mul(self.sweeps)
        } else if self.samples == SIZE_OF_SWEEP {
            sweep
        } else if self.samples == 0 {
            return Err(Error::new(
                cntk_reader_core::ErrorKind::InvalidArgument,
                cntk_reader_core::error::ExceptionClass::Runtime,
                "Epoch size cannot be 0.",
            ));
        } else {
            self.samples
        };
        let start = size.saturating_mul(self.index);
        Ok(EpochSpan { start, end: start.saturating_add(size) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cntk_reader_core::error::{ErrorKind, ExceptionClass};

    fn epoch(samples: u64, sweeps: u64, index: u64) -> EpochConfig {
        let workers = WorkerConfig { workers: 1, rank: 0, cross_sweeps: true };
        EpochConfig { workers, samples, sweeps, index }
    }

    #[test]
    fn special_sizes_are_cntks() {
        assert_eq!((SIZE_OF_SWEEP, SIZE_UNLIMITED), ((1 << 62) - 1, (1 << 63) - 1));
    }

    #[test]
    fn span_follows_from_size_and_index() {
        for (epoch, start, end) in [
            (epoch(5, SWEEPS_UNLIMITED, 0), 0, 5),
            (epoch(5, SWEEPS_UNLIMITED, 3), 15, 20),
            (epoch(SIZE_OF_SWEEP, SWEEPS_UNLIMITED, 2), 20, 30),
            // A number of sweeps takes precedence.
            (epoch(7, 3, 2), 60, 90),
            (epoch(0, 3, 0), 0, 30),
            (epoch(SIZE_OF_SWEEP, 0, 4), 0, 0),
            (epoch(SIZE_UNLIMITED, SWEEPS_UNLIMITED, 0), 0, SIZE_UNLIMITED),
            (epoch(SIZE_UNLIMITED, SWEEPS_UNLIMITED, 9), u64::MAX, u64::MAX),
            (epoch(0, u64::MAX - 1, 1), u64::MAX, u64::MAX),
        ] {
            assert_eq!(epoch.span(10).expect("a good size"), EpochSpan { start, end }, "{epoch:?}");
        }
        let error = epoch(0, SWEEPS_UNLIMITED, 0).span(10).expect_err("no size");
        assert_eq!(error.message(), "Epoch size cannot be 0.");
        assert_eq!((error.kind(), error.class()), (ErrorKind::InvalidArgument, ExceptionClass::Runtime));
    }

    #[test]
    fn sweeps_before_and_up_to_the_end() {
        for (epoch, is_in_sweeps, first, last) in [
            (epoch(SIZE_OF_SWEEP, SWEEPS_UNLIMITED, 2), true, 2, 3),
            (epoch(7, 3, 2), true, 6, 9),
            (epoch(SIZE_OF_SWEEP, 3, 0), true, 0, 3),
            (epoch(7, 0, 2), true, 0, 0),
            (epoch(7, u64::MAX - 1, 2), true, u64::MAX, u64::MAX),
            (epoch(7, SWEEPS_UNLIMITED, 2), false, 2, 3),
        ] {
            assert_eq!(epoch.is_in_sweeps(), is_in_sweeps, "{epoch:?}");
            assert_eq!((epoch.first_sweep(), epoch.last_sweep()), (first, last), "{epoch:?}");
        }
    }

    #[test]
    fn rank_must_be_less_than_the_number_of_workers() {
        for (workers, rank, message) in [
            (1, 0, None),
            (3, 2, None),
            (0, 0, Some("The number of workers must not be 0.")),
            (2, 2, Some("The rank of a worker (2) must be less than the number of workers (2).")),
            (2, 7, Some("The rank of a worker (7) must be less than the number of workers (2).")),
        ] {
            let checked = WorkerConfig { workers, rank, cross_sweeps: true }.check();
            assert_eq!(checked.err().as_ref().map(|error| error.message()), message, "{rank} of {workers}");
        }
    }
}
