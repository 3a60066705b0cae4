//! Internal part of [`cntk-reader`](https://docs.rs/cntk-reader) with no interface guarantees:
//! CNTK's text format (CTF) with its index, its binary format (CBF), and lists of files of either.

#![allow(missing_docs, reason = "internal: names that say everything stand alone")]

pub mod cbf;
mod concat;
pub mod ctf;
