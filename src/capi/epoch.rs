//! Epochs.

use super::call::{call, input};
use super::configuration::{NO_RANK, cross_sweeps, rank};
use super::error::cntk_reader_error;
use super::reader::cntk_reader;
use super::sized::{self, Sized};
use super::status::cntk_reader_status;
use crate::randomize::{SIZE_UNLIMITED, SWEEPS_UNLIMITED};
use crate::reader::{Epoch, ReadConfig};
use crate::{Error, Result};
use std::mem::MaybeUninit;

/// An epoch to start. Initialize with CNTK_READER_EPOCH_INIT: one worker, no limit.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct cntk_reader_epoch {
    /// sizeof(cntk_reader_epoch).
    pub struct_size: usize,
    /// Number of workers that share the data, at least 1.
    pub workers: u64,
    /// Which of the workers this reader is, from 0. CNTK_READER_NO_RANK, the initial value, is an error with several workers.
    pub rank: u64,
    /// Minibatch size in samples of all workers together, at least 1.
    pub minibatch_size: u64,
    /// As in cntk_reader_configuration.
    pub truncation_length: u64,
    /// As in cntk_reader_configuration.
    pub right_splice: u64,
    /// 1 if a minibatch may continue past the end of a sweep, 0 if it ends there.
    pub cross_sweeps: u64,
    /// Size of the epoch in samples of all workers, CNTK_READER_ONE_SWEEP or CNTK_READER_UNLIMITED_SAMPLES. Ignored if
    /// `sweeps` is not CNTK_READER_UNLIMITED_SWEEPS.
    pub samples: u64,
    /// Size of the epoch in sweeps (passes over the data), or CNTK_READER_UNLIMITED_SWEEPS.
    pub sweeps: u64,
    /// Which epoch, from 0: it begins at sample `index` * size of the endless sequence of sweeps.
    pub index: u64,
}

// SAFETY: nothing but integers.
unsafe impl Sized for cntk_reader_epoch {
    const NAME: &'static str = "cntk_reader_epoch";
}

impl Default for cntk_reader_epoch {
    fn default() -> Self {
        cntk_reader_epoch {
            struct_size: size_of::<Self>(),
            workers: 1,
            rank: NO_RANK,
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

impl TryFrom<cntk_reader_epoch> for Epoch {
    type Error = Error;

    fn try_from(epoch: cntk_reader_epoch) -> Result<Self> {
        let cross_sweeps = cross_sweeps(epoch.cross_sweeps)?;
        let cntk_reader_epoch { workers, minibatch_size, truncation_length, right_splice, .. } = epoch;
        let rank = rank(epoch.rank, workers)?;
        Ok(Epoch {
            read: ReadConfig { workers, rank, minibatch_size, truncation_length, right_splice, cross_sweeps },
            samples: epoch.samples,
            sweeps: epoch.sweeps,
            index: epoch.index,
        })
    }
}

/// Starts an epoch: goes to its first sample and takes sizes, workers and flags. Needed before the first minibatch is
/// read, except after cntk_reader_checkpoint_restore. May be called at any time, also in the middle of an epoch.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cntk_reader_epoch_start(
    reader: *mut cntk_reader,
    epoch: *const cntk_reader_epoch,
    error: Option<&mut MaybeUninit<*mut cntk_reader_error>>,
) -> cntk_reader_status {
    call(error, || {
        // SAFETY: NULL, which `read` refuses, or the caller's struct with its size in the first member.
        let epoch = unsafe { sized::read(epoch, cntk_reader_epoch::default()) }?;
        // SAFETY: `reader` is NULL, which `input` refuses, or a handle that is not freed yet. It is borrowed as shared, so that
        // a second thread in a call is refused by its lock.
        unsafe { input(reader, "reader") }?.with(|reader| reader.start_epoch(&epoch.try_into()?))
    })
}
