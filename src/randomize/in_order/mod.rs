//! The data's own order.
//!
//! A sequence belongs to the worker `running number mod workers`. The number goes on from sweep to sweep, so if the
//! sequences of a sweep are no multiple of the workers, a worker's share is another one in every sweep. It starts over
//! with [`Timeline::seek`], from the index in the sweep, as CNTK's does.

#[cfg(test)]
mod tests;

use super::{
    EpochConfig, EpochSpan, Position, Selection, Timeline, Window, WorkerConfig, check_limits, no_samples,
    total_samples,
};
use crate::deserialize::ChunkTable;
use crate::deserialize::Lengths;
use crate::error::ExceptionClass;
use crate::sequence::{ChunkId, SequenceId};
use crate::{Error, ErrorKind, Result};
use std::sync::Arc;

/// The largest minibatch: CNTK refuses a request whose limits are both beyond.
const LARGEST_MINIBATCH: u64 = i32::MAX as u64;

/// A timeline without randomization.
pub struct InOrder {
    table: Arc<dyn ChunkTable>,
    sweep_samples: u64,
    sweep_sequences: u64,
    workers: WorkerConfig,
    epoch: EpochSpan,
    /// Samples of all workers since the start of sweep 0.
    samples: u64,
    /// The running number of the next sequence.
    counter: u64,
    /// The next sequence; its index is less than the chunk's number of sequences.
    next: SequenceId,
    /// This worker's chunks in the last selection that was not empty, in order, each once.
    touched: Vec<ChunkId>,
    /// The same while it is being made.
    touching: Vec<ChunkId>,
    /// For each chunk the last selection that touched it.
    touched_in: Vec<u64>,
    /// The selection that `touched` is of; 0 for none.
    touched_by: u64,
    selections: u64,
    stamp: u64,
}

/// What a selection has and may have.
struct Progress {
    global: u64,
    local: u64,
    global_limit: u64,
    local_limit: u64,
    /// Sequences until this worker's next one.
    until_own: u64,
    at_least_one: bool,
    /// Sweeps that ended since the last sample of this worker.
    sweeps_without: u64,
}

impl InOrder {
    /// A timeline over the table. A table without samples is refused when it is used.
    pub fn new(table: Arc<dyn ChunkTable>) -> Self {
        let chunks = table.chunks();
        InOrder {
            sweep_samples: total_samples(&*table),
            sweep_sequences: chunks.iter().map(|chunk| u64::from(chunk.sequences)).sum(),
            touched_in: vec![0; chunks.len()],
            table,
            workers: WorkerConfig { workers: 1, rank: 0, cross_sweeps: true },
            epoch: EpochSpan::default(),
            samples: 0,
            counter: 0,
            next: SequenceId { chunk: 0, index: 0 },
            touched: Vec::new(),
            touching: Vec::new(),
            touched_by: 0,
            selections: 0,
            stamp: 0,
        }
    }

    /// Sequences from one with this running number to this worker's next one.
    fn until_own(&self, counter: u64) -> u64 {
        let WorkerConfig { workers, rank, .. } = self.workers;
        let turn = counter % workers;
        if turn <= rank { rank - turn } else { workers - turn + rank }
    }

