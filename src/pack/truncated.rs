//! Packing for truncated back-propagation through time: sequences stand in line in parallel slots, and each minibatch
//! takes the same number of steps from every slot.
//!
//! A sequence that does not fit goes on in the same row of the next minibatch. Records tell so: they begin before step 0
//! or end behind the last step. Between minibatches the slots hold sequences; [`Packer::queued`] tells which.

use super::buffer::BufferPool;
use super::layout::{GAP, Record};
use super::minibatch::{Minibatch, StreamMinibatch};
use super::sequence::empty_sequence;
use super::write::{self, Columns};
use super::{Feed, PackConfig, Packer, Queue, check_view, limits};
use crate::deserialize::{Chunk, Loaded};
use crate::error::ExceptionClass;
use crate::memory::Meter;
use crate::sequence::{SequenceId, ValueForm};
use crate::stream::StreamInfo;
use crate::{Error, ErrorKind, Result};
use std::collections::VecDeque;
use std::sync::Arc;

/// Packs a fixed number of steps at a time. All streams come out dense and share one layout.
pub struct TruncatedPacker {
    streams: Vec<StreamInfo>,
    pool: BufferPool,
    /// The sizes taken last.
    config: Option<PackConfig>,
    slots: Vec<Slot>,
    /// The minibatch's sequences by their numbers.
    sequences: Vec<SequenceId>,
}

/// A sequence in line.
struct Queued {
    id: SequenceId,
    /// Keeps its data in memory when the window has moved on.
    chunk: Arc<dyn Chunk>,
    samples: usize,
    end_of_sweep: bool,
}

/// Sequences that a slot has room for from the start: of short ones it holds one for each step of a minibatch.
const USUAL_QUEUE: usize = 16;

/// One parallel row and its line of sequences.
#[derive(Default)]
struct Slot {
    queue: VecDeque<Queued>,
    /// Samples of the first sequence that were delivered already; less than it has.
    cursor: usize,
    /// Samples of all sequences in line.
    samples: usize,
    /// Sequences in line without any.
    empty: usize,
}

impl Slot {
    /// Samples that are still to be delivered.
    fn available(&self) -> usize {
        self.samples - self.cursor
    }

    fn push(&mut self, sequence: Queued) {
        self.samples += sequence.samples;
        self.empty += usize::from(sequence.samples == 0);
        self.queue.push_back(sequence);
    }

    /// Takes the first sequence out if all of it was delivered, and tells whether it carried the end of a sweep.
    fn pop_if_done(&mut self) -> Option<bool> {
        let front = self.queue.front().filter(|front| front.samples == self.cursor)?;
        self.samples -= front.samples;
        self.cursor = 0;
        self.queue.pop_front().map(|front| front.end_of_sweep)
    }

    /// Takes the first sequence out that has no samples and is met in the next `steps` steps, if there is one. Behind the
    /// slot's last sample none is met: `steps` 0 takes it out even so.
    fn take_empty(&mut self, steps: usize) -> bool {
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
        if let Some(Queued { end_of_sweep: true, .. }) = self.queue.remove(due)
            && let Some(last) = due.checked_sub(1).and_then(|last| self.queue.get_mut(last))
        {
            last.end_of_sweep = true;
        }
        true
    }

    fn clear(&mut self) {
        *self = Slot { queue: std::mem::take(&mut self.queue), ..Slot::default() };
        self.queue.clear();
    }
}

impl TruncatedPacker {
    /// A packer for these streams. It fetches single sequences, for which local and global timelines are the same.
    pub fn new(streams: Vec<StreamInfo>, _local_timeline: bool) -> TruncatedPacker {
        TruncatedPacker {
            streams,
            pool: BufferPool::default(),
            config: None,
            slots: Vec::new(),
            sequences: Vec::new(),
        }
    }

    /// Counts the memory of its minibatches.
    #[must_use]
    pub(crate) fn metered(mut self, meter: &Meter) -> TruncatedPacker {
        self.pool = BufferPool::metered(meter);
        self
    }

