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
