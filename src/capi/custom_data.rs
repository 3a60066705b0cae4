//! What users' deserializers hand over: streams, sequences and the arrays of a chunk.

use super::sized::Sized;
use super::text;
use crate::deserialize::custom::{
    Array, Buffer, ChunkData, DenseArray, Keys, Scalar, Sequences, SparseArray, StreamData,
};
use crate::error::ExceptionClass;
use crate::stream::{ElementType, Storage, StreamInfo};
use crate::{Error, ErrorKind, Result};
use std::ffi::{c_char, c_void};
use std::mem::size_of;
use std::sync::Arc;

/// A stream of a user's deserializer. Its number is its place in the list.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct cntk_reader_user_stream {
    /// Unique name, UTF-8.
    pub name: *const c_char,
    /// Bytes of the name, or CNTK_READER_NUL_TERMINATED.
    pub name_length: usize,
    /// Shape of one sample, first dimension varying fastest; may be NULL if `shape_rank` is 0, which stands for scalars.
    pub shape: *const usize,
    /// Dimensions in `shape`.
    pub shape_rank: usize,
    /// A cntk_reader_storage.
    pub storage: u32,
    /// A cntk_reader_element.
    pub element: u32,
    /// 1 if minibatch sizes are measured in this stream's samples, else 0.
    pub defines_mb_size: u32,
    /// 0.
    pub reserved: u32,
}

/// The sequences of a chunk, told before the chunk is loaded. The lists may go away when the callback is called again,
/// or any other one, or when the reader has been opened.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct cntk_reader_sequences {
    /// sizeof(cntk_reader_sequences), set by the library; all else is zero when the callback gets it.
    pub struct_size: usize,
    /// Number of sequences; may be 0.
    pub count: usize,
    /// The length of each: samples in the stream that defines the minibatch size, else in the longest stream. NULL: all
    /// are one sample long.
    pub lengths: *const u32,
    /// The key of each, or NULL.
    pub keys: *const u64,
    /// The key of each as NUL-terminated UTF-8, or NULL. Without `keys` and `key_texts` a key is the running number in
    /// the whole data.
    pub key_texts: *const *const c_char,
}

/// How the samples of a stream make the sequences of a chunk.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum cntk_reader_grouping {
    /// There is one array, and each of its samples is a sequence.
    CNTK_READER_GROUPING_SAMPLES = 0,
    /// There is one array with the samples of all sequences, one after the other, and `lengths` tells how many each has.
    CNTK_READER_GROUPING_SEQUENCES = 1,
    /// There are several arrays, each of them a sequence.
    CNTK_READER_GROUPING_ARRAYS = 2,
}

/// An array of samples. Initialize with zeros.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct cntk_reader_array {
    /// The memory that the values are in. Sparse: the values of all entries.
    pub values: *const c_void,
    /// Its size in bytes. Nothing outside of it is read.
    pub values_size: usize,
    /// Bytes from its start to the array's first value. Dense only.
    pub offset: usize,
    /// Number of samples.
    pub samples: usize,
    /// Dense: the shape of a sample, to be compared with the stream's; NULL if that is certain.
    pub shape: *const usize,
    /// Dimensions in `shape`.
    pub shape_rank: usize,
    /// Dense: bytes from one index to the next, for each dimension of a sample and then for the samples; may be
    /// negative or 0. NULL: without gaps, the first dimension varying fastest.
    pub strides: *const isize,
    /// Numbers in `strides`: `shape_rank` + 1.
    pub stride_count: usize,
    /// Sparse: the row of each entry within its sample, in any order.
    pub indices: *const c_void,
    /// Sparse: number of indices.
    pub index_count: usize,
    /// Sparse: `samples` + 1 ascending entry numbers; sample s owns the entries from `offsets[s]` to before `offsets[s + 1]`.
    pub offsets: *const c_void,
    /// Sparse: bytes of an index, 4 or 8. Indices are signed.
    pub index_size: u32,
    /// Sparse: bytes of a start, 4 or 8. Starts are signed.
    pub offset_size: u32,
    /// A cntk_reader_element: the type of the values.
    pub element: u32,
    /// 0.
    pub reserved: u32,
}

/// One stream's part of a chunk.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct cntk_reader_stream_data {
    /// A cntk_reader_grouping.
    pub grouping: u32,
    /// 0.
    pub reserved: u32,
    /// The arrays.
    pub arrays: *const cntk_reader_array,
    /// Their number: 1, except for CNTK_READER_GROUPING_ARRAYS.
    pub array_count: usize,
    /// For CNTK_READER_GROUPING_SEQUENCES: the samples of each sequence.
    pub lengths: *const u32,
    /// For CNTK_READER_GROUPING_SEQUENCES: the number of sequences.
    pub length_count: usize,
}

