//! The streams of a minibatch: views of its buffers, without copies.

use super::call::call;
use super::error::cntk_reader_error;
use super::handle::object;
use super::minibatch_handle::{HeldMinibatch, cntk_reader_minibatch};
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

/// A run of time steps in one lane (a parallel sequence of the layout) that belongs to one
/// sequence, or to none (a gap).
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct cntk_reader_record {
    /// Number of the sequence within the minibatch, from 0, the same in all streams; or
    /// CNTK_READER_GAP.
    pub sequence: u64,
    /// Lane (parallel sequence), from 0.
    pub lane: u64,
    /// Time step at which the sequence begins. Negative if it began in an earlier minibatch
    /// (truncated mode).
    pub begin: i64,
    /// The time step after the last one. Greater than the number of steps if the sequence continues
    /// in a later minibatch (truncated mode).
    pub end: u64,
}

// Callers get pointers to the engine's records.
const _: () = assert!(
    size_of::<Record>() == size_of::<cntk_reader_record>()
        && offset_of!(Record, id) == offset_of!(cntk_reader_record, sequence)
        && offset_of!(Record, lane) == offset_of!(cntk_reader_record, lane)
        && offset_of!(Record, begin) == offset_of!(cntk_reader_record, begin)
        && offset_of!(Record, end) == offset_of!(cntk_reader_record, end)
);

/// One stream of a minibatch. All pointers are valid as long as the minibatch.
///
/// The library does not modify the data. A program may modify the values, indices and column
/// offsets in place if it holds all references to the minibatch and no other thread uses them
/// meanwhile.
///
/// The data are `columns` = `steps` * `lanes` columns of `sample_size` values; step t of lane s is
/// column t * lanes + s. Every column belongs to exactly one record. Columns of gaps hold no data
/// (dense: zeros, sparse: nothing).
///
/// Binary streams differ in minibatches of whole sequences: if `sequence_major` is 1, step t of
/// lane s is column s * steps + t, so that the samples of a sequence are adjacent. Each sequence
/// then has its own lane, and columns that belong to no record hold zeros.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct cntk_reader_minibatch_stream {
    /// sizeof(cntk_reader_minibatch_stream), set by the caller.
    pub struct_size: usize,
    /// Time steps (CNTK: number of time steps, T).
    pub steps: usize,
    /// Lanes (CNTK: number of parallel sequences, S).
    pub lanes: usize,
    /// Columns: steps * lanes, including gaps.
    pub columns: usize,
    /// Number of columns with data.
    pub samples: usize,
    /// Number of sequences with data.
    pub sequences: usize,
    /// The columns of each sequence and the gaps.
    pub records: *const cntk_reader_record,
    /// Number of records, including gaps.
    pub record_count: usize,
    /// Overlap of truncated minibatches in steps, else 0.
    pub right_splice: u64,
    /// Dense or sparse.
    pub storage: cntk_reader_storage,
    /// Type of the values.
    pub element: cntk_reader_element,
    /// Values per sample, which is the height of a column.
    pub sample_size: usize,
    /// The values, of type `element`. Dense: column by column. Sparse: the stored values, column by
    /// column.
    pub values: *const c_void,
    /// Number of values. Dense: columns * sample_size. Sparse: the number of stored values.
    pub value_count: usize,
    /// Sparse: the index of each stored value within its column, from 0. Indices are in the order
    /// of the input: they may be unsorted and may repeat. Dense: NULL.
    pub indices: *const i32,
    /// Sparse: columns + 1 ascending numbers; column c has the stored values from
    /// `column_offsets[c]` up to, but not including, `column_offsets[c + 1]`. Dense: NULL.
    pub column_offsets: *const i32,
    /// The whole block in CNTK's layout, aligned to 64 bytes. Dense: the values. Sparse: the number
    /// of values as uint64, the values, the int32 indices, the int32 column offsets.
    pub block: *const c_void,
    /// Bytes of the block.
    pub block_size: usize,
    /// 1 if step t of lane s is column s * steps + t, else 0.
    pub sequence_major: u32,
    /// 1 if the first `samples` columns are the sequences one after another without gaps, else 0.
    pub is_packed: u32,
    /// Samples of the longest sequence; in truncated mode, of the part in this minibatch.
    pub longest: usize,
    /// Shape of one sample, first dimension varying fastest (column-major).
    pub shape: *const usize,
    /// Number of dimensions in `shape`.
    pub shape_rank: usize,
}

// SAFETY: `repr(C)`, begins with a `usize`, and has integers and pointers, for which zero is valid,
// and two enums, which are only written.
unsafe impl Sized for cntk_reader_minibatch_stream {
    const NAME: &'static str = "cntk_reader_minibatch_stream";
    const LEAST: usize = offset_of!(cntk_reader_minibatch_stream, sequence_major);
}

impl HeldMinibatch {
    pub(super) fn part(&self, index: usize) -> Result<&StreamMinibatch> {
        self.content.streams.get(index).ok_or_else(|| {
            let count = self.content.streams.len();
            if count == 0 {
                return Error::argument(format!("There is no stream {index}: the minibatch has no data."))
                    .with_detail(
                        "The epoch has ended, or this worker's share of the minibatch has no sequence: \
                         look at 'stream_count' of cntk_reader_minibatch_info first.",
                    );
            }
            Error::argument(format!("There is no stream {index}: the minibatch has {count}."))
        })
    }

    pub(super) fn stream(&self, index: usize) -> Result<cntk_reader_minibatch_stream> {
        let part = self.part(index)?;
        let stream = self.shared()?.stream(index)?;
        let shape = self.shared()?.shape(index)?;
        let (layout, block) = (&part.layout, part.block());
        let extent = layout.extent();
        let parts = with_element!(part.element(), T => StreamArrays::of::<T>(part));
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

/// Pointers to a stream's arrays.
struct StreamArrays {
    values: *const c_void,
    count: usize,
    indices: *const i32,
    offsets: *const i32,
}

impl StreamArrays {
    fn of<T: Element>(part: &StreamMinibatch) -> Option<StreamArrays> {
        let (start, base) = (part.block().as_ptr().addr(), part.block_pointer());
        // Derives each pointer from `base`, through which callers may write.
        let array = |address: usize| base.wrapping_byte_add(address - start).cast_const();
        if let Some(values) = part.dense::<T>() {
            let (values, count) = (base.cast_const().cast(), values.len());
            return Some(StreamArrays { values, count, indices: null(), offsets: null() });
        }
        let SparseColumns { values, indices, offsets, .. } = part.sparse::<T>()?;
        Some(StreamArrays {
            values: array(values.as_ptr().addr()).cast(),
            count: values.len(),
            indices: array(indices.as_ptr().addr()).cast(),
            offsets: array(offsets.as_ptr().addr()).cast(),
        })
    }
}

/// Describes stream `index` of a minibatch, counted from 0: its layout and pointers to its data.
/// `stream->struct_size` must be set. May be called from any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cntk_reader_minibatch_stream_describe(
    minibatch: Option<&cntk_reader_minibatch>,
    index: usize,
    stream: *mut cntk_reader_minibatch_stream,
    error: Option<&mut MaybeUninit<*mut cntk_reader_error>>,
) -> cntk_reader_status {
    call(error, || {
        // SAFETY: `stream` is NULL, which `new` refuses, or the caller's struct with its size in
        // the first member.
        let (minibatch, stream) = (object!(minibatch)?, unsafe { SizedOutput::new(stream) }?);
        stream.set(minibatch.stream(index)?);
        Ok(())
    })
}
