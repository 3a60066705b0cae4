//! Block randomization in rolling windows: chunks are shuffled across the sweep, sequences within a
//! window of chunks.
//!
//! The order is a pure function of seed, sweep, window and chunk table, independent of the entry
//! point. A sequence belongs to worker `position of its chunk mod workers`, so a worker has
//! different chunks in every sweep.

#[cfg(test)]
mod differential;
mod order;
mod ring;
mod rolling;
#[cfg(test)]
mod tests;

pub(crate) use order::{Span, chunk_order};

use super::{
    EpochConfig, EpochSpan, Position, SIZE_UNLIMITED, Selection, Timeline, Window, WorkerConfig,
    check_limits, no_samples, total_samples,
};
use crate::randomize::{Pace, WindowSize};
use cntk_reader_core::format::ChunkTable;
use cntk_reader_core::format::Lengths;
use cntk_reader_core::limits::{LARGEST_EPOCH, MAX_BARREN_SWEEPS};
use cntk_reader_core::memory::room;
use cntk_reader_core::sequence::ChunkId;
use cntk_reader_core::{Error, Result};
use order::SweepOrder;
use rolling::{FOREIGN, Limits, Long, One, OwnChunks, RollingOrder, SequenceOrder, SweepSource};
use std::sync::Arc;

/// A randomized timeline.
pub struct BlockRandomizer {
    table: Arc<dyn ChunkTable>,
    size: WindowSize,
    seed: u64,
    /// Samples of a sweep; 0 if there is no data.
    sweep_samples: u64,
    workers: WorkerConfig,
    pace: Pace,
    epoch: EpochSpan,
    /// Samples of all workers since the start of sweep 0.
    samples: u64,
    /// The sweep of `order` and `sequences`. May be one behind `samples`, because sweeps are
    /// entered lazily.
    sweep: Option<u64>,
    order: SweepOrder,
    /// The order of chunks in the sweep after `sweep`.
    next_chunks: Vec<ChunkId>,
    /// The chunk at each position if it is this worker's, else [`FOREIGN`].
    own: Vec<ChunkId>,
    sequences: Box<dyn SequenceOrder>,
    /// The positions whose chunks may contribute to the last selection.
    range: Span,
    /// Chunks of the last selection that belong to earlier sweeps.
    carried: Vec<ChunkId>,
    stamp: u64,
}

/// One sweep's contribution to a selection.
struct SweepPart {
    end_of_sweep: bool,
    end_of_epoch: bool,
    global: u64,
    local: u64,
}

impl BlockRandomizer {
    /// Creates a timeline over the table. The order is drawn on first use, and a table without
    /// samples is rejected only then.
    pub fn new(table: Arc<dyn ChunkTable>, window: WindowSize, seed: u64) -> Self {
        let sequences: Box<dyn SequenceOrder> = if all_ones(&*table) {
            Box::new(RollingOrder::<One>::new())
        } else {
            Box::new(RollingOrder::<Long>::new())
        };
        BlockRandomizer {
            sweep_samples: total_samples(&*table),
            table,
            size: window,
            seed,
            workers: WorkerConfig { workers: 1, rank: 0, cross_sweeps: true },
            pace: Pace::Own,
            epoch: EpochSpan::default(),
            samples: 0,
            sweep: None,
            order: SweepOrder::default(),
            next_chunks: Vec::new(),
            own: Vec::new(),
            sequences,
            range: Span::default(),
            carried: Vec::new(),
            stamp: 0,
        }
    }

    /// Sets the pace. In lockstep, both limits of [`Timeline::next`] must be equal.
    #[must_use]
    pub fn at_pace(self, pace: Pace) -> Self {
        BlockRandomizer { pace, ..self }
    }

    /// Whether this worker has no chunks in any sweep.
    fn is_idle(&self) -> bool {
        self.workers.rank >= self.table.chunks().len() as u64
    }

    /// Enters the sweep of `samples`, and goes to that offset in it.
    fn enter(&mut self) -> Result<()> {
        let sweep = self.samples / self.sweep_samples;
        if self.sweep == Some(sweep) {
            return Ok(());
        }
        let offset = self.samples - sweep * self.sweep_samples;
        self.enter_sweep(sweep)?;
        if offset > 0 {
            self.seek_in_sweep(offset)?;
        }
        Ok(())
    }