    /// Fetches sequences until the slot has more than `truncation` samples. (Not just as many: CNTK 2.7 reads one more
    /// sequence, and the checkpoint's position shows it.)
    fn fill(&mut self, slot: usize, truncation: usize, feed: &mut dyn Feed) -> Result<()> {
        // Ends of sweeps since a sequence had samples. Behind the second one none will have any: a whole sweep had none.
        let mut barren = 0;
        while self.slots[slot].available() <= truncation && barren < 2 {
            let batch = feed.next(u64::MAX, 1)?;
            let (end_of_sweep, end_of_epoch) = (batch.end_of_sweep, batch.end_of_epoch);
            barren += u8::from(end_of_sweep && !batch.sequences.is_empty());
            // A fetch has more than one sequence only where some have no samples. CNTK 2.7 takes the first and leaves the
            // rest.
            let mut first = None;
            let mut invalid = 0;
            for (position, &id) in batch.sequences.iter().enumerate() {
                let Some(chunk) = batch.chunk(position, id) else {
                    return Err(Error::internal("The chunk of a sequence is not in memory."));
                };
                match presence(chunk, id, self.streams.len()) {
                    Presence::Whole => first = first.or(Some((position, id))),
                    Presence::Skipped => {}
                    Presence::Invalid => invalid += 1,
                }
            }
            let first = first.and_then(|(position, id)| Some((id, feed.keep(position)?)));
            feed.release();
            feed.count_invalid(invalid, first.is_some())?;
            if let Some((id, chunk)) = first {
                let samples = length(&*chunk, id, &self.streams)?;
                if samples > 0 {
                    barren = 0;
                }
                self.slots[slot].push(Queued { id, chunk, samples, end_of_sweep });
            }
            if end_of_epoch {
                break;
            }
        }
        Ok(())
    }

    /// Writes one row of the minibatch. Records go to the first stream's layout. Returns whether a sequence that
    /// carries the end of a sweep was completed.
    fn pack_row(
        slot: &mut Slot,
        row: usize,
        config: &PackConfig,
        infos: &[StreamInfo],
        streams: &mut [StreamMinibatch],
        sequences: &mut Vec<SequenceId>,
    ) -> Result<bool> {
        let steps = config.truncation as usize;
        let count = slot.available().min(steps);
        let mut end_of_sweep = false;
        let mut records = 0;
        let mut t = 0;
        while t < count {
            end_of_sweep |= slot.pop_if_done().unwrap_or(false);
            let Some(front) = slot.queue.front() else { break };
            let begin = t as i64 - slot.cursor as i64;
            add_record(
                streams,
                Record {
                    id: sequences.len() as u64,
                    lane: row as u64,
                    begin,
                    end: (begin + front.samples as i64) as u64,
                },
            );
            sequences.push(front.id);
            records += 1;
            let run = (front.samples - slot.cursor).min(count - t);
            for (number, (info, stream)) in infos.iter().zip(streams.iter_mut()).enumerate() {
                copy_run(front, slot.cursor, run, number, info, stream, t, row)
                    .map_err(|error| error.in_stream(&info.name))?;
            }
            slot.cursor += run;
            t += run;
        }
        // Steps are repeated only if one sequence filled the row.
        if records == 1 && count == steps {
            slot.cursor -= config.right_splice as usize;
        }
        if count > 0 {
            end_of_sweep |= slot.pop_if_done().unwrap_or(false);
        }
        if count < steps {
            let gap = Record { id: GAP, lane: row as u64, begin: count as i64, end: steps as u64 };
            add_record(streams, gap);
            for (info, stream) in infos.iter().zip(streams.iter_mut()) {
                let column = info.sample_size() * info.element.size();
                write::zero_gap(stream.data.bytes_mut(), &stream.layout, &gap, column);
            }
        }
        Ok(end_of_sweep)
    }
}

