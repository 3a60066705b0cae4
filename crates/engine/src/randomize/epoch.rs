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
