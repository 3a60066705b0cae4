//! Sizes, workers and flags of the minibatches that follow.

use super::call::call;
use super::error::cntk_reader_error;
use super::handle::object;
use super::reader::cntk_reader;
use super::sized::{self, Sized, SizedOutput};
use super::status::cntk_reader_status;
use cntk_reader_core::{Error, Result};
use cntk_reader_engine::reader::ReadConfig;
use std::mem::MaybeUninit;

/// Sizes, workers and flags of the minibatches that follow. Initialize with
/// CNTK_READER_CONFIGURATION_INIT.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct cntk_reader_configuration {
    /// sizeof(cntk_reader_configuration).
    pub struct_size: usize,
    /// Number of workers that share the data, at least 1.
    pub workers: u64,
    /// Rank of this worker, from 0. CNTK_READER_NO_RANK, the initial value, is an error if there
    /// are several workers.
    pub rank: u64,
    /// Global minibatch size: samples of all workers together, at least 1.
    pub minibatch_size: u64,
    /// Time steps of a truncated minibatch; 0 unless the configuration has `truncated = true`.
    /// Starting an epoch ignores this and uses the configuration's `truncationLength`.
    pub truncation_length: u64,
    /// Overlap, in steps, of consecutive truncated minibatches of a sequence. Starting an epoch
    /// ignores this and uses the configuration's `rightSplice`.
    pub right_splice: u64,
    /// 1 if a minibatch may continue past the end of a sweep, 0 if it ends there.
    pub cross_sweeps: u64,
}

// SAFETY: `repr(C)`, and all members are integers, for which zero is valid; the first is a `usize`.
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

/// CNTK_READER_NO_RANK: the rank is not set.
pub(super) const NO_RANK: u64 = u64::MAX;

/// Parses the flag `cross_sweeps`.
fn cross_sweeps(flag: u64) -> Result<bool> {
    match flag {
        0 | 1 => Ok(flag == 1),
        _ => Err(Error::argument(format!("'cross_sweeps' is {flag}. Expected 1 or 0."))),
    }
}

/// Checks that a rank is set: without it, each of several workers would read the share of the
/// first.
fn rank(rank: u64, workers: u64) -> Result<u64> {
    match (rank, workers) {
        (NO_RANK, 0 | 1) => Ok(0),
        (NO_RANK, _) => {
            let message = format!("There are {workers} workers, but 'rank' is not set.");
            let detail =
                format!("Set 'rank' to a different number, from 0 to {}, in each worker.", workers - 1);
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

/// Changes sizes, workers and flags between two minibatches of an epoch. The position in the data
/// is kept. Sequences that a truncated reader has begun are not continued, as in CNTK 2.7.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cntk_reader_configuration_set(
    reader: *mut cntk_reader,
    configuration: *const cntk_reader_configuration,
    error: Option<&mut MaybeUninit<*mut cntk_reader_error>>,
) -> cntk_reader_status {
    call(error, || {
        // SAFETY: NULL, which `read` refuses, or the caller's struct with its size in the first
        // member.
        let configuration = unsafe { sized::read(configuration, cntk_reader_configuration::default()) }?;
        // SAFETY: `reader` is NULL or a handle. It is borrowed as shared, so that a second thread
        // in a call is refused by its lock.
        let reader = unsafe { reader.as_ref() };
        let reader = object!(reader)?;
        let cntk_reader_configuration { workers, minibatch_size, .. } = configuration;
        let cntk_reader_configuration { truncation_length, right_splice, .. } = configuration;
        reader.check_sizes(&[
            ("workers", workers),
            ("minibatch_size", minibatch_size),
            ("truncation_length", truncation_length),
            ("right_splice", right_splice),
        ])?;
        reader.with(|reader| reader.configure(&configuration.try_into()?))
    })
}

/// Gets the sizes, workers and flags in force, including those of a restored checkpoint.
/// `configuration->struct_size` must be set. An epoch must have been started, or a checkpoint
/// restored.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cntk_reader_configuration_get(
    reader: Option<&cntk_reader>,
    configuration: *mut cntk_reader_configuration,
    error: Option<&mut MaybeUninit<*mut cntk_reader_error>>,
) -> cntk_reader_status {
    call(error, || {
        // SAFETY: NULL, which `new` refuses, or the caller's struct with its size in the first
        // member.
        let (reader, place) = (object!(reader)?, unsafe { SizedOutput::new(configuration) }?);
        place.set(reader.with(|reader| reader.config())?.into());
        Ok(())
    })
}
