//! Packing for truncated back-propagation through time: sequences are queued in one slot per lane,
//! and each minibatch takes the same number of steps from every slot.
//!
//! A sequence that does not fit continues in the same lane of the next minibatch. Its records then
//! begin before step 0 or end after the last step. Slots hold sequences between minibatches;
//! [`Packer::queued`] saves them.

mod slot;
mod sparse;

use super::copy::{self, Columns, Repeats};
use super::explain::{self, Explain};
use super::feed::Feed;
use super::layout::{GAP, Record};
use super::limits::PackConfig;
use super::memory::MinibatchMemory;
use super::minibatch::{Minibatch, MinibatchPool, StreamMinibatch};
use super::packer::{Packer, Queue};
use super::{check, limits};
use cntk_reader_core::error::ExceptionClass;
use cntk_reader_core::format::{Chunk, Loaded};
use cntk_reader_core::memory::room;
use cntk_reader_core::sequence::SequenceId;
use cntk_reader_core::stream::{ElementType, Storage, StreamInfo};
use cntk_reader_core::{Error, ErrorKind, Result};
use slot::{QueuedSequence, Slot};
use sparse::Run;
use std::sync::Arc;

/// Packs a fixed number of steps at a time. All streams share one layout. Sparse streams become
/// dense, as in CNTK, unless they are kept.
pub struct TruncatedPacker {
    streams: Vec<StreamInfo>,
    pool: MinibatchPool,
    /// The sizes set last.
    config: Option<PackConfig>,
    slots: Vec<Slot>,
    /// The minibatch's sequences, by their numbers in it.
    sequences: Vec<SequenceId>,
    /// The runs of samples in the minibatch, if sparse streams are kept.
    runs: Vec<Run>,
    explain: Explain,
    repeats: Repeats,
    expands_sparse: bool,
}

impl TruncatedPacker {
    /// Creates a packer for these streams. It requests one sequence at a time, which makes local
    /// and global timelines equivalent.
    pub(crate) fn new(streams: Vec<StreamInfo>, _local_timeline: bool) -> TruncatedPacker {
        TruncatedPacker {
            streams,
            pool: MinibatchPool::default(),
            config: None,
            slots: Vec::new(),
            sequences: Vec::new(),
            runs: Vec::new(),
            explain: Explain::default(),
            repeats: Repeats::Sum,
            expands_sparse: true,
        }
    }

    /// Makes errors about single sequences name their location.
    #[must_use]
    pub(crate) fn explained(self, explain: Explain) -> TruncatedPacker {
        TruncatedPacker { explain, ..self }
    }

    /// Gives repeated indices in a sparse sample their last value, as CNTK 2.7 does.
    #[must_use]
    pub(crate) fn with_last_of_repeats(self) -> TruncatedPacker {
        TruncatedPacker { repeats: Repeats::Last, ..self }
    }

    /// Keeps sparse streams sparse.
    #[must_use]
    pub(crate) fn with_sparse_streams(self) -> TruncatedPacker {
        TruncatedPacker { expands_sparse: false, ..self }
    }

    /// Whether a stream is sparse in minibatches.
    fn keeps_sparse(&self, info: &StreamInfo) -> bool {
        info.storage == Storage::SparseCsc && !self.expands_sparse
    }

    /// Counts the packer's minibatches towards `memory`.
    #[must_use]
    pub(crate) fn of_memory(mut self, memory: &MinibatchMemory) -> TruncatedPacker {
        self.pool = MinibatchPool::of_memory(memory);
        self
    }

    /// Rejects sizes that exceed any memory. Each slot is filled with more samples than a minibatch
    /// has steps, so endlessly repeated data would be queued without end.
    fn check_room(&self, config: &PackConfig) -> Result<()> {
        // The values of sparse streams that are kept are not known in advance.
        let dense = self.streams.iter().filter(|info| !info.has_late_shape() && !self.keeps_sparse(info));
        let sample: u128 = dense.map(|info| info.sample_size() as u128 * info.element.size() as u128).sum();
        let step = sample + size_of::<QueuedSequence>() as u128;
        let slot = u128::from(config.truncation).saturating_mul(step) + size_of::<Slot>() as u128;
        room::check(slot.saturating_mul(own_slots(config).into()), room::TRUNCATED)
    }

    /// Whether the packer already has this minibatch size and truncation length.
    fn has_sizes_of(&self, config: &PackConfig) -> bool {
        let sizes = |config: &PackConfig| (config.minibatch, config.truncation);
        self.config.as_ref().is_some_and(|old| sizes(old) == sizes(config))
    }