impl Packer for TruncatedPacker {
    /// Slots are numbered anew only if the minibatch size or the truncation changed; else they are only emptied, and
    /// their number stays although workers may have changed (CNTK 2.7 does so).
    fn configure(&mut self, config: &PackConfig) -> Result<()> {
        limits::check(config)?;
        if config.truncation == 0 {
            let message = "Truncation size cannot be zero.";
            return Err(Error::new(ErrorKind::InvalidArgument, ExceptionClass::Logic, message));
        }
        if config.right_splice >= config.truncation {
            // CNTK 2.7 accepts equality, and repeats the first minibatch for ever.
            return Err(Error::argument("rightSplice should be less than the truncation length."));
        }
        let same_sizes =
            |old: &PackConfig| (old.minibatch, old.truncation) == (config.minibatch, config.truncation);
        if !self.config.as_ref().is_some_and(same_sizes) {
            let all = (config.minibatch / config.truncation).max(1);
            if config.workers > all {
                return Err(Error::argument(
                    "Too many workers for minibatch size; please increase minibatch size or decrease number of workers.",
                ));
            }
            let own = all / config.workers + u64::from(config.rank < all % config.workers);
            let mut slots = Vec::new();
            if slots.try_reserve_exact(own as usize).is_err() {
                return Err(Error::argument("The minibatch size is too large."));
            }
            let room = (config.truncation as usize).saturating_add(1).min(USUAL_QUEUE);
            slots.resize_with(own as usize, || Slot {
                queue: VecDeque::with_capacity(room),
                ..Slot::default()
            });
            self.slots = slots;
        }
        self.config = Some(*config);
        self.reset();
        Ok(())
    }

    fn reset(&mut self) {
        self.slots.iter_mut().for_each(Slot::clear);
    }

    fn read(&mut self, feed: &mut dyn Feed) -> Result<Minibatch> {
        let Some(config) = self.config else {
            return Err(Error::state("The packer has no sizes yet."));
        };
        let steps = config.truncation as usize;
        for slot in 0..self.slots.len() {
            self.fill(slot, steps, feed)?;
        }
        // Before anything is packed, so that all but the sequence itself is still there for the next read. CNTK 2.7 gives
        // minibatches of gaps for ever where only empty sequences are left.
        let all_done = self.slots.iter().all(|slot| slot.available() == 0);
        let steps_to_come = if all_done { 0 } else { steps };
        if self.slots.iter_mut().any(|slot| slot.take_empty(steps_to_come)) {
            return Err(empty_sequence());
        }
        if self.slots.iter().all(|slot| slot.queue.is_empty()) {
            return Ok(Minibatch::empty(false, true));
        }
        let mut minibatch = self.pool.take(self.streams.len());
        for (info, stream) in self.streams.iter().zip(&mut minibatch.streams) {
            stream.layout.steps = steps;
            stream.layout.lanes = self.slots.len();
            stream.layout.right_splice = config.right_splice;
            let columns = steps.checked_mul(self.slots.len());
            let size = columns.and_then(|columns| {
                columns.checked_mul(info.sample_size())?.checked_mul(info.element.size())
            });
            let Some(size) = size else {
                return Err(Error::data("The minibatch is too large.").in_stream(&info.name));
            };
            stream.data.resize(size).map_err(|error| error.in_stream(&info.name))?;
        }
        self.sequences.clear();
        for (row, slot) in self.slots.iter_mut().enumerate() {
            let sequences = &mut self.sequences;
            minibatch.end_of_sweep |=
                Self::pack_row(slot, row, &config, &self.streams, &mut minibatch.streams, sequences)?;
        }
        if let Some((first, others)) = minibatch.streams.split_first_mut() {
            for other in others {
                other.layout.copy_from(&first.layout);
            }
        }
        minibatch.end_of_epoch = self.slots.iter().all(|slot| slot.queue.is_empty());
        feed.keys(&self.sequences, &mut minibatch.keys);
        self.pool.count(&mut minibatch);
        Ok(minibatch)
    }

    fn held_samples(&self) -> u64 {
        self.slots.iter().map(|slot| slot.available() as u64).sum()
    }

    fn queued(&self, queues: &mut Vec<Queue>) {
        queues.resize_with(self.slots.len(), Queue::default);
        for (queue, slot) in queues.iter_mut().zip(&self.slots) {
            queue.cursor = slot.cursor as u64;
            queue.sequences.clear();
            // Grows when the slot's line does, not later.
            queue.sequences.reserve(slot.queue.capacity());
            queue.sequences.extend(slot.queue.iter().map(|queued| (queued.id, queued.end_of_sweep)));
        }
    }

