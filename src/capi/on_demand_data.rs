//! What is fetched of a sequence: its data in each stream, checked once.

use super::custom::cntk_reader_failure;
use super::custom_data::wrong;
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
    pub row_indices: *const i32,
    /// Sparse: how many values each sample has.
    pub sample_counts: *const i32,
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
    row_indices: null(),
    sample_counts: null(),
    shape: null(),
    shape_rank: 0,
    key: 0,
};

pub(super) type Prepare = unsafe extern "C" fn(
    *mut c_void,
    *mut c_void,
    u32,
    *mut cntk_reader_fetched_stream,
    *mut cntk_reader_failure,
) -> i32;

/// A sequence that the user waits to get back.
pub(super) struct Data {
    /// Keeps the userdata.
    _owner: Arc<dyn Any + Send + Sync>,
    userdata: *mut c_void,
    fetched: cntk_reader_fetched,
    prepare: Prepare,
    release: Option<unsafe extern "C" fn(*mut c_void, *mut c_void)>,
    kinds: Arc<[(Storage, ElementType)]>,
    /// Mostly there is one stream, and no need to allocate.
    first: Option<Stream>,
    others: Vec<Stream>,
}

/// A stream's data, checked. Pointers are valid until the sequence is released.
struct Stream {
    values: &'static [u8],
    /// Rows of the values, and where each sample begins.
    sparse: Option<(&'static [u8], Vec<u32>)>,
    samples: u32,
    shape: &'static [usize],
    key: SequenceKey,
}

// SAFETY: pointers are only read and passed back, by threads that may call the callbacks.
unsafe impl Send for Data {}
// SAFETY: as above.
unsafe impl Sync for Data {}

impl Data {
    pub(super) fn new(
        owner: Arc<dyn Any + Send + Sync>,
        userdata: *mut c_void,
        fetched: cntk_reader_fetched,
        prepare: Prepare,
        release: Option<unsafe extern "C" fn(*mut c_void, *mut c_void)>,
        kinds: Arc<[(Storage, ElementType)]>,
    ) -> Data {
        Data { _owner: owner, userdata, fetched, prepare, release, kinds, first: None, others: Vec::new() }
    }

    fn stream(&self, index: usize) -> Option<&Stream> {
        match index {
            0 => self.first.as_ref(),
            index => self.others.get(index - 1),
        }
    }
}

impl Drop for Data {
    fn drop(&mut self) {
        (self.first, self.others) = (None, Vec::new());
        if let Some(release) = self.release {
            // SAFETY: registered for this use; the handle came from the user, and this is its only release.
            unsafe { release(self.userdata, self.fetched.handle) };
        }
    }
}

impl FetchedData for Data {
    fn is_valid(&self) -> bool {
        self.fetched.is_valid != 0
    }

    fn prepare(&mut self, position: u32) -> Result<()> {
        // Few sequences have more streams; those of single frames are too many to allocate for each.
        let (mut few, mut many) = ([EMPTY; 4], Vec::new());
        let told = match few.get_mut(..self.kinds.len()) {
            Some(few) => few,
            None => {
                many.resize(self.kinds.len(), EMPTY);
                many.as_mut_slice()
            }
        };
        let mut failure = cntk_reader_failure::default();
        // SAFETY: registered for this use; the outputs live until it returns.
        let status = unsafe {
            (self.prepare)(self.userdata, self.fetched.handle, position, told.as_mut_ptr(), &raw mut failure)
        };
        failure.check("prepare", status)?;
        // SAFETY: the header demands pointers that are valid until the sequence is released, which `drop` does.
        let check = |(told, &(storage, element)): (&cntk_reader_fetched_stream, _)| unsafe {
            Stream::new(told, storage, element)
        };
        let mut streams = told.iter().zip(&*self.kinds).map(check);
        self.first = streams.next().transpose()?;
        self.others = streams.collect::<Result<_>>()?;
        Ok(())
    }

    fn view(&self, stream: usize) -> Loaded<'_> {
        let Some(stream) = self.stream(stream) else { return Loaded::Invalid };
        let sparse = stream.sparse.as_ref().map(|(rows, starts)| SparseView { rows, narrow: false, starts });
        Loaded::Data(SequenceView {
            samples: stream.samples,
            values: stream.values,
            form: ValueForm::Whole,
            sparse,
        })
    }

    fn shape(&self, stream: usize) -> Option<&[usize]> {
        self.stream(stream).map(|stream| stream.shape)
    }

    fn key(&self, stream: usize) -> SequenceKey {
        self.stream(stream).map_or(0, |stream| stream.key)
    }
}

impl Stream {
    /// # Safety
    /// Pointers are as the header demands, and outlive this object.
    unsafe fn new(
        told: &cntk_reader_fetched_stream,
        storage: Storage,
        element: ElementType,
    ) -> Result<Stream> {
        let samples = u32::try_from(told.samples).map_err(|_| wrong("A sequence has too many samples."))?;
        // SAFETY: the caller's promise.
        let (values, shape) = unsafe {
            (
                bytes(told.values.cast(), told.value_count, element.size(), "values")?,
                match told.shape_rank {
                    0 => &[],
                    rank => super::custom_data::list(told.shape, rank, "dimensions")?,
                },
            )
        };
        let sparse = match storage {
            Storage::Dense => None,
            // SAFETY: the caller's promise.
            Storage::SparseCsc => Some(unsafe { sparse(told, samples) }?),
        };
        Ok(Stream { values, sparse, samples, shape, key: told.key })
    }
}

/// Rows, and where each sample begins.
///
/// # Safety
/// As for [`Stream::new`].
unsafe fn sparse(told: &cntk_reader_fetched_stream, samples: u32) -> Result<(&'static [u8], Vec<u32>)> {
    // SAFETY: the caller's promise.
    let (rows, counts) = unsafe {
        (
            bytes(told.row_indices.cast(), told.value_count, size_of::<i32>(), "rows")?,
            bytes(told.sample_counts.cast(), samples as usize, size_of::<i32>(), "counts")?,
        )
    };
    let mut starts = Vec::with_capacity(samples as usize + 1);
    let mut end = 0u32;
    starts.push(end);
    for count in counts.as_chunks::<4>().0 {
        let count = u32::try_from(i32::from_ne_bytes(*count)).ok();
        end = count
            .and_then(|count| end.checked_add(count))
            .ok_or_else(|| wrong("A sample has an impossible number of values."))?;
        starts.push(end);
    }
    if end as usize != told.value_count {
        return Err(wrong(format!(
            "A sequence's samples have {end} values instead of {}.",
            told.value_count
        )));
    }
    Ok((rows, starts))
}

/// # Safety
/// So many values are readable for as long as the result is used, unless there are none.
unsafe fn bytes(start: *const u8, count: usize, size: usize, what: &str) -> Result<&'static [u8]> {
    match count.checked_mul(size) {
        Some(0) => Ok(&[]),
        Some(bytes) if !start.is_null() && bytes <= isize::MAX as usize => {
            // SAFETY: the caller's promise; not NULL and no longer than memory can be.
            Ok(unsafe { std::slice::from_raw_parts(start, bytes) })
        }
        _ => Err(wrong(format!("The memory of the {what} is NULL or impossibly large."))),
    }
}
