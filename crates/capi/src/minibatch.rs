//! Minibatches as a whole: reading, flags and keys.

use super::call::{call, given, guard_silently, input};
use super::error::cntk_reader_error;
use super::minibatch_handle::cntk_reader_minibatch;
use super::reader::cntk_reader;
use super::sized::{Sized, SizedOutput};
use super::status::cntk_reader_status;
use super::text;
use cntk_reader_core::corpus::Corpus;
use cntk_reader_core::{Error, Result};
use cntk_reader_engine::reader::Reader;
use std::ffi::c_char;
use std::mem::{MaybeUninit, offset_of};
use std::ptr::null;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

/// What a minibatch is as a whole. The pointer lives as long as the minibatch.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct cntk_reader_minibatch_info {
    /// sizeof(cntk_reader_minibatch_info), set by the caller.
    pub struct_size: usize,
    /// 1 if it reaches or crosses the end of a sweep, else 0.
    pub end_of_sweep: u32,
    /// 1 if it is the last of the epoch, or comes after the last, else 0.
    pub end_of_epoch: u32,
    /// Number of streams: the reader's, or 0 if there is no data.
    pub stream_count: usize,
    /// The key of each sequence as a number, by the sequence's number in the records.
    pub keys: *const u64,
    /// Number of keys, that is of sequences.
    pub key_count: usize,
    /// 1 if it is a step of training: it has data, or workers in lockstep take part in it, some of
    /// them without data. Else 0: it comes after the end of the epoch, or none of it is this
    /// worker's share. cntk_reader_minibatch_next gives none of these.
    pub is_step: u32,
    /// 0.
    pub reserved: u32,
}

/// The outcome of cntk_reader_minibatch_next.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum cntk_reader_outcome {
    /// There is a minibatch.
    CNTK_READER_OUTCOME_MINIBATCH = 0,
    /// The epoch is over: there is no minibatch, and none in later calls.
    CNTK_READER_OUTCOME_END_OF_EPOCH = 1,
    /// The time is over, and there is no minibatch yet. A later call gives it.
    CNTK_READER_OUTCOME_PENDING = 2,
}

/// CNTK_READER_NO_TIMEOUT.
const NO_TIMEOUT: u64 = u64::MAX;

// SAFETY: integers and a pointer, which may have all bits zero.
unsafe impl Sized for cntk_reader_minibatch_info {
    const NAME: &'static str = "cntk_reader_minibatch_info";
    const LEAST: usize = offset_of!(cntk_reader_minibatch_info, is_step);
}

impl cntk_reader_minibatch {
    fn info(&self) -> cntk_reader_minibatch_info {
        cntk_reader_minibatch_info {
            struct_size: 0,
            end_of_sweep: self.content.end_of_sweep.into(),
            end_of_epoch: self.content.end_of_epoch.into(),
            stream_count: self.content.streams.len(),
            keys: self.content.keys.as_ptr(),
            key_count: self.content.keys.len(),
            is_step: self.content.is_step.into(),
            reserved: 0,
        }
    }

    fn key_text(&self, sequence: usize) -> Result<String> {
        let &key = self.content.keys.get(sequence).ok_or_else(|| {
            let count = self.content.keys.len();
            Error::argument(format!("There is no sequence {sequence}: the minibatch has {count}."))
        })?;
        // Looking up a text takes a lock that another thread may have held when the process forked.
        if matches!(*self.shared()?.corpus, Corpus::Symbolic(_)) && !self.process.is_current() {
            return Err(Error::state(
                "The minibatch was read before a fork: textual keys are not known here.",
            ));
        }
        Ok(self.shared()?.corpus.text_of(key))
    }
}

/// Reads the next step of the epoch: a minibatch with data or, in lockstep, one that all workers
/// take part in. The caller owns one reference to it, and releases it with
/// cntk_reader_minibatch_release. `outcome` says whether there is one; if not, `minibatch` becomes
/// NULL.
///
/// The call waits no longer than `milliseconds`, or without a limit if that is
/// CNTK_READER_NO_TIMEOUT. Nothing is lost by giving up: the data are read on a thread of the
/// reader's meanwhile, and a later call gives the minibatch. It may wait longer after a call that
/// failed or was cancelled, whose effects are undone first, and if the system has no thread left to
/// start.
///
/// After an error in the data, the next call continues with what follows. After
/// CNTK_READER_STATUS_IO, a file that could not be read, it tries to deliver the same minibatch,
/// unless the reason stays: a file that is missing does not come back by itself.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cntk_reader_minibatch_next(
    reader: *mut cntk_reader,
    milliseconds: u64,
    minibatch: Option<&mut MaybeUninit<*const cntk_reader_minibatch>>,
    outcome: Option<&mut MaybeUninit<cntk_reader_outcome>>,
    error: Option<&mut MaybeUninit<*mut cntk_reader_error>>,
) -> cntk_reader_status {
    call(error, || {
        // SAFETY: `reader` is NULL, which `input` refuses, or a handle that is not freed yet. It is
        // borrowed as shared, so that a second thread in a call is refused by its lock.
        let reader = unsafe { input(reader, "reader") }?;
        let (place, outcome) = (given(minibatch, "minibatch")?, given(outcome, "outcome")?);
        let step = reader.with(|reader| match milliseconds {
            NO_TIMEOUT => reader.next().map(Poll::Ready),
            _ => reader.next_within(Duration::from_millis(milliseconds)),
        })?;
        let (step, is) = match step {
            Poll::Ready(Some(step)) => (
                cntk_reader_minibatch::hand_out(step, &reader.shared),
                cntk_reader_outcome::CNTK_READER_OUTCOME_MINIBATCH,
            ),
            Poll::Ready(None) => (null(), cntk_reader_outcome::CNTK_READER_OUTCOME_END_OF_EPOCH),
            Poll::Pending => (null(), cntk_reader_outcome::CNTK_READER_OUTCOME_PENDING),
        };
        place.write(step);
        outcome.write(is);
        Ok(())
    })
}

