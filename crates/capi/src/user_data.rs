//! Data that user-defined deserializers pass to the library: descriptions of streams, lists of
//! sequences, arrays.

use super::sized::Sized;
use super::text;
use cntk_reader_core::format::user::{Array, Buffer, DenseArray, Keys, Sequences, SparseArray, StreamData};
use cntk_reader_core::memory::room;
use cntk_reader_core::stream::{ElementType, Storage, StreamInfo};
use cntk_reader_core::{Error, Result};
use std::ffi::{c_char, c_void};
use std::mem::size_of;
use std::ptr::null;
use std::sync::Arc;

/// A stream of a user-defined deserializer. Its number is its position in the list.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct cntk_reader_user_stream {
    /// Unique name, UTF-8.
    pub name: *const c_char,
    /// Bytes of the name, or CNTK_READER_NUL_TERMINATED.
    pub name_length: usize,
    /// Shape of one sample, first dimension varying fastest. May be NULL if `shape_rank` is 0,
    /// which means scalars.
    pub shape: *const usize,
    /// Number of dimensions in `shape`.
    pub shape_rank: usize,
    /// Storage of the values: a cntk_reader_storage.
    pub storage: u32,
    /// Type of the values: a cntk_reader_element.
    pub element: u32,
    /// 1 if minibatch sizes are measured in this stream's samples, else 0.
    pub defines_mb_size: u32,
    /// Reserved; 0.
    pub reserved: u32,
}

/// The sequences of a chunk that is not loaded yet. The lists must stay valid until the next
/// callback, or until the reader is open.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct cntk_reader_user_sequences {
    /// sizeof(cntk_reader_user_sequences), set by the library. All other members except `count` are
    /// zero when the callback is called.
    pub struct_size: usize,
    /// Number of sequences; may be 0. Must be set.
    pub count: usize,
    /// The length of each sequence: samples in the stream that defines the minibatch size, else in
    /// the longest stream. NULL: all have one sample.
    pub lengths: *const u32,
    /// The key of each sequence as a number, or NULL. If the reader's keys are texts, a number
    /// stands for its decimal text. In a table that a factory has filled in, it is a number of the
    /// request's cntk_reader_keys.
    pub keys: *const u64,
    /// The key of each sequence as UTF-8, NUL-terminated or with its length in `key_text_lengths`;
    /// or NULL. Without `keys` and `key_texts`, a key is the sequence's ordinal in the whole data.
    pub key_texts: *const *const c_char,
    /// If each sample of a sequence is a sequence of its own (frame mode), its sample number within
    /// the sequence of its key. NULL: 0 for all.
    pub sample_indices: *const u32,
    /// Bytes of each key text, which may then contain NULs, or CNTK_READER_NUL_TERMINATED. NULL:
    /// all end with a NUL.
    pub key_text_lengths: *const usize,
}

/// How the samples of a stream are grouped into the sequences of a chunk.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum cntk_reader_grouping {
    /// One array; each of its samples is a sequence.
    CNTK_READER_GROUPING_SAMPLES = 0,
    /// One array with the samples of all sequences, one sequence after another; `lengths` has the
    /// number of samples of each.
    CNTK_READER_GROUPING_SEQUENCES = 1,
    /// One array per sequence.
    CNTK_READER_GROUPING_ARRAYS = 2,
}

/// An array of samples. Initialize with zeros.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct cntk_reader_user_array {
    /// Start of the memory that contains the values. Sparse: the values of all entries.
    pub values: *const c_void,
    /// Size of that memory in bytes. Nothing outside it is read.
    pub values_size: usize,
    /// Dense: byte offset of the array's first value.
    pub byte_offset: usize,
    /// Number of samples.
    pub samples: usize,
    /// Dense: the shape of a sample, checked against the stream's. NULL: not checked.
    pub shape: *const usize,
    /// Number of dimensions in `shape`.
    pub shape_rank: usize,
    /// Dense: strides in bytes, for each dimension of a sample and then for the samples; may be
    /// negative or 0. NULL: contiguous, first dimension varying fastest.
    pub strides: *const isize,
    /// Number of strides: `shape_rank` + 1.
    pub stride_count: usize,
    /// Sparse: the index of each entry within its sample, in any order.
    pub indices: *const c_void,
    /// Sparse: number of indices.
    pub index_count: usize,
    /// Sparse: `samples` + 1 ascending entry numbers; sample s has the entries from `offsets[s]` up
    /// to, but not including, `offsets[s + 1]`.
    pub offsets: *const c_void,
    /// Sparse: bytes per index, 4 or 8. Indices are signed.
    pub index_size: u32,
    /// Sparse: bytes per offset, 4 or 8. Offsets are signed.
    pub offset_size: u32,
    /// Type of the values: a cntk_reader_element.
    pub element: u32,
    /// Reserved; 0.
    pub reserved: u32,
}

