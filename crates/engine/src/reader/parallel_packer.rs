//! Packs the minibatches of a batch on several threads.
//!
//! Selecting the sequences of each minibatch is sequential but cheap. Copying them takes the time,
//! and minibatches are independent of each other. So all threads take work from one list, a few
//! minibatches at a time: unstarted parts are never reserved for a particular thread, so helpers
//! that are slow to wake up cost nothing. If a batch has fewer minibatches than there are threads,
//! because they are large, the threads copy parts of the same minibatch.
//!
//! With many threads, sequential work becomes the bottleneck. So one thread selects the sequences
//! of the next batch while the others already pack this one, which is 10 to 70 % faster with 16
//! threads.
//!
//! While a batch is prefetched, the caller processes the previous one, and then waits. One CPU is
//! left to it for that, and it helps to pack while it waits: a packing thread for every CPU would
//! compete with the caller. In CNTK's place with 2 CPUs, this is 23 % faster on average over ten
//! shapes.

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

/// Maximum number of packing threads, including the one that has the pipeline: the largest number
/// measured.
///
/// On 16 cores, 16 threads are 5 to 8 times as fast as one for minibatches of 256 samples, and 3 to
/// 5 times for 8 samples, for which the caller or drawing the order becomes the bottleneck.
const MAX_THREADS: usize = 16;

/// The numbers of packing threads.
#[derive(Debug, Clone, Copy)]
pub struct PackingThreads {
    /// While the caller waits: the number of loading threads, limited by the CPUs.
    pub all: usize,
    /// While the caller is busy: one CPU is left to it.
    pub beside_caller: usize,
}

impl PackingThreads {
    pub(crate) fn of(pool: &Pool) -> PackingThreads {
        PackingThreads::on(cpus(), pool.threads())
    }

    /// Returns the numbers for a machine with `cpus` CPUs and `loading` loading threads.
    fn on(cpus: usize, loading: usize) -> PackingThreads {
        let all = loading.min(cpus).min(MAX_THREADS);
        PackingThreads { all, beside_caller: all.min(cpus - 1).max(1) }
    }
}

/// The inputs of packing besides a selection.
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

/// The minibatches of a batch that no thread has taken yet, and the slots for their results.
struct UnpackedRest<'a> {
    planned: &'a [PlannedMinibatch],
    packed: &'a mut [Option<Packed>],
}

impl<'a> UnpackedRest<'a> {
    /// Takes the next minibatches: ever fewer, so that all threads finish at about the same time.
    fn take(&mut self, threads: usize) -> UnpackedRest<'a> {
        let count = self.planned.len().div_ceil(2 * threads);
        let (planned, planned_rest) = self.planned.split_at(count);
        let (packed, packed_rest) = std::mem::take(&mut self.packed).split_at_mut(count);
        (self.planned, self.packed) = (planned_rest, packed_rest);
        UnpackedRest { planned, packed }
    }
}

/// The state of one packing thread.
struct Worker {
    scratch: PackScratch,
    /// When it started packing its part of a batch, and the number of minibatches in that part.
    began: Instant,
    count: u32,
}

impl Worker {
    fn new(pool: &MinibatchPool) -> Worker {
        Worker { scratch: PackScratch::of(pool.of_thread()), began: Instant::now(), count: 0 }
    }

