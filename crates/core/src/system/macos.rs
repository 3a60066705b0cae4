//! macOS, and other systems like it.

pub use super::plain::{
    advise_huge, allocate_pages, free_pages, grow_pages, is_path_of_open, name_unnamed, open_unnamed,
    path_of_open, populate, power_of_ten, refuse_cancel, stop_unwinding,
};
pub use super::unix::*;
