//! Minibatches as a whole: reading, flags and keys.

use super::call::{call, given, guard_silently};
use super::error::cntk_reader_error;
use super::handle::{argument, log, object};
use super::minibatch_handle::{HeldMinibatch, cntk_reader_minibatch};
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
use std::task::Poll;
use std::time::Duration;

/// Properties of a minibatch. `keys` is valid as long as the minibatch.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct cntk_reader_minibatch_info {
    /// sizeof(cntk_reader_minibatch_info), set by the caller.
    pub struct_size: usize,
    /// 1 if the minibatch reaches or crosses the end of a sweep, else 0.
    pub end_of_sweep: u32,
    /// 1 if it is the last minibatch of the epoch or comes after the last, else 0.
    pub end_of_epoch: u32,
    /// Number of streams: that of the reader, or 0 if the minibatch has no data.
    pub stream_count: usize,
    /// The key of each sequence as a number, indexed by `sequence` of a cntk_reader_record.
    pub keys: *const u64,
    /// Number of keys, which is the number of sequences.
    pub key_count: usize,
    /// 1 if the minibatch is a training step: it has data, or workers in lockstep take part in it,
    /// some of them without data. Else 0: it comes after the end of the epoch, or none of its data
    /// belong to this worker. Always 1 in minibatches from cntk_reader_minibatch_next.
    pub is_step: u32,
    /// Reserved; 0.
    pub reserved: u32,
}

/// Outcome of cntk_reader_minibatch_next.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum cntk_reader_outcome {
    /// A minibatch was read.
    CNTK_READER_OUTCOME_MINIBATCH = 0,
    /// The epoch is over: there is no minibatch, in this and in later calls.
    CNTK_READER_OUTCOME_END_OF_EPOCH = 1,
    /// The timeout expired before a minibatch was ready. A later call returns it.
    CNTK_READER_OUTCOME_PENDING = 2,
}

/// CNTK_READER_NO_TIMEOUT.
const NO_TIMEOUT: u64 = u64::MAX;

// SAFETY: `repr(C)`, begins with a `usize`, and has only integers and a pointer, for which zero is
// valid.
unsafe impl Sized for cntk_reader_minibatch_info {
    const NAME: &'static str = "cntk_reader_minibatch_info";
    const LEAST: usize = offset_of!(cntk_reader_minibatch_info, is_step);
}

impl HeldMinibatch {
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
        // Looking up a text takes a lock that another thread may have held at the time of the fork.
        if matches!(*self.shared()?.corpus, Corpus::Symbolic(_)) && !self.process.is_current() {
            return Err(Error::state(
                "The minibatch was read before a fork: textual keys are not available in the child.",
            ));
        }
        Ok(self.shared()?.corpus.text_of(key))
    }
}

/// Reads the next step of the epoch: a minibatch with data or, in lockstep, one that all workers
/// take part in. `outcome` says whether there is one; otherwise `minibatch` is set to NULL. The
/// caller owns one reference to the minibatch and releases it with cntk_reader_minibatch_release.
///
/// The call waits for at most `milliseconds`, or without limit if that is CNTK_READER_NO_TIMEOUT.
/// Nothing is lost when it times out: a thread of the reader goes on reading, and a later call
/// returns the minibatch. The wait may be longer after a call that failed or was cancelled, because
/// its effects are undone first, and if the system cannot start another thread.
///
/// After an error in the data, the next call continues with the data that follow. After
/// CNTK_READER_STATUS_IO (a file could not be read) the next call retries the same minibatch,
/// unless the cause is permanent, such as a missing file.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cntk_reader_minibatch_next(
    reader: *mut cntk_reader,
    milliseconds: u64,
    minibatch: Option<&mut MaybeUninit<*const cntk_reader_minibatch>>,
    outcome: Option<&mut MaybeUninit<cntk_reader_outcome>>,
    error: Option<&mut MaybeUninit<*mut cntk_reader_error>>,
) -> cntk_reader_status {
    call(error, || {
        // SAFETY: `reader` is NULL or a handle. It is borrowed as shared, so that a second thread
        // in a call is refused by its lock.
        let reader = unsafe { reader.as_ref() };
        let reader = object!(reader)?;
        let (place, outcome) = (given(minibatch, "minibatch")?, given(outcome, "outcome")?);
        let step = reader.with(|reader| match milliseconds {
            NO_TIMEOUT => reader.next().map(Poll::Ready),
            _ => reader.next_within(Duration::from_millis(milliseconds)),
        })?;
        let (step, result) = match step {
            Poll::Ready(Some(step)) => (
                HeldMinibatch::hand_out(step, &reader.shared),
                cntk_reader_outcome::CNTK_READER_OUTCOME_MINIBATCH,
            ),
            Poll::Ready(None) => (null(), cntk_reader_outcome::CNTK_READER_OUTCOME_END_OF_EPOCH),
            Poll::Pending => (null(), cntk_reader_outcome::CNTK_READER_OUTCOME_PENDING),
        };
        place.write(step);
        outcome.write(result);
        Ok(())
    })
}

