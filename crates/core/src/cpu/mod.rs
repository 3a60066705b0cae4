//! The processor: its instruction sets, prefetching, and arithmetic on eight bytes at a time.

pub mod digits;
pub mod prefetch;
pub mod processor;
