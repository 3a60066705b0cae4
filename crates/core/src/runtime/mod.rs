//! Threads: the pool, shared work, cancellation, forks, locks, and process exit.

pub mod cancel;
pub mod delivery;
pub mod exit;
pub mod fork;
pub mod helpers;
pub mod lock;
pub mod log;
pub mod pool;
pub mod sync;
pub mod thread;
