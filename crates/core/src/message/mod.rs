//! Text of messages: escapes for invisible characters, suggestions for misspelled names, duplicate
//! names.

pub mod names;
pub mod shown;
pub mod spelling;
