//! Epochs.

use super::call::{call, given};
use super::configuration::{NO_RANK, cntk_reader_configuration};
use super::error::cntk_reader_error;
use super::handle::object;
use super::reader::{OpenReader, cntk_reader};
use super::sized::{self, Sized, SizedOutput};
use super::status::cntk_reader_status;
use cntk_reader_core::{Error, Result};
use cntk_reader_engine::randomize::{SIZE_UNLIMITED, SWEEPS_UNLIMITED};
use cntk_reader_engine::reader::{Epoch, EpochState};
use std::mem::MaybeUninit;

/// Parameters of an epoch. Initialize with CNTK_READER_EPOCH_INIT: one worker, no limit.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct cntk_reader_epoch {
    /// sizeof(cntk_reader_epoch).
    pub struct_size: usize,
    /// Number of workers that share the data, at least 1.
    pub workers: u64,
    /// Rank of this worker, from 0. CNTK_READER_NO_RANK, the initial value, is an error if there
    /// are several workers.
    pub rank: u64,
    /// Global minibatch size: samples of all workers together, at least 1.
    pub minibatch_size: u64,
    /// As in cntk_reader_configuration.
    pub truncation_length: u64,
    /// As in cntk_reader_configuration.
    pub right_splice: u64,
    /// 1 if a minibatch may continue past the end of a sweep, 0 if it ends there.
    pub cross_sweeps: u64,
    /// Size of the epoch in samples of all workers, CNTK_READER_ONE_SWEEP or
    /// CNTK_READER_UNLIMITED_SAMPLES. Ignored if `sweeps` is not CNTK_READER_UNLIMITED_SWEEPS.
    pub samples: u64,
    /// Size of the epoch in sweeps (passes over the data), at least 1, or
    /// CNTK_READER_UNLIMITED_SWEEPS.
    pub sweeps: u64,
    /// Number of the epoch, from 0: it begins at sample `index` * size of the endless sequence of
    /// sweeps. If chunks list their sequences only when they are loaded, and `samples` is the size,
    /// an epoch other than the first must directly follow the previous one.
    pub index: u64,
}

// SAFETY: `repr(C)`, and all members are integers, for which zero is valid; the first is a `usize`.
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
        let cntk_reader_epoch { workers, rank, minibatch_size, samples, sweeps, index, .. } = epoch;
        let cntk_reader_epoch { truncation_length, right_splice, cross_sweeps, .. } = epoch;
        let read = cntk_reader_configuration {
            struct_size: size_of::<cntk_reader_configuration>(),
            workers,
            rank,
            minibatch_size,
            truncation_length,
            right_splice,
            cross_sweeps,
        };
        Ok(Epoch { read: read.try_into()?, samples, sweeps, index })
    }
}

/// Checks and converts the parameters of an epoch.
fn requested(reader: &OpenReader, epoch: cntk_reader_epoch) -> Result<Epoch> {
    let cntk_reader_epoch { workers, minibatch_size, truncation_length, right_splice, index, .. } = epoch;
    reader.check_sizes(&[
        ("workers", workers),
        ("minibatch_size", minibatch_size),
        ("truncation_length", truncation_length),
        ("right_splice", right_splice),
        ("index", index),
    ])?;
    if epoch.sweeps == 0 && !reader.is_hosted() {
        return Err(Error::argument("'sweeps' is 0.").with_detail(
            "Expected at least 1, or CNTK_READER_UNLIMITED_SWEEPS, the initial value, for no limit.",
        ));
    }
    epoch.try_into()
}

/// State of an epoch.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum cntk_reader_epoch_state {
    /// No epoch was started and no checkpoint restored yet.
    CNTK_READER_EPOCH_NONE = 0,
    /// The epoch was started, and its end was not reported yet.
    CNTK_READER_EPOCH_STARTED = 1,
    /// A checkpoint from the middle of the epoch was restored: cntk_reader_epoch_start_next
    /// continues with the rest of it.
    CNTK_READER_EPOCH_RESUMED = 2,
    /// The end of the epoch was reported: cntk_reader_minibatch_next returned
    /// CNTK_READER_OUTCOME_END_OF_EPOCH, or cntk_reader_minibatch_read a minibatch past the end.
    CNTK_READER_EPOCH_OVER = 3,
}

