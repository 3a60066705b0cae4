//! The minibatch's handle: views into its buffers, no copies.

use super::call::{Output, guard, guard_silently, input};
use super::error::cntk_reader_error;
use super::reader::Shared;
use super::sized::{Sized, SizedOutput};
use super::status::cntk_reader_status;
use super::stream::{cntk_reader_element, cntk_reader_storage};
use crate::corpus::Corpus;
use crate::fork::Process;
use crate::pack::layout::Record;
use crate::pack::{Element, Minibatch, SparseColumns, StreamMinibatch};
use crate::stream::ElementType;
use crate::{Error, Result};
use parking_lot::Mutex;
use std::ffi::{c_char, c_void};
use std::mem::{offset_of, size_of};
use std::ptr::null;
use std::sync::Arc;

/// One minibatch. It owns its data and counts its references: cntk_reader_minibatch_read gives one,
/// cntk_reader_minibatch_retain adds one, cntk_reader_minibatch_release takes one away; the last one gives the memory
/// back for later minibatches. It may outlive its reader.
///
/// Threads: immutable, may be shared; references are counted atomically.
/// Fork: data may be read in the child, textual keys may not; releasing it there does nothing.
pub struct cntk_reader_minibatch {
    process: Process,
    /// `None` while nobody has a reference.
    shared: Option<Arc<Shared>>,
    content: Minibatch,
}

/// Handles that wait for their next minibatch, so that reading allocates none.
#[derive(Default)]
pub(super) struct IdleHandles(Mutex<Vec<Arc<cntk_reader_minibatch>>>);

/// Handles that wait at most.
const MAX_IDLE: usize = 8;

impl IdleHandles {
    fn take(&self) -> Option<Arc<cntk_reader_minibatch>> {
        self.0.lock().pop()
    }

    fn give_back(&self, handle: Arc<cntk_reader_minibatch>) {
        let mut handles = self.0.lock();
        if handles.len() < MAX_IDLE {
            handles.push(handle);
        }
    }
}

/// A run of time steps in one lane (a parallel sequence of the layout) that belongs to one sequence, or to none (a gap).
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct cntk_reader_record {
    /// Number of the sequence within the minibatch, from 0, the same in all streams, or CNTK_READER_GAP.
    pub sequence: u64,
    /// Lane, that is parallel sequence, from 0.
    pub lane: u64,
    /// Time step at which the sequence begins. Negative if it began in an earlier minibatch (truncated mode).
    pub begin: i64,
    /// One behind the time step at which it ends. Beyond the number of steps if it goes on in a later minibatch
    /// (truncated mode).
    pub end: u64,
}

// Records are handed out where they lie.
const _: () = assert!(
    size_of::<Record>() == size_of::<cntk_reader_record>()
        && offset_of!(Record, id) == offset_of!(cntk_reader_record, sequence)
        && offset_of!(Record, lane) == offset_of!(cntk_reader_record, lane)
        && offset_of!(Record, begin) == offset_of!(cntk_reader_record, begin)
        && offset_of!(Record, end) == offset_of!(cntk_reader_record, end)
);

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

