//! Functions that CNTK's modules need beyond the C ABI for programs: configurations that the host
//! has parsed, factories of deserializers in other modules, and the library's deserializers and
//! transforms one by one. Its header, `cntk_reader_host.h`, carries no promise of stability.

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
