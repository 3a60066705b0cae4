//! The C ABI of [`cntk-reader`](https://docs.rs/cntk-reader): opaque handles, plain structs and
//! status codes, one file per noun. Internal; its Rust interface is not stable.
//!
//! This layer makes no decisions. A call converts its arguments to Rust values, calls the engine
//! and converts the result back. Shared code lives in [`call`] (panics, errors, NULL, arrays),
//! [`text`] (strings), [`sized`] (structs that may grow) and [`handle`] (tags of handles). Types
//! have their C names, so that a search finds both sides. `include/cntk_reader.h` is generated from
//! this crate, and the doc comments of public items become its documentation. The folder [`host`]
//! has a header of its own.

#![allow(unsafe_code, reason = "pointers, lengths and callbacks of programs in other languages")]
#![allow(non_camel_case_types)]
#![allow(missing_docs, reason = "the documentation is the header's")]
#![allow(
    clippy::missing_safety_doc,
    reason = "the contract of a C function is its whole documentation, with the rules at the top of the header"
)]

mod call;
mod handle;
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