    /// Fetches sequences until the slot has more than `truncation` samples. (`truncation` samples
    /// would suffice, but CNTK 2.7 reads one more sequence, which shows in the checkpoint's
    /// position.)
    fn fill(&mut self, slot: usize, truncation: usize, feed: &mut dyn Feed) -> Result<()> {
        // Number of sweep ends since the last sequence with samples. Two mean that a whole sweep
        // had no samples.
        let mut barren = 0;
        while self.slots[slot].available() <= truncation && barren < 2 {
            let loaded = feed.next(u64::MAX, 1)?;
            let (end_of_sweep, end_of_epoch) = (loaded.end_of_sweep, loaded.end_of_epoch);
            barren += u8::from(end_of_sweep && !loaded.sequences.is_empty());
            // A selection has several sequences only if some have no samples. CNTK 2.7 takes the
            // first one and ignores the rest.
            let mut first = None;
            let mut invalid = 0;
            for (position, &id) in loaded.sequences.iter().enumerate() {
                let Some(chunk) = loaded.chunk(position, id) else {
                    return Err(Error::internal("The chunk of a sequence is not in memory."));
                };
                match presence(chunk, id, self.streams.len()) {
                    Presence::Whole => first = first.or(Some((position, id))),
                    Presence::Skipped => {}
                    Presence::Invalid(stream) => match chunk.failure(stream, id.index) {
                        Some(error) => return Err(error),
                        None => invalid += 1,
                    },
                }
            }
            let first = first.and_then(|(position, id)| Some((id, feed.keep(position)?)));
            feed.release();
            feed.count_invalid(invalid, first.is_some())?;
            if let Some((id, chunk)) = first {
                let samples = self.length(&*chunk, id)?;
                if samples > 0 {
                    barren = 0;
                }
                self.slots[slot].push(QueuedSequence { id, chunk, samples, end_of_sweep })?;
            }
            if end_of_epoch {
                break;
            }
        }
        Ok(())
    }

    /// Returns the number of samples of a sequence present in all streams, which must agree. It may
    /// be 0: CNTK 2.7 reports that only when the sequence is due. Checks everything that copying
    /// relies on, once per sequence rather than for each minibatch with a piece of it.
    fn length(&self, chunk: &dyn Chunk, id: SequenceId) -> Result<usize> {
        let mut length: Option<u32> = None;
        for (stream, info) in self.streams.iter().enumerate() {
            let Loaded::Data(view) = chunk.sequence(stream, id.index) else { continue };
            let first = *length.get_or_insert(view.samples);
            let check = || {
                check::sizes(&view, info.element, info.sample_size())?;
                if first != view.samples {
                    return Err(self.different(chunk, id));
                }
                view.sparse().map_or(Ok(()), |sparse| check::ascending(sparse.offsets))
            };
            check().map_err(|error| {
                let error = self.explain.locate(error.in_stream(&info.name), id, stream, None);
                // All other kinds are mistakes of a deserializer.
                if error.kind() == ErrorKind::Data { self.explain.blame(error) } else { error }
            })?;
        }
        Ok(length.unwrap_or(0) as usize)
    }

    /// Creates the error for a sequence whose streams have different numbers of samples.
    #[cold]
    fn different(&self, chunk: &dyn Chunk, id: SequenceId) -> Error {
        let message = "For BPTT sequences between different input stream should have the same length.";
        let lengths = self.streams.iter().enumerate().filter_map(|(stream, info)| {
            match chunk.sequence(stream, id.index) {
                Loaded::Data(view) => Some((info, view.samples)),
                _ => None,
            }
        });
        Error::data(message).as_cntk().with_detail(explain::lengths(lengths)).with_detail(
            "‹truncated› cuts all streams after equal numbers of steps, so each sample needs its partner. With one label \
             for many words, remove ‹truncation›: whole sequences are then packed, each stream in its own \
             layout, and ‹defines_minibatch_size = true› selects the stream whose samples the minibatch size counts. Otherwise make \
             the lengths equal: write a label for each sample.",
        )
    }

