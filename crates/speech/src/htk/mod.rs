//! HTK: feature files, master label files (MLF) as text and binary, and lattices.
//!
//! Deserializers list utterances, in frame mode too: `compose::frames` takes utterances apart.

pub mod features;
mod keys;
pub mod lattice;
pub mod mlf;
mod options;

pub use features::HtkFeatureDeserializer;
pub use features::{frames_of, values_of_frames};
pub use lattice::LatticeDeserializer;
pub use mlf::MlfDeserializer;
pub use options::{HtkFeatureOptions, LatticeOptions, MlfOptions};
