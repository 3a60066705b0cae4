//! Minibatches that are read together, and how many these are.
//!
//! To hand work to another thread and take it back costs about as much as packing several small minibatches. So they are
//! read in batches, which several threads pack, and which another thread reads while the caller takes them one by one.
//! A batch never goes beyond a move of the window, an error, or the end of an epoch.

use super::checkpoint::Progress;
use crate::pack::{MOST_AT_ONCE, Minibatch};
use cntk_reader_core::runtime::cancel;
use cntk_reader_core::{Error, Result};
use std::collections::VecDeque;
use std::time::Duration;

/// Each thread that packs gets about this many bytes of a batch: what is written should still be in the caches of the processor when it
/// is read, and up to three batches are in memory at a time. (Were layouts not counted, 114 MB instead of 70 would stay resident after the
/// 40 readers of `tests/memory.rs`, whose minibatches have single samples of four streams.)
///
/// All threads get as many minibatches. Were they given as many as are this large together, two threads would often get three of them, and
/// the third would take as long as the first two: later sweeps by two threads over minibatches of 90 to 350 KB take 0.74 to 1.0 of
/// the time now.
const LARGE: usize = 1 << 19;

/// Minibatches of up to this many bytes are packed by one thread each, however large the batch gets: of larger ones, one at a time, threads
/// copy parts, which takes less memory. (Parts of smaller ones take longer, because threads wait for each other, and one of them looks up all
/// sequences: features of speech in minibatches of 640 KB 1.34 of the time, two threads, rows of small whole numbers in minibatches of 2 MB
/// 1.3.)
const WHOLE: usize = 1 << 22;

/// Minibatches of a batch for each thread that packs, at most, however small they are: enough that what a batch costs is little beside packing
/// them. (Minibatches of 1 to 10 KB: in CNTK's place with 2 CPUs, 128 together instead of 32 take 0.75 to 0.9 of the time of later sweeps;
/// with 16 threads 512 instead of 128 take 0.86 to 0.97.)
const MOST_EACH: usize = 64;

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

    /// Takes the error of a read that was cancelled, which is always the last one.
    pub(super) fn pop_cancelled(&mut self) -> Option<Error> {
        self.ready.back().filter(|last| cancel::ended(&last.minibatch))?;
        self.ready.pop_back()?.minibatch.err()
    }

    /// Takes the next minibatch.
    pub(super) fn pop(&mut self) -> Option<Assembled> {
        let next = self.ready.pop_front();
        Minibatch::prefetch(self.ready.iter().filter_map(|ready| ready.minibatch.as_ref().ok()));
        next
    }

    /// Bytes of its largest minibatch.
    fn largest(&self) -> usize {
        let minibatches = self.ready.iter().filter_map(|assembled| assembled.minibatch.as_ref().ok());
        minibatches.map(Minibatch::bytes).max().unwrap_or(0)
    }
}

/// How many minibatches a batch has; depends on nothing but the sizes of those before it and the number of threads that pack.
pub(super) struct BatchSize {
    /// Bytes of a minibatch, as they are expected.
    each: usize,
    /// Minibatches of the next batch.
    pub wanted: usize,
}

impl BatchSize {
    /// The first batch is one minibatch, so that the caller waits for no more.
    pub(super) const FIRST: BatchSize = BatchSize { each: 0, wanted: 1 };

    /// The next batch after this one. One thread gains too where minibatches are tiny: what a batch costs is shared by all of them.
    pub(super) fn follow(&mut self, before: &PrefetchBatch, threads: usize) {
        self.expect(before.largest(), threads);
    }

    /// Sequences of very different lengths come in any order, so the minibatch after small ones may be a large one, and a batch of these would
    /// fill the caches and the memory. So the largest counts, for a while. With sequences of 1 to 1700 samples of 317 values, a later sweep
    /// by one thread takes 0.51 of the time that it took when the mean of the batch before counted (two threads: 0.85), and
    /// minibatches take 2 MB instead of 31.
    fn expect(&mut self, largest: usize, threads: usize) {
        self.each = largest.max(self.each - self.each / 16);
        let of_thread = LARGE.checked_div(self.each).unwrap_or(MOST_EACH).clamp(1, MOST_EACH);
        self.wanted = if self.each <= WHOLE { (threads * of_thread).min(MOST_AT_ONCE) } else { 1 };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_minibatches_count_for_a_while() {
        let mut size = BatchSize::FIRST;
        size.expect(LARGE / 8, 1);
        assert_eq!(size.wanted, 8);
        size.expect(4 * LARGE, 1);
        for _ in 0..20 {
            size.expect(LARGE / 1000, 1);
            assert_eq!(size.wanted, 1);
        }
        for _ in 0..200 {
            size.expect(LARGE / 1000, 1);
        }
        assert_eq!(size.wanted, MOST_EACH);
    }

    #[test]
    fn each_thread_gets_a_minibatch_unless_threads_copy_parts() {
        let mut size = BatchSize::FIRST;
        size.expect(WHOLE, 4);
        assert_eq!(size.wanted, 4);
        size.expect(WHOLE, 16);
        assert_eq!(size.wanted, 16);
        size.expect(WHOLE + 1, 4);
        assert_eq!(size.wanted, 1);
    }

    #[test]
    fn threads_get_as_many_minibatches() {
        for (bytes, wanted) in
            [(LARGE, 3), (LARGE / 2 + 1, 3), (LARGE / 2, 6), (LARGE / 3, 9), (1, 3 * MOST_EACH)]
        {
            let mut size = BatchSize::FIRST;
            size.expect(bytes, 3);
            assert_eq!(size.wanted, wanted, "{bytes} bytes");
        }
    }
}