/// One stream's data in a chunk.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct cntk_reader_user_stream_data {
    /// How samples are grouped into sequences: a cntk_reader_grouping.
    pub grouping: u32,
    /// Reserved; 0.
    pub reserved: u32,
    /// The arrays.
    pub arrays: *const cntk_reader_user_array,
    /// Number of arrays: 1, except for CNTK_READER_GROUPING_ARRAYS.
    pub array_count: usize,
    /// For CNTK_READER_GROUPING_SEQUENCES: the samples of each sequence.
    pub lengths: *const u32,
    /// For CNTK_READER_GROUPING_SEQUENCES: the number of sequences.
    pub length_count: usize,
}

// SAFETY: `repr(C)`, and the first member is the size. The others are integers and pointers, for
// which any bits are valid.
unsafe impl Sized for cntk_reader_user_sequences {
    const NAME: &'static str = "cntk_reader_user_sequences";
}

impl Default for cntk_reader_user_sequences {
    fn default() -> Self {
        cntk_reader_user_sequences {
            struct_size: size_of::<Self>(),
            count: usize::MAX,
            lengths: null(),
            keys: null(),
            key_texts: null(),
            sample_indices: null(),
            key_text_lengths: null(),
        }
    }
}

/// The error for invalid data from user code.
pub(super) fn wrong(message: impl Into<String>) -> Error {
    Error::user(message)
}

/// Borrows a list of the user's.
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
    // SAFETY: not NULL, aligned and within `isize::MAX` bytes by the check above; readable during
    // `'a` by this function's contract.
    Ok(unsafe { std::slice::from_raw_parts(start, count) })
}

/// Borrows a list of the user's that may be NULL.
///
/// # Safety
/// As for [`list`].
pub(super) unsafe fn optional<'a, T>(start: *const T, count: usize, what: &str) -> Result<Option<&'a [T]>> {
    // SAFETY: the same contract.
    if start.is_null() { Ok(None) } else { unsafe { list(start, count, what) }.map(Some) }
}

/// Checks the number of sequences in a chunk.
pub(super) fn sequence_count(count: u64) -> Result<u32> {
    u32::try_from(count)
        .map_err(|_| wrong(format!("{count} sequences exceed the limit of 4294967295 per chunk.")))
}

fn element(number: u32) -> Result<ElementType> {
    ElementType::from_number(number).ok_or_else(|| wrong(format!("{number} is not a cntk_reader_element.")))
}

impl cntk_reader_user_stream {
    /// # Safety
    /// `name` has `name_length` readable bytes or ends with a NUL; `shape` has `shape_rank`
    /// readable numbers.
    pub(super) unsafe fn to_info(self) -> Result<StreamInfo> {
        // SAFETY: readable for these lengths, by this function's contract.
        let (name, shape) = unsafe {
            (
                text::utf8(self.name, self.name_length, "name")?,
                list(self.shape, self.shape_rank, "dimensions")?,
            )
        };
        let storage = match self.storage {
            0 => Storage::Dense,
            1 => Storage::SparseCsc,
            other => return Err(wrong(format!("{other} is not a cntk_reader_storage.")).in_stream(name)),
        };
        let element = element(self.element).map_err(|error| error.in_stream(name))?;
        let mut stream = StreamInfo::new(name, storage, element, shape.to_vec());
        stream.defines_mb_size = self.defines_mb_size != 0;
        Ok(stream)
    }
}

impl cntk_reader_user_sequences {
    /// Copies the lists. `keys_of_corpus`: numbers in `keys` are keys of the reader's corpus.
    ///
    /// # Safety
    /// Each list is NULL or has `count` readable elements; each key text has as many readable bytes
    /// as `key_text_lengths` says, or ends with a NUL.
    pub(super) unsafe fn to_sequences(self, keys_of_corpus: bool) -> Result<Sequences> {
        if self.count == usize::MAX {
            return Err(wrong("list_sequences succeeded without setting `count`."));
        }
        let count = sequence_count(self.count as u64)?;
        // SAFETY: each list is NULL or has `count` readable elements, by this function's contract.
        let (lengths, keys, key_texts, sample_indices, text_lengths) = unsafe {
            (
                optional(self.lengths, self.count, "lengths")?,
                optional(self.keys, self.count, "keys")?,
                optional(self.key_texts, self.count, "key texts")?,
                optional(self.sample_indices, self.count, "sample indices")?,
                optional(self.key_text_lengths, self.count, "lengths of key texts")?,
            )
        };
        let keys = match (keys, key_texts) {
            (None, None) => Keys::Ordinal,
            (Some(_), Some(_)) => {
                return Err(wrong("There are keys as numbers and as texts: set `keys` or `key_texts`."));
            }
            (Some(keys), None) if keys_of_corpus => Keys::OfCorpus(room::copy(keys, room::KEYS)?),
            (Some(keys), None) => Keys::Numbers(room::copy(keys, room::KEYS)?),
            (None, Some(keys)) => {
                let length = |number: usize| match text_lengths {
                    Some(lengths) => lengths[number],
                    None => text::NUL_TERMINATED,
                };
                // SAFETY: the text has `length(number)` readable bytes or ends with a NUL, by this
                // function's contract; `utf8` refuses NULL.
                let key = |(number, &key): (usize, &*const c_char)| unsafe {
                    text::utf8(key, length(number), "key")
                };
                let keys = keys.iter().enumerate().map(|text| key(text).map(str::to_owned));
                Keys::Texts(room::try_collect(keys, room::KEYS)?)
            }
        };
        let copied = |list: Option<&[u32]>| list.map(|list| room::copy(list, room::INDEX)).transpose();
        Ok(Sequences { count, lengths: copied(lengths)?, keys, sample_indices: copied(sample_indices)? })
    }
}