    /// Writes one lane of the minibatch: records to the first stream's layout, samples to the dense
    /// streams, and runs for the sparse ones. Returns whether it completed a sequence that carries
    /// the end of a sweep.
    fn pack_lane(
        &mut self,
        lane: usize,
        config: &PackConfig,
        streams: &mut [StreamMinibatch],
    ) -> Result<bool> {
        let (infos, repeats, expands_sparse) = (&self.streams, self.repeats, self.expands_sparse);
        let lanes = self.slots.len();
        let (slot, sequences) = (&mut self.slots[lane], &mut self.sequences);
        // Whether samples are written lane by lane.
        let is_dense = |info: &StreamInfo| expands_sparse || info.storage == Storage::Dense;
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
                    lane: lane as u64,
                    begin,
                    end: (begin + front.samples as i64) as u64,
                },
            );
            sequences.push(front.id);
            records += 1;
            let run = (front.samples - slot.cursor).min(count - t);
            if !infos.iter().all(is_dense) {
                let samples = slot.cursor..slot.cursor + run;
                let (chunk, column) = (Arc::clone(&front.chunk), t * lanes + lane);
                room::reserve(&mut self.runs, 1, room::MINIBATCH)?;
                self.runs.push(Run { chunk, index: front.id.index, samples, column });
            }
            let dense =
                infos.iter().zip(streams.iter_mut()).enumerate().filter(|(_, (info, _))| is_dense(info));
            for (number, (info, stream)) in dense {
                copy_run(front, slot.cursor, run, number, info, stream, t, lane, repeats)
                    .map_err(|error| error.in_stream(&info.name))?;
            }
            slot.cursor += run;
            t += run;
        }
        // Steps overlap only if a single sequence filled the lane.
        if records == 1 && count == steps {
            slot.cursor -= config.right_splice as usize;
        }
        if count > 0 {
            end_of_sweep |= slot.pop_if_done().unwrap_or(false);
        }
        if count < steps {
            let gap = Record { id: GAP, lane: lane as u64, begin: count as i64, end: steps as u64 };
            add_record(streams, gap);
            for (info, stream) in infos.iter().zip(streams.iter_mut()).filter(|(info, _)| is_dense(info)) {
                let column = info.sample_size() * info.element.size();
                let (layout, out) = stream.parts_mut();
                match (info.padding, info.element) {
                    (0, _) => copy::fill_gap(out, layout, &gap, column, &[0]),
                    (value, ElementType::Int32) => {
                        copy::fill_gap(out, layout, &gap, column, &(value as i32).to_ne_bytes());
                    }
                    (value, _) => copy::fill_gap(out, layout, &gap, column, &value.to_ne_bytes()),
                }
            }
        }
        Ok(end_of_sweep)
    }
}

/// Returns the number of slots of all workers.
fn slots_of_all(config: &PackConfig) -> u64 {
    (config.minibatch / config.truncation).max(1)
}

/// Returns the number of this worker's slots.
fn own_slots(config: &PackConfig) -> u64 {
    let all = slots_of_all(config);
    all / config.workers + u64::from(config.rank < all % config.workers)
}

impl Packer for TruncatedPacker {
    fn check(&self, config: &PackConfig) -> Result<()> {
        limits::check(config)?;
        if config.truncation == 0 {
            let message = "Truncation size cannot be zero.";
            let error = Error::new(ErrorKind::InvalidArgument, ExceptionClass::Logic, message);
            return Err(error.with_detail("Set ‹truncation_length› to the number of steps of a minibatch."));
        }
        if config.right_splice >= config.truncation {
            // CNTK 2.7 accepts equality, and then repeats the first minibatch forever.
            let message = "rightSplice should be less than the truncation length.";
            let (splice, length) = (config.right_splice, config.truncation);
            return Err(Error::argument(message).with_detail(format!("They are {splice} and {length}: choose a longer ‹truncation_length›, or a smaller ‹right_splice›.")));
        }
        if !self.has_sizes_of(config) && config.workers > slots_of_all(config) {
            let message = "Too many workers for minibatch size; please increase minibatch size or decrease number of workers.";
            return Err(Error::argument(message).with_detail(format!(
                "{} workers need a minibatch size of at least {} samples, the truncation length for each; it is {}.",
                config.workers,
                config.workers.saturating_mul(config.truncation),
                config.minibatch
            )));
        }
        self.check_room(config)
    }

