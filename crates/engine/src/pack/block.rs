//! The block of one stream's data, in CNTK's layout. Writers and readers locate its parts here.
//!
//! A dense block consists of `columns * sample_size` values, column by column. A sparse block
//! consists of
//!
//! | bytes | content |
//! | --- | --- |
//! | 8 | number of stored values as `u64`, here `nnz` |
//! | `nnz * size of a value` | the values, in order of columns |
//! | `nnz * 4` | the index of each value within its column, `i32` |
//! | `(columns + 1) * 4` | the number of the first value of each column, then `nnz`, `i32` |
//!
//! Blocks start at a multiple of 64 bytes, so every part is aligned for its type: values start at
//! byte 0 or 8, which suits `f64`; indices and offsets follow at multiples of 4, even if `nnz` is
//! odd. All numbers are in native byte order.

use bytemuck::CheckedBitPattern;
use cntk_reader_core::stream::Element;

/// Size in bytes of the value count at the start of a sparse block.
const COUNT_SIZE: usize = size_of::<u64>();
/// Size in bytes of an index or offset.
const INDEX_SIZE: usize = size_of::<i32>();

/// The data of a sparse stream's minibatch: compressed sparse columns.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct SparseColumns<'a, T> {
    /// The stored values, in order of columns.
    pub values: &'a [T],
    /// The index of each value within its column, in the input's order: may be unsorted and have
    /// duplicates.
    pub indices: &'a [i32],
    /// Ascending offsets, one more than there are columns: column `c` has the values
    /// `offsets[c] .. offsets[c + 1]`.
    pub offsets: &'a [i32],
}

impl<'a, T> SparseColumns<'a, T> {
    /// Returns a block without columns.
    pub const fn none() -> Self {
        SparseColumns { values: &[], indices: &[], offsets: &[0] }
    }

    /// Returns the indices and values of a column, or `None` if there is no such column.
    pub fn column(&self, column: usize) -> Option<(&'a [i32], &'a [T])> {
        let (&begin, &end) = (self.offsets.get(column)?, self.offsets.get(column + 1)?);
        let range = usize::try_from(begin).ok()?..usize::try_from(end).ok()?;
        Some((self.indices.get(range.clone())?, self.values.get(range)?))
    }

    /// Returns the number of columns.
    pub fn columns(&self) -> usize {
        self.offsets.len().saturating_sub(1)
    }
}

/// Returns the size in bytes of a dense block, or `None` if it exceeds the address space.
pub(super) fn dense_size(columns: usize, sample_size: usize, element: usize) -> Option<usize> {
    columns.checked_mul(sample_size)?.checked_mul(element)
}

/// Returns the size in bytes of a sparse block of `nnz` values of `element` bytes in `columns`
/// columns, or `None` if it exceeds the address space.
pub(super) fn sparse_size(nnz: usize, element: usize, columns: usize) -> Option<usize> {
    let entries = nnz.checked_mul(element + INDEX_SIZE)?;
    columns.checked_add(1)?.checked_mul(INDEX_SIZE)?.checked_add(entries)?.checked_add(COUNT_SIZE)
}

/// The parts of a sparse block, for writing.
pub(super) struct SparseParts<'a> {
    pub values: &'a mut [u8],
    pub indices: &'a mut [u8],
    pub offsets: &'a mut [[u8; INDEX_SIZE]],
}

/// Splits a block of [`sparse_size`] bytes into its parts, and writes its count.
pub(super) fn begin_sparse(block: &mut [u8], element: usize, nnz: usize) -> SparseParts<'_> {
    let (count, rest) = block.split_at_mut(COUNT_SIZE);
    count.copy_from_slice(&(nnz as u64).to_ne_bytes());
    let (values, rest) = rest.split_at_mut(nnz * element);
    let (indices, offsets) = rest.split_at_mut(nnz * INDEX_SIZE);
    SparseParts { values, indices, offsets: offsets.as_chunks_mut().0 }
}

/// Returns the values of a dense block, or `None` if it is misaligned or not a whole number of
/// values.
pub(super) fn dense<T: Element>(block: &[u8]) -> Option<&[T]> {
    cast(block)
}

