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
/// of the processor when it is read, and up to three batches are in memory at a time. Four times as much is not faster.
const LARGE: usize = 1 << 17;

/// Of minibatches up to this many bytes a batch has one for each thread that packs, however large the batch gets: a single
/// one is packed by one thread. With 4 threads, pixels in minibatches of 256 take 0.75 to 0.9 of the time.
const SHARED: usize = 1 << 20;

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

/// How many minibatches the next batch has; depends on nothing but their sizes. Starts with one, so that the
/// caller waits for no more than the first, and starts again where minibatches read ahead were of no use.
pub(super) struct BatchSizer {
    next: usize,
    threads: usize,
    /// A batch was large enough.
    found: bool,
}

impl BatchSizer {
    /// For this many threads that pack. One alone gains nothing by batches.
    pub(super) fn new(threads: usize) -> BatchSizer {
        BatchSizer { next: 1, threads, found: false }
    }

    pub(super) fn next(&self) -> usize {
        self.next
    }

    pub(super) fn restart(&mut self) {
        (self.next, self.found) = (1, false);
    }

    /// Learns from a batch. One that a move of the window cut short says nothing, and once a number is found it grows only
    /// if minibatches become much smaller: more of them at a time would need memory that is not there yet.
    pub(super) fn follow(&mut self, batch: &PrefetchBatch) {
        let (bytes, large) = (batch.bytes(), self.threads * LARGE);
        let enough = if self.found { large / 4 } else { large };
        let each = bytes / batch.ready.len().max(1);
        let least = if each <= SHARED { self.threads } else { 1 };
        self.next = match self.threads {
            1 => 1,
            _ if bytes < enough && batch.ready.len() >= self.next => (2 * self.next).min(MOST_AT_ONCE),
            _ if bytes > 2 * large => (self.next / 2).max(least),
            _ => self.next.max(least),
        };
        self.found |= bytes >= large;
    }
}
