//! One source out of several: joined by key, or taken apart into frames.

pub mod bundle;
pub mod frames;
