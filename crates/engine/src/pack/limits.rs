//! Sizes of minibatches, and the limits derived from them for packing whole sequences.

use cntk_reader_core::error::ExceptionClass;
use cntk_reader_core::limits::LARGEST_MINIBATCH;
use cntk_reader_core::{Error, ErrorKind, Result};

/// Sizes of the minibatches to pack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PackConfig {
    /// Number of workers.
    pub workers: u64,
    /// This worker's rank, from 0.
    pub rank: u64,
    /// Minibatch size in samples of all workers.
    pub minibatch: u64,
    /// Steps of a truncated minibatch.
    pub truncation: u64,
    /// Steps by which truncated minibatches of one sequence overlap.
    pub right_splice: u64,
}

/// The maximum number of samples in a minibatch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Samples of all workers.
    pub global: u64,
    /// Samples of this worker.
    pub local: u64,
}

/// Rejects sizes that no packer can work with.
pub(super) fn check(config: &PackConfig) -> Result<()> {
    if config.minibatch == 0 {
        let message = "Minibatch size cannot be zero.";
        let error = Error::new(ErrorKind::InvalidArgument, ExceptionClass::Logic, message);
        return Err(error.with_detail("Set it to a number of samples, counted over all workers."));
    }
    if config.workers == 0 {
        return Err(Error::argument("The number of workers must not be 0.")
            .with_detail("A single worker counts as 1."));
    }
    Ok(())
}

impl Limits {
    /// Computes the limits for packing whole sequences. With a local timeline, each worker fills
    /// its own share of the size; otherwise all workers walk through the same global minibatch.
    pub fn of(config: &PackConfig, local_timeline: bool) -> Result<Limits> {
        check(config)?;
        // CNTK 2.7 truncates the size to a signed 32-bit number: 2^32 becomes 0, 2^32+3 becomes 3,
        // and 2^31 becomes negative and is then read as a huge unsigned number. Here, larger sizes
        // are clamped to the most samples that CNTK can count.
        let size = config.minibatch.min(LARGEST_MINIBATCH);
        if !local_timeline {
            return Ok(Limits { global: size, local: size });
        }
        let mut local = size / config.workers + u64::from(size % config.workers > config.rank);
        // At least one sample for each worker; [`SequencePacker`](super::sequence::SequencePacker)
        // warns about it.
        local = local.max(1);
        Ok(Limits { global: u64::MAX, local })
    }
}

/// Returns a warning if a minibatch size is too small to give this worker a share on a local
/// timeline.
pub(super) fn about_small_size(config: &PackConfig) -> Option<String> {
    (config.minibatch <= config.rank).then(|| {
        format!(
            "The minibatch size '{}' is too small to be used with {} workers, adjusting to minibatch size of 1 sample per worker. \
             Set the minibatch size to {} or more: it counts the samples of all workers.",
            config.minibatch, config.workers, config.workers
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(minibatch: u64, workers: u64, rank: u64, local_timeline: bool) -> Result<Limits> {
        Limits::of(&PackConfig { workers, rank, minibatch, truncation: 0, right_splice: 0 }, local_timeline)
    }

    #[test]
    fn shares_of_a_local_timeline() {
        let local = |minibatch, workers, rank| {
            let limits = limits(minibatch, workers, rank, true).expect("limits");
            assert_eq!(limits.global, u64::MAX);
            limits.local
        };
        assert_eq!([local(5, 3, 0), local(5, 3, 1), local(5, 3, 2)], [2, 2, 1]);
        assert_eq!(local(2, 3, 2), 1);
        for large in [1 << 31, 1 << 32, (1 << 32) + 3, u64::MAX] {
            assert_eq!(local(large, 1, 0), i32::MAX as u64);
        }
    }

    #[test]
    fn a_global_timeline_is_not_shared() {
        assert_eq!(limits(5, 3, 2, false).expect("limits"), Limits { global: 5, local: 5 });
    }

    #[test]
    fn zero_sizes_are_rejected() {
        for (minibatch, workers, class) in
            [(0, 1, ExceptionClass::Logic), (1, 0, ExceptionClass::InvalidArgument)]
        {
            let error = limits(minibatch, workers, 0, true).expect_err("must be refused");
            assert_eq!((error.kind(), error.class()), (ErrorKind::InvalidArgument, class));
        }
    }

    #[test]
    fn sizes_without_a_sample_for_the_worker_are_small() {
        let warning = |minibatch, rank| {
            about_small_size(&PackConfig { workers: 3, rank, minibatch, truncation: 0, right_splice: 0 })
        };
        for (minibatch, rank, is_small) in
            [(3, 2, false), (2, 2, true), (1, 2, true), (1, 0, false), (2, 1, false)]
        {
            assert_eq!(warning(minibatch, rank).is_some(), is_small, "{minibatch} {rank}");
        }
        let start = "The minibatch size '2' is too small to be used with 3 workers, adjusting to minibatch size of 1 sample per worker.";
        assert!(warning(2, 2).expect("a warning").starts_with(start));
    }
}
