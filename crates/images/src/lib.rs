//! Internal part of [`cntk-reader`](https://docs.rs/cntk-reader), without a stable interface: image
//! files, zip and Base64 containers, decoders, and transforms.

#![allow(missing_docs, reason = "internal: names that say everything stand alone")]

pub mod decode;
pub mod source;
pub mod transform;
pub mod transformed;
