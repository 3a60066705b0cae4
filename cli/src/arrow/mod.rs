//! Arrow files: the IPC file format, which Feather (version 2) is too.
//!
//! A row is a sequence. The column `key` has the keys, and each stream is a column:
//!
//! | stream | type of its column |
//! | --- | --- |
//! | dense, one sample in each sequence | `FixedSizeList<float>` |
//! | dense | `List<FixedSizeList<float>>` |
//! | sparse, one sample in each sequence | `Struct<indices: List<int32>, values: List<float>>` |
//! | sparse | `List<Struct<indices: List<int32>, values: List<float>>>` |
//!
//! The field of a sparse stream has its dimension as metadata, and that of a dense stream of several dimensions its shape.

mod read;
mod write;

pub use read::open;
pub use write::write;

/// Name of the column of keys.
const KEY: &str = "key";

/// Names of metadata: the dimension of a sparse stream, and the shape of samples, `channels:columns:rows`.
const DIM: &str = "cntk_reader.dim";
const SHAPE: &str = "cntk_reader.shape";

/// Names of the fields of a sparse sample.
const INDICES: &str = "indices";
const VALUES: &str = "values";
