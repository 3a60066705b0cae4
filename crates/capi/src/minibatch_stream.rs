//! The streams of a minibatch: views into its buffers, no copies.

use super::call::{call, given};
use super::error::cntk_reader_error;
use super::minibatch_handle::cntk_reader_minibatch;
use super::sized::{Sized, SizedOutput};
use super::status::cntk_reader_status;
use super::stream::{cntk_reader_element, cntk_reader_storage};
use cntk_reader_core::stream::Element;
use cntk_reader_core::{Error, Result, with_element};
use cntk_reader_engine::pack::layout::Record;
use cntk_reader_engine::pack::{SparseColumns, StreamMinibatch};
use std::ffi::c_void;
use std::mem::{MaybeUninit, offset_of};
use std::ptr::null;

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
    /// The time step after its last one. Greater than the number of steps if the sequence continues in a later minibatch
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

/// One stream's part of a minibatch. All pointers live as long as the minibatch.
///
/// The library does not change them. A program may write to the values, indices and column offsets where they lie, if it holds
/// all references to the minibatch and none of its threads uses them meanwhile.
///
/// The data are `columns` = `steps` * `lanes` columns of `sample_size` values; step t of lane s is column
/// t * lanes + s.
/// Every column is covered by exactly one record; columns of gap records hold no data (dense: zeros, sparse: nothing).
///
/// Binary streams differ in minibatches of whole sequences: with `sequence_major` step t of lane s is column
/// s * steps + t, so that the samples of a sequence are next to each other. Each sequence has a lane of its own, and
/// columns that no record covers hold zeros.
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
    /// Sparse: the index of each stored value within its column, from 0, in the order of the input, which may be unsorted
    /// and may repeat an index. Dense: NULL.
    pub indices: *const i32,
    /// Sparse: columns + 1 ascending numbers; column c has the stored values from `column_offsets[c]` to before
    /// `column_offsets[c + 1]`. Dense: NULL.
    pub column_offsets: *const i32,
    /// The whole block as CNTK lays it out, aligned to 64 bytes. Dense: the values. Sparse: uint64 number of values,
    /// the values, the int32 indices, the int32 column offsets.
    pub block: *const c_void,
    /// Bytes of the block.
    pub block_size: usize,
    /// 1 if step t of lane s is column s * steps + t, else 0.
    pub sequence_major: u32,
    /// 1 if the first `samples` columns are the sequences one after the other, without gaps between them, else 0.
    pub is_packed: u32,
    /// Samples of the longest sequence, of which in truncated mode the part in this minibatch counts.
    pub longest: usize,
    /// Shape of one sample, first dimension varying fastest (column-major).
    pub shape: *const usize,
    /// Dimensions in `shape`.
    pub shape_rank: usize,
}

// SAFETY: integers and pointers, which may have all bits zero; the two enums are only ever written.
unsafe impl Sized for cntk_reader_minibatch_stream {
    const NAME: &'static str = "cntk_reader_minibatch_stream";
    const LEAST: usize = offset_of!(cntk_reader_minibatch_stream, sequence_major);
}

impl cntk_reader_minibatch {
    pub(super) fn part(&self, index: usize) -> Result<&StreamMinibatch> {
        self.content.streams.get(index).ok_or_else(|| {
            let count = self.content.streams.len();
            Error::argument(format!("There is no stream {index}: the minibatch has {count}."))
        })
    }

    pub(super) fn stream(&self, index: usize) -> Result<cntk_reader_minibatch_stream> {
        let part = self.part(index)?;
        let stream = self.shared()?.stream(index)?;
        let shape = self.shared()?.shape(index)?;
        let (layout, block) = (&part.layout, part.block());
        let extent = layout.extent();
        let parts = with_element!(part.element(), T => Parts::of::<T>(part));
        let parts =
            parts.ok_or_else(|| Error::internal("A block of data does not have the size of its layout."))?;
        Ok(cntk_reader_minibatch_stream {
            struct_size: 0,
            steps: layout.steps,
            lanes: layout.lanes,
            columns: layout.columns(),
            samples: extent.samples,
            sequences: extent.sequences,
            records: layout.records.as_ptr().cast(),
            record_count: layout.records.len(),
            right_splice: layout.right_splice,
            storage: stream.storage,
            element: stream.element,
            sample_size: shape.iter().product(),
            values: parts.values,
            value_count: parts.count,
            indices: parts.indices,
            column_offsets: parts.offsets,
            block: part.block_pointer().cast_const().cast(),
            block_size: block.len(),
            sequence_major: layout.sequence_major.into(),
            is_packed: extent.is_packed.into(),
            longest: extent.longest,
            shape: shape.as_ptr(),
            shape_rank: shape.len(),
        })
    }
}

/// Where a stream's arrays lie.
struct Parts {
    values: *const c_void,
    count: usize,
    indices: *const i32,
    offsets: *const i32,
}

impl Parts {
    fn of<T: Element>(part: &StreamMinibatch) -> Option<Parts> {
        let (start, base) = (part.block().as_ptr().addr(), part.block_pointer());
        // The arrays in the block, by a pointer that callers may write through.
        let array = |address: usize| base.wrapping_byte_add(address - start).cast_const();
        if let Some(values) = part.dense::<T>() {
            let (values, count) = (base.cast_const().cast(), values.len());
            return Some(Parts { values, count, indices: null(), offsets: null() });
        }
        let SparseColumns { values, indices, offsets, .. } = part.sparse::<T>()?;
        Some(Parts {
            values: array(values.as_ptr().addr()).cast(),
            count: values.len(),
            indices: array(indices.as_ptr().addr()).cast(),
            offsets: array(offsets.as_ptr().addr()).cast(),
        })
    }
}

/// Describes stream `index` of a minibatch, from 0: its layout, and pointers to its data where they lie.
/// `stream->struct_size` must be set. May be called from any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cntk_reader_minibatch_stream_describe(
    minibatch: Option<&cntk_reader_minibatch>,
    index: usize,
    stream: *mut cntk_reader_minibatch_stream,
    error: Option<&mut MaybeUninit<*mut cntk_reader_error>>,
) -> cntk_reader_status {
    call(error, || {
        // SAFETY: `stream` is NULL, which `new` refuses, or the caller's struct with its size in the first member.
        let (minibatch, stream) = (given(minibatch, "minibatch")?, unsafe { SizedOutput::new(stream) }?);
        stream.set(minibatch.stream(index)?);
        Ok(())
    })
}
