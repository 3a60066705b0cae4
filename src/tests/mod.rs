//! Whole readers of text files, held against each other.

mod readers;
#[cfg(shuttle)]
mod schedules;