    /// Sets the number of slots only if the minibatch size or the truncation length changed.
    /// Otherwise empties the slots but keeps their number, even if the workers changed (as in CNTK
    /// 2.7).
    fn configure(&mut self, config: &PackConfig) -> Result<()> {
        self.check(config)?;
        if !self.has_sizes_of(config) {
            let own = own_slots(config);
            let mut slots = room::with_capacity(own as usize, room::SLOTS)?;
            slots.resize_with(own as usize, Slot::default);
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
        // Check before packing, so that the next read finds everything except the empty sequence.
        // If only empty sequences are left, CNTK 2.7 delivers minibatches of gaps forever.
        let all_done = self.slots.iter().all(|slot| slot.available() == 0);
        let steps_to_come = if all_done { 0 } else { steps };
        if self.slots.iter_mut().any(|slot| slot.take_empty(steps_to_come)) {
            // All streams agree on the number of samples, so each of them is empty.
            return Err(check::empty_sequence(self.streams.first().map_or("", |info| &info.name)));
        }
        if self.slots.iter().all(|slot| slot.queue.is_empty()) {
            return Ok(Minibatch::empty(false, true));
        }
        let mut minibatch = self.pool.take(self.streams.len());
        // A lane has one record for each sequence, and one for a gap.
        let records = self.slots.iter().map(|slot| slot.queue.len().min(steps) + 1).sum();
        minibatch.reserve(records)?;
        room::reserve(&mut self.sequences, records, room::MINIBATCH)?;
        for (info, stream) in self.streams.iter().zip(&mut minibatch.streams) {
            stream.layout.steps = steps;
            stream.layout.lanes = self.slots.len();
            stream.layout.right_splice = config.right_splice;
            if self.keeps_sparse(info) {
                continue;
            }
            let allocated = stream.allocate(Storage::Dense, info.element, info.sample_size(), 0);
            allocated.map_err(|error| error.in_stream(&info.name))?;
        }
        self.sequences.clear();
        self.runs.clear();
        for lane in 0..self.slots.len() {
            minibatch.end_of_sweep |= self.pack_lane(lane, &config, &mut minibatch.streams)?;
        }
        for (number, (info, stream)) in self.streams.iter().zip(&mut minibatch.streams).enumerate() {
            if self.keeps_sparse(info) {
                let written = sparse::write(&self.runs, number, info, stream);
                written.map_err(|error| error.in_stream(&info.name))?;
            }
        }
        self.runs.clear();
        if let Some((first, others)) = minibatch.streams.split_first_mut() {
            for other in others {
                other.layout.copy_from(&first.layout);
            }
        }
        minibatch.end_of_epoch = self.slots.iter().all(|slot| slot.queue.is_empty());
        feed.keys(&self.sequences, &mut minibatch.keys);
        self.pool.finish(&mut minibatch);
        Ok(minibatch)
    }

    fn held_samples(&self) -> u64 {
        self.slots.iter().map(|slot| slot.available() as u64).sum()
    }

    fn queued(&self, queues: &mut Vec<Queue>) -> Result<()> {
        room::resize_with(queues, self.slots.len(), Queue::default, room::SLOTS)?;
        for (queue, slot) in queues.iter_mut().zip(&self.slots) {
            queue.cursor = slot.cursor as u64;
            queue.sequences.clear();
            // Grow together with the slot's queue.
            room::reserve(&mut queue.sequences, slot.queue.capacity(), room::SLOTS)?;
            queue.sequences.extend(slot.queue.iter().map(|queued| (queued.id, queued.end_of_sweep)));
        }
        Ok(())
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
        let mut slots = room::with_capacity(queues.len(), room::SLOTS)?;
        for queue in queues {
            let mut slot = Slot::default();
            for &(id, end_of_sweep) in &queue.sequences {
                let chunk = chunk(id)?;
                if !matches!(presence(&*chunk, id, self.streams.len()), Presence::Whole) {
                    return Err(damaged());
                }
                let samples = self.length(&*chunk, id)?;
                slot.push(QueuedSequence { id, chunk, samples, end_of_sweep })?;
            }
            // The cursor must lie within the first sequence, or be 0 if there is none or it is
            // empty.
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

/// Whether a sequence has data in all streams.
enum Presence {
    /// It has data in all streams.
    Whole,
    /// Its deserializer skipped it.
    Skipped,
    /// It is invalid; this is the first stream in which it is.
    Invalid(usize),
}

fn presence(chunk: &dyn Chunk, id: SequenceId, streams: usize) -> Presence {
    let mut presence = Presence::Whole;
    for stream in 0..streams {
        match chunk.sequence(stream, id.index) {
            Loaded::Data(_) => {}
            Loaded::Skipped => presence = Presence::Skipped,
            Loaded::Invalid => return Presence::Invalid(stream),
        }
    }
    presence
}

/// Adds a record to the shared layout, which is built in the first stream and copied to the others
/// at the end.
fn add_record(streams: &mut [StreamMinibatch], record: Record) {
    if let Some(first) = streams.first_mut() {
        first.layout.records.push(record);
    }
}

/// Copies samples `from .. from + count` of a sequence in stream `number` to the steps of `lane`
/// from `t` on.
#[expect(
    clippy::too_many_arguments,
    reason = "two runs of samples, source and target, in one of the streams"
)]
fn copy_run(
    sequence: &QueuedSequence,
    from: usize,
    count: usize,
    number: usize,
    info: &StreamInfo,
    stream: &mut StreamMinibatch,
    t: usize,
    lane: usize,
    repeats: Repeats,
) -> Result<()> {
    let Loaded::Data(view) = sequence.chunk.sequence(number, sequence.id.index) else {
        return Err(Error::internal("A sequence has vanished from its chunk."));
    };
    let column = info.sample_size() * info.element.size();
    let (layout, out) = stream.parts_mut();
    let lanes = layout.lanes;
    let columns = Columns { first: (t * lanes + lane) * column, stride: lanes * column, column };
    copy::samples(out, columns, info.element.size(), &view, from, count, repeats)
}

#[cfg(test)]
mod differential;
#[cfg(test)]
mod tests;
