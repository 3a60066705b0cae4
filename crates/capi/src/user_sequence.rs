//! Sequences that user-defined deserializers return one at a time. Their data are checked once per
//! stream.

use super::failure::cntk_reader_failure;
use super::user_data::{list, wrong};
use super::user_deserializer::{DeserializerTable, missing};
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

/// Position, length and key of a sequence.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct cntk_reader_sequence_info {
    /// Number of its chunk.
    pub chunk: u32,
    /// Its number within the chunk.
    pub index: u32,
    /// Its length in samples.
    pub samples: u32,
    /// Its sample number within the sequence of its key, if each sample of a sequence is a sequence
    /// of its own (frame mode); else 0.
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

/// A fetched sequence.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct cntk_reader_user_sequence {
    /// sizeof(cntk_reader_user_sequence), set by the library. All other members are zero when the
    /// callback is called.
    pub struct_size: usize,
    /// Identifies the sequence in later callbacks.
    pub handle: *mut c_void,
    /// 1 if the sequence is unusable: it is left out of all streams and counted against the
    /// reader's `maxErrors`.
    pub is_invalid: u32,
    /// Reserved; 0.
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

/// A sequence's data in one stream, in the stream's element type.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct cntk_reader_user_sequence_data {
    /// sizeof(cntk_reader_user_sequence_data), set by the library. All other members except `key`
    /// are zero when the callback is called.
    pub struct_size: usize,
    /// Number of samples.
    pub samples: usize,
    /// Dense: the values of all samples, sample by sample. Sparse: the stored values, sample by
    /// sample.
    pub values: *const c_void,
    /// Number of values. Dense: must be `samples` times the size of a sample.
    pub value_count: usize,
    /// Sparse: the index of each value within its sample.
    pub indices: *const i32,
    /// Sparse: the number of values of each sample.
    pub sample_value_counts: *const i32,
    /// Shape of a sample, if the stream's description leaves it open.
    pub shape: *const usize,
    /// Number of dimensions in `shape`.
    pub shape_rank: usize,
    /// The key that minibatches report. CNTK_READER_UNKNOWN, the initial value, stands for the
    /// listed key. Minibatches take it from the first stream, truncated ones from the last.
    pub key: u64,
}

/// Initial value of `key`: CNTK_READER_UNKNOWN.
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

/// A fetched sequence that has to be released, or reusable memory for one.
pub(crate) struct Fetched {
    /// Keeps the userdata alive.
    table: Arc<DeserializerTable>,
    handle: *mut c_void,
    /// `handle` comes from fetch_sequence and is not yet released.
    is_held: bool,
    is_valid: bool,
    /// Output of prepare_sequence for each stream. Its pointers are valid until the sequence is
    /// released.
    streams: Vec<cntk_reader_user_sequence_data>,
    /// `streams` belongs to this sequence and was checked.
    is_prepared: bool,
    /// For sparse streams, the index of each sample's first entry.
    offsets: Vec<Vec<u32>>,
}

// SAFETY: the handle is only passed back to callbacks of its own table, which the header allows on
// any thread. The other pointers are only read; their memory stays valid until `release`.
unsafe impl Send for Fetched {}
// SAFETY: a shared reference only reads the user's memory, which must not change until the sequence
// is released by the header, and `release` takes a mutable reference.
unsafe impl Sync for Fetched {}

