//! The commands, one module each: its options, and what it does.

pub mod bench;
pub mod convert;
pub mod generate;
pub mod head;
pub mod index;
pub mod info;
pub mod order;
pub mod validate;
