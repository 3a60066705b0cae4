//! Internal part of [`cntk-reader`](https://docs.rs/cntk-reader), without promises about its
//! interface: composes sources by key, randomizes in rolling windows, packs minibatches,
//! checkpoints. Names no format.

#![allow(missing_docs, reason = "internal: names that say everything stand alone")]

pub mod compose;
pub mod forms;
pub mod pack;
pub mod randomize;
pub mod reader;
