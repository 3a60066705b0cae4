//! Sizes, workers and flags of the minibatches to come.

use super::call::{call, given, input};
use super::error::cntk_reader_error;
use super::reader::cntk_reader;
use super::sized::{self, Sized, SizedOutput};
use super::status::cntk_reader_status;
use cntk_reader_core::{Error, Result};
use cntk_reader_engine::reader::ReadConfig;
use std::mem::MaybeUninit;

/// Sizes, workers and flags of the minibatches to come. Initialize with CNTK_READER_CONFIGURATION_INIT.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct cntk_reader_configuration {
    /// sizeof(cntk_reader_configuration).
    pub struct_size: usize,
    /// Number of workers that share the data, at least 1.
    pub workers: u64,
    /// Which of the workers this reader is, from 0. CNTK_READER_NO_RANK, the initial value, is an error with several workers.
    pub rank: u64,
    /// Minibatch size in samples of all workers together, at least 1.
    pub minibatch_size: u64,
    /// Time steps of a truncated minibatch; 0 unless the configuration has `truncated = true`. An epoch starts with the
    /// configuration's `truncationLength` whatever stands here.
    pub truncation_length: u64,
    /// Steps by which the truncated minibatches of one sequence overlap. An epoch starts with the configuration's
    /// `rightSplice` whatever stands here.
    pub right_splice: u64,
    /// 1 if a minibatch may continue past the end of a sweep, 0 if it ends there.
    pub cross_sweeps: u64,
}

// SAFETY: nothing but integers.
unsafe impl Sized for cntk_reader_configuration {
    const NAME: &'static str = "cntk_reader_configuration";
}

impl Default for cntk_reader_configuration {
    fn default() -> Self {
        cntk_reader_configuration {
            struct_size: size_of::<Self>(),
            workers: 1,
            rank: NO_RANK,
            minibatch_size: 0,
            truncation_length: 0,
            right_splice: 0,
            cross_sweeps: 1,
        }
    }
}

/// The rank of a worker that has not said which one it is: `CNTK_READER_NO_RANK`.
pub(super) const NO_RANK: u64 = u64::MAX;

/// The flag whether minibatches continue past the end of a sweep.
fn cross_sweeps(flag: u64) -> Result<bool> {
    match flag {
        0 | 1 => Ok(flag == 1),
        _ => Err(Error::argument(format!("'cross_sweeps' is {flag}. Expected 1 or 0."))),
    }
}

/// The rank of a worker. Without one, each of several would read the share of the first.
fn rank(rank: u64, workers: u64) -> Result<u64> {
    match (rank, workers) {
        (NO_RANK, 0 | 1) => Ok(0),
        (NO_RANK, _) => {
            let message = format!("There are {workers} workers, and which of them this one is was not said.");
            let detail = format!("Set 'rank', from 0 to {}, another one in each worker.", workers - 1);
            Err(Error::argument(message).with_detail(detail))
        }
        _ => Ok(rank),
    }
}

impl TryFrom<cntk_reader_configuration> for ReadConfig {
    type Error = Error;

    fn try_from(c: cntk_reader_configuration) -> Result<Self> {
        let cross_sweeps = cross_sweeps(c.cross_sweeps)?;
        let cntk_reader_configuration { workers, minibatch_size, truncation_length, right_splice, .. } = c;
        let rank = rank(c.rank, workers)?;
        let config = ReadConfig::new(minibatch_size).worker(rank, workers).cross_sweeps(cross_sweeps);
        Ok(config.truncation_length(truncation_length).right_splice(right_splice))
    }
}

impl From<ReadConfig> for cntk_reader_configuration {
    fn from(config: ReadConfig) -> Self {
        let ReadConfig { workers, rank, minibatch_size, .. } = config;
        let ReadConfig { truncation_length, right_splice, cross_sweeps, .. } = config;
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

/// Changes sizes, workers and flags between two minibatches of an epoch. The position stays; sequences that a truncated
/// reader had begun are not continued (CNTK 2.7 drops them too).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cntk_reader_configuration_set(
    reader: *mut cntk_reader,
    configuration: *const cntk_reader_configuration,
    error: Option<&mut MaybeUninit<*mut cntk_reader_error>>,
) -> cntk_reader_status {
    call(error, || {
        // SAFETY: NULL, which `read` refuses, or the caller's struct with its size in the first member.
        let configuration = unsafe { sized::read(configuration, cntk_reader_configuration::default()) }?;
        // SAFETY: `reader` is NULL, which `input` refuses, or a handle that is not freed yet. It is borrowed as shared, so that
        // a second thread in a call is refused by its lock.
        unsafe { input(reader, "reader") }?.with(|reader| reader.configure(&configuration.try_into()?))
    })
}

/// Gives the sizes, workers and flags in force, those of a restored checkpoint too. `configuration->struct_size` must be
/// set. An epoch must have been started, or a checkpoint restored.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cntk_reader_configuration_get(
    reader: Option<&cntk_reader>,
    configuration: *mut cntk_reader_configuration,
    error: Option<&mut MaybeUninit<*mut cntk_reader_error>>,
) -> cntk_reader_status {
    call(error, || {
        // SAFETY: NULL, which `new` refuses, or the caller's struct with its size in the first member.
        let (reader, place) = (given(reader, "reader")?, unsafe { SizedOutput::new(configuration) }?);
        place.set(reader.with(|reader| reader.config())?.into());
        Ok(())
    })
}
