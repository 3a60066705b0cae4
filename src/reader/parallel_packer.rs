//! Packs the minibatches of a batch on several threads.
//!
//! Which sequences a minibatch has is decided one minibatch after the other, and costs little. To copy them is what takes
//! time, and no minibatch needs another one for that. So all threads take what is to be packed from one list, a few minibatches
//! at a time: nobody waits for a thread that has not begun, so helpers that are slow to wake up cost nothing. Where a batch has fewer
//! minibatches than there are threads, because they are large, the threads copy parts of the same minibatch.
//!
//! While a batch is read ahead, the caller does something with the one before, and then waits. One CPU is left to it for that, and it
//! helps to pack while it waits: with as many packing threads as CPUs beside it, all of them would be in each other's way. In CNTK's
//! place with 2 CPUs, where the caller copies each minibatch, later sweeps over ten shapes take 0.69 to 1.0 of the time (medians in
//! alternating runs, 0.81 in the mean).

use super::handoff::PACKED_TOGETHER;
use super::position::ReaderPosition;
use super::store::Resident;
use crate::Result;
use crate::deserialize::ChunkSource;
use crate::helpers::{Helpers, Team, WaitingCaller};
use crate::memory::Meter;
use crate::pack::{LoadedSelection, MinibatchPool, PackScratch, PackSpec, Packed};
use crate::pool::{Pool, cpus};
use crate::randomize::Selection;
use crate::sync::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The most threads that pack, the one that has the pipeline among them. Copying is soon bounded by memory.
///
/// Measured in later sweeps over 100 MB, 2 CPUs, a caller that does nothing else: in minibatches of 256 samples two threads
/// take 0.5 to 0.6 of the time that one takes (words, phonemes, bags, floats, pixels, features of speech), in minibatches of
/// 32 samples 0.6 to 0.75, or as long where minibatches are too small to be worth it.
const MOST_THREADS: usize = 4;

/// How many threads pack.
#[derive(Debug, Clone, Copy)]
pub(super) struct PackingThreads {
    /// While the caller waits for them: as many as load, if there are CPUs for them.
    pub all: usize,
    /// While the caller does something else: one CPU is left to it.
    pub beside_caller: usize,
}

impl PackingThreads {
    pub(super) fn of(pool: &Pool) -> PackingThreads {
        let cpus = cpus();
        let all = pool.threads().min(cpus).min(MOST_THREADS);
        PackingThreads { all, beside_caller: all.min(cpus - 1).max(1) }
    }
}

/// A minibatch whose sequences are selected.
#[derive(Default)]
pub(super) struct PlannedMinibatch {
    pub selection: Selection,
    /// Where the timeline stood after the minibatch was selected.
    pub position: ReaderPosition,
}

/// What packing reads besides a selection.
pub(super) struct PackContext {
    pub spec: Arc<PackSpec>,
    pub deserializer: Arc<dyn ChunkSource>,
    pub chunks: Resident,
}

impl PackContext {
    fn pack(
        &self,
        planned: &PlannedMinibatch,
        scratch: &mut PackScratch,
        team: Option<&mut Team<'_>>,
    ) -> Packed {
        let selection = &planned.selection;
        let loaded = LoadedSelection {
            sequences: &selection.sequences,
            end_of_sweep: selection.end_of_sweep,
            end_of_epoch: selection.end_of_epoch,
            chunks: &self.chunks,
            fetched: None,
        };
        let mut packed = self.spec.pack(scratch, &loaded, team);
        if let Ok(minibatch) = &mut packed.minibatch {
            self.deserializer.reported_keys(scratch.sequences(), false, &mut minibatch.keys);
        }
        packed
    }
}

/// A batch that is packed.
#[derive(Default)]
struct Work {
    /// What no thread has taken yet.
    planned: VecDeque<PlannedMinibatch>,
    /// What is packed, in the order of the batch.
    packed: Vec<Option<(PlannedMinibatch, Packed)>>,
}

impl Work {
    /// Takes the next minibatches: less and less of what is left, so that all threads end at about the same time. Returns
    /// the place of the first one in the batch, or `None` if nothing is left.
    fn take(&mut self, threads: usize, taken: &mut Vec<PlannedMinibatch>) -> Option<usize> {
        let first = self.packed.len() - self.planned.len();
        taken.extend(self.planned.drain(..self.planned.len().div_ceil(2 * threads)));
        (!taken.is_empty()).then_some(first)
    }
}

