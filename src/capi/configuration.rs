//! Inputs that grow: how to read, and which epoch.

use super::sized::Sized;
use crate::randomize::{SIZE_UNLIMITED, SWEEPS_UNLIMITED};
use crate::reader::{Epoch, ReadConfig};
use std::mem::size_of;

/// Sizes, workers and flags of the minibatches to come. Initialize with CNTK_READER_CONFIGURATION_INIT.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct cntk_reader_configuration {
    /// sizeof(cntk_reader_configuration).
    pub struct_size: usize,
    /// Number of workers that share the data, at least 1.
    pub workers: u64,
    /// Which of them this reader is, from 0.
    pub rank: u64,
    /// Minibatch size in samples of all workers together, at least 1.
    pub minibatch_size: u64,
    /// Time steps of a truncated minibatch. The configuration's `truncationLength` takes its place when an epoch
    /// starts, so 0 will do there.
    pub truncation_length: u64,
    /// Overlap of the truncated minibatches of one sequence, in steps. The configuration's `rightSplice` takes its
    /// place when an epoch starts.
    pub right_splice: u64,
    /// 1 if a minibatch may go on behind the end of a sweep, 0 if it ends there.
    pub cross_sweeps: u64,
}

/// An epoch to start. Initialize with CNTK_READER_EPOCH_INIT: one worker, no limit.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct cntk_reader_epoch {
    /// sizeof(cntk_reader_epoch).
    pub struct_size: usize,
    /// Number of workers that share the data, at least 1.
    pub workers: u64,
    /// Which of them this reader is, from 0.
    pub rank: u64,
    /// Minibatch size in samples of all workers together, at least 1.
    pub minibatch_size: u64,
    /// As in cntk_reader_configuration; the configuration's `truncationLength` takes its place.
    pub truncation_length: u64,
    /// As in cntk_reader_configuration; the configuration's `rightSplice` takes its place.
    pub right_splice: u64,
    /// 1 if a minibatch may go on behind the end of a sweep, 0 if it ends there.
    pub cross_sweeps: u64,
    /// Size of the epoch in samples of all workers; CNTK_READER_ONE_SWEEP or CNTK_READER_UNLIMITED_SAMPLES for
    /// those. Ignored if `sweeps` is limited.
    pub samples: u64,
    /// Size of the epoch in sweeps (passes over the data), or CNTK_READER_UNLIMITED_SWEEPS.
    pub sweeps: u64,
    /// Which epoch, from 0: it begins at sample index * size of the endless data.
    pub index: u64,
}

// SAFETY: nothing but integers.
unsafe impl Sized for cntk_reader_configuration {
    const NAME: &'static str = "cntk_reader_configuration";
}

// SAFETY: nothing but integers.
unsafe impl Sized for cntk_reader_epoch {
    const NAME: &'static str = "cntk_reader_epoch";
}

impl Default for cntk_reader_configuration {
    fn default() -> Self {
        cntk_reader_configuration {
            struct_size: size_of::<Self>(),
            workers: 1,
            rank: 0,
            minibatch_size: 0,
            truncation_length: 0,
            right_splice: 0,
            cross_sweeps: 1,
        }
    }
}

impl Default for cntk_reader_epoch {
    fn default() -> Self {
        cntk_reader_epoch {
            struct_size: size_of::<Self>(),
            workers: 1,
            rank: 0,
            minibatch_size: 0,
            truncation_length: 0,
            right_splice: 0,
            cross_sweeps: 1,
            samples: SIZE_UNLIMITED,
            sweeps: SWEEPS_UNLIMITED,
            index: 0,
        }
    }
}

impl From<cntk_reader_configuration> for ReadConfig {
    fn from(c: cntk_reader_configuration) -> Self {
        let cross_sweeps = c.cross_sweeps != 0;
        let cntk_reader_configuration {
            workers, rank, minibatch_size, truncation_length, right_splice, ..
        } = c;
        ReadConfig { workers, rank, minibatch_size, truncation_length, right_splice, cross_sweeps }
    }
}

impl From<ReadConfig> for cntk_reader_configuration {
    fn from(config: ReadConfig) -> Self {
        let ReadConfig { workers, rank, minibatch_size, truncation_length, right_splice, cross_sweeps } =
            config;
        cntk_reader_configuration {
            struct_size: size_of::<Self>(),
            workers,
            rank,
            minibatch_size,
            truncation_length,
            right_splice,
            cross_sweeps: cross_sweeps.into(),
        }
    }
}

impl From<cntk_reader_epoch> for Epoch {
    fn from(epoch: cntk_reader_epoch) -> Self {
        let cross_sweeps = epoch.cross_sweeps != 0;
        let cntk_reader_epoch { workers, rank, minibatch_size, truncation_length, right_splice, .. } = epoch;
        Epoch {
            read: ReadConfig { workers, rank, minibatch_size, truncation_length, right_splice, cross_sweeps },
            samples: epoch.samples,
            sweeps: epoch.sweeps,
            index: epoch.index,
        }
    }
}