    fn enter_sweep(&mut self, sweep: u64) -> Result<()> {
        let count = self.table.chunks().len() as u32;
        // If an allocation fails, the timeline is in no sweep.
        let before = self.sweep.take();
        for order in [&mut self.order.chunks, &mut self.next_chunks] {
            room::reserve(order, (count as usize).saturating_sub(order.len()), room::ORDER)?;
        }
        if before.is_some() && before == sweep.checked_sub(1) {
            std::mem::swap(&mut self.order.chunks, &mut self.next_chunks);
        } else {
            chunk_order(self.seed, sweep, count, &mut self.order.chunks);
        }
        chunk_order(self.seed, sweep.wrapping_add(1), count, &mut self.next_chunks);
        self.order.arrange(self.size, self.table.chunks())?;
        self.sequences.reset(self.seed.wrapping_add(sweep));
        self.share()?;
        self.sweep = Some(sweep);
        self.touch(0, 0);
        self.stamp += 1;
        Ok(())
    }

    /// Marks this worker's chunks.
    fn share(&mut self) -> Result<()> {
        let WorkerConfig { workers, rank, .. } = self.workers;
        self.own.clear();
        room::resize(&mut self.own, self.order.len(), FOREIGN, room::ORDER)?;
        let Ok(rank) = usize::try_from(rank) else { return Ok(()) };
        for position in (rank..self.order.len()).step_by(usize::try_from(workers).unwrap_or(usize::MAX)) {
            self.own[position] = self.order.chunks[position];
        }
        Ok(())
    }

    /// Goes to an offset in the current sweep, and sets `samples` to the start of the sequence
    /// found there.
    fn seek_in_sweep(&mut self, offset: u64) -> Result<()> {
        let source = SweepSource { order: &self.order, table: &*self.table };
        match self.sequences.seek(source, offset) {
            Ok(found) => {
                let start = self.samples - self.samples % self.sweep_samples;
                self.samples = start.saturating_add(found);
                let position = self.sequences.position();
                self.touch(position, position);
                Ok(())
            }
            Err(error) => {
                self.sweep = None;
                Err(error)
            }
        }
    }

    /// Records the first and last position read: all chunks that their windows span must be in
    /// memory.
    fn touch(&mut self, first: usize, last: usize) {
        let last = last.min(self.order.len().saturating_sub(1));
        let range =
            Span { begin: self.order.windows[first.min(last)].begin, end: self.order.windows[last].end };
        if range != self.range {
            self.range = range;
            self.stamp += 1;
        }
    }

    /// Goes to the start of an epoch or a saved position. A worker without chunks goes to the end
    /// of the epoch, as in CNTK 2.7.
    fn go_to(&mut self, samples: u64) -> Result<()> {
        if self.is_idle() && self.pace != Pace::Lockstep {
            self.samples = self.epoch.end;
            self.forget_carried();
            return Ok(());
        }
        self.return_to(samples)
    }

    /// Goes to a position, whether or not this worker has chunks.
    fn return_to(&mut self, samples: u64) -> Result<()> {
        self.samples = samples;
        self.forget_carried();
        let sweep = samples / self.sweep_samples;
        if self.sweep == Some(sweep) {
            self.seek_in_sweep(samples - sweep * self.sweep_samples)?;
        } else {
            self.enter()?;
        }
        // An offset within the sweep's last sequence leads to the next sweep.
        self.enter()
    }

    fn forget_carried(&mut self) {
        if !self.carried.is_empty() {
            self.carried.clear();
            self.stamp += 1;
        }
    }

