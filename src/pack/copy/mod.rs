//! The copying: from views of sequences to the columns of one stream's block.
//!
//! Column `t * lanes + s` is step `t` of lane `s`. The samples of a sequence therefore lie `lanes` columns apart, except in
//! two cases where whole sequences are copied at once: one lane, and one step (then column `i` is sequence `i`).

mod dense;
mod expand;
mod prefetch;
mod sparse;

pub(super) use dense::{dense, strided, zero_gap};
pub(super) use expand::{Columns, expand};
pub(super) use prefetch::first as prefetch_first;
pub(super) use sparse::sparse;
