//! Internal part of [`cntk-reader`](https://docs.rs/cntk-reader), without promises about its
//! interface: arrays of NumPy.
//!
//! A file (`.npy`) is a [header](header::Described) and the values of one [array](array::Array).
//! Each array is a stream, and row `i` of each is a sample of the same [sequence](table::Table).

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
