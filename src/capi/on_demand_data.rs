//! What is fetched of a sequence: its data in each stream, checked once.

use super::custom::cntk_reader_failure;
use super::custom_data::wrong;
use super::on_demand::{Table, missing};
use crate::Result;
use crate::deserialize::Loaded;
use crate::deserialize::fetch::FetchedData;
use crate::sequence::{SequenceKey, SequenceView, SparseView, ValueForm};
use crate::stream::{ElementType, Storage};
use std::any::Any;
use std::ffi::c_void;
use std::ptr::{null, null_mut};
use std::sync::Arc;

/// A sequence that was fetched.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct cntk_reader_fetched {
    /// sizeof(cntk_reader_fetched), set by the library; all else is zero when the callback gets it.
    pub struct_size: usize,
    /// The sequence for later callbacks.
    pub handle: *mut c_void,
    /// 1 if it can be used in all streams; 0 if it is to be left out and counted against the reader's `maxErrors`.
    pub is_valid: u32,
    /// 0.
    pub reserved: u32,
}

impl Default for cntk_reader_fetched {
    fn default() -> Self {
        cntk_reader_fetched { struct_size: size_of::<Self>(), handle: null_mut(), is_valid: 0, reserved: 0 }
    }
}

/// A sequence's data in one stream. The element type is the stream's.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct cntk_reader_fetched_stream {
    /// sizeof(cntk_reader_fetched_stream), set by the library; all else is zero when the callback gets it.
    pub struct_size: usize,
    /// Number of samples.
    pub samples: usize,
    /// Dense: the values of all samples, one after the other. Sparse: the stored values, sample after sample.
    pub values: *const c_void,
    /// Number of values. Must be samples times the size of a sample if the stream is dense.
    pub value_count: usize,
    /// Sparse: the row of each value within its sample.
    pub indices: *const i32,
    /// Sparse: how many values each sample has.
    pub sample_value_counts: *const i32,
    /// Shape of a sample, if the stream's description leaves it open.
    pub shape: *const usize,
    /// Dimensions in `shape`.
    pub shape_rank: usize,
    /// The key that minibatches report. They take it from the first stream, truncated ones from the last.
    pub key: u64,
}

const EMPTY: cntk_reader_fetched_stream = cntk_reader_fetched_stream {
    struct_size: size_of::<cntk_reader_fetched_stream>(),
    samples: 0,
    values: null(),
    value_count: 0,
    indices: null(),
    sample_value_counts: null(),
    shape: null(),
    shape_rank: 0,
    key: 0,
};

/// A sequence that the user waits to get back, or the memory for one.
pub(super) struct Data {
    /// Keeps the userdata.
    table: Arc<Table>,
    handle: *mut c_void,
    /// The handle is the user's, who gets it back.
    is_held: bool,
    is_valid: bool,
    /// What was told of it in each stream, and checked: pointers are valid until the sequence is released.
    told: Vec<cntk_reader_fetched_stream>,
    is_told: bool,
    /// Where each sample of sparse streams begins.
    starts: Vec<Vec<u32>>,
}

// SAFETY: pointers are only read and passed back, by threads that may call the callbacks.
unsafe impl Send for Data {}
// SAFETY: as above.
unsafe impl Sync for Data {}

impl Data {
    /// Memory for a sequence: that of another one of the same deserializer, where that can be.
    pub(super) fn of(table: &Arc<Table>, used: Option<Box<dyn FetchedData>>) -> Box<Data> {
        let used = used.and_then(|used| (used as Box<dyn Any>).downcast::<Data>().ok());
        match used.filter(|used| Arc::ptr_eq(&used.table, table)) {
            Some(mut used) => {
                used.release();
                used
            }
            None => Box::new(Data {
                table: Arc::clone(table),
                handle: null_mut(),
                is_held: false,
                is_valid: false,
                told: vec![EMPTY; table.kinds.len()],
                is_told: false,
                starts: vec![Vec::new(); table.kinds.len()],
            }),
        }
    }

    /// Takes what was fetched.
    pub(super) fn take(&mut self, fetched: cntk_reader_fetched) {
        (self.handle, self.is_held, self.is_valid) = (fetched.handle, true, fetched.is_valid != 0);
    }

    fn stream(&self, index: usize) -> Option<&cntk_reader_fetched_stream> {
        self.told.get(index).filter(|_| self.is_told)
    }
}

impl Drop for Data {
    fn drop(&mut self) {
        self.release();
    }
}

impl FetchedData for Data {
    fn is_valid(&self) -> bool {
        self.is_valid
    }

