//! Sparse columns in canonical form: strictly ascending indices in each column.

use super::Output;
use crate::pack::SparseColumns;
use cntk_reader_core::Result;
use cntk_reader_core::memory::room;
use cntk_reader_core::stream::Element;

/// Writes columns in canonical form. Values with equal indices are summed in the order of the data.
/// Returns the number of values, or `None` if the columns do not match their offsets.
pub(super) fn write<T: Element>(
    columns: &SparseColumns<'_, T>,
    values: &mut impl Output<T>,
    indices: &mut impl Output<i32>,
    offsets: &mut impl Output<i32>,
) -> Result<Option<usize>> {
    let mut entries: Vec<(i32, usize)> = Vec::new();
    let mut written = 0usize;
    offsets.repeat(0, 1);
    for column in 0..columns.columns() {
        let Some((own_indices, own_values)) = columns.column(column) else { return Ok(None) };
        if own_indices.is_sorted_by(|one, next| one < next) {
            values.append(own_values);
            indices.append(own_indices);
            written += own_values.len();
        } else {
            entries.clear();
            room::reserve(&mut entries, own_indices.len(), room::FORM)?;
            let numbered = own_indices.iter().enumerate().map(|(place, &index)| (index, place));
            Extend::extend(&mut entries, numbered);
            // The place in the data makes the order unique; a stable sort would allocate memory.
            entries.sort_unstable();
            for equal in entries.chunk_by(|one, next| one.0 == next.0) {
                let mut terms = equal.iter().filter_map(|&(_, place)| own_values.get(place).copied());
                let mut sum = terms.next().unwrap_or_default();
                terms.for_each(|term| sum = sum.plus(term));
                values.repeat(sum, 1);
                indices.repeat(equal[0].0, 1);
                written += 1;
            }
        }
        offsets.repeat(written as i32, 1);
    }
    Ok(Some(written))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_sorted_and_summed() {
        let (mut values, mut indices, mut offsets) = (Vec::new(), Vec::new(), Vec::new());
        // Descending, repeated side by side, repeated apart, ascending, and none.
        let columns = SparseColumns {
            values: &[1, 2, 3, 4, 5, 6, 7, 8, 9],
            indices: &[5, 2, 3, 3, 1, 0, 1, 0, 4],
            offsets: &[0, 2, 4, 7, 9, 9],
        };
        let count = write(&columns, &mut values, &mut indices, &mut offsets).expect("memory");
        assert_eq!((count, values), (Some(7), vec![2, 1, 7, 6, 12, 8, 9]));
        assert_eq!((indices, offsets), (vec![2, 5, 3, 0, 1, 0, 4], vec![0, 2, 3, 5, 7, 7]));
        let columns = SparseColumns { values: &[1], indices: &[0], offsets: &[0, 2] };
        let count = write(&columns, &mut Vec::new(), &mut Vec::new(), &mut Vec::new()).expect("memory");
        assert_eq!(count, None);
    }
}
