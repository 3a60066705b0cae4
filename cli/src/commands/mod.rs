//! The commands, one module each: its options, and what it does.

pub mod head;
pub mod info;
pub mod validate;
