//! Minibatches as a whole: reading, flags and keys.

use super::call::{call, given, guard_silently, input};
use super::error::cntk_reader_error;
use super::minibatch_handle::cntk_reader_minibatch;
use super::minibatch_stream::cntk_reader_minibatch_stream;
use super::reader::cntk_reader;
use super::sized::{Sized, SizedOutput};
use super::status::cntk_reader_status;
use super::text;
use crate::corpus::Corpus;
use crate::reader::Reader;
use crate::{Error, Result};
use std::ffi::c_char;
use std::mem::MaybeUninit;
use std::sync::Arc;

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
}

// SAFETY: integers and a pointer, which may have all bits zero.
unsafe impl Sized for cntk_reader_minibatch_info {
    const NAME: &'static str = "cntk_reader_minibatch_info";
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

/// Reads the next minibatch; the caller owns one reference to it, and releases it with cntk_reader_minibatch_release.
///
/// Past the end of the epoch, every read gives a minibatch without streams and with the flag end_of_epoch. A worker may
/// also get one without streams earlier, when none of the data is its share. After an error in the data, the next read
/// continues with what follows. After CNTK_READER_STATUS_IO, a file that could not be read, it tries to deliver the
/// same minibatch, unless the reason stays: a file that is missing does not come back by itself.
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

/// Describes a minibatch and all its streams in one call. `info->struct_size` must be set. `streams` has room for `capacity`
/// structs, and each of them is as large as `streams->struct_size` of the first one, which must be set and which the others get.
/// Written are as many structs as the minibatch has streams (`info->stream_count`); it is an error if there are fewer places.
/// May be called from any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cntk_reader_minibatch_describe_streams(
    minibatch: Option<&cntk_reader_minibatch>,
    info: *mut cntk_reader_minibatch_info,
    streams: *mut cntk_reader_minibatch_stream,
    capacity: usize,
    error: Option<&mut MaybeUninit<*mut cntk_reader_error>>,
) -> cntk_reader_status {
    call(error, || {
        // SAFETY: `info` is NULL, which `new` refuses, or the caller's struct with its size in the first member.
        let (minibatch, info) = (given(minibatch, "minibatch")?, unsafe { SizedOutput::new(info) }?);
        let count = minibatch.content.streams.len();
        if count > capacity {
            return Err(Error::argument(format!(
                "There is room for {capacity} streams, and the minibatch has {count}."
            )));
        }
        if count > 0 {
            // SAFETY: `streams` is NULL, which `each` refuses, or has `capacity` structs of the size that the first one states, as
            // documented above, and `count` is no more than that.
            let places = unsafe { SizedOutput::each(streams, count) }?;
            for (index, place) in places.enumerate() {
                place.set(minibatch.stream(index)?);
            }
        }
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
