//! Packs the minibatches of a batch on several threads.
//!
//! Which sequences a minibatch has is decided one minibatch after the other, and costs little. To copy them is what takes
//! time, and no minibatch needs another one for that. So all threads take what is to be packed from one list, a few minibatches
//! at a time: nobody waits for a thread that has not begun, so helpers that are slow to wake up cost nothing. Where a batch has fewer
//! minibatches than there are threads, because they are large, the threads copy parts of the same minibatch.
//!
//! With many threads, what one of them does alone takes longest. So it decides which sequences the next batch has while the others already
//! pack this one. (Later sweeps by 16 threads over words, slots and rows of bags take 0.6 to 0.9 of the time, by 2 threads 0.94 to 1.)
//!
//! While a batch is read ahead, the caller does something with the one before, and then waits. One CPU is left to it for that, and it
//! helps to pack while it waits: with as many packing threads as CPUs beside it, all of them would be in each other's way. In CNTK's
//! place with 2 CPUs, where the caller copies each minibatch, later sweeps over ten shapes take 0.69 to 1.0 of the time (medians in
//! alternating runs, 0.81 in the mean).

use super::handoff::PACKED_TOGETHER;
use super::selector::PlannedMinibatch;
use super::store::Resident;
use crate::pack::{LoadedSelection, MinibatchMemory, MinibatchPool, PackScratch, PackSpec, Packed};
use cntk_reader_core::Result;
use cntk_reader_core::format::ChunkSource;
use cntk_reader_core::runtime::helpers::{Helpers, Team, WaitingCaller};
use cntk_reader_core::runtime::pool::{Pool, cpus};
use cntk_reader_core::runtime::sync::Mutex;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The most threads that pack, the one that has the pipeline among them: as many as were measured.
///
/// Later sweeps over 1.2 GB in minibatches of 256 samples by 16 threads on 16 cores (Intel Xeon, one L3 cache, medians), a caller that does
/// nothing else: 0.12 (slots) to 0.21 (integers of handwriting) of the time that one thread takes; by 4 of the 16 threads 0.20 to 0.41. In
/// minibatches of 8 samples over 100 MB 0.22 to 0.38. Then the caller, who looks at each minibatch, or drawing the order takes as long.
const MOST_THREADS: usize = 16;

/// How many threads pack.
#[derive(Debug, Clone, Copy)]
pub struct PackingThreads {
    /// While the caller waits for them: as many as load, if there are CPUs for them.
    pub all: usize,
    /// While the caller does something else: one CPU is left to it.
    pub beside_caller: usize,
}

impl PackingThreads {
    pub(crate) fn of(pool: &Pool) -> PackingThreads {
        let cpus = cpus();
        let all = pool.threads().min(cpus).min(MOST_THREADS);
        PackingThreads { all, beside_caller: all.min(cpus - 1).max(1) }
    }
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

/// The minibatches of a batch that no thread has taken yet, and the places of what they become.
struct Rest<'a> {
    planned: &'a [PlannedMinibatch],
    packed: &'a mut [Option<Packed>],
}

impl<'a> Rest<'a> {
    /// Takes the next minibatches: less and less of what is left, so that all threads end at about the same time.
    fn take(&mut self, threads: usize) -> Rest<'a> {
        let count = self.planned.len().div_ceil(2 * threads);
        let (planned, planned_rest) = self.planned.split_at(count);
        let (packed, packed_rest) = std::mem::take(&mut self.packed).split_at_mut(count);
        (self.planned, self.packed) = (planned_rest, packed_rest);
        Rest { planned, packed }
    }
}

/// One thread's memory.
struct Worker {
    scratch: PackScratch,
    /// When it began to pack its part of a batch, and how many minibatches that was.
    began: Instant,
    count: u32,
}

impl Worker {
    fn new(pool: &MinibatchPool) -> Worker {
        Worker { scratch: PackScratch::of(pool.of_thread()), began: Instant::now(), count: 0 }
    }

