//! The queue of sequences for one lane of truncated minibatches.

use cntk_reader_core::Result;
use cntk_reader_core::format::Chunk;
use cntk_reader_core::memory::room;
use cntk_reader_core::sequence::SequenceId;
use std::collections::VecDeque;
use std::sync::Arc;

/// Initial queue capacity of a slot, allocated with its first sequence. Short sequences soon fill
/// it, and unused slots take no memory.
const USUAL_QUEUE: usize = 16;

/// A sequence queued in a slot.
pub(super) struct QueuedSequence {
    pub id: SequenceId,
    /// Keeps the data in memory after the window has moved on.
    pub chunk: Arc<dyn Chunk>,
    pub samples: usize,
    /// Its selection reached the end of a sweep.
    pub end_of_sweep: bool,
}

/// The queue that fills one lane of successive minibatches.
#[derive(Default)]
pub(super) struct Slot {
    pub queue: VecDeque<QueuedSequence>,
    /// Samples of the first sequence that are already delivered, fewer than it has.
    pub cursor: usize,
    /// Samples of all sequences in the queue.
    samples: usize,
    /// Number of sequences in the queue that have no samples.
    empty: usize,
}

impl Slot {
    /// Returns the number of undelivered samples.
    pub fn available(&self) -> usize {
        self.samples - self.cursor
    }

    pub fn push(&mut self, sequence: QueuedSequence) -> Result<()> {
        if self.queue.capacity() == 0 {
            room::reserve(&mut self.queue, USUAL_QUEUE, room::SLOTS)?;
        }
        room::reserve(&mut self.queue, 1, room::SLOTS)?;
        self.samples += sequence.samples;
        self.empty += usize::from(sequence.samples == 0);
        self.queue.push_back(sequence);
        Ok(())
    }

    /// Removes the first sequence if it is fully delivered, and returns whether it carried the end
    /// of a sweep.
    pub fn pop_if_done(&mut self) -> Option<bool> {
        let front = self.queue.front().filter(|front| front.samples == self.cursor)?;
        self.samples -= front.samples;
        self.cursor = 0;
        self.queue.pop_front().map(|front| front.end_of_sweep)
    }

    /// Removes the first empty sequence within the next `steps` steps. Returns whether there was
    /// one. A sequence after the slot's last sample is not within any number of steps, but `steps`
    /// 0 removes it too.
    pub fn take_empty(&mut self, steps: usize) -> bool {
        if self.empty == 0 {
            return false;
        }
        let end = if steps == 0 { usize::MAX } else { self.cursor + self.available().min(steps) };
        let mut before = 0;
        let due = self.queue.iter().position(|queued| {
            let is_due = queued.samples == 0 && before < end;
            before += queued.samples;
            is_due
        });
        let Some(due) = due else { return false };
        self.empty -= 1;
        if let Some(QueuedSequence { end_of_sweep: true, .. }) = self.queue.remove(due)
            && let Some(last) = due.checked_sub(1).and_then(|last| self.queue.get_mut(last))
        {
            last.end_of_sweep = true;
        }
        true
    }

    /// Removes all sequences but keeps the memory.
    pub fn clear(&mut self) {
        *self = Slot { queue: std::mem::take(&mut self.queue), ..Slot::default() };
        self.queue.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pack::test_feed::TestChunk;

    /// Queues sequences of these lengths, with the flag of the end of a sweep.
    fn slot(sequences: &[(usize, bool)]) -> Slot {
        let chunk: Arc<dyn Chunk> = Arc::new(TestChunk { streams: Vec::new(), sequences: Vec::new() });
        let mut slot = Slot::default();
        for (&(samples, end_of_sweep), index) in sequences.iter().zip(0..) {
            let (id, chunk) = (SequenceId { chunk: 0, index }, Arc::clone(&chunk));
            slot.push(QueuedSequence { id, chunk, samples, end_of_sweep }).expect("memory");
        }
        slot
    }

    /// Returns the index and flag of each sequence in the queue.
    fn queue(slot: &Slot) -> Vec<(u32, bool)> {
        slot.queue.iter().map(|queued| (queued.id.index, queued.end_of_sweep)).collect()
    }

    #[test]
    fn delivered_sequences_are_removed() {
        let mut slot = slot(&[(2, false), (3, true)]);
        assert_eq!((slot.available(), slot.pop_if_done()), (5, None));
        slot.cursor = 2;
        assert_eq!((slot.available(), slot.pop_if_done()), (3, Some(false)));
        assert_eq!((slot.available(), slot.cursor, slot.pop_if_done()), (3, 0, None));
        slot.cursor = 3;
        assert_eq!((slot.available(), slot.pop_if_done()), (0, Some(true)));
        assert_eq!((slot.available(), slot.pop_if_done()), (0, None));
    }

    #[test]
    fn empty_sequences_are_taken_when_they_are_due() {
        let all = [(2, false), (0, true), (1, false), (0, false)];
        // The flag moves to the sequence before.
        let first_taken = vec![(0, true), (2, false), (3, false)];
        for (cursor, steps, expected) in [
            (0, 2, None),
            (0, 3, Some(&first_taken)),
            (1, 1, None),
            (1, 2, Some(&first_taken)),
            (0, 100, Some(&first_taken)),
            (0, 0, Some(&first_taken)),
        ] {
            let mut slot = slot(&all);
            slot.cursor = cursor;
            assert_eq!(slot.take_empty(steps), expected.is_some(), "{cursor} {steps}");
            if let Some(expected) = expected {
                assert_eq!(&queue(&slot), expected, "{cursor} {steps}");
            }
        }
        // The last one has no sample after it.
        let mut slot = slot(&all);
        assert!(slot.take_empty(100) && !slot.take_empty(100));
        assert_eq!(queue(&slot), first_taken);
        assert!(slot.take_empty(0) && !slot.take_empty(0));
        assert_eq!(queue(&slot), first_taken[..2]);
    }

    #[test]
    fn flag_of_the_first_sequence_is_dropped() {
        let mut slot = slot(&[(0, true), (0, false), (1, false)]);
        assert!(slot.take_empty(1));
        assert_eq!(queue(&slot), [(1, false), (2, false)]);
        assert!(slot.take_empty(1) && !slot.take_empty(1));
        assert_eq!((queue(&slot), slot.available()), (vec![(2, false)], 1));
    }

    #[test]
    fn cleared_slots_are_empty() {
        let mut slot = slot(&[(2, false), (0, true)]);
        slot.cursor = 1;
        let capacity = slot.queue.capacity();
        slot.clear();
        assert_eq!((slot.available(), slot.cursor, queue(&slot)), (0, 0, vec![]));
        assert!(!slot.take_empty(0));
        assert_eq!(slot.queue.capacity(), capacity);
    }
}