    fn prepare(&mut self, position: u32) -> Result<()> {
        let Table { table, kinds, .. } = &*self.table;
        let prepare = table.prepare.ok_or_else(|| missing("prepare"))?;
        self.told.fill(EMPTY);
        let mut failure = cntk_reader_failure::default();
        // SAFETY: registered for this use; the outputs live until it returns.
        let status = unsafe {
            prepare(table.userdata, self.handle, position, self.told.as_mut_ptr(), &raw mut failure)
        };
        failure.check("prepare", status)?;
        for ((told, starts), &(storage, element)) in self.told.iter().zip(&mut self.starts).zip(kinds) {
            u32::try_from(told.samples).map_err(|_| wrong("A sequence has too many samples."))?;
            // SAFETY: the header demands pointers that are valid until the sequence is released.
            unsafe {
                told.values(element)?;
                told.shape()?;
                if storage == Storage::SparseCsc {
                    told.rows()?;
                    find_starts(told.counts()?, told.value_count, starts)?;
                }
            }
        }
        self.is_told = true;
        Ok(())
    }

    fn view(&self, stream: usize) -> Loaded<'_> {
        let (Some(told), Some(starts)) = (self.stream(stream), self.starts.get(stream)) else {
            return Loaded::Invalid;
        };
        let (storage, element) = self.table.kinds[stream];
        // SAFETY: `prepare` has checked them, and the sequence was not released.
        let Ok(values) = (unsafe { told.values(element) }) else { return Loaded::Invalid };
        let sparse = match storage {
            Storage::Dense => None,
            // SAFETY: as above.
            Storage::SparseCsc => match unsafe { told.rows() } {
                Ok(rows) => Some(SparseView { indices: rows, narrow: false, offsets: starts, single: false }),
                Err(_) => return Loaded::Invalid,
            },
        };
        Loaded::Data(SequenceView { samples: told.samples as u32, values, form: ValueForm::Whole, sparse })
    }

    fn shape(&self, stream: usize) -> Option<&[usize]> {
        // SAFETY: as for views.
        unsafe { self.stream(stream)?.shape() }.ok()
    }

    fn key(&self, stream: usize) -> SequenceKey {
        self.stream(stream).map_or(0, |stream| stream.key)
    }

    fn release(&mut self) {
        self.is_told = false;
        if std::mem::take(&mut self.is_held)
            && let Some(release) = self.table.table.release_sequence
        {
            // SAFETY: registered for this use; the handle came from the user, and this is its only release.
            unsafe { release(self.table.table.userdata, self.handle) };
        }
    }
}

impl cntk_reader_fetched_stream {
    /// # Safety
    /// The pointers are as the header demands, also below.
    unsafe fn values(&self, element: ElementType) -> Result<&[u8]> {
        // SAFETY: the caller's promise.
        unsafe { bytes(self.values.cast(), self.value_count, element.size(), "values") }
    }

    /// # Safety
    /// See above; and the stream is sparse.
    unsafe fn rows(&self) -> Result<&[u8]> {
        // SAFETY: the caller's promise.
        unsafe { bytes(self.indices.cast(), self.value_count, size_of::<i32>(), "rows") }
    }

    /// # Safety
    /// See above; and the stream is sparse.
    unsafe fn counts(&self) -> Result<&[u8]> {
        // SAFETY: the caller's promise.
        unsafe { bytes(self.sample_value_counts.cast(), self.samples, size_of::<i32>(), "counts") }
    }

    /// # Safety
    /// See above.
    unsafe fn shape(&self) -> Result<&[usize]> {
        match self.shape_rank {
            0 => Ok(&[]),
            // SAFETY: the caller's promise.
            rank => unsafe { super::custom_data::list(self.shape, rank, "dimensions") },
        }
    }
}

/// Where each sample begins. The counts are numbers of 4 bytes, and add up to the number of values.
fn find_starts(counts: &[u8], values: usize, starts: &mut Vec<u32>) -> Result<()> {
    starts.clear();
    starts.reserve(counts.len() / 4 + 1);
    let mut end = 0u32;
    starts.push(end);
    for count in counts.as_chunks::<4>().0 {
        let count = u32::try_from(i32::from_ne_bytes(*count)).ok();
        end = count
            .and_then(|count| end.checked_add(count))
            .ok_or_else(|| wrong("A sample has an impossible number of values."))?;
        starts.push(end);
    }
    if end as usize != values {
        return Err(wrong(format!("A sequence's samples have {end} values instead of {values}.")));
    }
    Ok(())
}

/// # Safety
/// So many values are readable for as long as the result is used, unless there are none.
unsafe fn bytes<'a>(start: *const u8, count: usize, size: usize, what: &str) -> Result<&'a [u8]> {
    match count.checked_mul(size) {
        Some(0) => Ok(&[]),
        Some(bytes) if !start.is_null() && bytes <= isize::MAX as usize => {
            // SAFETY: the caller's promise; not NULL and no longer than memory can be.
            Ok(unsafe { std::slice::from_raw_parts(start, bytes) })
        }
        _ => Err(wrong(format!("The memory of the {what} is NULL or impossibly large."))),
    }
}
