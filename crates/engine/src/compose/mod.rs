//! Sources built from other sources: joined by key, or split into frames.

pub mod bundle;
pub mod frames;
