//! Code that the integration tests share: a deterministic random number generator, generated data,
//! copies of minibatches for comparison, and child processes of a test binary.

// Every test binary compiles this module, but none uses all of it.
#![allow(dead_code)]

pub mod child;
pub mod data;
pub mod reading;
pub mod rng;
pub mod scenario;
pub mod seen;

use cntk_reader_core::runtime::log;
use std::sync::Arc;

/// Drops the log lines of this process, because tests provoke thousands of warnings.
pub fn quiet() {
    log::set_sink(Some(Arc::new(|_, _| {})));
}