impl Fetched {
    /// Returns memory for a sequence, reusing `used` if it belongs to the same deserializer.
    pub(crate) fn of(table: &Arc<DeserializerTable>, used: Option<Box<dyn FetchedData>>) -> Box<Fetched> {
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

    /// Takes ownership of a fetched sequence.
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
        let DeserializerTable { callbacks, kinds, .. } = &*self.table;
        let prepare =
            callbacks.prepare_sequence.ok_or_else(|| missing("prepare_sequence", "sequences are fetched"))?;
        self.streams.fill(EMPTY);
        let mut failure = cntk_reader_failure::default();
        // SAFETY: the table's own callback with its own userdata, and a handle that its
        // fetch_sequence returned and that is not released yet: `is_held` is true from `take` to
        // `release`. `streams` has one element for each stream.
        let status = exit::foreign(|| unsafe {
            prepare(callbacks.userdata, self.handle, position, self.streams.as_mut_ptr(), &raw mut failure)
        });
        failure.check("prepare_sequence", status)?;
        for ((stream, offsets), &(storage, element)) in self.streams.iter().zip(&mut self.offsets).zip(kinds)
        {
            u32::try_from(stream.samples).map_err(|_| wrong("A sequence has too many samples."))?;
            // SAFETY: prepare_sequence has just written these pointers and counts, which the header
            // requires to be valid until the sequence is released; `indices` and `counts` are read
            // for sparse streams only.
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
        // SAFETY: `stream` returns only data that `prepare` has checked, and none after `release`
        // clears `is_prepared`; the view borrows `self`, so the sequence cannot be released
        // meanwhile.
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
        // SAFETY: `stream` returns only data that `prepare` has checked and that are not released
        // yet.
        unsafe { self.stream(stream)?.shape() }.ok()
    }

    fn key(&self, stream: usize) -> Option<SequenceKey> {
        self.stream(stream).map(|stream| stream.key).filter(|&key| key != NO_KEY)
    }

    fn release(&mut self) {
        self.is_prepared = false;
        if std::mem::take(&mut self.is_held)
            && let Some(release) = self.table.callbacks.release_sequence
            // The process is ending: the code that the callback needs may be gone.
            && !exit::is_closed()
        {
            // SAFETY: the table's own callback with its own userdata; the handle comes from
            // fetch_sequence, and `is_held`, just cleared, ensures that it is released once.
            exit::foreign(|| unsafe { release(self.table.callbacks.userdata, self.handle) });
        }
    }
}

impl cntk_reader_user_sequence_data {
    /// # Safety
    /// Here and in the functions below, each pointer is NULL or has as many readable elements as
    /// the counts say, for as long as the result is used.
    unsafe fn values(&self, element: ElementType) -> Result<&[u8]> {
        // SAFETY: `value_count` values of the stream's type, by this function's contract.
        unsafe { bytes(self.values.cast(), self.value_count, element.size(), "values") }
    }

    /// # Safety
    /// As for [`Self::values`], and the stream is sparse.
    unsafe fn indices(&self) -> Result<&[u8]> {
        // SAFETY: `value_count` indices, by this function's contract.
        unsafe { bytes(self.indices.cast(), self.value_count, size_of::<i32>(), "indices") }
    }

    /// # Safety
    /// As for [`Self::values`], and the stream is sparse.
    unsafe fn counts(&self) -> Result<&[u8]> {
        // SAFETY: a count for each of `samples`, by this function's contract.
        unsafe {
            bytes(self.sample_value_counts.cast(), self.samples, size_of::<i32>(), "sample value counts")
        }
    }

    /// # Safety
    /// As for [`Self::values`].
    unsafe fn shape(&self) -> Result<&[usize]> {
        match self.shape_rank {
            0 => Ok(&[]),
            // SAFETY: `shape_rank` dimensions, by this function's contract.
            rank => unsafe { list(self.shape, rank, "dimensions") },
        }
    }
}

/// Computes the index of each sample's first entry. `counts` holds 4-byte numbers, which must add
/// up to `values`.
fn find_offsets(counts: &[u8], values: usize, offsets: &mut Vec<u32>) -> Result<()> {
    offsets.clear();
    room::reserve(offsets, counts.len() / 4 + 1, room::CHUNK)?;
    let mut end = 0u32;
    offsets.push(end);
    for count in counts.as_chunks::<4>().0 {
        let count = u32::try_from(i32::from_ne_bytes(*count)).ok();
        end = count
            .and_then(|count| end.checked_add(count))
            .ok_or_else(|| wrong("A sample has an invalid number of values."))?;
        offsets.push(end);
    }
    if end as usize != values {
        return Err(wrong(format!("A sequence's samples have {end} values instead of {values}.")));
    }
    Ok(())
}

/// # Safety
/// `start` is NULL, or `count` values of `size` bytes from it on are readable for as long as the
/// result is used.
unsafe fn bytes<'a>(start: *const u8, count: usize, size: usize, what: &str) -> Result<&'a [u8]> {
    match count.checked_mul(size) {
        Some(0) => Ok(&[]),
        Some(bytes) if !start.is_null() && bytes <= isize::MAX as usize => {
            // SAFETY: not NULL and within `isize::MAX` bytes by the guard of this arm; readable by
            // this function's contract.
            Ok(unsafe { std::slice::from_raw_parts(start, bytes) })
        }
        _ => Err(wrong(format!("The memory of the {what} is NULL or impossibly large."))),
    }
}