/// Waits until the next minibatch, or an error in its place, is available without waiting, but at
/// most `milliseconds`, as cntk_reader_minibatch_next does. `is_ready` is set to 1 if it is, else
/// to 0. cntk_reader_minibatch_read then returns at once; so does cntk_reader_minibatch_next,
/// except that it skips minibatches in which this worker has no share. Nothing is consumed, so a
/// program may be interrupted while it waits.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cntk_reader_minibatch_wait(
    reader: *mut cntk_reader,
    milliseconds: u64,
    is_ready: Option<&mut MaybeUninit<u32>>,
    error: Option<&mut MaybeUninit<*mut cntk_reader_error>>,
) -> cntk_reader_status {
    call(error, || {
        // SAFETY: `reader` is NULL or a handle. It is borrowed as shared, so that a second thread
        // in a call is refused by its lock.
        let reader = unsafe { reader.as_ref() };
        let (reader, is_ready) = (object!(reader)?, given(is_ready, "is_ready")?);
        is_ready.write(reader.with(|reader| reader.wait(Duration::from_millis(milliseconds)))?.into());
        Ok(())
    })
}

/// Reads the next minibatch like CNTK's GetMinibatch. cntk_reader_minibatch_next is easier to use.
/// The caller owns one reference and releases it with cntk_reader_minibatch_release.
///
/// Past the end of the epoch, every call returns a minibatch without streams whose `end_of_epoch`
/// is 1. A worker may also get one without streams earlier, when none of the data is its share;
/// `is_step` distinguishes these from training steps. Errors are reported as by
/// cntk_reader_minibatch_next.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cntk_reader_minibatch_read(
    reader: *mut cntk_reader,
    minibatch: Option<&mut MaybeUninit<*const cntk_reader_minibatch>>,
    error: Option<&mut MaybeUninit<*mut cntk_reader_error>>,
) -> cntk_reader_status {
    call(error, || {
        // SAFETY: `reader` is NULL or a handle. It is borrowed as shared, so that a second thread
        // in a call is refused by its lock.
        let reader = unsafe { reader.as_ref() };
        let (reader, place) = (object!(reader)?, given(minibatch, "minibatch")?);
        let minibatch = reader.with(Reader::read)?;
        place.write(HeldMinibatch::hand_out(minibatch, &reader.shared));
        Ok(())
    })
}

/// Adds a reference. NULL is allowed. For a released minibatch or another handle it does nothing
/// but log the mistake. May be called from any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cntk_reader_minibatch_retain(minibatch: *const cntk_reader_minibatch) {
    guard_silently(|| {
        // SAFETY: NULL gives `None`; otherwise it is a handle.
        let minibatch = unsafe { minibatch.as_ref() };
        match object!(minibatch) {
            Ok(minibatch) => minibatch.retain(),
            Err(error) if minibatch.is_some() => log(&error),
            Err(_) => {}
        }
    });
}

/// Releases a reference. Releasing the last one invalidates all pointers into the minibatch. NULL
/// is allowed. For a released minibatch or another handle it does nothing but log the mistake. May
/// be called from any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cntk_reader_minibatch_release(minibatch: *const cntk_reader_minibatch) {
    guard_silently(|| {
        if !minibatch.is_null() {
            // SAFETY: the caller gives up one reference to the handle with this call.
            unsafe { HeldMinibatch::give_up(minibatch, argument!("minibatch")) };
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
        // SAFETY: `info` is NULL, which `new` refuses, or the caller's struct with its size in the
        // first member.
        let (minibatch, info) = (object!(minibatch)?, unsafe { SizedOutput::new(info) }?);
        info.set(minibatch.info());
        Ok(())
    })
}

/// Writes the key of a sequence as text, as CNTK shows it: UTF-8, truncated to `capacity` bytes
/// including a NUL. `length` is set to its full length in bytes without the NUL. `text` may be NULL
/// if `capacity` is 0. `sequence` is the number that records have. May be called from any thread.
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
        let (minibatch, length) = (object!(minibatch)?, given(length, "length")?);
        // SAFETY: `text` is NULL, which `copy` refuses unless `capacity` is 0, or has `capacity`
        // bytes, as documented above.
        length.write(unsafe { text::copy(&minibatch.key_text(sequence)?, text, capacity) }?);
        Ok(())
    })
}
