//! Batches of minibatches, and their size.
//!
//! Handing work to another thread and taking it back costs about as much as packing several small
//! minibatches. So minibatches are read in batches, which several threads pack, and which another
//! thread prefetches while the caller takes minibatches one by one. A batch never extends past a
//! move of the window, an error, or the end of an epoch.

use super::checkpoint::Progress;
use crate::pack::{MAX_AT_ONCE, Minibatch};
use cntk_reader_core::runtime::cancel;
use cntk_reader_core::{Error, Result};
use std::collections::VecDeque;
use std::time::Duration;

/// Approximate number of bytes of a batch for each packing thread, layouts included. Minibatches
/// should still be in cache when they are read, and up to three batches are in memory at a time.
///
/// All threads get the same number of minibatches. Otherwise, two threads would often get three
/// minibatches, and the third would take as long as the first two.
const LARGE: usize = 1 << 19;

/// Size in bytes up to which each minibatch is packed by one thread, regardless of the size of the
/// batch. Larger ones are packed one at a time, with threads copying parts, which takes less
/// memory. (For smaller ones, copying parts is 30 % slower, because threads wait for each other,
/// and one of them looks up all sequences.)
const WHOLE: usize = 1 << 22;

/// Maximum number of minibatches in a batch for each packing thread: enough to make the cost of a
/// batch small compared with packing. (For minibatches of 1 to 10 KB and 2 CPUs, 16 per thread are
/// 10 to 30 % slower.)
const MAX_EACH: usize = 64;

/// A minibatch, or the error in its place, and the progress of the pipeline after it.
pub(super) struct Assembled {
    pub minibatch: Result<Minibatch>,
    pub progress: Progress,
}

/// Minibatches in order.
#[derive(Default)]
pub(super) struct PrefetchBatch {
    pub ready: VecDeque<Assembled>,
    /// The time taken to read all of them.
    pub took: Duration,
    /// A discarded progress, to reuse its memory.
    pub spare: Progress,
}

impl PrefetchBatch {
    /// Whether another batch can follow immediately: this one contains neither an error nor the end
    /// of the epoch.
    pub(super) fn goes_on(&self) -> bool {
        let last = self.ready.back().map(|last| &last.minibatch);
        last.is_some_and(|last| last.as_ref().is_ok_and(|minibatch| !minibatch.end_of_epoch))
    }

    /// Takes the error of a cancelled read, which is always the last item.
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

    /// Returns the size in bytes of its largest minibatch.
    fn largest(&self) -> usize {
        let minibatches = self.ready.iter().filter_map(|assembled| assembled.minibatch.as_ref().ok());
        minibatches.map(Minibatch::bytes).max().unwrap_or(0)
    }
}

/// Chooses the number of minibatches in a batch. Depends only on the sizes of previous minibatches
/// and the number of packing threads.
pub(super) struct BatchSize {
    /// Expected size of a minibatch in bytes.
    each: usize,
    /// Number of minibatches in the next batch.
    pub wanted: usize,
}

impl BatchSize {
    /// The first batch has one minibatch, so that the caller does not wait for more.
    pub(super) const FIRST: BatchSize = BatchSize { each: 0, wanted: 1 };

    /// Computes the size of the batch after this one. Tiny minibatches gain even with one thread,
    /// because they share the cost of a batch.
    pub(super) fn follow(&mut self, before: &PrefetchBatch, threads: usize) {
        self.expect(before.largest(), threads);
    }

    /// Updates the expected size from the largest minibatch, with slow decay. Sequences of very
    /// different lengths come in any order, so a large minibatch may follow small ones, and a batch
    /// of large ones would fill caches and memory. With the mean size instead, sequences of 1 to
    /// 1700 samples are half as fast and take 15 times the memory.
    fn expect(&mut self, largest: usize, threads: usize) {
        self.each = largest.max(self.each - self.each / 16);
        let of_thread = LARGE.checked_div(self.each).unwrap_or(MAX_EACH).clamp(1, MAX_EACH);
        self.wanted = if self.each <= WHOLE { (threads * of_thread).min(MAX_AT_ONCE) } else { 1 };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cntk_reader_core::runtime::cancel::Canceller;

    /// A minibatch of this many keys, eight bytes each.
    fn minibatch(keys: usize, end_of_epoch: bool) -> Result<Minibatch> {
        let mut minibatch = Minibatch::default();
        (minibatch.keys, minibatch.end_of_epoch) = (vec![0; keys], end_of_epoch);
        Ok(minibatch)
    }

    fn cancelled() -> Error {
        let canceller = Canceller::new();
        let result: Result<()> = canceller.run(|| {
            canceller.cancel();
            Ok(())
        });
        result.expect_err("cancelled")
    }

    fn batch(minibatches: Vec<Result<Minibatch>>) -> PrefetchBatch {
        let assembled = |minibatch| Assembled { minibatch, progress: Progress::default() };
        PrefetchBatch { ready: minibatches.into_iter().map(assembled).collect(), ..PrefetchBatch::default() }
    }

    #[test]
    fn last_minibatch_decides_whether_another_batch_follows() {
        for (minibatches, goes_on) in [
            (vec![], false),
            (vec![minibatch(1, true), minibatch(1, false)], true),
            (vec![minibatch(1, false), minibatch(1, true)], false),
            (vec![minibatch(1, false), Err(Error::data("bad"))], false),
        ] {
            assert_eq!(batch(minibatches).goes_on(), goes_on);
        }
    }

    #[test]
    fn cancelled_read_is_the_last_item() {
        let mut read = batch(vec![minibatch(3, false), Err(cancelled())]);
        assert!(read.pop_cancelled().is_some_and(|error| cancel::ended::<()>(&Err(error))));
        assert!(read.pop_cancelled().is_none());
        assert_eq!(read.pop().and_then(|item| item.minibatch.ok()).map(|one| one.keys.len()), Some(3));
        assert!(read.pop().is_none());
        let mut failed = batch(vec![Err(Error::data("bad"))]);
        assert!(failed.pop_cancelled().is_none());
        assert_eq!(failed.ready.len(), 1);
    }

    #[test]
    fn next_batch_follows_the_largest_minibatch() {
        let bytes = LARGE / 4;
        let read = batch(vec![minibatch(3, false), minibatch(bytes / 8, false), Err(Error::data("bad"))]);
        assert_eq!((read.largest(), batch(vec![]).largest()), (bytes, 0));
        let mut size = BatchSize::FIRST;
        assert_eq!(size.wanted, 1);
        size.follow(&read, 3);
        assert_eq!((size.each, size.wanted), (bytes, 12));
    }

    #[test]
    fn expected_size_decays_by_a_sixteenth() {
        let mut size = BatchSize::FIRST;
        for (largest, expected) in [(1600, 1600), (0, 1500), (1450, 1450), (3, 1360)] {
            size.expect(largest, 1);
            assert_eq!(size.each, expected);
        }
    }

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
        assert_eq!(size.wanted, MAX_EACH);
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
    fn threads_get_equal_numbers_of_minibatches() {
        for (bytes, wanted) in
            [(LARGE, 3), (LARGE / 2 + 1, 3), (LARGE / 2, 6), (LARGE / 3, 9), (1, 3 * MAX_EACH)]
        {
            let mut size = BatchSize::FIRST;
            size.expect(bytes, 3);
            assert_eq!(size.wanted, wanted, "{bytes} bytes");
        }
    }
}