    /// Declared lengths of a chunk, held against the chunk table.
    fn lengths(&self, chunk: ChunkId) -> Result<Lengths<'_>> {
        let lengths = self.table.lengths(chunk);
        let info = self.table.chunks()[chunk as usize];
        let agrees = match lengths {
            Lengths::Ones => info.samples == u64::from(info.sequences),
            Lengths::Each(lengths) => lengths.len() == info.sequences as usize,
        };
        if agrees {
            return Ok(lengths);
        }
        Err(Error::internal(format!(
            "Chunk {chunk} was announced with {} sequences and {} samples, which its lengths contradict.",
            info.sequences, info.samples
        )))
    }

    /// Goes on behind the current chunk if it is used up; returns whether a sweep ended.
    fn settle(&mut self) -> bool {
        let chunks = self.table.chunks();
        let mut wrapped = false;
        while self.next.index == chunks[self.next.chunk as usize].sequences {
            self.next = SequenceId { chunk: self.next.chunk + 1, index: 0 };
            if self.next.chunk as usize == chunks.len() {
                self.next.chunk = 0;
                wrapped = true;
            }
        }
        wrapped
    }

    /// Goes to the first sequence that starts at or after `samples`.
    fn go_to(&mut self, samples: u64) -> Result<()> {
        let offset = samples % self.sweep_samples;
        let (mut start, mut sequences, mut chunk) = (0_u64, 0_u64, 0);
        let chunks = self.table.chunks();
        while start < offset && chunks[chunk].samples < offset - start {
            start += chunks[chunk].samples;
            sequences += u64::from(chunks[chunk].sequences);
            chunk += 1;
        }
        let mut index = 0;
        if start < offset {
            match self.lengths(chunk as ChunkId)? {
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
        self.counter = (sequences + u64::from(index)) % self.sweep_sequences;
        self.next = SequenceId { chunk: chunk as ChunkId, index };
        self.settle();
        self.touched.clear();
        self.touched_by = 0;
        self.stamp += 1;
        Ok(())
    }

    /// Samples before a sequence of the sweep, and where it is.
    fn locate(&self, sequence: u64) -> Result<(u64, SequenceId)> {
        let (mut rest, mut samples) = (sequence, 0);
        for (chunk, info) in self.table.chunks().iter().enumerate() {
            if rest >= u64::from(info.sequences) {
                rest -= u64::from(info.sequences);
                samples += info.samples;
                continue;
            }
            let (chunk, index) = (chunk as ChunkId, rest as u32);
            samples += match self.lengths(chunk)? {
                Lengths::Ones => rest,
                Lengths::Each(lengths) => {
                    lengths[..index as usize].iter().map(|&length| u64::from(length)).sum()
                }
            };
            return Ok((samples, SequenceId { chunk, index }));
        }
        Err(Error::internal("A sequence was looked for behind the end of the data."))
    }

    /// Passes whole sweeps in which this worker, one of very many, has no sequence.
    fn skip_sweeps(&mut self, progress: &mut Progress) {
        let sweeps = (progress.until_own / self.sweep_sequences)
            .min((self.epoch.end - self.samples) / self.sweep_samples)
            .min((progress.global_limit - progress.global) / self.sweep_samples);
        let (samples, sequences) = (sweeps * self.sweep_samples, sweeps * self.sweep_sequences);
        self.samples += samples;
        self.counter = self.counter.wrapping_add(sequences);
        progress.global += samples;
        progress.until_own -= sequences;
    }

    /// Takes sequences of the current chunk; false if one does not fit.
    fn take(&mut self, progress: &mut Progress, sequences: &mut Vec<SequenceId>) -> Result<bool> {
        let chunk = self.next.chunk;
        let first = self.next.index;
        let left = self.table.chunks()[chunk as usize].sequences - first;
        let before = sequences.len();
        let workers = self.workers.workers;
        let Progress { global_limit, local_limit, .. } = *progress;
        let epoch = self.epoch.end - self.samples;
        let (mut taken, mut samples, mut fits) = (0_u32, 0_u64, true);
        match self.lengths(chunk)? {
            Lengths::Ones => loop {
                // Steps of many: to this worker's next sequence, or over a run of them.
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
                sequences.extend((index..index + own as u32).map(|index| SequenceId { chunk, index }));
                progress.until_own = if own > 0 { workers - 1 } else { progress.until_own - foreign };
                progress.global += foreign + own;
                progress.local += own;
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
                        sequences.push(SequenceId { chunk, index });
                        progress.local += length;
                        progress.at_least_one = false;
                        progress.until_own = workers;
                    }
                    progress.until_own -= 1;
                    progress.global += length;
                    samples += length;
                    taken += 1;
                }
            }
        }
        progress.at_least_one &= sequences.len() == before;
        self.next.index += taken;
        self.samples = self.samples.saturating_add(samples);
        self.counter = self.counter.wrapping_add(u64::from(taken));
        if sequences.len() > before {
            self.touch(chunk);
        }
        Ok(fits)
    }

    fn touch(&mut self, chunk: ChunkId) {
        let last = &mut self.touched_in[chunk as usize];
        if *last != self.selections {
            *last = self.selections;
            self.touching.push(chunk);
        }
    }
}

impl Timeline for InOrder {
    fn start_epoch(&mut self, epoch: &EpochConfig) -> Result<()> {
        epoch.workers.check()?;
        if self.sweep_samples == 0 {
            return Err(no_samples());
        }
        let span = epoch.span(self.sweep_samples)?;
        self.go_to(span.start)?;
        self.epoch = span;
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
        let (sweep, offset) = (self.samples / self.sweep_samples, self.samples % self.sweep_samples);
        if self.samples >= self.epoch.end {
            selection.end_of_sweep = self.samples >= self.sweep_samples && offset == 0;
            selection.end_of_epoch = true;
            return Ok(());
        }
        let global = if self.workers.cross_sweeps { global } else { global.min(self.sweep_samples - offset) };
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
            if !self.take(&mut progress, &mut selection.sequences)? {
                break;
            }
            if progress.local > local_before {
                progress.sweeps_without = 0;
            }
            // The shares of sweeps repeat after at most as many sweeps as there are workers: if no sample came by then,
            // all sequences of this worker are empty.
            if self.settle() {
                progress.sweeps_without += 1;
                if progress.sweeps_without > self.workers.workers {
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
        // The running number also tells the index in the sweep: both start there and go on together.
        let (start, next) = self.locate(position.counter % self.sweep_sequences)?;
        if start != position.samples % self.sweep_samples {
            return Err(Error::checkpoint(
                ExceptionClass::Runtime,
                format!(
                    "No sequence with the running number {} starts at sample {}: the checkpoint does not fit the data.",
                    position.counter, position.samples
                ),
            ));
        }
        self.samples = position.samples;
        self.counter = position.counter;
        self.next = next;
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
        let chunks = self.table.chunks();
        let (mut next, mut until_own) = (self.next, self.until_own(self.counter));
        // Where the chunk starts on the timeline.
        let before =
            chunks[..next.chunk as usize].iter().fold(0_u64, |sum, info| sum.saturating_add(info.samples));
        let mut samples = (self.samples - self.samples % self.sweep_samples).saturating_add(before);
        // Once around, and not beyond the epoch's end.
        for _ in 0..chunks.len() {
            if window.ahead.len() == ahead || samples >= self.epoch.end {
                break;
            }
            let info = chunks[next.chunk as usize];
            let left = u64::from(info.sequences - next.index);
            let is_resident = self.touched_by > 0 && self.touched_in[next.chunk as usize] == self.touched_by;
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
            next = SequenceId { chunk: (next.chunk + 1) % chunks.len() as u32, index: 0 };
        }
    }
}
