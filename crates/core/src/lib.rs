//! Internal part of [`cntk-reader`](https://docs.rs/cntk-reader), without a stable interface:
//! values and streams, errors, options, files, threads, memory, and the traits between formats and
//! the engine.
//!
//! Imports point down: this crate imports neither the formats nor the engine.

#![allow(missing_docs, reason = "internal: names that say everything stand alone")]

#[cfg(not(all(target_pointer_width = "64", target_endian = "little")))]
compile_error!(
    "cntk-reader is for 64-bit little-endian processors: sizes and places in files are kept in `usize`, and binary data files and \
     index caches are read in the processor's order of bytes"
);

pub mod corpus;
pub mod cpu;
pub mod error;
pub mod file;
pub mod fingerprint;
pub mod format;
/// Hooks for fuzz targets, and the memory that they get.
#[cfg(fuzzing)]
pub mod fuzzing {
    pub use crate::cpu::processor::fuzzing::*;
    pub use crate::memory::pages::MAX_MEMORY;
}
pub mod image;
pub mod limits;
pub mod memory;
pub mod message;
pub mod option;
pub mod runtime;
pub mod sequence;
pub mod stream;
pub mod system;
pub mod written;

#[cfg(any(test, feature = "test-support"))]
pub mod testing;

/// Enters the project's root folder, to which the paths of test data are relative.
#[cfg(feature = "test-support")]
pub fn enter_project() {
    std::env::set_current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).expect("the project's root");
}

pub use error::{Cause, Error, ErrorKind, ExceptionClass, Location, Result};
