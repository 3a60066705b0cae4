//! Whole readers of text files, compared with each other.

mod readers;
#[cfg(shuttle)]
mod schedules;