impl cntk_reader_user_array {
    /// # Safety
    /// `values` has `values_size` readable bytes, and `indices` and `offsets` have the bytes that
    /// their counts and sizes imply, all unchanged until `owner` is dropped. `shape` and `strides`
    /// are NULL or have as many readable numbers as their counts say.
    unsafe fn to_array(self, storage: Storage, owner: &Arc<dyn Send + Sync>) -> Result<Array> {
        let buffer = |start: *const c_void, bytes: usize, element, what: &str| {
            if (start.is_null() && bytes > 0) || bytes > isize::MAX as usize {
                return Err(wrong(format!("The memory of the {what} is NULL or impossibly large.")));
            }
            // SAFETY: not NULL unless there are no bytes, by the check above; readable and
            // unchanged until the owner is dropped, by this function's contract for each of the
            // three buffers.
            Ok(unsafe { Buffer::from_raw(start.cast(), bytes, element, Arc::clone(owner)) })
        };
        let values = buffer(self.values, self.values_size, element(self.element)?, "values")?;
        if storage == Storage::Dense {
            if !self.offsets.is_null() || !self.indices.is_null() {
                return Err(wrong("There are indices, but the stream is dense."));
            }
            // SAFETY: NULL or readable for these counts, by this function's contract.
            let (shape, strides) = unsafe {
                (
                    optional(self.shape, self.shape_rank, "dimensions")?,
                    optional(self.strides, self.stride_count, "strides")?,
                )
            };
            return Ok(Array::Dense(DenseArray {
                values,
                offset: self.byte_offset,
                samples: Some(self.samples),
                shape: shape.map(<[usize]>::to_vec),
                strides: strides.map(<[isize]>::to_vec),
            }));
        }
        let integers = |start: *const c_void, count: Option<usize>, size: u32, what: &str| {
            let element = match size {
                4 => ElementType::Int32,
                8 => ElementType::Int64,
                _ => return Err(wrong(format!("The {what} have {size} bytes each instead of 4 or 8."))),
            };
            let bytes = count.and_then(|count| count.checked_mul(size as usize)).unwrap_or(usize::MAX);
            buffer(start, bytes, element, what)
        };
        Ok(Array::Sparse(SparseArray {
            values,
            indices: integers(self.indices, Some(self.index_count), self.index_size, "indices")?,
            offsets: integers(self.offsets, self.samples.checked_add(1), self.offset_size, "offsets")?,
        }))
    }
}

impl cntk_reader_user_stream_data {
    /// Converts the stream's data for the engine. Lists are copied; arrays are used in place and
    /// kept alive by `owner`.
    ///
    /// # Safety
    /// `arrays` has `array_count` readable elements, each as [`cntk_reader_user_array::to_array`]
    /// requires, and `lengths` has `length_count`.
    pub(super) unsafe fn to_stream_data(
        self,
        storage: Storage,
        owner: &Arc<dyn Send + Sync>,
    ) -> Result<StreamData> {
        // SAFETY: `array_count` readable elements by this function's contract.
        let arrays = unsafe { list(self.arrays, self.array_count, "arrays") }?;
        // SAFETY: an element of `arrays`, valid by this function's contract.
        let array = |array: &cntk_reader_user_array| unsafe { array.to_array(storage, owner) };
        let only = || match arrays {
            [only] => array(only),
            _ => Err(wrong(format!("There are {} arrays instead of one.", arrays.len()))),
        };
        Ok(match self.grouping {
            0 => StreamData::Samples(only()?),
            1 => {
                // SAFETY: `length_count` readable numbers by this function's contract.
                let lengths = unsafe { list(self.lengths, self.length_count, "lengths") }?;
                StreamData::Sequences(only()?, room::copy(lengths, room::CHUNK)?)
            }
            2 => StreamData::Arrays(room::try_collect(arrays.iter().map(array), room::CHUNK)?),
            other => return Err(wrong(format!("{other} is not a cntk_reader_grouping."))),
        })
    }
}
