//! HTK: feature files, master label files (MLF) in text and binary form, and lattices.
//!
//! Deserializers list utterances, even in frame mode: `compose::frames` divides them into frames.

pub(crate) mod features;
mod keys;
pub(crate) mod lattice;
#[cfg(test)]
mod logged;
pub mod mlf;
mod options;

pub use features::{HtkFeatureDeserializer, frames_of, values_of_frames};
pub(crate) use lattice::LatticeDeserializer;
pub(crate) use mlf::MlfDeserializer;
pub use options::{HtkFeatureOptions, LatticeOptions, MlfOptions};