    /// Selects from one sweep.
    fn part(
        &mut self,
        global: u64,
        local: u64,
        at_least_one: bool,
        selection: &mut Selection,
    ) -> Result<SweepPart> {
        if self.samples >= self.epoch.end {
            let end_of_sweep =
                self.samples >= self.sweep_samples && self.samples.is_multiple_of(self.sweep_samples);
            return Ok(SweepPart { end_of_sweep, end_of_epoch: true, global: 0, local: 0 });
        }
        self.enter()?;
        selection.begin_sweep(self.samples / self.sweep_samples);
        let left = self.sweep_samples - self.samples % self.sweep_samples;
        let limits = Limits {
            global: self.pace.within(global.min(left), self.epoch.end - self.samples),
            local,
            full: self.pace.full_at(local),
            epoch: self.epoch.end - self.samples,
            at_least_one,
            of_any: self.pace.counts_all(),
        };
        let (first, before) = (self.sequences.position(), selection.sequences.len());
        let source = SweepSource { order: &self.order, table: &*self.table };
        let own_chunks = OwnChunks { chunks: &self.own, is_all: self.workers.workers == 1 };
        let taken = match self.sequences.take(source, own_chunks, limits, &mut selection.sequences) {
            Ok(taken) => taken,
            Err(error) => {
                self.sweep = None;
                return Err(error);
            }
        };
        if taken.global == 0 {
            // CNTK 2.7: sequences without samples are delivered only together with others, of any
            // worker.
            selection.sequences.truncate(before);
        }
        self.touch(first, taken.last_position.unwrap_or(first));
        self.samples = self.samples.saturating_add(taken.global);
        Ok(SweepPart {
            end_of_sweep: taken.global >= left,
            end_of_epoch: self.samples >= self.epoch.end,
            global: taken.global,
            local: taken.local,
        })
    }

    /// Skips the sweeps that end within the epoch and the next `most` samples, for a worker without
    /// chunks. Returns the number of samples skipped. Walking through a billion sweeps, as CNTK
    /// does, takes minutes.
    fn skip_sweeps(&mut self, most: u64) -> u64 {
        let end = self.epoch.end.min(self.samples.saturating_add(most));
        let skipped = (end - end % self.sweep_samples).saturating_sub(self.samples);
        self.samples += skipped;
        skipped
    }

    /// Keeps the chunks of the first `count` sequences, which were selected in earlier sweeps.
    /// Entering the last sweep has changed the stamp.
    fn carry(&mut self, selection: &Selection, count: usize) -> Result<()> {
        room::reserve(&mut self.carried, count, room::ORDER)?;
        self.carried.extend(selection.sequences[..count].iter().map(|sequence| sequence.chunk));
        self.carried.sort_unstable();
        self.carried.dedup();
        Ok(())
    }
}

impl Timeline for BlockRandomizer {
    fn start_epoch(&mut self, epoch: &EpochConfig) -> Result<()> {
        epoch.workers.check()?;
        if self.sweep_samples == 0 {
            return Err(no_samples());
        }
        let size = EpochConfig { index: 0, ..*epoch }.span(self.sweep_samples)?.end;
        if size > LARGEST_EPOCH {
            return Err(Error::argument("Too big epoch size can cause bit overflow"));
        }
        self.epoch = epoch.span(self.sweep_samples)?;
        self.configure(&epoch.workers)?;
        self.go_to(self.epoch.start)
    }

    fn configure(&mut self, workers: &WorkerConfig) -> Result<()> {
        workers.check()?;
        self.workers = *workers;
        self.stamp += 1;
        self.share()
    }

