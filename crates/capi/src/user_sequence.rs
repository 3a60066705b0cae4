//! Sequences that users' deserializers give one by one: their data in each stream, checked once.

use super::failure::cntk_reader_failure;
use super::user_data::{list, wrong};
use super::user_deserializer::{Table, missing};
use cntk_reader_core::Result;
use cntk_reader_core::format::Loaded;
use cntk_reader_core::format::fetch::FetchedData;
use cntk_reader_core::memory::room;
use cntk_reader_core::runtime::exit;
use cntk_reader_core::sequence::{
    SequenceId, SequenceInfo, SequenceKey, SequenceView, SparseView, ValueForm, ViewKind,
};
use cntk_reader_core::stream::{ElementType, Storage};
use std::any::Any;
use std::ffi::c_void;
use std::mem::size_of;
use std::ptr::{null, null_mut};
use std::sync::Arc;

/// Where a sequence is, how long, and what its key is.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct cntk_reader_sequence_info {
    /// Its chunk.
    pub chunk: u32,
    /// Its number within the chunk.
    pub index: u32,
    /// Its length in samples.
    pub samples: u32,
    /// Which sample of its key's sequence it is, if each sample of a sequence is a sequence of its
    /// own (frames); else 0.
    pub sample: u32,
    /// Its key as a number.
    pub key: u64,
}

impl From<SequenceInfo> for cntk_reader_sequence_info {
    fn from(info: SequenceInfo) -> Self {
        let SequenceInfo { id: SequenceId { chunk, index }, samples, key, sample } = info;
        cntk_reader_sequence_info { chunk, index, samples, sample, key }
    }
}

impl From<cntk_reader_sequence_info> for SequenceInfo {
    fn from(info: cntk_reader_sequence_info) -> Self {
        let cntk_reader_sequence_info { chunk, index, samples, sample, key } = info;
        SequenceInfo { id: SequenceId { chunk, index }, samples, key, sample }
    }
}

/// A sequence that was fetched.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct cntk_reader_user_sequence {
    /// sizeof(cntk_reader_user_sequence), set by the library; all else is zero when the callback gets it.
    pub struct_size: usize,
    /// The sequence for later callbacks.
    pub handle: *mut c_void,
    /// 1 if it cannot be used: it is left out of all streams, and counted against the reader's `maxErrors`.
    pub is_invalid: u32,
    /// 0.
    pub reserved: u32,
}

impl Default for cntk_reader_user_sequence {
    fn default() -> Self {
        cntk_reader_user_sequence {
            struct_size: size_of::<Self>(),
            handle: null_mut(),
            is_invalid: 0,
            reserved: 0,
        }
    }
}

/// A sequence's data in one stream. The element type is the stream's.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct cntk_reader_user_sequence_data {
    /// sizeof(cntk_reader_user_sequence_data), set by the library; all else but `key` is zero when the callback gets it.
    pub struct_size: usize,
    /// Number of samples.
    pub samples: usize,
    /// Dense: the values of all samples, one sample after the other. Sparse: the stored values, sample after sample.
    pub values: *const c_void,
    /// Number of values. Must be `samples` times the size of a sample if the stream is dense.
    pub value_count: usize,
    /// Sparse: the index of each value within its sample.
    pub indices: *const i32,
    /// Sparse: the number of values that each sample has.
    pub sample_value_counts: *const i32,
    /// Shape of a sample, if the stream's description leaves it open.
    pub shape: *const usize,
    /// Dimensions in `shape`.
    pub shape_rank: usize,
    /// The key that minibatches report; CNTK_READER_UNKNOWN when the callback gets it, which stands for the listed key.
    /// Minibatches take it from the first stream, truncated ones from the last.
    pub key: u64,
}

/// `key` where it was not set: CNTK_READER_UNKNOWN.
const NO_KEY: u64 = u64::MAX;

const EMPTY: cntk_reader_user_sequence_data = cntk_reader_user_sequence_data {
    struct_size: size_of::<cntk_reader_user_sequence_data>(),
    samples: 0,
    values: null(),
    value_count: 0,
    indices: null(),
    sample_value_counts: null(),
    shape: null(),
    shape_rank: 0,
    key: NO_KEY,
};

