//! `libcntk_reader.so` and `libcntk_reader.a`: the functions of `cntk_reader.h`, which the crate
//! `cntk-reader-capi` defines.
//!
//! A separate crate, so that `cntk-reader-capi` is compiled once for these libraries, for Rust
//! programs and for tests: cargo compiles a crate for all of its crate types, whichever is
//! requested, and each of these two libraries is optimized as a whole.

pub use cntk_reader_capi::*;
