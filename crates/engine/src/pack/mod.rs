//! Packing: copies sequences into a minibatch, in one pass.
//!
//! A [`Packer`] requests sequences from its [`Feed`] and copies them into blocks of memory, as
//! described by a [`layout::Layout`].
//!
//! A sequence that is missing in one stream ([`Loaded::Invalid`](cntk_reader_core::format::Loaded),
//! [`Loaded::Skipped`](cntk_reader_core::format::Loaded)) is left out of all streams.

mod block;
mod buffer;
mod check;
mod copy;
pub(crate) mod explain;
mod feed;
mod first_fit;
pub mod layout;
mod limits;
mod memory;
pub(crate) mod minibatch;
mod packer;
mod packing;
pub mod plain;
mod sequence;
mod spec;
#[cfg(test)]
pub(crate) mod test_feed;
mod truncated;

pub use block::SparseColumns;
pub(crate) use feed::{Feed, LoadedSelection};
pub use limits::{Limits, PackConfig};
pub(crate) use memory::MinibatchMemory;
pub use memory::PageLock;
pub(crate) use minibatch::{MAX_AT_ONCE, MinibatchPool};
pub use minibatch::{Minibatch, StreamMinibatch};
pub(crate) use packer::{Packer, Queue, output_streams};
pub use packing::Packing;
pub(crate) use sequence::SequencePacker;
pub(crate) use spec::{PackScratch, PackSpec, Packed};
pub(crate) use truncated::TruncatedPacker;