/// A sequence that has to be released, or the memory for one.
pub(crate) struct Fetched {
    /// Keeps the userdata.
    table: Arc<Table>,
    handle: *mut c_void,
    /// The handle is one of fetch_sequence that was not released yet.
    is_held: bool,
    is_valid: bool,
    /// What prepare_sequence wrote for each stream: its pointers are valid until the sequence is released.
    streams: Vec<cntk_reader_user_sequence_data>,
    /// `streams` are those of the sequence, and were checked.
    is_prepared: bool,
    /// Entry numbers at which the samples of sparse streams begin.
    offsets: Vec<Vec<u32>>,
}

// SAFETY: handle and pointers are only passed back to callbacks of the table they came from, which the header allows on
// any thread, and read; what the pointers lead to stays valid until the sequence is released, which `release` does.
unsafe impl Send for Fetched {}
// SAFETY: through a shared reference the user's memory is only read, and the header forbids to change it until the
// sequence is released, which takes a mutable reference.
unsafe impl Sync for Fetched {}

impl Fetched {
    /// Memory for a sequence: that of another one of the same deserializer, where that can be.
    pub(crate) fn of(table: &Arc<Table>, used: Option<Box<dyn FetchedData>>) -> Box<Fetched> {
        let used = used.and_then(|used| (used as Box<dyn Any>).downcast::<Fetched>().ok());
        match used.filter(|used| Arc::ptr_eq(&used.table, table)) {
            Some(mut used) => {
                used.release();
                used
            }
            None => Box::new(Fetched {
                table: Arc::clone(table),
                handle: null_mut(),
                is_held: false,
                is_valid: false,
                streams: vec![EMPTY; table.streams.len()],
                is_prepared: false,
                offsets: vec![Vec::new(); table.streams.len()],
            }),
        }
    }

    /// Takes what was fetched.
    pub(crate) fn take(&mut self, fetched: cntk_reader_user_sequence) {
        (self.handle, self.is_held, self.is_valid) = (fetched.handle, true, fetched.is_invalid == 0);
    }

    fn stream(&self, index: usize) -> Option<&cntk_reader_user_sequence_data> {
        self.streams.get(index).filter(|_| self.is_prepared)
    }
}

impl Drop for Fetched {
    fn drop(&mut self) {
        self.release();
    }
}

impl FetchedData for Fetched {
    fn is_valid(&self) -> bool {
        self.is_valid
    }

    fn prepare(&mut self, position: u32) -> Result<()> {
        let Table { callbacks, kinds, .. } = &*self.table;
        let prepare =
            callbacks.prepare_sequence.ok_or_else(|| missing("prepare_sequence", "sequences are fetched"))?;
        self.streams.fill(EMPTY);
        let mut failure = cntk_reader_failure::default();
        // SAFETY: the table's own callback with its own userdata, and a handle of its fetch_sequence that was not released
        // yet: `is_held` is true from `take` to `release`. `streams` has one element for each stream.
        let status = exit::foreign(|| unsafe {
            prepare(callbacks.userdata, self.handle, position, self.streams.as_mut_ptr(), &raw mut failure)
        });
        failure.check("prepare_sequence", status)?;
        for ((stream, offsets), &(storage, element)) in self.streams.iter().zip(&mut self.offsets).zip(kinds)
        {
            u32::try_from(stream.samples).map_err(|_| wrong("A sequence has too many samples."))?;
            // SAFETY: prepare_sequence has just written these pointers and counts, and the header demands that they are
            // valid until the sequence is released; `offsets` of sparse streams only.
            unsafe {
                stream.values(element)?;
                stream.shape()?;
                if storage == Storage::SparseCsc {
                    stream.indices()?;
                    find_offsets(stream.counts()?, stream.value_count, offsets)?;
                }
            }
        }
        self.is_prepared = true;
        Ok(())
    }