/// A chunk. Values and indices are read where they are until it is released, and must not change until then.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct cntk_reader_user_chunk {
    /// sizeof(cntk_reader_user_chunk), set by the library; all else is zero when the callback gets it.
    pub struct_size: usize,
    /// Whatever the release callback needs.
    pub handle: *mut c_void,
    /// All streams, by number; each with the same number of sequences.
    pub streams: *const cntk_reader_stream_data,
    /// Their number.
    pub stream_count: usize,
    /// The key of each sequence, or NULL. Deserializers that tell their sequences beforehand have told keys there.
    pub keys: *const u64,
    /// Their number.
    pub key_count: usize,
}

// SAFETY: plain members, all of which may be zero.
unsafe impl Sized for cntk_reader_sequences {
    const NAME: &'static str = "cntk_reader_sequences";
}

// SAFETY: as above.
unsafe impl Sized for cntk_reader_user_chunk {
    const NAME: &'static str = "cntk_reader_user_chunk";
}

impl Default for cntk_reader_sequences {
    fn default() -> Self {
        use std::ptr::null;
        cntk_reader_sequences {
            struct_size: size_of::<Self>(),
            count: 0,
            lengths: null(),
            keys: null(),
            key_texts: null(),
        }
    }
}

impl Default for cntk_reader_user_chunk {
    fn default() -> Self {
        use std::ptr::{null, null_mut};
        cntk_reader_user_chunk {
            struct_size: size_of::<Self>(),
            handle: null_mut(),
            streams: null(),
            stream_count: 0,
            keys: null(),
            key_count: 0,
        }
    }
}

/// User code has given something that cannot be.
pub(super) fn wrong(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::User, ExceptionClass::Runtime, message)
}

/// A list of the user's.
///
/// # Safety
/// `start` is NULL, or `count` elements from it on are readable during `'a`.
pub(super) unsafe fn list<'a, T>(start: *const T, count: usize, what: &str) -> Result<&'a [T]> {
    if count == 0 {
        return Ok(&[]);
    }
    if start.is_null() || !start.is_aligned() || count > isize::MAX as usize / size_of::<T>() {
        return Err(wrong(format!("The list of {what} is NULL, not aligned, or impossibly long.")));
    }
    // SAFETY: not NULL, aligned, no longer than memory can be, and readable by the contract.
    Ok(unsafe { std::slice::from_raw_parts(start, count) })
}

fn element(number: u32) -> Result<ElementType> {
    match number {
        1 => Ok(ElementType::Float),
        2 => Ok(ElementType::Double),
        _ => Err(wrong(format!("{number} is no cntk_reader_element."))),
    }
}

impl cntk_reader_user_stream {
    /// # Safety
    /// Name and shape are as the header demands.
    pub(super) unsafe fn to_info(self) -> Result<StreamInfo> {
        // SAFETY: the caller's promise.
        let (name, shape) = unsafe {
            (
                text::utf8(self.name, self.name_length, "name")?,
                list(self.shape, self.shape_rank, "dimensions")?,
            )
        };
        let storage = match self.storage {
            0 => Storage::Dense,
            1 => Storage::SparseCsc,
            other => return Err(wrong(format!("{other} is no cntk_reader_storage.")).in_stream(name)),
        };
        Ok(StreamInfo {
            name: name.to_owned(),
            storage,
            element: element(self.element).map_err(|error| error.in_stream(name))?,
            shape: shape.to_vec(),
            defines_mb_size: self.defines_mb_size != 0,
        })
    }
}

impl cntk_reader_sequences {
    /// # Safety
    /// The lists are as the header demands.
    pub(super) unsafe fn to_sequences(self) -> Result<Sequences> {
        let count = u32::try_from(self.count)
            .map_err(|_| wrong(format!("{} sequences in a chunk are too many.", self.count)))?;
        // SAFETY: the caller's promise.
        unsafe {
            let lengths = match self.lengths.is_null() {
                true => None,
                false => Some(list(self.lengths, self.count, "lengths")?.to_vec()),
            };
            let keys = if !self.keys.is_null() {
                Keys::Numbers(list(self.keys, self.count, "keys")?.to_vec())
            } else if !self.key_texts.is_null() {
                let key =
                    |&key: &*const c_char| text::utf8(key, text::NUL_TERMINATED, "key").map(str::to_owned);
                Keys::Texts(list(self.key_texts, self.count, "keys")?.iter().map(key).collect::<Result<_>>()?)
            } else {
                Keys::Ordinal
            };
            Ok(Sequences { count, lengths, keys })
        }
    }
}

