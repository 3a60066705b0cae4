//! The block of one stream's data, as CNTK lays it out: who writes it and who reads it find its parts here.
//!
//! A dense block is `columns * sample_size` values, column after column. A sparse block is
//!
//! | bytes | content |
//! | --- | --- |
//! | 8 | number of stored values as `u64`, here `nnz` |
//! | `nnz * size of a value` | the values, in order of columns |
//! | `nnz * 4` | the index of each value within its column, `i32` |
//! | `(columns + 1) * 4` | the number of the first value of each column, and `nnz` at the end, `i32` |
//!
//! Blocks start at a multiple of 64 bytes, so every part is aligned for its type: values start at byte 0 or 8, which suits
//! `f64`; indices and offsets follow at multiples of 4, also where `nnz` is odd. All numbers are in native byte order.

use crate::stream::ElementType;

/// Bytes of the number of values at the start of a sparse block.
const COUNT_SIZE: usize = size_of::<u64>();
/// Bytes of an index or offset.
const INDEX_SIZE: usize = size_of::<i32>();

/// A type of values: `f32` or `f64`.
pub trait Element: Copy + PartialEq + std::fmt::Debug + Send + Sync + sealed::AnyBits + 'static {
    /// The element type of streams that have values of this type.
    const TYPE: ElementType;
}

impl Element for f32 {
    const TYPE: ElementType = ElementType::Float;
}

impl Element for f64 {
    const TYPE: ElementType = ElementType::Double;
}

mod sealed {
    /// Types without padding for which every pattern of bits is a value.
    ///
    /// # Safety
    /// That must be so: bytes are taken for values of the type without a look at them.
    pub unsafe trait AnyBits {}
    // SAFETY: every 32 bits are an `f32`, and it has 4 bytes, none of them padding.
    unsafe impl AnyBits for f32 {}
    // SAFETY: every 64 bits are an `f64`, and it has 8 bytes, none of them padding.
    unsafe impl AnyBits for f64 {}
    // SAFETY: every 32 bits are an `i32`, and it has 4 bytes, none of them padding.
    unsafe impl AnyBits for i32 {}
}

/// The data of a sparse stream's minibatch: compressed sparse columns.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SparseColumns<'a, T> {
    /// The stored values, in order of columns.
    pub values: &'a [T],
    /// The index of each value within its column: in the input's order, which may be unsorted and may repeat.
    pub indices: &'a [i32],
    /// One more than there are columns, ascending: column `c` has the values `offsets[c] .. offsets[c + 1]`.
    pub offsets: &'a [i32],
}

impl<'a, T> SparseColumns<'a, T> {
    /// The indices and the values of one column, or `None` if there is no such column.
    pub fn column(&self, column: usize) -> Option<(&'a [i32], &'a [T])> {
        let (&begin, &end) = (self.offsets.get(column)?, self.offsets.get(column + 1)?);
        let range = usize::try_from(begin).ok()?..usize::try_from(end).ok()?;
        Some((self.indices.get(range.clone())?, self.values.get(range)?))
    }

    /// Number of columns.
    pub fn columns(&self) -> usize {
        self.offsets.len().saturating_sub(1)
    }
}

/// Size in bytes of a sparse block of `nnz` values of `element` bytes in `columns` columns; `None` if it exceeds the address
/// space.
pub(super) fn sparse_size(nnz: usize, element: usize, columns: usize) -> Option<usize> {
    let entries = nnz.checked_mul(element + INDEX_SIZE)?;
    columns.checked_add(1)?.checked_mul(INDEX_SIZE)?.checked_add(entries)?.checked_add(COUNT_SIZE)
}

/// The values of a dense block. `None` if it is not aligned for them or is no whole number of them.
pub(super) fn dense<T: Element>(block: &[u8]) -> Option<&[T]> {
    cast(block)
}

/// The parts of a sparse block with this number of columns. `None` if its size is not that of its count and columns.
pub(super) fn sparse<T: Element>(block: &[u8], columns: usize) -> Option<SparseColumns<'_, T>> {
    let (count, rest) = block.split_first_chunk::<COUNT_SIZE>()?;
    let nnz = usize::try_from(u64::from_ne_bytes(*count)).ok()?;
    if sparse_size(nnz, size_of::<T>(), columns)? != block.len() {
        return None;
    }
    let (values, rest) = rest.split_at_checked(nnz * size_of::<T>())?;
    let (indices, offsets) = rest.split_at_checked(nnz * INDEX_SIZE)?;
    Some(SparseColumns { values: cast(values)?, indices: cast(indices)?, offsets: cast(offsets)? })
}

/// Bytes as values of a type. `None` if they are not aligned for it or are no whole number of values.
fn cast<T: sealed::AnyBits>(bytes: &[u8]) -> Option<&[T]> {
    let pointer = bytes.as_ptr().cast::<T>();
    if !pointer.is_aligned() || !bytes.len().is_multiple_of(size_of::<T>()) {
        return None;
    }
    // SAFETY: `pointer` is aligned for `T`, as checked two lines above. It points to `bytes.len()` initialized bytes that
    // stay borrowed as long as the result, and the slice covers exactly these, because their number is a multiple of
    // `T`'s size (checked as well). Any bits are a `T`: that is what `AnyBits` is implemented for.
    Some(unsafe { std::slice::from_raw_parts(pointer, bytes.len() / size_of::<T>()) })
}
