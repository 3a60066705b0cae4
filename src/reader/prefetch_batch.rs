//! Minibatches that are read together, and how many these are.
//!
//! To hand work to another thread and take it back costs about as much as packing several small minibatches. So they are
//! read in batches, which several threads pack, and which another thread reads while the caller takes them one by one.
//! A batch never goes beyond a move of the window, an error, or the end of an epoch.

use super::checkpoint::Progress;
use crate::Result;
use crate::pack::{MOST_AT_ONCE, Minibatch};
use std::collections::VecDeque;
use std::time::Duration;

/// A batch of this many bytes for each thread that packs is large enough: what is written should still be in the caches
/// of the processor when it is read, and up to three batches are in memory at a time.
const LARGE: usize = 1 << 19;

/// Of minibatches up to this many bytes a batch has one for each thread that packs, however large the batch gets: a single
/// one is packed by one thread. (Two threads pack dense rows in minibatches of 2 to 4 MB in 0.52 to 0.57 of the time that one
/// takes. Larger ones would gain as much, but they are memory that trainers notice.)
const SHARED: usize = 1 << 22;

/// A minibatch, or the error in its place, and where the pipeline stood after it.
pub(super) struct Assembled {
    pub minibatch: Result<Minibatch>,
    pub progress: Progress,
}

/// Minibatches in their order.
#[derive(Default)]
pub(super) struct PrefetchBatch {
    pub ready: VecDeque<Assembled>,
    /// How long it took to read all of them.
    pub took: Duration,
    /// A progress that is not needed any more, for its memory.
    pub spare: Progress,
}

impl PrefetchBatch {
    /// Whether more can be read after it at once: it has no error, and not the end of the epoch.
    pub(super) fn goes_on(&self) -> bool {
        let last = self.ready.back().map(|last| &last.minibatch);
        last.is_some_and(|last| last.as_ref().is_ok_and(|minibatch| !minibatch.end_of_epoch))
    }

    fn bytes(&self) -> usize {
        let minibatches = self.ready.iter().filter_map(|assembled| assembled.minibatch.as_ref().ok());
        minibatches.flat_map(|minibatch| &minibatch.streams).map(|stream| stream.block().len()).sum()
    }
}

/// How many minibatches the next batch has, given the one before; depends on nothing but their sizes and the number of
/// threads that pack. One thread gains too where minibatches are tiny: what a batch costs is shared by all of them.
pub(super) fn next_size(before: &PrefetchBatch, threads: usize) -> usize {
    // The first batch is one minibatch, so that the caller waits for no more.
    if before.ready.is_empty() {
        return 1;
    }
    let each = before.bytes() / before.ready.len();
    let least = if each <= SHARED { threads } else { 1 };
    (threads * LARGE / each.max(1)).clamp(least.min(MOST_AT_ONCE), MOST_AT_ONCE)
}
