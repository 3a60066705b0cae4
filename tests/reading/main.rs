//! Readers: epochs, checkpoints, user-defined formats, damaged data.

#[path = "../common/mod.rs"]
mod common;

mod front_door;
mod lasting_errors;
mod many;
mod resume;
mod robustness;
mod steps;
mod user;
mod user_arrays;
mod user_fetched;
