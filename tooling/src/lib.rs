//! Shared parts of the project's own commands: paths of the checkout, running programs, finding
//! tools, and building the library. The commands are in `xtask`, `oracle` and `benches`.

#[macro_use]
pub mod console;

pub mod cli;
pub mod cmake;
pub mod consumers;
pub mod cross;
pub mod dist;
pub mod document;
pub mod drivers;
pub mod joint;
pub mod licences;
pub mod machine;
pub mod platform;
pub mod portable;
pub mod programs;
pub mod project;
pub mod python;
pub mod pytorch;
pub mod run;
pub mod tally;
pub mod tools;
pub mod windows;

pub use tally::{Tally, libtest};
