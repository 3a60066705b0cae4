//! `libcntk_reader.so` and `libcntk_reader.a`: the functions of `cntk_reader.h`, which the crate
//! `cntk-reader-capi` defines.
//!
//! A crate of its own, so that the library is compiled once for these, for Rust programs and for tests: a crate with several types is
//! compiled for all of them whichever is asked for, and each of these two is optimized as a whole.

pub use cntk_reader_capi::*;
