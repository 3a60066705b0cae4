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
/// of the processor when it is read, and up to three batches are in memory at a time. (Second sweeps over bags of words in
/// minibatches of 256 take 1.4 times as long with half as much; pixels in minibatches of 32 up to 1.6 times with twice as much.)
const LARGE: usize = 1 << 18;

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

/// Most minibatches of a batch, however small they are: a batch must stay short, because very small ones are faster read in
/// place than handed to another thread ([`super::handoff::WORTH_A_THREAD`]). (A caller that does nothing between reads, 2 CPUs,
/// four shapes of data in minibatches of 8 and 32: one minibatch at a time takes 0.65 to 1.6 times as long as a number that is
/// doubled up to 64 until a batch is large enough, this rule 0.6 to 1.15 times.)
const MOST: usize = 8;

/// How many minibatches the next batch has, given the one before; depends on nothing but their sizes and the number of
/// threads that pack.
pub(super) fn next_size(before: &PrefetchBatch, threads: usize) -> usize {
    // One thread alone gains nothing by batches. The first batch is one minibatch, so that the caller waits for no more.
    if threads == 1 || before.ready.is_empty() {
        return 1;
    }
    let each = before.bytes() / before.ready.len();
    let least = if each <= SHARED { threads } else { 1 };
    (threads * LARGE / each.max(1)).clamp(least.min(MOST_AT_ONCE), MOST.max(least).min(MOST_AT_ONCE))
}
