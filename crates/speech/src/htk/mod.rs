//! HTK: feature files, master label files (MLF) as text and binary, and lattices.
//!
//! Deserializers list utterances, in frame mode too: `compose::frames` takes utterances apart.

pub(crate) mod features;
mod keys;
pub(crate) mod lattice;
pub mod mlf;
mod options;

pub use features::{HtkFeatureDeserializer, frames_of, values_of_frames};
pub(crate) use lattice::LatticeDeserializer;
pub(crate) use mlf::MlfDeserializer;
pub use options::{HtkFeatureOptions, LatticeOptions, MlfOptions};
