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