    fn view(&self, stream: usize) -> Loaded<'_> {
        let (Some(data), Some(offsets)) = (self.stream(stream), self.offsets.get(stream)) else {
            return Loaded::Invalid;
        };
        let (storage, element) = self.table.kinds[stream];
        // SAFETY: `stream` gives what `prepare` has checked, and only until `release` clears `is_prepared`; the view borrows
        // this object, so that it cannot be released meanwhile.
        let Ok(values) = (unsafe { data.values(element) }) else { return Loaded::Invalid };
        let kind = match storage {
            Storage::Dense => ViewKind::Dense,
            // SAFETY: as for the values.
            Storage::SparseCsc => match unsafe { data.indices() } {
                Ok(indices) => {
                    ViewKind::Sparse(SparseView { indices, narrow: false, offsets, single: false })
                }
                Err(_) => return Loaded::Invalid,
            },
        };
        Loaded::Data(SequenceView { samples: data.samples as u32, values, form: ValueForm::Whole, kind })
    }

    fn shape(&self, stream: usize) -> Option<&[usize]> {
        // SAFETY: `stream` gives what `prepare` has checked, and only until the sequence is released.
        unsafe { self.stream(stream)?.shape() }.ok()
    }

    fn key(&self, stream: usize) -> Option<SequenceKey> {
        self.stream(stream).map(|stream| stream.key).filter(|&key| key != NO_KEY)
    }

    fn release(&mut self) {
        self.is_prepared = false;
        if std::mem::take(&mut self.is_held)
            && let Some(release) = self.table.callbacks.release_sequence
            // The process ends: what the user would do with it may be gone.
            && !exit::is_closed()
        {
            // SAFETY: the table's own callback with its own userdata; the handle is one of fetch_sequence, and `is_held`,
            // which was true and is false now, makes this its only release.
            exit::foreign(|| unsafe { release(self.table.callbacks.userdata, self.handle) });
        }
    }
}

impl cntk_reader_user_sequence_data {
    /// # Safety
    /// Each pointer is NULL or leads to as many readable elements as the counts say, for as long as the result is used:
    /// also for the functions below.
    unsafe fn values(&self, element: ElementType) -> Result<&[u8]> {
        // SAFETY: `value_count` values of the stream's type, by this function's contract.
        unsafe { bytes(self.values.cast(), self.value_count, element.size(), "values") }
    }

    /// # Safety
    /// See above; and the stream is sparse.
    unsafe fn indices(&self) -> Result<&[u8]> {
        // SAFETY: `value_count` indices, by this function's contract.
        unsafe { bytes(self.indices.cast(), self.value_count, size_of::<i32>(), "indices") }
    }

    /// # Safety
    /// See above; and the stream is sparse.
    unsafe fn counts(&self) -> Result<&[u8]> {
        // SAFETY: a count for each of `samples`, by this function's contract.
        unsafe {
            bytes(self.sample_value_counts.cast(), self.samples, size_of::<i32>(), "sample value counts")
        }
    }

    /// # Safety
    /// See above.
    unsafe fn shape(&self) -> Result<&[usize]> {
        match self.shape_rank {
            0 => Ok(&[]),
            // SAFETY: `shape_rank` dimensions, by this function's contract.
            rank => unsafe { list(self.shape, rank, "dimensions") },
        }
    }
}

/// Finds the entry number at which each sample begins. The counts are numbers of 4 bytes, and add up to the number of
/// values.
fn find_offsets(counts: &[u8], values: usize, offsets: &mut Vec<u32>) -> Result<()> {
    offsets.clear();
    room::reserve(offsets, counts.len() / 4 + 1, room::CHUNK)?;
    let mut end = 0u32;
    offsets.push(end);
    for count in counts.as_chunks::<4>().0 {
        let count = u32::try_from(i32::from_ne_bytes(*count)).ok();
        end = count
            .and_then(|count| end.checked_add(count))
            .ok_or_else(|| wrong("A sample has an impossible number of values."))?;
        offsets.push(end);
    }
    if end as usize != values {
        return Err(wrong(format!("A sequence's samples have {end} values instead of {values}.")));
    }
    Ok(())
}

/// # Safety
/// `count` values of `size` bytes are readable from `start` on for as long as the result is used, unless there are none.
unsafe fn bytes<'a>(start: *const u8, count: usize, size: usize, what: &str) -> Result<&'a [u8]> {
    match count.checked_mul(size) {
        Some(0) => Ok(&[]),
        Some(bytes) if !start.is_null() && bytes <= isize::MAX as usize => {
            // SAFETY: not NULL and within `isize::MAX` bytes by the guard of this arm; readable by this function's contract.
            Ok(unsafe { std::slice::from_raw_parts(start, bytes) })
        }
        _ => Err(wrong(format!("The memory of the {what} is NULL or impossibly large."))),
    }
}
