//! Text of messages: escapes for invisible characters, suggestions for misspelled names, names that
//! come twice.

pub mod names;
pub mod shown;
pub mod spelling;
