//! Internal part of [`cntk-reader`](https://docs.rs/cntk-reader), without a stable interface: NumPy
//! arrays.
//!
//! A file (`.npy`) consists of a [header](header::Described) and the values of one
//! [array](array::Array). Each array is a stream, and row `i` of each is a sample of the same
//! [sequence](table::RowTable).

#![allow(missing_docs, reason = "internal: names that say everything stand alone")]

pub mod array;
mod chunk;
mod deserializer;
pub mod header;
mod options;
mod table;
#[cfg(test)]
mod tests;
pub mod values;

pub use deserializer::ArrayDeserializer;
pub use options::{ArrayOptions, ArrayStream};
