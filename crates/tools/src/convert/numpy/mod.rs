//! NumPy arrays: files of one array (`.npy`) and archives of several (`.npz`).
//!
//! [`archive`] writes and reads archives, which are ZIP files. [`mod@read`] converts arrays to
//! sequences, [`mod@write`] the reverse; [`Format`](super::Format) describes the arrays of a
//! stream.

mod archive;
mod read;
mod write;

pub(super) use archive::ArchiveWriter;
pub(super) use cntk_reader_arrays::header::header;
pub use cntk_reader_arrays::values::name_of as numpy_type;
pub use read::{NumpyData, NumpyOptions};
pub(super) use write::NumpyWriter;

/// Name of the array of keys.
const KEYS: &str = "keys";

/// Suffixes of the names of a stream's arrays.
const VALUES: &str = ".values";
const INDICES: &str = ".indices";
const OFFSETS: &str = ".offsets";
const SEQUENCES: &str = ".sequences";
const DIM: &str = ".dim";
