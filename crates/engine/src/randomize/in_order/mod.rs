//! The data's own order, without randomization.
//!
//! A sequence belongs to the worker `running number mod workers`. The running number continues from
//! sweep to sweep, so if the number of sequences of a sweep is not a multiple of the number of
//! workers, a worker's share differs from sweep to sweep. [`Timeline::seek`] restarts the running
//! number at the index in the sweep, as CNTK does.
//!
//! The table may grow while it is read. In that case the length of a sweep is unknown until the end
//! of the first one, and until then a sweep is treated as endless. Positions before that end are
//! the same either way.

#[cfg(test)]
mod differential;
#[cfg(test)]
mod tests;

use super::{
    EpochConfig, EpochSpan, Position, Selection, Timeline, Window, WorkerConfig, check_limits, no_samples,
    total_samples,
};
use crate::randomize::Pace;
use cntk_reader_core::error::ExceptionClass;
use cntk_reader_core::format::{ChunkInfo, ChunkTable, ChunkTableExt, Lengths};
use cntk_reader_core::limits::LARGEST_MINIBATCH;
use cntk_reader_core::memory::room;
use cntk_reader_core::sequence::{ChunkId, SequenceId};
use cntk_reader_core::{Error, ErrorKind, Result};
use std::sync::Arc;

/// The size of a sweep while it is unknown.
const ENDLESS: u64 = u64::MAX;

/// A timeline without randomization.
pub struct InOrder {
    table: Arc<dyn ChunkTable>,
    /// Samples and sequences of a sweep, or both [`ENDLESS`].
    sweep_samples: u64,
    sweep_sequences: u64,
    workers: WorkerConfig,
    pace: Pace,
    /// The epoch, and its span on the timeline.
    epoch_config: Option<EpochConfig>,
    epoch: EpochSpan,
    /// Samples of all workers since the start of sweep 0.
    samples: u64,
    /// The running number of the next sequence.
    counter: u64,
    /// The next sequence; its index is less than the chunk's number of sequences.
    next: SequenceId,
    /// Samples of the sweep's chunks before the chunk of `next`.
    before: u64,
    /// This worker's chunks in the last non-empty selection, in order and without duplicates.
    touched: Vec<ChunkId>,
    /// The value of `touched` for the selection in progress.
    touching: Vec<ChunkId>,
    /// The number of the last selection that touched each chunk. Ends at the last touched chunk.
    touched_in: Vec<u64>,
    /// The number of the selection that `touched` belongs to; 0 for none.
    touched_by: u64,
    selections: u64,
    stamp: u64,
}

/// The progress of a selection, and its limits.
struct Progress {
    global: u64,
    local: u64,
    global_limit: u64,
    local_limit: u64,
    /// Sequences of other workers before this worker's next one.
    until_own: u64,
    at_least_one: bool,
    /// Sweeps that ended since the last sample of this worker.
    sweeps_without: u64,
}

impl InOrder {
    /// Creates a timeline over the table. A table without samples is rejected on first use.
    pub fn new(table: Arc<dyn ChunkTable>) -> Self {
        let mut timeline = InOrder {
            sweep_samples: ENDLESS,
            sweep_sequences: ENDLESS,
            touched_in: Vec::new(),
            table,
            workers: WorkerConfig { workers: 1, rank: 0, cross_sweeps: true },
            pace: Pace::Own,
            epoch_config: None,
            epoch: EpochSpan::default(),
            samples: 0,
            counter: 0,
            next: SequenceId { chunk: 0, index: 0 },
            before: 0,
            touched: Vec::new(),
            touching: Vec::new(),
            touched_by: 0,
            selections: 0,
            stamp: 0,
        };
        if timeline.table.incremental().is_none() {
            timeline.learn();
        }
        timeline
    }

    /// Sets the pace. In lockstep, both limits of [`Timeline::next`] must be equal.
    #[must_use]
    pub fn at_pace(self, pace: Pace) -> Self {
        InOrder { pace, ..self }
    }

    fn is_endless(&self) -> bool {
        self.sweep_samples == ENDLESS
    }

