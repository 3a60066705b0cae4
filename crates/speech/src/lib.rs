//! Internal part of [`cntk-reader`](https://docs.rs/cntk-reader), without a stable interface: HTK
//! features, labels (MLF) and lattices, and Kaldi archives.

#![allow(missing_docs, reason = "internal: names that say everything stand alone")]

pub mod htk;
pub mod kaldi;