    /// Packs minibatches until none is left.
    fn pack(&mut self, rest: &Mutex<UnpackedRest<'_>>, context: &PackContext, threads: usize) {
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

/// The packing threads and their state.
pub(super) struct ParallelPacker {
    helpers: Helpers,
    /// By thread number, so that each thread gets back the minibatches that it packed before, which
    /// are in its core's caches.
    workers: Vec<Mutex<Worker>>,
    /// The packed part of the batch; empty between batches.
    packed: Vec<Option<Packed>>,
    /// The time that one thread takes for a minibatch, measured in the last batch.
    each: Duration,
}

impl ParallelPacker {
    /// Creates a packer with at most this many threads (at least one): the owner's thread and
    /// helpers. Minibatches count towards `memory`.
    pub(super) fn new(threads: usize, memory: &MinibatchMemory) -> ParallelPacker {
        let pool = MinibatchPool::of_memory(memory);
        // A waiting caller may help in addition to all packing threads.
        let workers = (0..=threads).map(|_| Mutex::new(Worker::new(&pool))).collect();
        ParallelPacker { helpers: Helpers::new(threads), workers, packed: Vec::new(), each: Duration::ZERO }
    }

    /// Returns a handle with which a caller helps while it waits.
    pub fn waiting_caller(&self) -> WaitingCaller {
        self.helpers.waiting_caller()
    }

    /// Packs minibatches on up to `threads` threads, and delivers them in order. If other threads
    /// pack too, this one runs `meanwhile` first.
    pub(super) fn pack(
        &mut self,
        planned: &[PlannedMinibatch],
        context: &PackContext,
        threads: usize,
        meanwhile: impl FnOnce() + Send,
        mut deliver: impl FnMut(&PlannedMinibatch, Packed),
    ) -> Result<()> {
        let (count, most) = (planned.len() as u32, self.helpers.most());
        // Tests always use all threads.
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
        // Assumes that the threads' total time does not exceed that of one thread alone.
        let alone = if is_shared { start.elapsed() * most as u32 } else { start.elapsed() };
        self.each = alone / count.max(1);
        Ok(())
    }

    /// Packs the batch on all threads, minibatch by minibatch.
    fn share(
        &mut self,
        planned: &[PlannedMinibatch],
        context: &PackContext,
        threads: usize,
        meanwhile: impl FnOnce() + Send,
    ) -> Result<()> {
        let ParallelPacker { helpers, workers, packed, .. } = self;
        let most = helpers.most();
        // Empty unless a thread has panicked.
        packed.clear();
        packed.resize_with(planned.len(), || None);
        let (rest, meanwhile) = (Mutex::new(UnpackedRest { planned, packed }), Mutex::new(Some(meanwhile)));
        helpers.share(threads, &|number| {
            if number == 0
                && let Some(work) = meanwhile.lock().take()
            {
                work();
            }
            // Helpers have numbers below `threads`; a waiting caller has the number `most`.
            workers[number.min(threads)].lock().pack(&rest, context, most);
        })?;
        // Includes the time spent waiting for the others, which is part of the cost of a minibatch.
        let own = self.workers[0].get_mut();
        self.each = own.began.elapsed() / own.count.max(1);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pack::{PackConfig, Packer, SequencePacker};
    use crate::reader::tests::source::Source;
    use cntk_reader_core::format::loading::load;
    use cntk_reader_core::sequence::SequenceId;
    use std::cell::Cell;

    #[test]
    fn one_cpu_is_left_to_the_caller() {
        for (cpus, loading, all, beside_caller) in
            [(1, 1, 1, 1), (2, 2, 2, 1), (4, 8, 4, 3), (8, 4, 4, 4), (8, 7, 7, 7), (64, 64, 16, 16)]
        {
            let PackingThreads { all: found, beside_caller: beside } = PackingThreads::on(cpus, loading);
            assert_eq!((found, beside), (all, beside_caller), "{cpus} CPUs, {loading} threads");
        }
    }

    #[test]
    fn threads_take_ever_fewer_minibatches() {
        let planned: Vec<PlannedMinibatch> = (0..10).map(|_| PlannedMinibatch::default()).collect();
        let mut packed: Vec<Option<Packed>> = planned.iter().map(|_| None).collect();
        let mut rest = UnpackedRest { planned: &planned, packed: &mut packed };
        let taken: Vec<usize> = (0..7).map(|_| rest.take(2).planned.len()).collect();
        assert_eq!(taken, [3, 2, 2, 1, 1, 1, 0]);
    }

    /// Packs minibatches of one sequence each. Returns the keys in order of delivery, the number of
    /// minibatches of each thread's part, and whether the other work was done.
    fn pack(minibatches: usize, most: usize, threads: usize) -> (Vec<u64>, Vec<u32>, bool) {
        let source = Arc::new(Source::twelve());
        let config = PackConfig { workers: 1, rank: 0, minibatch: 1, truncation: 0, right_splice: 0 };
        let mut packer = SequencePacker::new(source.streams().to_vec(), false);
        packer.configure(&config).expect("good sizes");
        let (spec, _) = packer.spec().expect("independent minibatches");
        let source: Arc<dyn ChunkSource> = source;
        let chunks = (0..3).map(|chunk| load(Arc::clone(&source), chunk).ok()).collect();
        let context = PackContext { spec: Arc::clone(spec), deserializer: source, chunks: Arc::new(chunks) };
        let planned: Vec<PlannedMinibatch> = (0..minibatches as u32)
            .map(|number| {
                let mut planned = PlannedMinibatch::default();
                planned.selection.sequences.push(SequenceId { chunk: number / 4, index: number % 4 });
                planned
            })
            .collect();
        let mut packer = ParallelPacker::new(most, &MinibatchMemory::default());
        let (mut keys, did_more) = (Vec::new(), Mutex::new(Cell::new(false)));
        let deliver = |_: &PlannedMinibatch, packed: Packed| {
            keys.extend_from_slice(&packed.minibatch.expect("a minibatch").keys);
        };
        packer.pack(&planned, &context, threads, || did_more.lock().set(true), deliver).expect("no panic");
        let counts = packer.workers.iter_mut().map(|worker| worker.get_mut().count).collect();
        (keys, counts, did_more.into_inner().get())
    }

    #[test]
    fn minibatches_are_shared_if_there_is_one_for_each_thread() {
        for (minibatches, most, is_shared) in
            [(1, 1, false), (12, 1, false), (1, 2, false), (2, 2, true), (12, 2, true), (2, 3, false)]
        {
            let (keys, counts, did_more) = pack(minibatches, most, most);
            assert!(keys.into_iter().eq(0..minibatches as u64), "{minibatches} on {most}");
            let shared = counts.iter().sum::<u32>();
            assert_eq!(shared, if is_shared { minibatches as u32 } else { 0 }, "{minibatches} on {most}");
            assert_eq!(did_more, is_shared, "{minibatches} on {most}");
        }
        // One CPU may be left to the caller.
        let (keys, counts, _) = pack(12, 2, 1);
        assert!(keys.into_iter().eq(0..12));
        assert_eq!(counts[0], 12);
    }
}
