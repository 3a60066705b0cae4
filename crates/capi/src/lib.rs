//! Internal part of [`cntk-reader`](https://docs.rs/cntk-reader), without promises about its Rust
//! interface: the C ABI, with opaque handles, plain structs, statuses. One file per noun.
//!
//! Nothing is decided here. A call turns its arguments into Rust values, calls the engine and turns
//! the answer back. What calls have in common lives in [`call`] (panics, errors, NULL, arrays),
//! [`text`] (strings) and [`sized`] (structs that may grow). Types have their C names, so that a
//! search finds both sides; the documentation of every public item here is the documentation of
//! `include/cntk_reader.h`, which is generated from it. The folder [`host`] has a header of its
//! own.

#![allow(unsafe_code, reason = "pointers, lengths and callbacks of programs in other languages")]
#![allow(non_camel_case_types)]
#![allow(missing_docs, reason = "the documentation is the header's")]
#![allow(
    clippy::missing_safety_doc,
    reason = "the contract of a C function is its whole documentation, with the rules at the top of the header"
)]

mod call;
mod sized;
mod text;

pub mod host;

// In the order of cntk_reader.h.
pub mod version;

pub mod status;

pub mod error;

pub mod canceller;

pub mod options;

pub mod source;

pub mod reader;

pub mod stream;

pub mod epoch;

pub mod configuration;

pub mod minibatch;

pub mod minibatch_handle;

pub mod minibatch_stream;

pub mod forms;

pub mod checkpoint;

pub mod state;

pub mod buffer;

pub mod conversion;

pub mod threads;

pub mod process;

pub mod log;

pub mod finalizer;

pub mod failure;

pub mod file_system;

pub mod user_data;

pub mod user_chunk;

pub mod user_sequence;

pub mod user_deserializer;

pub mod user_transform;