    /// Sets the length of a sweep once all chunks are known.
    fn learn(&mut self) {
        let sequences = self.table.chunks().iter().map(|chunk| u64::from(chunk.sequences));
        self.sweep_sequences = sequences.sum();
        self.sweep_samples = total_samples(&*self.table);
        // Only the end depends on this length: the start either does not, or was set after the
        // length became known.
        if let Some(Ok(span)) = self.epoch_config.map(|epoch| epoch.span(self.sweep_samples)) {
            self.epoch.end = span.end;
        }
    }

    /// Waits until all chunks are known. Fails if they have no samples.
    fn learn_all(&mut self) -> Result<()> {
        if self.is_endless() {
            let mut chunk = self.next.chunk;
            while self.table.chunk(chunk)?.is_some() {
                chunk += 1;
            }
            self.learn();
            if self.sweep_samples == 0 {
                return Err(no_samples());
            }
        }
        Ok(())
    }

    /// Returns the size of a chunk, which must exist.
    fn info(&self, chunk: ChunkId) -> Result<ChunkInfo> {
        let past_end = || {
            Error::internal(format!("A sequence of chunk {chunk} was requested, but there is no such chunk."))
        };
        self.table.chunk(chunk)?.ok_or_else(past_end)
    }

    /// Returns the number of sequences from running number `counter` to this worker's next one.
    fn until_own(&self, counter: u64) -> u64 {
        let WorkerConfig { workers, rank, .. } = self.workers;
        let turn = counter % workers;
        if turn <= rank { rank - turn } else { workers - turn + rank }
    }