impl From<Epoch> for cntk_reader_epoch {
    fn from(epoch: Epoch) -> Self {
        let Epoch { read, samples, sweeps, index } = epoch;
        let read = cntk_reader_configuration::from(read);
        let cntk_reader_configuration { workers, rank, minibatch_size, .. } = read;
        let cntk_reader_configuration { truncation_length, right_splice, cross_sweeps, .. } = read;
        cntk_reader_epoch {
            struct_size: size_of::<Self>(),
            workers,
            rank,
            minibatch_size,
            truncation_length,
            right_splice,
            cross_sweeps,
            samples,
            sweeps,
            index,
        }
    }
}

/// Starts an epoch: moves to its first sample and sets sizes, workers and flags. Required before
/// the first minibatch is read, except after cntk_reader_checkpoint_restore, whose position it
/// would drop. May be called at any time, even in the middle of an epoch.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cntk_reader_epoch_start(
    reader: *mut cntk_reader,
    epoch: *const cntk_reader_epoch,
    error: Option<&mut MaybeUninit<*mut cntk_reader_error>>,
) -> cntk_reader_status {
    call(error, || {
        // SAFETY: NULL, which `read` refuses, or the caller's struct with its size in the first
        // member.
        let epoch = unsafe { sized::read(epoch, cntk_reader_epoch::default()) }?;
        // SAFETY: `reader` is NULL or a handle. It is borrowed as shared, so that a second thread
        // in a call is refused by its lock.
        let reader = unsafe { reader.as_ref() };
        let reader = object!(reader)?;
        let epoch = requested(reader, epoch)?;
        reader.with(|reader| reader.start_epoch(&epoch))
    })
}

/// Starts the epoch after the current one, and writes its number to `index`, counted from 0. For
/// training loops that read one epoch after another. `epoch` has its size, workers and flags; its
/// member `index` is ignored. Without a current epoch, or after one without an end, the number is
/// 0. After cntk_reader_checkpoint_restore the first call continues with the rest of the
/// checkpoint's epoch, unless its end was already reported. If the current epoch has a different
/// size, the next number is unknown, and the call fails: use cntk_reader_epoch_start.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cntk_reader_epoch_start_next(
    reader: *mut cntk_reader,
    epoch: *const cntk_reader_epoch,
    index: Option<&mut MaybeUninit<u64>>,
    error: Option<&mut MaybeUninit<*mut cntk_reader_error>>,
) -> cntk_reader_status {
    call(error, || {
        // SAFETY: NULL, which `read` refuses, or the caller's struct with its size in the first
        // member.
        let epoch = unsafe { sized::read(epoch, cntk_reader_epoch::default()) }?;
        let place = given(index, "index")?;
        // SAFETY: as in cntk_reader_epoch_start.
        let reader = unsafe { reader.as_ref() };
        let reader = object!(reader)?;
        let epoch = requested(reader, epoch)?;
        place.write(reader.with(|reader| reader.start_next_epoch(&epoch))?);
        Ok(())
    })
}

/// Gets the current epoch as it was started, or that of a restored checkpoint, and its state.
/// `epoch->struct_size` must be set. If there is none, `epoch` gets its initial values.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cntk_reader_epoch_get(
    reader: Option<&cntk_reader>,
    epoch: *mut cntk_reader_epoch,
    state: Option<&mut MaybeUninit<cntk_reader_epoch_state>>,
    error: Option<&mut MaybeUninit<*mut cntk_reader_error>>,
) -> cntk_reader_status {
    call(error, || {
        // SAFETY: `epoch` is NULL, which `new` refuses, or the caller's struct with its size in the
        // first member.
        let (reader, place) = (object!(reader)?, unsafe { SizedOutput::new(epoch) }?);
        let state = given(state, "state")?;
        let current = reader.with(|reader| Ok(reader.current_epoch()))?;
        state.write(match current {
            None => cntk_reader_epoch_state::CNTK_READER_EPOCH_NONE,
            Some((_, EpochState::Started)) => cntk_reader_epoch_state::CNTK_READER_EPOCH_STARTED,
            Some((_, EpochState::Resumed)) => cntk_reader_epoch_state::CNTK_READER_EPOCH_RESUMED,
            Some((_, EpochState::Over)) => cntk_reader_epoch_state::CNTK_READER_EPOCH_OVER,
        });
        place.set(current.map_or_else(cntk_reader_epoch::default, |(epoch, _)| epoch.into()));
        Ok(())
    })
}