    fn next(&mut self, global: u64, local: u64, selection: &mut Selection) -> Result<()> {
        selection.clear();
        check_limits(global, local)?;
        if self.sweep_samples == 0 {
            return Err(no_samples());
        }
        self.forget_carried();
        // A worker that lost its chunks to additional workers still walks to the end of the epoch,
        // as in CNTK 2.7. In an epoch without end, CNTK never returns; here the epoch ends.
        let is_idle = self.is_idle();
        if is_idle && self.pace != Pace::Lockstep && self.epoch.end >= SIZE_UNLIMITED {
            self.samples = self.samples.max(self.epoch.end);
        }
        let (mut global_taken, mut local_taken, mut before, mut barren) = (0, 0, 0, 0);
        let mut goes_on = true;
        if is_idle && self.workers.cross_sweeps {
            global_taken = self.skip_sweeps(global);
            selection.end_of_sweep = global_taken > 0;
            selection.end_of_epoch = global_taken > 0 && self.samples >= self.epoch.end;
            goes_on = global_taken < global && !selection.end_of_epoch;
        }
        while goes_on {
            let continuing = selection.end_of_sweep;
            let part = self.part(global - global_taken, local - local_taken, !continuing, selection)?;
            selection.end_of_sweep |= part.end_of_sweep;
            selection.end_of_epoch = part.end_of_epoch;
            // The worker has other chunks in every sweep. If none ever has a sample, this loop
            // would never end.
            let never_ends = part.local == 0 && !is_idle && self.pace != Pace::Lockstep;
            barren = if never_ends { barren + u32::from(part.end_of_sweep) } else { 0 };
            if continuing && (part.global == 0 || barren > MAX_BARREN_SWEEPS) {
                break;
            }
            global_taken += part.global;
            local_taken += part.local;
            goes_on = self.workers.cross_sweeps
                && selection.end_of_sweep
                && !selection.end_of_epoch
                && global > global_taken
                && local > local_taken;
            if goes_on {
                before = selection.sequences.len();
            }
        }
        selection.passed = global_taken > 0;
        self.carry(selection, before)
    }

    fn position(&self) -> Position {
        Position { samples: self.samples, counter: 0 }
    }

    fn seek(&mut self, samples: u64) -> Result<()> {
        if self.sweep_samples == 0 {
            return Err(no_samples());
        }
        self.go_to(samples)
    }

    /// Unlike [`Timeline::seek`], this leaves a worker without chunks where it was: the workers may
    /// change again, and then it continues from there. An epoch may end within a sequence, so its
    /// end is not rounded up either.
    fn resume(&mut self, position: Position) -> Result<()> {
        if self.sweep_samples == 0 {
            return Err(no_samples());
        }
        if position.samples >= self.epoch.end {
            // Nothing is read past the end.
            self.samples = position.samples;
            self.forget_carried();
            return Ok(());
        }
        self.return_to(position.samples)
    }

    fn window_stamp(&self) -> u64 {
        self.stamp
    }

    fn window(&self, ahead: usize, window: &mut Window) {
        window.resident.clear();
        window.ahead.clear();
        if self.sweep.is_none() || self.is_idle() {
            return;
        }
        let (begin, end) = (self.range.begin as usize, self.range.end as usize);
        let mine = |chunks: &&ChunkId| **chunks != FOREIGN;
        let is_new = |chunk: &ChunkId| self.carried.binary_search(chunk).is_err();

        window.resident.extend_from_slice(&self.carried);
        window.resident.extend(self.own[begin..end].iter().filter(mine).filter(|chunk| is_new(chunk)));
        window.ahead.extend(self.own[end..].iter().filter(mine).filter(|chunk| is_new(chunk)).take(ahead));

        // Then the chunks of the next sweep, if the epoch continues there.
        let sweep_end = self.sweep.and_then(|sweep| sweep.checked_add(1)?.checked_mul(self.sweep_samples));
        if window.ahead.len() == ahead || sweep_end.is_none_or(|end| end >= self.epoch.end) {
            return;
        }
        let WorkerConfig { workers, rank, .. } = self.workers;
        let step = usize::try_from(workers).unwrap_or(usize::MAX);
        let missing = ahead - window.ahead.len();
        let listed = |chunk: ChunkId| {
            let position = self.order.positions[chunk as usize] as usize;
            position >= begin && self.own[position] != FOREIGN
        };
        window.ahead.extend(
            (self.next_chunks.iter().skip(rank as usize).step_by(step))
                .filter(|&&chunk| !listed(chunk) && is_new(&chunk))
                .take(missing),
        );
    }
}

/// Whether every sequence is one sample long. Checks the totals before the individual lengths.
fn all_ones(table: &dyn ChunkTable) -> bool {
    let chunks = table.chunks();
    chunks.iter().all(|chunk| chunk.samples == u64::from(chunk.sequences))
        && (0..chunks.len()).all(|chunk| match table.lengths(chunk as ChunkId) {
            Lengths::Ones => true,
            Lengths::Each(lengths) => lengths.iter().all(|&length| length == 1),
        })
}