    /// Returns the lengths of a chunk's sequences, checked against the chunk table.
    fn lengths(&self, chunk: ChunkId) -> Result<Lengths<'_>> {
        let info = self.info(chunk)?;
        let lengths = self.table.lengths(chunk);
        let agrees = match lengths {
            Lengths::Ones => info.samples == u64::from(info.sequences),
            Lengths::Each(lengths) => lengths.len() == info.sequences as usize,
        };
        if agrees {
            return Ok(lengths);
        }
        Err(Error::internal(format!(
            "Chunk {chunk} was announced with {} sequences and {} samples, but its sequence lengths disagree.",
            info.sequences, info.samples
        )))
    }

    /// Skips exhausted chunks. Returns whether a sweep ended.
    fn skip_used_up(&mut self) -> bool {
        let mut wrapped = false;
        loop {
            match self.table.chunk(self.next.chunk) {
                Ok(Some(info)) if self.next.index == info.sequences => {
                    self.next = SequenceId { chunk: self.next.chunk + 1, index: 0 };
                    self.before = self.before.saturating_add(info.samples);
                }
                Ok(None) if self.next.chunk > 0 => {
                    self.next.chunk = 0;
                    self.before = 0;
                    wrapped = true;
                    if self.is_endless() {
                        self.learn();
                    }
                }
                // An error in the next chunk is reported when one of its sequences is requested.
                Ok(_) | Err(_) => return wrapped,
            }
        }
    }

    /// Goes to the first sequence that starts at or after `samples`.
    fn go_to(&mut self, samples: u64) -> Result<()> {
        let offset = if self.is_endless() { samples } else { samples % self.sweep_samples };
        let (mut before, mut sequences, mut chunk) = (0_u64, 0_u64, 0);
        while before < offset {
            let Some(info) = self.table.chunk(chunk)? else {
                // The offset lies past the first sweep.
                self.learn_all()?;
                return self.go_to(samples);
            };
            if info.samples > offset - before {
                break;
            }
            before += info.samples;
            sequences += u64::from(info.sequences);
            chunk += 1;
        }
        // CNTK 2.7 skips chunks without samples and goes to the one that holds the sample.
        while let Ok(Some(info)) = self.table.chunk(chunk)
            && info.samples == 0
        {
            sequences += u64::from(info.sequences);
            chunk += 1;
        }
        let (mut start, mut index) = (before, 0);
        if start < offset {
            match self.lengths(chunk)? {
                Lengths::Ones => {
                    index = (offset - start) as u32;
                    start = offset;
                }
                Lengths::Each(lengths) => {
                    while start < offset && (index as usize) < lengths.len() {
                        start += u64::from(lengths[index as usize]);
                        index += 1;
                    }
                }
            }
        }
        self.samples = (samples - offset).saturating_add(start);
        self.next = SequenceId { chunk, index };
        self.before = before;
        self.counter = if self.skip_used_up() { 0 } else { sequences + u64::from(index) };
        self.touched.clear();
        self.touched_by = 0;
        self.stamp += 1;
        Ok(())
    }

    /// Finds a sequence by its number in the sweep. Returns its id, the samples before its chunk
    /// and the samples before the sequence itself, or `None` if the number is out of range.
    fn locate(&self, sequence: u64) -> Result<Option<(SequenceId, u64, u64)>> {
        let (mut rest, mut before, mut chunk) = (sequence, 0, 0);
        while let Some(info) = self.table.chunk(chunk)? {
            if rest >= u64::from(info.sequences) {
                rest -= u64::from(info.sequences);
                before += info.samples;
                chunk += 1;
                continue;
            }
            let index = rest as u32;
            let samples: u64 = match self.lengths(chunk)? {
                Lengths::Ones => rest,
                Lengths::Each(lengths) => {
                    lengths[..index as usize].iter().map(|&length| u64::from(length)).sum()
                }
            };
            return Ok(Some((SequenceId { chunk, index }, before, before + samples)));
        }
        Ok(None)
    }

    /// Skips whole sweeps in which this worker has no sequence, as happens with very many workers.
    /// Stops before the sweep that reaches a limit, because the limit may be reached before its
    /// last sequence.
    fn skip_sweeps(&mut self, progress: &mut Progress) {
        let sweeps = (progress.until_own / self.sweep_sequences)
            .min((self.epoch.end - self.samples - 1) / self.sweep_samples)
            .min((progress.global_limit - progress.global - 1) / self.sweep_samples);
        let (samples, sequences) = (sweeps * self.sweep_samples, sweeps * self.sweep_sequences);
        self.samples += samples;
        self.counter = self.counter.wrapping_add(sequences);
        progress.global += samples;
        progress.until_own -= sequences;
        progress.at_least_one &= !(self.pace == Pace::Lockstep && sweeps > 0);
    }

    /// Takes sequences of the current chunk. Returns false if one does not fit.
    fn take(&mut self, progress: &mut Progress, sequences: &mut Vec<SequenceId>) -> Result<bool> {
        let chunk = self.next.chunk;
        let first = self.next.index;
        let left = self.info(chunk)?.sequences - first;
        let before = sequences.len();
        let workers = self.workers.workers;
        let Progress { global_limit, local_limit, .. } = *progress;
        let epoch = self.epoch.end - self.samples;
        let (mut taken, mut samples, mut fits) = (0_u32, 0_u64, true);
        match self.lengths(chunk)? {
            Lengths::Ones => loop {
                // Take many sequences in one step: up to this worker's next sequence, or a run of
                // its own.
                let limit = u64::from(left - taken).min(global_limit - progress.global).min(epoch - samples);
                let limit = if progress.local < local_limit { limit } else { 0 };
                let foreign = progress.until_own.min(limit);
                let own = match workers {
                    1 => limit.min(local_limit - progress.local),
                    _ => u64::from(foreign < limit),
                };
                if foreign + own == 0 {
                    break;
                }
                let index = first + taken + foreign as u32;
                room::reserve(sequences, own as usize, room::MINIBATCH)?;
                sequences.extend((index..index + own as u32).map(|index| SequenceId { chunk, index }));
                progress.until_own = if own > 0 { workers - 1 } else { progress.until_own - foreign };
                progress.global += foreign + own;
                progress.local += own;
                progress.at_least_one &= own == 0 && self.pace != Pace::Lockstep;
                samples += foreign + own;
                taken += (foreign + own) as u32;
            },
            Lengths::Each(lengths) => {
                for (&length, index) in lengths[first as usize..].iter().zip(first..) {
                    let is_own = progress.until_own == 0;
                    let length = u64::from(length);
                    if progress.global >= global_limit || progress.local >= local_limit {
                        break;
                    }
                    let too_long = progress.global + length > global_limit
                        || is_own && progress.local + length > local_limit;
                    if samples >= epoch || too_long && !progress.at_least_one {
                        fits = false;
                        break;
                    }
                    if is_own {
                        room::push(sequences, SequenceId { chunk, index }, room::MINIBATCH)?;
                        progress.local += length;
                        progress.until_own = workers;
                    }
                    progress.at_least_one &= !(is_own || self.pace == Pace::Lockstep);
                    progress.until_own -= 1;
                    progress.global += length;
                    samples += length;
                    taken += 1;
                }
            }
        }
        self.next.index += taken;
        self.samples = self.samples.saturating_add(samples);
        self.counter = self.counter.wrapping_add(u64::from(taken));
        if sequences.len() > before {
            self.touch(chunk)?;
        }
        Ok(fits)
    }

    fn touch(&mut self, chunk: ChunkId) -> Result<()> {
        if self.touched_in.len() <= chunk as usize {
            room::resize(&mut self.touched_in, chunk as usize + 1, 0, room::ORDER)?;
        }
        let last = &mut self.touched_in[chunk as usize];
        if *last != self.selections {
            *last = self.selections;
            room::push(&mut self.touching, chunk, room::ORDER)?;
        }
        Ok(())
    }
}