/// One thread's memory.
struct Worker {
    scratch: PackScratch,
    taken: Vec<PlannedMinibatch>,
    packed: Vec<(PlannedMinibatch, Packed)>,
    /// How many minibatches it has packed.
    count: u32,
}

impl Worker {
    fn new(pool: &MinibatchPool) -> Worker {
        let scratch = PackScratch::of(pool.of_thread());
        Worker { scratch, taken: Vec::new(), packed: Vec::new(), count: 0 }
    }

    /// Packs minibatches until none is left.
    fn pack(&mut self, work: &Mutex<Work>, context: &PackContext, threads: usize) {
        let mut locked = work.lock();
        self.count = 0;
        while let Some(first) = locked.take(threads, &mut self.taken) {
            drop(locked);
            for planned in self.taken.drain(..) {
                let packed = context.pack(&planned, &mut self.scratch, None);
                self.packed.push((planned, packed));
            }
            self.count += self.packed.len() as u32;
            locked = work.lock();
            for (place, packed) in locked.packed[first..].iter_mut().zip(self.packed.drain(..)) {
                *place = Some(packed);
            }
        }
    }
}

/// The threads and what each of them packs with.
pub(super) struct ParallelPacker {
    helpers: Helpers,
    /// Of the thread that has the packer.
    own: Mutex<Worker>,
    /// Of other threads, as many as ever worked at the same time.
    idle: Mutex<Vec<Worker>>,
    work: Mutex<Work>,
    pool: MinibatchPool,
    /// How long one thread takes for a minibatch, as the last batch had it.
    each: Duration,
}

impl ParallelPacker {
    /// A packer with this many threads at most, at least one: the one that has the packer, and helpers. `meter` counts the memory of
    /// minibatches.
    pub(super) fn new(threads: usize, meter: &Meter) -> ParallelPacker {
        let pool = MinibatchPool::metered(meter);
        ParallelPacker {
            helpers: Helpers::new(threads),
            own: Mutex::new(Worker::new(&pool)),
            idle: Mutex::default(),
            work: Mutex::default(),
            pool,
            each: Duration::ZERO,
        }
    }

    /// What a caller needs to help while it waits.
    pub(super) fn waiting_caller(&self) -> WaitingCaller {
        self.helpers.waiting_caller()
    }

    /// Packs minibatches by up to `threads` threads, and hands them out in their order.
    pub(super) fn pack(
        &mut self,
        planned: &mut Vec<PlannedMinibatch>,
        context: &PackContext,
        threads: usize,
        mut deliver: impl FnMut(&PlannedMinibatch, Packed),
    ) -> Result<()> {
        let (count, most) = (planned.len() as u32, self.helpers.most());
        // Tests use all threads for everything.
        let is_worth_it = cfg!(test) || PACKED_TOGETHER.is_repaid(self.each * count, planned.len());
        let is_shared = most > 1 && is_worth_it;
        let start = Instant::now();
        if is_shared && planned.len() >= most {
            self.share(planned, context, threads)?;
            let work = self.work.get_mut();
            for (selected, packed) in work.packed.drain(..).flatten() {
                deliver(&selected, packed);
                planned.push(selected);
            }
            self.each = start.elapsed() / self.own.get_mut().count.max(1);
            return Ok(());
        }
        let mut team = is_shared.then_some(Team { helpers: &mut self.helpers, threads });
        let scratch = &mut self.own.get_mut().scratch;
        planned.iter().for_each(|planned| deliver(planned, context.pack(planned, scratch, team.as_mut())));
        // All threads together do not take longer for parts of it than one alone.
        let alone = if is_shared { start.elapsed() * most as u32 } else { start.elapsed() };
        self.each = alone / count.max(1);
        Ok(())
    }

    /// Has all threads pack the batch, minibatch by minibatch.
    fn share(
        &mut self,
        planned: &mut Vec<PlannedMinibatch>,
        context: &PackContext,
        threads: usize,
    ) -> Result<()> {
        let work = self.work.get_mut();
        // Nothing is left unless a thread has panicked.
        work.planned.clear();
        work.packed.clear();
        work.packed.resize_with(planned.len(), || None);
        work.planned.extend(planned.drain(..));
        let ParallelPacker { helpers, own, idle, work, pool, .. } = self;
        let most = helpers.most();
        helpers.share(threads, &|number| {
            if number == 0 {
                return own.lock().pack(work, context, most);
            }
            let worker = idle.lock().pop();
            let mut worker = worker.unwrap_or_else(|| Worker::new(pool));
            worker.pack(work, context, most);
            idle.lock().push(worker);
        })
    }
}
