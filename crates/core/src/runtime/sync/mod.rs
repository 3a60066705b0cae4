//! Primitives of the protocols between the library's threads: locks, condition variables, channels
//! and threads.
//!
//! Normally they come from the standard library, partly through [`crate::runtime::lock`]. With
//! `--cfg shuttle` (`cargo xtask schedules`) they come from Shuttle, which runs the threads of a
//! test one at a time, in an order that it chooses anew for each run: it finds deadlocks, lost
//! wake-ups and lost items that need an unlikely order, and reports the seed that reproduces the
//! order. No time passes in that model: a wait with a timeout only ends by a wake-up, so timeouts
//! do not hide lost wake-ups.
//!
//! Locks that are never held while waiting for another thread need not be these: no protocol
//! depends on them.

#[cfg(shuttle)]
pub mod explore;
#[cfg(shuttle)]
mod model;
#[cfg(not(shuttle))]
mod system;

#[cfg(shuttle)]
pub use model::*;
#[cfg(not(shuttle))]
pub use system::*;