impl Timeline for InOrder {
    fn start_epoch(&mut self, epoch: &EpochConfig) -> Result<()> {
        epoch.workers.check()?;
        if self.sweep_samples == 0 {
            return Err(no_samples());
        }
        if epoch.index > 0 && epoch.is_in_sweeps() {
            self.learn_all()?;
        }
        let start = epoch.span(self.sweep_samples)?.start;
        self.go_to(start)?;
        // `go_to` may have discovered the length of a sweep.
        self.epoch = epoch.span(self.sweep_samples)?;
        self.epoch_config = Some(*epoch);
        self.workers = epoch.workers;
        Ok(())
    }

    fn configure(&mut self, workers: &WorkerConfig) -> Result<()> {
        workers.check()?;
        self.workers = *workers;
        self.stamp += 1;
        Ok(())
    }

    fn next(&mut self, global: u64, local: u64, selection: &mut Selection) -> Result<()> {
        selection.clear();
        check_limits(global, local)?;
        if self.sweep_samples == 0 {
            return Err(no_samples());
        }
        // The remainder of the sweep limits only very large minibatches.
        if !self.workers.cross_sweeps && global.min(local) > LARGEST_MINIBATCH {
            self.learn_all()?;
        }
        let (sweep, offset) = (self.samples / self.sweep_samples, self.samples % self.sweep_samples);
        if self.samples >= self.epoch.end {
            selection.end_of_sweep = self.samples >= self.sweep_samples && offset == 0;
            selection.end_of_epoch = true;
            return Ok(());
        }
        let global = if self.workers.cross_sweeps { global } else { global.min(self.sweep_samples - offset) };
        let global = self.pace.within(global, self.epoch.end - self.samples);
        if global > LARGEST_MINIBATCH && local > LARGEST_MINIBATCH {
            return Err(Error::new(
                ErrorKind::InvalidArgument,
                ExceptionClass::Runtime,
                "Global and local size of the minibatch cannot exceed max int.",
            ));
        }

        let mut progress = Progress {
            global: 0,
            local: 0,
            global_limit: global,
            local_limit: local,
            until_own: self.until_own(self.counter),
            at_least_one: true,
            sweeps_without: 0,
        };
        self.selections += 1;
        self.touching.clear();
        while progress.global < global && progress.local < local && self.samples < self.epoch.end {
            if self.next == (SequenceId { chunk: 0, index: 0 }) {
                self.skip_sweeps(&mut progress);
            }
            let local_before = progress.local;
            selection.begin_sweep(self.samples / self.sweep_samples);
            if !self.take(&mut progress, &mut selection.sequences)? {
                break;
            }
            if progress.local > local_before {
                progress.sweeps_without = 0;
            }
            // A worker's shares repeat after at most `workers` sweeps. If none of them had a
            // sample, all sequences of this worker are empty.
            if self.skip_used_up() {
                progress.sweeps_without += 1;
                // If nothing was taken before the end of the sweep, the minibatch belongs to the
                // next sweep.
                let is_left = !self.workers.cross_sweeps && progress.global > 0;
                let is_barren = progress.sweeps_without > self.workers.workers && self.pace != Pace::Lockstep;
                if is_barren || is_left {
                    break;
                }
            }
        }
        selection.end_of_sweep = self.samples / self.sweep_samples != sweep;
        selection.end_of_epoch = self.samples >= self.epoch.end;
        if !self.touching.is_empty() {
            if self.touching != self.touched {
                self.stamp += 1;
            }
            std::mem::swap(&mut self.touching, &mut self.touched);
            self.touched_by = self.selections;
        }
        Ok(())
    }

