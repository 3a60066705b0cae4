//! Formats: from bytes to chunks of sequences.

pub mod binary;
pub mod bundle;
pub mod concat;
pub mod frames;
pub mod htk;
pub mod image;
pub mod kaldi;
pub mod text;
pub mod transformed;
