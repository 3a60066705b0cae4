//! Functions for replacements of CNTK's modules, beyond the C ABI for programs: configurations that
//! the host has parsed, factories of deserializers in other modules, and single deserializers and
//! transforms. Its header, `cntk_reader_host.h`, is not stable.

// In the order of cntk_reader_host.h.
pub mod section;

pub mod keys;

pub mod factory;

pub mod source;

pub mod corpus;

pub mod deserializer;

pub mod chunk;

pub mod image;

pub mod fetched;

pub mod transform;