/// Waits until the next minibatch, or an error in its place, can be had without waiting, but no
/// longer than `milliseconds`, as cntk_reader_minibatch_next does. `is_ready` becomes 1 if it can,
/// by cntk_reader_minibatch_read as by cntk_reader_minibatch_next (which waits again only where
/// this worker has no share of a minibatch), else 0. Nothing is delivered, so a program that is
/// interrupted while it waits has lost nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cntk_reader_minibatch_wait(
    reader: *mut cntk_reader,
    milliseconds: u64,
    is_ready: Option<&mut MaybeUninit<u32>>,
    error: Option<&mut MaybeUninit<*mut cntk_reader_error>>,
) -> cntk_reader_status {
    call(error, || {
        // SAFETY: `reader` is NULL, which `input` refuses, or a handle that is not freed yet. It is
        // borrowed as shared, so that a second thread in a call is refused by its lock.
        let (reader, is_ready) = (unsafe { input(reader, "reader") }?, given(is_ready, "is_ready")?);
        is_ready.write(reader.with(|reader| reader.wait(Duration::from_millis(milliseconds)))?.into());
        Ok(())
    })
}

/// Reads the next minibatch, as CNTK's GetMinibatch does; the caller owns one reference to it, and
/// releases it with cntk_reader_minibatch_release. cntk_reader_minibatch_next is easier to use.
///
/// Past the end of the epoch, every read gives a minibatch without streams and with the flag end_of_epoch. A worker may
/// also get one without streams earlier, when none of the data is its share; `is_step` tells these
/// from steps. Errors are those of cntk_reader_minibatch_next.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cntk_reader_minibatch_read(
    reader: *mut cntk_reader,
    minibatch: Option<&mut MaybeUninit<*const cntk_reader_minibatch>>,
    error: Option<&mut MaybeUninit<*mut cntk_reader_error>>,
) -> cntk_reader_status {
    call(error, || {
        // SAFETY: `reader` is NULL, which `input` refuses, or a handle that is not freed yet. It is borrowed as shared, so that
        // a second thread in a call is refused by its lock.
        let (reader, place) = (unsafe { input(reader, "reader") }?, given(minibatch, "minibatch")?);
        let minibatch = reader.with(Reader::read)?;
        place.write(cntk_reader_minibatch::hand_out(minibatch, &reader.shared));
        Ok(())
    })
}

/// Adds a reference. NULL is allowed. May be called from any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cntk_reader_minibatch_retain(minibatch: *const cntk_reader_minibatch) {
    if !minibatch.is_null() {
        // SAFETY: the only pointers to this type that callers get are those of `hand_out`, from `Arc::into_raw`; the
        // reference that the caller has keeps the count above 0.
        unsafe { Arc::increment_strong_count(minibatch) };
    }
}

/// Takes a reference away; with the last one all pointers into the minibatch become invalid. NULL is allowed. May be
/// called from any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cntk_reader_minibatch_release(minibatch: *const cntk_reader_minibatch) {
    guard_silently(|| {
        // SAFETY: NULL gives `None`; otherwise the reference that the caller gives up keeps the minibatch alive until here.
        let Some(minibatch) = (unsafe { minibatch.as_ref() }) else { return };
        // In the child of a fork the buffers cannot go back: another thread may have held the lock of their pool.
        if minibatch.process.is_current() {
            // SAFETY: the pointer is one of `hand_out`'s, from `Arc::into_raw`, and the caller's reference is given up here,
            // once.
            cntk_reader_minibatch::give_up(unsafe { Arc::from_raw(minibatch) });
        }
    });
}

/// Describes a minibatch. `info->struct_size` must be set. May be called from any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cntk_reader_minibatch_describe(
    minibatch: Option<&cntk_reader_minibatch>,
    info: *mut cntk_reader_minibatch_info,
    error: Option<&mut MaybeUninit<*mut cntk_reader_error>>,
) -> cntk_reader_status {
    call(error, || {
        // SAFETY: `info` is NULL, which `new` refuses, or the caller's struct with its size in the first member.
        let (minibatch, info) = (given(minibatch, "minibatch")?, unsafe { SizedOutput::new(info) }?);
        info.set(minibatch.info());
        Ok(())
    })
}

/// Gives the key of a sequence as text, as CNTK shows it: UTF-8, as much of it as fits into `capacity` bytes, always with a
/// NUL if `capacity` is not 0; and its whole length in bytes without the NUL. `text` may be NULL if `capacity` is 0.
/// `sequence` is the number in the records. May be called from any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cntk_reader_minibatch_get_key_text(
    minibatch: Option<&cntk_reader_minibatch>,
    sequence: usize,
    text: *mut c_char,
    capacity: usize,
    length: Option<&mut MaybeUninit<usize>>,
    error: Option<&mut MaybeUninit<*mut cntk_reader_error>>,
) -> cntk_reader_status {
    call(error, || {
        let (minibatch, length) = (given(minibatch, "minibatch")?, given(length, "length")?);
        // SAFETY: `text` is NULL, which `write` refuses unless `capacity` is 0, or has that many bytes, as documented above.
        length.write(unsafe { text::copy(&minibatch.key_text(sequence)?, text, capacity) }?);
        Ok(())
    })
}
