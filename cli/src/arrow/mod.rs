//! Arrow files: the IPC file format, which is also Feather version 2.
//!
//! Each row is a sequence. The column `key` holds the keys, and every other column is a stream:
//!
//! | stream | type of its column |
//! | --- | --- |
//! | dense, one sample in each sequence | `FixedSizeList<float>` |
//! | dense | `List<FixedSizeList<float>>` |
//! | sparse, one sample in each sequence | `Struct<indices: List<int32>, values: List<float>>` |
//! | sparse | `List<Struct<indices: List<int32>, values: List<float>>>` |
//!
//! The field of a sparse stream carries its dimension as metadata; the field of a dense stream with
//! several dimensions carries its shape.

mod read;
mod write;

pub use read::open;
pub use write::write;

/// Name of the column of keys.
const KEY: &str = "key";

/// Metadata names: the dimension of a sparse stream, and the shape of samples as
/// `channels:columns:rows`.
const DIM: &str = "cntk_reader.dim";
const SHAPE: &str = "cntk_reader.shape";

/// Names of the fields of a sparse sample.
const INDICES: &str = "indices";
const VALUES: &str = "values";