/// One stream's part of a minibatch. All pointers live as long as the minibatch.
///
/// The data are `columns` = `steps` * `lanes` columns of `sample_size` values; step t of lane s is column
/// t * lanes + s.
/// Every column is covered by exactly one record; columns of gap records hold no data (dense: zeros, sparse: nothing).
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct cntk_reader_minibatch_stream {
    /// sizeof(cntk_reader_minibatch_stream), set by the caller.
    pub struct_size: usize,
    /// Time steps (CNTK: number of time steps, T).
    pub steps: usize,
    /// Lanes (CNTK: number of parallel sequences, S).
    pub lanes: usize,
    /// Columns: steps * lanes, gaps included.
    pub columns: usize,
    /// Columns with data.
    pub samples: usize,
    /// Sequences with data.
    pub sequences: usize,
    /// Which columns belong to which sequence.
    pub records: *const cntk_reader_record,
    /// Number of records, gaps included.
    pub record_count: usize,
    /// Overlap of truncated minibatches in steps, else 0.
    pub right_splice: u64,
    /// Dense or sparse.
    pub storage: cntk_reader_storage,
    /// Type of the values.
    pub element: cntk_reader_element,
    /// Values of one sample: the height of a column.
    pub sample_size: usize,
    /// The values, of type `element`. Dense: all columns, one after the other. Sparse: the stored values in order of
    /// columns.
    pub values: *const c_void,
    /// Number of values. Dense: columns * sample_size. Sparse: the number of stored values.
    pub value_count: usize,
    /// Sparse: the row of each stored value within its column, in the order of the input, which may be unsorted and
    /// may repeat rows. Dense: NULL.
    pub indices: *const i32,
    /// Sparse: columns + 1 ascending numbers; column c owns the stored values `column_offsets[c]` up to, not including,
    /// `column_offsets[c + 1]`. Dense: NULL.
    pub column_offsets: *const i32,
    /// The whole block as CNTK lays it out, aligned to 64 bytes. Dense: the values. Sparse: uint64 number of values,
    /// the values, the int32 indices, the int32 column offsets.
    pub block: *const c_void,
    /// Bytes of the block.
    pub block_size: usize,
}

// SAFETY: plain members.
unsafe impl Sized for cntk_reader_minibatch_info {
    const NAME: &'static str = "cntk_reader_minibatch_info";
}

// SAFETY: plain members; the two enums are only ever written.
unsafe impl Sized for cntk_reader_minibatch_stream {
    const NAME: &'static str = "cntk_reader_minibatch_stream";
}

impl cntk_reader_minibatch {
    /// A handle with one reference.
    pub(super) fn hand_out(content: Minibatch, shared: &Arc<Shared>) -> *const cntk_reader_minibatch {
        let handle =
            cntk_reader_minibatch { process: Process::current(), shared: Some(Arc::clone(shared)), content };
        if let Some(mut idle) = shared.idle.take()
            && let Some(place) = Arc::get_mut(&mut idle)
        {
            *place = handle;
            return Arc::into_raw(idle);
        }
        Arc::into_raw(Arc::new(handle))
    }

    /// What its reader left for it.
    fn shared(&self) -> Result<&Arc<Shared>> {
        self.shared.as_ref().ok_or_else(|| Error::argument("The minibatch was released before."))
    }

    fn stream(&self, index: usize) -> Result<cntk_reader_minibatch_stream> {
        let part = self.content.streams.get(index).ok_or_else(|| {
            let count = self.content.streams.len();
            Error::argument(format!("There is no stream {index}: the minibatch has {count}."))
        })?;
        let stream = self.shared()?.stream(index)?;
        let (layout, block) = (&part.layout, part.block());
        let (samples, sequences) = layout.counts();
        let parts = match part.element() {
            ElementType::Float => Parts::of::<f32>(part),
            ElementType::Double => Parts::of::<f64>(part),
        };
        let parts =
            parts.ok_or_else(|| Error::internal("A block of data does not have the size of its layout."))?;
        Ok(cntk_reader_minibatch_stream {
            struct_size: 0,
            steps: layout.steps,
            lanes: layout.lanes,
            columns: layout.columns(),
            samples,
            sequences,
            records: layout.records.as_ptr().cast(),
            record_count: layout.records.len(),
            right_splice: layout.right_splice,
            storage: stream.storage,
            element: stream.element,
            sample_size: self.shared()?.sample_size(index)?,
            values: parts.values,
            value_count: parts.count,
            indices: parts.rows,
            column_offsets: parts.starts,
            block: block.as_ptr().cast(),
            block_size: block.len(),
        })
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

/// Where a stream's arrays lie.
struct Parts {
    values: *const c_void,
    count: usize,
    rows: *const i32,
    starts: *const i32,
}

impl Parts {
    fn of<T: Element>(part: &StreamMinibatch) -> Option<Parts> {
        if let Some(values) = part.dense::<T>() {
            let (values, count) = (values.as_ptr().cast(), values.len());
            return Some(Parts { values, count, rows: null(), starts: null() });
        }
        let SparseColumns { values, indices, offsets } = part.sparse::<T>()?;
        let (values, count) = (values.as_ptr().cast(), values.len());
        Some(Parts { values, count, rows: indices.as_ptr(), starts: offsets.as_ptr() })
    }
}

/// Adds a reference. NULL is allowed. May be called from any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cntk_reader_minibatch_retain(minibatch: *const cntk_reader_minibatch) {
    if !minibatch.is_null() {
        // SAFETY: it came from `Arc::into_raw`, and the caller has a reference.
        unsafe { Arc::increment_strong_count(minibatch) };
    }
}

/// Takes a reference away; with the last one all pointers into the minibatch become invalid. NULL is allowed. May be
/// called from any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cntk_reader_minibatch_release(minibatch: *const cntk_reader_minibatch) {
    guard_silently(|| {
        // SAFETY: the caller's promise. After a fork the buffers cannot go back: another thread may have held the
        // lock of their pool.
        unsafe {
            if !minibatch.as_ref().is_some_and(|minibatch| minibatch.process.is_current()) {
                return;
            }
            let mut handle = Arc::from_raw(minibatch);
            // The last reference: the content goes back to its pool, and the handle to its reader's.
            if let Some(last) = Arc::get_mut(&mut handle) {
                last.content = Minibatch::default();
                if let Some(shared) = last.shared.take() {
                    shared.idle.give_back(handle);
                }
            }
        }
    });
}

