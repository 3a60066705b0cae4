//! Parsers of text.

mod dense;
pub mod exact;
pub mod fast;
mod names;
pub mod number;
pub mod output;
pub mod report;
pub mod rules;
mod simd;
mod sparse;
mod uniform_lines;