    fn requeue(
        &mut self,
        queues: &[Queue],
        chunk: &mut dyn FnMut(SequenceId) -> Result<Arc<dyn Chunk>>,
    ) -> Result<()> {
        let damaged =
            || Error::checkpoint(ExceptionClass::Runtime, "The checkpoint's queued sequences are damaged.");
        if self.config.is_none() {
            return Err(Error::state("The packer has no sizes yet."));
        }
        let mut slots = Vec::with_capacity(queues.len());
        for queue in queues {
            let mut slot = Slot::default();
            for &(id, end_of_sweep) in &queue.sequences {
                let chunk = chunk(id)?;
                if !matches!(presence(&*chunk, id, self.streams.len()), Presence::Whole) {
                    return Err(damaged());
                }
                let samples = length(&*chunk, id, &self.streams)?;
                slot.push(Queued { id, chunk, samples, end_of_sweep });
            }
            // The cursor lies within the first sequence, and at 0 if there is none or it is empty.
            let end = slot.queue.front().map_or(1, |front| front.samples.max(1) as u64);
            if queue.cursor >= end {
                return Err(damaged());
            }
            slot.cursor = queue.cursor as usize;
            slots.push(slot);
        }
        if slots.is_empty() {
            return Err(damaged());
        }
        self.slots = slots;
        Ok(())
    }
}

/// What is there of a sequence.
enum Presence {
    /// Data in all streams.
    Whole,
    /// Left out by its deserializer.
    Skipped,
    /// Invalid in at least one stream.
    Invalid,
}

fn presence(chunk: &dyn Chunk, id: SequenceId, streams: usize) -> Presence {
    let mut presence = Presence::Whole;
    for stream in 0..streams {
        match chunk.sequence(stream, id.index) {
            Loaded::Data(_) => {}
            Loaded::Skipped => presence = Presence::Skipped,
            Loaded::Invalid => return Presence::Invalid,
        }
    }
    presence
}

/// Samples of a sequence that is present in all streams; the same number in each of them. There may be none: CNTK 2.7
/// complains only when the sequence is due. Checks all that copying relies on, once, and not again for every minibatch that
/// takes a piece of a long sequence.
fn length(chunk: &dyn Chunk, id: SequenceId, streams: &[StreamInfo]) -> Result<usize> {
    let mut length = None;
    for (stream, info) in streams.iter().enumerate() {
        let Loaded::Data(view) = chunk.sequence(stream, id.index) else { continue };
        check_view(&view, info.element.size(), info.sample_size())
            .map_err(|error| error.in_stream(&info.name))?;
        if view.form != ValueForm::Whole || view.sparse.is_some_and(|sparse| sparse.narrow) {
            return Err(Error::internal("A chunk's data are narrow."));
        }
        if *length.get_or_insert(view.samples) != view.samples {
            let message = "For BPTT sequences between different input stream should have the same length.";
            return Err(Error::data(message).in_stream(&info.name));
        }
        if let Some(sparse) = &view.sparse {
            write::ascending(sparse.offsets)?;
        }
    }
    Ok(length.unwrap_or(0) as usize)
}

/// All streams share the layout; it is written to the first and copied to the others at the end.
fn add_record(streams: &mut [StreamMinibatch], record: Record) {
    if let Some(first) = streams.first_mut() {
        first.layout.records.push(record);
    }
}

/// Copies samples `from .. from + count` of a sequence's stream to the steps from `t` on of `row`.
#[expect(
    clippy::too_many_arguments,
    reason = "two runs of samples, source and target, in one of the streams"
)]
fn copy_run(
    sequence: &Queued,
    from: usize,
    count: usize,
    number: usize,
    info: &StreamInfo,
    stream: &mut StreamMinibatch,
    t: usize,
    row: usize,
) -> Result<()> {
    let Loaded::Data(view) = sequence.chunk.sequence(number, sequence.id.index) else {
        return Err(Error::internal("A sequence has vanished from its chunk."));
    };
    let column = info.sample_size() * info.element.size();
    let rows = stream.layout.lanes;
    let columns = Columns { first: (t * rows + row) * column, stride: rows * column, column };
    let out = stream.data.bytes_mut();
    match &view.sparse {
        Some(sparse) => write::expand(out, columns, info.element.size(), view.values, sparse, from, count),
        None => {
            let samples = &view.values[from * column..(from + count) * column];
            write::strided(out, columns.first, columns.stride, column, samples);
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests;
