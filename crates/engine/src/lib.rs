//! Internal part of [`cntk-reader`](https://docs.rs/cntk-reader), with no stability guarantees:
//! composes sources by key, randomizes in rolling windows, packs minibatches and writes
//! checkpoints. Independent of file formats.

#![allow(missing_docs, reason = "internal: names that say everything stand alone")]

pub mod compose;
pub mod forms;
pub mod pack;
pub mod randomize;
pub mod reader;
#[cfg(test)]
mod testing;
