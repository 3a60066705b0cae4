//! The commands, one module each, with their options.

pub mod bench;
pub mod convert;
pub mod generate;
pub mod head;
pub mod index;
pub mod info;
pub mod order;
pub mod report;
pub mod validate;