impl cntk_reader_array {
    /// # Safety
    /// Memory is as the header demands, until `owner` is dropped.
    unsafe fn to_array(self, storage: Storage, owner: &Arc<dyn Send + Sync>) -> Result<Array> {
        let scalar = match element(self.element)? {
            ElementType::Float => Scalar::Float,
            ElementType::Double => Scalar::Double,
        };
        let buffer = |start: *const c_void, bytes: usize, scalar, what: &str| {
            if (start.is_null() && bytes > 0) || bytes > isize::MAX as usize {
                return Err(wrong(format!("The memory of the {what} is NULL or impossibly large.")));
            }
            // SAFETY: readable until the owner is dropped, by the contract; not NULL unless there is nothing.
            Ok(unsafe { Buffer::from_raw(start.cast(), bytes, scalar, Arc::clone(owner)) })
        };
        let values = buffer(self.values, self.values_size, scalar, "values")?;
        if storage == Storage::Dense {
            if !self.offsets.is_null() || !self.indices.is_null() {
                return Err(wrong("There are indices, but the stream is dense."));
            }
            // SAFETY: the caller's promise.
            let (shape, strides) = unsafe {
                (
                    list(self.shape, if self.shape.is_null() { 0 } else { self.shape_rank }, "dimensions")?,
                    list(
                        self.strides,
                        if self.strides.is_null() { 0 } else { self.stride_count },
                        "strides",
                    )?,
                )
            };
            return Ok(Array::Dense(DenseArray {
                values,
                offset: self.offset,
                samples: self.samples,
                shape: (!self.shape.is_null()).then(|| shape.to_vec()),
                strides: (!self.strides.is_null()).then(|| strides.to_vec()),
            }));
        }
        let integers = |start: *const c_void, count: Option<usize>, size: u32, what: &str| {
            let scalar = match size {
                4 => Scalar::Int32,
                8 => Scalar::Int64,
                _ => return Err(wrong(format!("The {what} have {size} bytes each instead of 4 or 8."))),
            };
            let bytes = count.and_then(|count| count.checked_mul(size as usize)).unwrap_or(usize::MAX);
            buffer(start, bytes, scalar, what)
        };
        Ok(Array::Sparse(SparseArray {
            values,
            indices: integers(self.indices, Some(self.index_count), self.index_size, "indices")?,
            starts: integers(self.offsets, self.samples.checked_add(1), self.offset_size, "offsets")?,
        }))
    }
}

impl cntk_reader_user_chunk {
    /// The chunk as the engine takes it. Lists are copied; the memory of arrays stays where it is, and is kept by
    /// `owner`.
    ///
    /// # Safety
    /// All pointers are as the header demands, until `owner` is dropped.
    pub(super) unsafe fn to_data(
        self,
        infos: &[StreamInfo],
        owner: &Arc<dyn Send + Sync>,
    ) -> Result<ChunkData> {
        // SAFETY: the caller's promise.
        let streams = unsafe { list(self.streams, self.stream_count, "streams") }?;
        let mut data = ChunkData::default();
        // A wrong number of streams is found where chunks are checked.
        for (i, stream) in streams.iter().enumerate() {
            let storage = infos.get(i).map_or(Storage::Dense, |info| info.storage);
            // SAFETY: the caller's promise.
            let stream = unsafe { stream.to_stream_data(storage, owner) };
            data.streams.push(stream.map_err(|error| match infos.get(i) {
                Some(info) => error.in_stream(&info.name),
                None => error,
            })?);
        }
        if !self.keys.is_null() {
            // SAFETY: the caller's promise.
            data.keys = Some(unsafe { list(self.keys, self.key_count, "keys") }?.to_vec());
        }
        Ok(data)
    }
}

impl cntk_reader_stream_data {
    /// # Safety
    /// As for [`cntk_reader_user_chunk::to_data`].
    unsafe fn to_stream_data(self, storage: Storage, owner: &Arc<dyn Send + Sync>) -> Result<StreamData> {
        // SAFETY: the caller's promise.
        let arrays = unsafe { list(self.arrays, self.array_count, "arrays") }?;
        let only = || match arrays {
            // SAFETY: the caller's promise.
            [only] => unsafe { only.to_array(storage, owner) },
            _ => Err(wrong(format!("There are {} arrays instead of one.", arrays.len()))),
        };
        Ok(match self.grouping {
            0 => StreamData::Samples(only()?),
            1 => {
                // SAFETY: the caller's promise.
                let lengths = unsafe { list(self.lengths, self.length_count, "lengths") }?;
                StreamData::Sequences(only()?, lengths.to_vec())
            }
            2 => {
                // SAFETY: the caller's promise.
                let array = |array: &cntk_reader_array| unsafe { array.to_array(storage, owner) };
                StreamData::Arrays(arrays.iter().map(array).collect::<Result<_>>()?)
            }
            other => return Err(wrong(format!("{other} is no cntk_reader_grouping."))),
        })
    }
}
