//! Descriptions of streams.

use super::sized::Sized;
use super::text::nul_terminated;
use cntk_reader_core::stream::{ElementType, Storage, StreamInfo};
use std::ffi::{CString, c_char};

/// How the values of a stream are stored.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum cntk_reader_storage {
    /// All values of every sample.
    CNTK_READER_STORAGE_DENSE = 0,
    /// Compressed sparse columns, one column per sample.
    CNTK_READER_STORAGE_SPARSE_CSC = 1,
}

/// Type of a value. The numbers are CNTK's for the types that CNTK has.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum cntk_reader_element {
    /// `float`, 4 bytes.
    CNTK_READER_ELEMENT_FLOAT = 1,
    /// `double`, 8 bytes.
    CNTK_READER_ELEMENT_DOUBLE = 2,
    /// IEEE half precision, 2 bytes.
    CNTK_READER_ELEMENT_FLOAT16 = 4,
    /// `int16_t`.
    CNTK_READER_ELEMENT_INT16 = 6,
    /// `uint8_t`.
    CNTK_READER_ELEMENT_UINT8 = 16,
    /// `int32_t`.
    CNTK_READER_ELEMENT_INT32 = 17,
    /// `int64_t`.
    CNTK_READER_ELEMENT_INT64 = 18,
    /// bfloat16: the upper 2 bytes of a `float`.
    CNTK_READER_ELEMENT_BFLOAT16 = 19,
    /// Boolean: a byte that is 0 or 1.
    CNTK_READER_ELEMENT_BOOL = 20,
}

impl From<ElementType> for cntk_reader_element {
    fn from(element: ElementType) -> Self {
        match element {
            ElementType::Float => cntk_reader_element::CNTK_READER_ELEMENT_FLOAT,
            ElementType::Double => cntk_reader_element::CNTK_READER_ELEMENT_DOUBLE,
            ElementType::Float16 => cntk_reader_element::CNTK_READER_ELEMENT_FLOAT16,
            ElementType::Int16 => cntk_reader_element::CNTK_READER_ELEMENT_INT16,
            ElementType::UInt8 => cntk_reader_element::CNTK_READER_ELEMENT_UINT8,
            ElementType::Int32 => cntk_reader_element::CNTK_READER_ELEMENT_INT32,
            ElementType::Int64 => cntk_reader_element::CNTK_READER_ELEMENT_INT64,
            ElementType::BFloat16 => cntk_reader_element::CNTK_READER_ELEMENT_BFLOAT16,
            ElementType::Bool => cntk_reader_element::CNTK_READER_ELEMENT_BOOL,
        }
    }
}

/// Description of a stream. Its pointers are valid as long as the reader.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct cntk_reader_stream_info {
    /// sizeof(cntk_reader_stream_info), set by the caller.
    pub struct_size: usize,
    /// Name, unique among the streams of the reader: UTF-8, NUL-terminated.
    pub name: *const c_char,
    /// Bytes of the name without the NUL.
    pub name_length: usize,
    /// The stream's number: its index here and in every minibatch.
    pub id: usize,
    /// How its values are stored. Truncated readers deliver sparse streams as dense ones, unless
    /// `expandSparse` is false.
    pub storage: cntk_reader_storage,
    /// Type of its values.
    pub element: cntk_reader_element,
    /// Shape of one sample, first dimension varying fastest (column-major). If its only dimension
    /// is CNTK_READER_UNKNOWN_DIMENSION, the shape is known once a minibatch was read.
    pub shape: *const usize,
    /// Number of dimensions in `shape`.
    pub shape_rank: usize,
    /// Values per sample: the product of `shape`.
    pub sample_size: usize,
    /// 1 if minibatch sizes are measured in this stream's samples, else 0.
    pub defines_mb_size: u32,
    /// 1 if the values are opaque bytes, such as lattices, with four bytes per sample; else 0. In
    /// minibatches of whole sequences the bytes of each sequence are contiguous: see
    /// `sequence_major` in cntk_reader_minibatch_stream.
    pub is_binary: u32,
    /// Number of classes if the values are class numbers (0 to `classes` - 1), else 0.
    pub classes: usize,
}

// SAFETY: `repr(C)`, begins with a `usize`, and has integers and pointers, for which zero is valid,
// and two enums, which are only written.
unsafe impl Sized for cntk_reader_stream_info {
    const NAME: &'static str = "cntk_reader_stream_info";
}

/// A stream with its description for C.
pub(crate) struct Stream {
    pub(crate) info: StreamInfo,
    pub(crate) storage: cntk_reader_storage,
    pub(crate) element: cntk_reader_element,
    name: CString,
}

impl Stream {
    pub(crate) fn new(info: &StreamInfo) -> Self {
        Stream {
            info: info.clone(),
            storage: match info.storage {
                Storage::Dense => cntk_reader_storage::CNTK_READER_STORAGE_DENSE,
                Storage::SparseCsc => cntk_reader_storage::CNTK_READER_STORAGE_SPARSE_CSC,
            },
            element: info.element.into(),
            name: nul_terminated(&info.name),
        }
    }

    pub(crate) fn describe(&self, id: usize, shape: &[usize]) -> cntk_reader_stream_info {
        cntk_reader_stream_info {
            struct_size: 0,
            name: self.name.as_ptr(),
            name_length: self.name.as_bytes().len(),
            id,
            storage: self.storage,
            element: self.element,
            shape: shape.as_ptr(),
            shape_rank: shape.len(),
            sample_size: shape.iter().product(),
            defines_mb_size: self.info.defines_mb_size.into(),
            is_binary: self.info.is_binary.into(),
            classes: self.info.classes.unwrap_or(0),
        }
    }
}
