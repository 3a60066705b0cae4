//! Files of columns: Arrow's IPC file format, which is also Feather version 2, and Parquet.
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
//! several dimensions carries its shape. A Parquet file has the same fields, because Arrow's schema
//! is part of its metadata.
//!
//! With the feature `arrow`, `file` reads record batches of both containers, `check` and `pages`
//! find damage, `types` says which columns are streams, `read` makes sequences of them, `values`
//! takes their values, and `write` writes both containers. Without it, `missing` names the feature.

#[cfg(feature = "arrow")]
mod check;
#[cfg(feature = "arrow")]
mod file;
#[cfg(not(feature = "arrow"))]
mod missing;
#[cfg(feature = "arrow")]
mod pages;
#[cfg(feature = "arrow")]
mod read;
#[cfg(feature = "arrow")]
mod types;
#[cfg(feature = "arrow")]
mod values;
#[cfg(feature = "arrow")]
mod write;

#[cfg(not(feature = "arrow"))]
pub use missing::{open, outline, write};
#[cfg(feature = "arrow")]
pub use {read::open, read::outline, write::write};

use cntk_reader::{ElementType, FileFormat, StreamInfo};

/// The formats of files of columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Container {
    /// Arrow's IPC file format.
    Arrow,
    /// Parquet.
    Parquet,
}

impl Container {
    /// The container of a recognized file.
    pub fn of(format: FileFormat) -> Option<Container> {
        match format {
            FileFormat::Arrow => Some(Container::Arrow),
            FileFormat::Parquet => Some(Container::Parquet),
            _ => None,
        }
    }

    /// Its name in messages.
    pub fn name(self) -> &'static str {
        match self {
            Container::Arrow => "Arrow",
            Container::Parquet => "Parquet",
        }
    }

    /// A noun phrase for it.
    pub fn describe(self) -> &'static str {
        match self {
            Container::Arrow => FileFormat::Arrow.describe(),
            Container::Parquet => FileFormat::Parquet.describe(),
        }
    }

    /// The name of a group of rows that are stored together.
    pub fn group(self) -> &'static str {
        match self {
            Container::Arrow => "record batch",
            Container::Parquet => "row group",
        }
    }
}

/// Options for reading files of columns.
#[derive(Debug, Clone, Default)]
#[cfg_attr(not(feature = "arrow"), allow(dead_code, reason = "only readers need them"))]
pub struct ColumnOptions {
    /// Type of the values of all streams, float or double. If `None`, each stream has the type of
    /// its column, or the smallest type that holds the column's integers.
    pub element: Option<ElementType>,
    /// Columns of class numbers, each with the number of classes.
    pub one_hot: Vec<(String, usize)>,
    /// The columns to read; all if empty.
    pub streams: Vec<String>,
    /// Number of rows from which unknown dimensions are found; all if `None`.
    pub sample: Option<u64>,
}

/// The content of a file of columns.
#[derive(Debug)]
#[cfg_attr(not(feature = "arrow"), allow(dead_code, reason = "only readers make them"))]
pub struct Outline {
    /// Number of rows.
    pub rows: u64,
    /// Number of row groups or record batches.
    pub groups: u64,
    /// The columns.
    pub columns: Vec<ColumnOutline>,
}

/// A column of a file.
#[derive(Debug)]
#[cfg_attr(not(feature = "arrow"), allow(dead_code, reason = "only readers make them"))]
pub struct ColumnOutline {
    /// Its name.
    pub name: String,
    /// Its type, as Arrow writes it.
    pub kind: String,
    /// Its use.
    pub role: Role,
}

/// The use that `convert` makes of a column.
#[derive(Debug)]
#[cfg_attr(not(feature = "arrow"), allow(dead_code, reason = "only readers make them"))]
pub enum Role {
    /// It has the keys.
    Key,
    /// It becomes a stream.
    Stream {
        /// The stream.
        info: StreamInfo,
        /// Whether a row may have several samples.
        is_sequence: bool,
    },
    /// It cannot become one: the message says why, and what to do.
    Refused(String),
}

/// Name of the column of keys.
#[cfg(feature = "arrow")]
const KEY: &str = "key";

/// Metadata names: the dimension of a sparse stream, and the shape of samples as
/// `channels:columns:rows`.
#[cfg(feature = "arrow")]
const DIM: &str = "cntk_reader.dim";
#[cfg(feature = "arrow")]
const SHAPE: &str = "cntk_reader.shape";

/// Names of the fields of a sparse sample.
#[cfg(feature = "arrow")]
const INDICES: &str = "indices";
#[cfg(feature = "arrow")]
const VALUES: &str = "values";