/// Describes a minibatch. `info->struct_size` must be set. May be called from any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cntk_reader_minibatch_describe(
    minibatch: *const cntk_reader_minibatch,
    info: *mut cntk_reader_minibatch_info,
    error: *mut *mut cntk_reader_error,
) -> cntk_reader_status {
    // SAFETY: the caller's promises, as the header states them.
    unsafe {
        guard(error, || {
            let content = &input(minibatch, "minibatch")?.content;
            SizedOutput::new(info)?.set(cntk_reader_minibatch_info {
                struct_size: 0,
                end_of_sweep: content.end_of_sweep.into(),
                end_of_epoch: content.end_of_epoch.into(),
                stream_count: content.streams.len(),
                keys: content.keys.as_ptr(),
                key_count: content.keys.len(),
            });
            Ok(())
        })
    }
}

/// Gives stream `index` of a minibatch: its layout, and pointers to its data where they lie. `stream->struct_size` must
/// be set. May be called from any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cntk_reader_minibatch_stream_describe(
    minibatch: *const cntk_reader_minibatch,
    index: usize,
    stream: *mut cntk_reader_minibatch_stream,
    error: *mut *mut cntk_reader_error,
) -> cntk_reader_status {
    // SAFETY: the caller's promises, as the header states them.
    unsafe {
        guard(error, || {
            let (minibatch, stream) = (input(minibatch, "minibatch")?, SizedOutput::new(stream)?);
            stream.set(minibatch.stream(index)?);
            Ok(())
        })
    }
}

/// Gives the key of a sequence as text, as CNTK shows it. Writes as much of it as fits into `capacity` bytes, always
/// with a NUL if `capacity` is not 0, and its whole length in bytes without the NUL. UTF-8; `text` may be NULL if
/// `capacity` is 0. `sequence` is the number in the records. May be called from any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cntk_reader_minibatch_get_key_text(
    minibatch: *const cntk_reader_minibatch,
    sequence: usize,
    text: *mut c_char,
    capacity: usize,
    length: *mut usize,
    error: *mut *mut cntk_reader_error,
) -> cntk_reader_status {
    // SAFETY: the caller's promises, as the header states them.
    unsafe {
        guard(error, || {
            let (minibatch, length) = (input(minibatch, "minibatch")?, Output::new(length, "length")?);
            super::text::write(&minibatch.key_text(sequence)?, text, capacity, length)
        })
    }
}
