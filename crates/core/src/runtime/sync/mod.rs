//! What the protocols between the library's threads are made of: locks, condition variables, channels and threads.
//!
//! Everywhere but in one kind of test they are the standard library's, those of
//! [`crate::runtime::lock`] among them. Compiled with `--cfg shuttle` (`cargo xtask schedules`),
//! they are those of Shuttle, which runs the threads of a test one at a time, in an order that it
//! chooses anew for each run: it finds deadlocks, lost wake-ups and lost items that need an
//! unlikely order, and names the seed that brings the order back. In that model no time passes: a
//! wait with a time limit only ends by a wake-up, so a time limit hides no lost one.
//!
//! Locks that are never held while another thread is waited for need not be these: no protocol depends on them.

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