    /// Packs minibatches until none is left.
    fn pack(&mut self, rest: &Mutex<Rest<'_>>, context: &PackContext, threads: usize) {
        (self.began, self.count) = (Instant::now(), 0);
        loop {
            let taken = rest.lock().take(threads);
            if taken.planned.is_empty() {
                break;
            }
            self.count += taken.planned.len() as u32;
            for (planned, packed) in taken.planned.iter().zip(taken.packed) {
                *packed = Some(context.pack(planned, &mut self.scratch, None));
            }
        }
    }
}

/// The threads and what each of them packs with.
pub(super) struct ParallelPacker {
    helpers: Helpers,
    /// By the number of the thread, so that it gets the minibatches back that it has packed before: they are in its processor's caches.
    workers: Vec<Mutex<Worker>>,
    /// What is packed of the batch; empty between two batches.
    packed: Vec<Option<Packed>>,
    /// How long one thread takes for a minibatch, as the last batch had it.
    each: Duration,
}

impl ParallelPacker {
    /// A packer with this many threads at most, at least one: the one that has the packer, and
    /// helpers. `memory` is that of its minibatches.
    pub(super) fn new(threads: usize, memory: &MinibatchMemory) -> ParallelPacker {
        let pool = MinibatchPool::of_memory(memory);
        // Beside all threads that pack a caller may help.
        let workers = (0..=threads).map(|_| Mutex::new(Worker::new(&pool))).collect();
        ParallelPacker { helpers: Helpers::new(threads), workers, packed: Vec::new(), each: Duration::ZERO }
    }

    /// What a caller needs to help while it waits.
    pub fn waiting_caller(&self) -> WaitingCaller {
        self.helpers.waiting_caller()
    }

    /// Packs minibatches by up to `threads` threads, and hands them out in their order. If others pack too, this thread does `meanwhile`
    /// first.
    pub(super) fn pack(
        &mut self,
        planned: &[PlannedMinibatch],
        context: &PackContext,
        threads: usize,
        meanwhile: impl FnOnce() + Send,
        mut deliver: impl FnMut(&PlannedMinibatch, Packed),
    ) -> Result<()> {
        let (count, most) = (planned.len() as u32, self.helpers.most());
        // Tests use all threads for everything.
        let is_worth_it = cfg!(test) || PACKED_TOGETHER.is_repaid(self.each * count, planned.len());
        let is_shared = most > 1 && is_worth_it;
        if is_shared && planned.len() >= most {
            self.share(planned, context, threads, meanwhile)?;
            for (planned, packed) in planned.iter().zip(self.packed.drain(..)) {
                if let Some(packed) = packed {
                    deliver(planned, packed);
                }
            }
            return Ok(());
        }
        let start = Instant::now();
        let mut team = is_shared.then_some(Team { helpers: &mut self.helpers, threads });
        let scratch = &mut self.workers[0].get_mut().scratch;
        planned.iter().for_each(|planned| deliver(planned, context.pack(planned, scratch, team.as_mut())));
        // All threads together do not take longer for parts of it than one alone.
        let alone = if is_shared { start.elapsed() * most as u32 } else { start.elapsed() };
        self.each = alone / count.max(1);
        Ok(())
    }

    /// Has all threads pack the batch, minibatch by minibatch.
    fn share(
        &mut self,
        planned: &[PlannedMinibatch],
        context: &PackContext,
        threads: usize,
        meanwhile: impl FnOnce() + Send,
    ) -> Result<()> {
        let ParallelPacker { helpers, workers, packed, .. } = self;
        let most = helpers.most();
        // Nothing is left unless a thread has panicked.
        packed.clear();
        packed.resize_with(planned.len(), || None);
        let (rest, meanwhile) = (Mutex::new(Rest { planned, packed }), Mutex::new(Some(meanwhile)));
        helpers.share(threads, &|number| {
            if number == 0
                && let Some(work) = meanwhile.lock().take()
            {
                work();
            }
            // Helpers have numbers below `threads`; a caller who waits has the number `most`.
            workers[number.min(threads)].lock().pack(&rest, context, most);
        })?;
        // With the time that it has waited for the others: that is a part of what a minibatch costs.
        let own = self.workers[0].get_mut();
        self.each = own.began.elapsed() / own.count.max(1);
        Ok(())
    }
}