/// Returns the parts of a sparse block with this number of columns, or `None` if its size does not
/// match its count and columns.
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

/// Casts bytes to values. Returns `None` if they are misaligned, not a whole number of values, or
/// not valid for that type.
fn cast<T: CheckedBitPattern>(bytes: &[u8]) -> Option<&[T]> {
    bytemuck::checked::try_cast_slice(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::super::buffer::AlignedBuffer;
    use super::*;

    fn round_trip<T: Element>(values: &[T], bytes: &[u8]) {
        let indices: Vec<i32> = (0..values.len() as i32).rev().collect();
        let offsets = [0, 1.min(values.len() as i32), values.len() as i32];
        let mut block = AlignedBuffer::default();
        let size = sparse_size(values.len(), size_of::<T>(), 2).expect("a size");
        block.resize(size).expect("memory");
        let parts = begin_sparse(block.bytes_mut(), size_of::<T>(), values.len());
        parts.values.copy_from_slice(bytes);
        parts
            .indices
            .copy_from_slice(&indices.iter().flat_map(|index| index.to_ne_bytes()).collect::<Vec<_>>());
        parts.offsets.copy_from_slice(&offsets.map(i32::to_ne_bytes));
        let found = sparse::<T>(block.bytes(), 2).expect("columns");
        assert_eq!(found, SparseColumns { values, indices: &indices, offsets: &offsets });
        assert_eq!(found.columns(), 2);
        let first = offsets[1] as usize;
        assert_eq!(found.column(0), Some((&indices[..first], &values[..first])));
        assert_eq!(found.column(1), Some((&indices[first..], &values[first..])));
        assert_eq!(found.column(2), None);
        // A wrong number of columns or a wrong size of values is detected.
        assert_eq!(sparse::<T>(block.bytes(), 1), None);
        assert_eq!(sparse::<T>(&block.bytes()[..size - 1], 2), None);
    }

    #[test]
    fn sparse_blocks_round_trip() {
        // Odd numbers of `f64` leave indices and offsets at odd multiples of 4.
        for count in 0..6 {
            let floats: Vec<f32> = (0..count).map(|i| i as f32 + 0.5).collect();
            let doubles: Vec<f64> = (0..count).map(|i| f64::from(i) - 0.25).collect();
            round_trip(&floats, &floats.iter().flat_map(|value| value.to_ne_bytes()).collect::<Vec<_>>());
            round_trip(&doubles, &doubles.iter().flat_map(|value| value.to_ne_bytes()).collect::<Vec<_>>());
        }
    }

    #[test]
    fn misaligned_or_truncated_bytes_are_not_cast() {
        let mut block = AlignedBuffer::default();
        block.resize(24).expect("memory");
        let bytes = block.bytes();
        assert_eq!(dense::<f64>(bytes).map(<[f64]>::len), Some(3));
        assert_eq!(dense::<f64>(&bytes[4..20]), None);
        assert_eq!(dense::<f32>(&bytes[4..20]).map(<[f32]>::len), Some(4));
        assert_eq!(dense::<f32>(&bytes[1..21]), None);
        assert_eq!(dense::<f32>(&bytes[..23]), None);
        assert_eq!(dense::<f64>(AlignedBuffer::default().bytes()), Some(&[][..]));
        assert_eq!(sparse::<f32>(&bytes[..7], 0), None);
        block.bytes_mut().fill(0xff);
        assert_eq!(sparse::<f32>(block.bytes(), 0), None);
    }

    #[test]
    fn sizes_of_blocks() {
        assert_eq!(dense_size(2, 3, 4), Some(24));
        assert_eq!((dense_size(usize::MAX, 2, 4), dense_size(1 << 31, 1 << 31, 4)), (None, None));
        // A count, 3 values with indices, and 6 offsets.
        assert_eq!(sparse_size(3, 8, 5), Some(8 + 3 * 12 + 6 * 4));
        assert_eq!((sparse_size(usize::MAX / 8, 8, 5), sparse_size(3, 8, usize::MAX)), (None, None));
        let none = SparseColumns::<f32>::none();
        assert_eq!((none.columns(), none.column(0)), (0, None));
        assert_eq!(SparseColumns::<f32> { offsets: &[], ..none }.columns(), 0);
    }
}