    fn position(&self) -> Position {
        Position { samples: self.samples, counter: self.counter }
    }

    fn seek(&mut self, samples: u64) -> Result<()> {
        if self.sweep_samples == 0 {
            return Err(no_samples());
        }
        self.go_to(samples)
    }

    fn resume(&mut self, position: Position) -> Result<()> {
        if self.sweep_samples == 0 {
            return Err(no_samples());
        }
        // The running number determines the index in the sweep: `seek` sets both to the same value,
        // and they advance together.
        let mut found = self.locate(position.counter % self.sweep_sequences)?;
        if self.is_endless() && found.is_none_or(|(_, _, start)| start != position.samples) {
            // The position lies past the first sweep.
            self.learn_all()?;
            found = self.locate(position.counter % self.sweep_sequences)?;
        }
        let start = position.samples % self.sweep_samples;
        // The modulo maps empty sequences at the very end of a sweep to its start.
        let Some((next, before, _)) = found.filter(|found| found.2 % self.sweep_samples == start) else {
            return Err(Error::checkpoint(
                ExceptionClass::Runtime,
                format!(
                    "No sequence with the running number {} starts at sample {}: the checkpoint does not match the data.",
                    position.counter, position.samples
                ),
            ));
        };
        self.samples = position.samples;
        self.counter = position.counter;
        self.next = next;
        self.before = before;
        self.touched.clear();
        self.touched_by = 0;
        self.stamp += 1;
        Ok(())
    }

    fn window_stamp(&self) -> u64 {
        self.stamp
    }

    fn window(&self, ahead: usize, window: &mut Window) {
        window.resident.clear();
        window.ahead.clear();
        window.resident.extend_from_slice(&self.touched);
        if self.sweep_samples == 0 {
            return;
        }
        let known = self.table.index_progress();
        let (mut next, mut until_own) = (self.next, self.until_own(self.counter));
        // Start of the chunk on the timeline.
        let mut samples = (self.samples - self.samples % self.sweep_samples).saturating_add(self.before);
        // One pass over the data, but not past the epoch's end or the known chunks.
        for _ in 0..known.chunks {
            if window.ahead.len() == ahead || samples >= self.epoch.end || next.chunk as usize >= known.chunks
            {
                break;
            }
            let Ok(info) = self.info(next.chunk) else { break };
            let left = u64::from(info.sequences - next.index);
            let touched_in = self.touched_in.get(next.chunk as usize);
            let is_resident = self.touched_by > 0 && touched_in == Some(&self.touched_by);
            if until_own < left && !is_resident {
                window.ahead.push(next.chunk);
            }
            until_own = match until_own.checked_sub(left) {
                Some(until_own) => until_own,
                None => {
                    (self.workers.workers - (left - until_own) % self.workers.workers) % self.workers.workers
                }
            };
            samples = samples.saturating_add(info.samples);
            next = SequenceId { chunk: next.chunk + 1, index: 0 };
            if known.all && next.chunk as usize == known.chunks {
                next.chunk = 0;
            }
        }
    }
}
