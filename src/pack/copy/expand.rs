//! Writing sparse sequences as dense columns, as truncated minibatches have them.

use crate::sequence::SparseView;
use crate::{Error, Result};

/// Where the columns of an expansion lie.
#[derive(Debug, Clone, Copy)]
pub(in super::super) struct Columns {
    /// Byte at which the first column starts.
    pub first: usize,
    /// Bytes from one column to the next.
    pub stride: usize,
    /// Bytes of a column.
    pub column: usize,
}

/// Writes samples `from .. from + count` of a sparse sequence as dense columns. A repeated index takes its last value. The
/// view must have passed [`check::sizes`](crate::pack::check::sizes) and [`check::ascending`](crate::pack::check::ascending),
/// and its indices must not be narrow.
pub(in super::super) fn expand(
    out: &mut [u8],
    columns: Columns,
    element: usize,
    values: &[u8],
    sparse: &SparseView<'_>,
    from: usize,
    count: usize,
) -> Result<()> {
    let Columns { first, stride, column } = columns;
    if column == 0 {
        return Ok(());
    }
    let indices = sparse.indices.as_chunks::<4>().0;
    for (t, pair) in sparse.offsets[from..=from + count].windows(2).enumerate() {
        let target = &mut out[first + t * stride..][..column];
        target.fill(0);
        for entry in (pair[0] - sparse.offsets[0]) as usize..(pair[1] - sparse.offsets[0]) as usize {
            let index = i32::from_ne_bytes(indices[entry]);
            let place =
                usize::try_from(index).ok().and_then(|index| target.chunks_exact_mut(element).nth(index));
            let Some(place) = place else {
                return Err(Error::data(format!(
                    "A sparse value has the index {index}, but a sample has {} values.",
                    column / element
                )));
            };
            place.copy_from_slice(&values[entry * element..][..element]);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expansion_zeroes_first_and_the_last_value_wins() {
        let indices: Vec<u8> = [2i32, 0, 2, 1].iter().flat_map(|index| index.to_ne_bytes()).collect();
        let values: Vec<u8> = [1f32, 2.0, 3.0, 4.0].iter().flat_map(|value| value.to_ne_bytes()).collect();
        let sparse = SparseView { indices: &indices, narrow: false, offsets: &[5, 8, 8, 9], single: false };
        let mut out = vec![9; 5 * 12];
        let columns = Columns { first: 0, stride: 24, column: 12 };
        expand(&mut out, columns, 4, &values, &sparse, 0, 3).expect("expansion");
        let out: Vec<f32> = out
            .as_chunks::<4>()
            .0
            .iter()
            .map(|bytes| if bytes[0] == 9 { -1.0 } else { f32::from_ne_bytes(*bytes) })
            .collect();
        assert_eq!(out, [2.0, 0.0, 3.0, -1.0, -1.0, -1.0, 0.0, 0.0, 0.0, -1.0, -1.0, -1.0, 0.0, 4.0, 0.0]);
    }

    #[test]
    fn an_index_outside_of_the_sample_is_an_error() {
        for index in [-1i32, 3] {
            let indices = index.to_ne_bytes();
            let sparse = SparseView { indices: &indices, narrow: false, offsets: &[0, 1], single: false };
            let columns = Columns { first: 0, stride: 12, column: 12 };
            let error =
                expand(&mut [0; 12], columns, 4, &[0; 4], &sparse, 0, 1).expect_err("must be refused");
            assert_eq!(error.kind(), crate::ErrorKind::Data);
        }
    }
}
