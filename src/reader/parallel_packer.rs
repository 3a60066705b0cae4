//! Packs the minibatches of a batch on several threads.
//!
//! Which sequences a minibatch has is decided one minibatch after the other, and costs little. To copy them is what takes
//! time, and no minibatch needs another one for that. So all threads take what is to be packed from one list, a few minibatches
//! at a time: nobody waits for a thread that has not begun, so helpers that are slow to wake up cost nothing.
//!
//! While a batch is read ahead, the caller does something with the one before, and then waits. One CPU is left to it for that, and it
//! helps to pack while it waits: with as many packing threads as CPUs beside it, all of them would be in each other's way. In CNTK's
//! place with 2 CPUs, where the caller copies each minibatch, later sweeps over ten shapes take 0.69 to 1.0 of the time (medians in
//! alternating runs, 0.81 in the mean).

use super::handoff;
use super::position::ReaderPosition;
use super::store::Resident;
use crate::cancel;
use crate::deserialize::ChunkSource;
use crate::memory::Meter;
use crate::pack::{LoadedSelection, MinibatchPool, PackScratch, PackSpec, Packed};
use crate::pool::Pool;
use crate::randomize::Selection;
use crate::sync::thread::JoinHandle;
use crate::sync::{Condvar, Mutex, MutexGuard, spin};
use crate::thread;
use crate::{Error, Result};
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
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
        let cpus = std::thread::available_parallelism().map_or(1, |cpus| cpus.get());
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
#[derive(Clone)]
pub(super) struct PackContext {
    pub spec: Arc<PackSpec>,
    pub deserializer: Arc<dyn ChunkSource>,
    pub chunks: Resident,
}

impl PackContext {
    fn pack(&self, planned: &PlannedMinibatch, scratch: &mut PackScratch) -> Packed {
        let selection = &planned.selection;
        let loaded = LoadedSelection {
            sequences: &selection.sequences,
            end_of_sweep: selection.end_of_sweep,
            end_of_epoch: selection.end_of_epoch,
            chunks: &self.chunks,
            fetched: None,
        };
        let mut packed = self.spec.pack(scratch, &loaded);
        if let Ok(minibatch) = &mut packed.minibatch {
            self.deserializer.reported_keys(scratch.sequences(), false, &mut minibatch.keys);
        }
        packed
    }
}

/// What the threads share.
struct Shared {
    work: Mutex<Work>,
    /// There is something to pack, or the packer is gone.
    given: Condvar,
    /// Nobody helps any more.
    finished: Condvar,
    /// How many batches there were: what helpers look at before they sleep.
    batches: AtomicU32,
    /// How many threads help now: what the packer looks at before it sleeps.
    busy: AtomicU32,
    /// Threads that pack, at most.
    threads: usize,
    /// What the threads fill.
    pool: MinibatchPool,
}

#[derive(Default)]
struct Work {
    /// Here while there is something to pack. Helpers copy it while they pack, no longer: the window may only move when no
    /// thread uses its chunks.
    context: Option<PackContext>,
    /// What no thread has taken yet.
    planned: VecDeque<PlannedMinibatch>,
    /// What is packed, in the order of the batch.
    packed: Vec<Option<(PlannedMinibatch, Packed)>>,
    /// Threads of the packer that may help, those with the lowest numbers.
    helpers: usize,
    sleeping: usize,
    /// Memory of threads that helped.
    idle: Vec<Worker>,
    /// A helper has panicked.
    is_broken: bool,
    is_closed: bool,
}

impl Work {
    /// Takes the next minibatches: less and less of what is left, so that all threads end at about the same time. Returns
    /// the place of the first one in the batch.
    fn take(&mut self, threads: usize, taken: &mut Vec<PlannedMinibatch>) -> usize {
        let first = self.packed.len() - self.planned.len();
        taken.extend(self.planned.drain(..self.planned.len().div_ceil(2 * threads)));
        first
    }
}

/// One thread's memory.
struct Worker {
    scratch: PackScratch,
    taken: Vec<PlannedMinibatch>,
    packed: Vec<(PlannedMinibatch, Packed)>,
}

impl Worker {
    fn new(pool: &MinibatchPool) -> Worker {
        Worker { scratch: PackScratch::of(pool.of_thread()), taken: Vec::new(), packed: Vec::new() }
    }

    fn pack(&mut self, context: &PackContext) {
        for planned in self.taken.drain(..) {
            let packed = context.pack(&planned, &mut self.scratch);
            self.packed.push((planned, packed));
        }
    }

    /// Puts what it has packed into its place in the batch.
    fn put(&mut self, first: usize, work: &mut Work) {
        for (place, packed) in work.packed[first..].iter_mut().zip(self.packed.drain(..)) {
            *place = Some(packed);
        }
    }
}

impl Shared {
    /// What thread `number` of the packer does, until that is gone.
    fn serve(&self, number: usize) {
        let is_needed = |work: &Work| number < work.helpers && !work.planned.is_empty();
        let mut work = self.work.lock();
        while !work.is_closed && !work.is_broken {
            if is_needed(&work) {
                work = self.help(work);
                continue;
            }
            // A next batch mostly comes sooner than a sleeping thread wakes up.
            let before = self.batches.load(Ordering::Relaxed);
            drop(work);
            let comes = spin(|| self.batches.load(Ordering::Relaxed) != before);
            work = self.work.lock();
            if !comes && !is_needed(&work) && !work.is_closed {
                work.sleeping += 1;
                self.given.wait(&mut work);
                work.sleeping -= 1;
            }
        }
    }

    /// Packs some of what is left, if anything is.
    fn help<'w>(&'w self, mut work: MutexGuard<'w, Work>) -> MutexGuard<'w, Work> {
        let Some(context) = work.context.clone() else { return work };
        let mut worker = work.idle.pop().unwrap_or_else(|| Worker::new(&self.pool));
        let first = work.take(self.threads, &mut worker.taken);
        self.busy.fetch_add(1, Ordering::Relaxed);
        drop(work);
        let ended = catch_unwind(AssertUnwindSafe(|| worker.pack(&context)));
        drop(context);
        work = self.work.lock();
        match ended {
            Ok(()) => {
                worker.put(first, &mut work);
                work.idle.push(worker);
            }
            Err(_) => work.is_broken = true,
        }
        if self.busy.fetch_sub(1, Ordering::Release) == 1 {
            self.finished.notify_all();
        }
        work
    }
}

/// A caller who waits for what another thread reads ahead.
pub(super) struct WaitingCaller {
    shared: Arc<Shared>,
    /// How many batches there were when the caller last looked.
    batches: u32,
}

impl WaitingCaller {
    /// The packer is about to read a batch.
    pub(super) fn begin(&mut self) {
        self.batches = self.shared.batches.load(Ordering::Relaxed);
    }

    /// Packs what no thread has taken yet, if the packer hands out anything soon. `is_done` says whether the batch is read: not every
    /// batch is handed out.
    pub(super) fn help(&self, is_done: impl Fn() -> bool) {
        let is_given = || self.shared.batches.load(Ordering::Relaxed) != self.batches;
        if self.shared.threads > 1 && spin(|| is_given() || is_done()) && is_given() {
            // What was selected is packed, even if the call is cancelled.
            cancel::apart(|| {
                let mut work = self.shared.work.lock();
                while !work.planned.is_empty() && !work.is_broken {
                    work = self.shared.help(work);
                }
            });
        }
    }
}

/// The threads, started when they are first needed.
pub(super) struct ParallelPacker {
    own: Worker,
    helpers: Vec<JoinHandle<()>>,
    shared: Arc<Shared>,
    /// How long one thread takes for a minibatch, as the last batch had it.
    each: Duration,
}

impl ParallelPacker {
    /// A packer with this many threads at most, at least one: the one that has the packer, and helpers. `meter` counts the memory of
    /// minibatches.
    pub(super) fn new(threads: usize, meter: &Meter) -> ParallelPacker {
        let shared = Shared {
            work: Mutex::default(),
            given: Condvar::default(),
            finished: Condvar::default(),
            batches: AtomicU32::new(0),
            busy: AtomicU32::new(0),
            threads,
            pool: MinibatchPool::metered(meter),
        };
        let (own, shared) = (Worker::new(&shared.pool), Arc::new(shared));
        ParallelPacker { own, helpers: Vec::new(), shared, each: Duration::ZERO }
    }

    /// What a caller needs to help while it waits.
    pub(super) fn waiting_caller(&self) -> WaitingCaller {
        WaitingCaller { shared: Arc::clone(&self.shared), batches: 0 }
    }

    /// Packs minibatches by up to `threads` threads, and hands them out in their order.
    pub(super) fn pack(
        &mut self,
        planned: &mut Vec<PlannedMinibatch>,
        context: PackContext,
        threads: usize,
        mut deliver: impl FnMut(&PlannedMinibatch, Packed),
    ) -> Result<()> {
        // Tests use all threads for everything.
        let (count, took) = (planned.len(), self.each * planned.len() as u32);
        let is_worth_it = count > 1 && (cfg!(test) || handoff::is_worth_it(took, count));
        if !is_worth_it || self.shared.threads == 1 {
            let start = Instant::now();
            planned.iter().for_each(|planned| deliver(planned, context.pack(planned, &mut self.own.scratch)));
            self.each = start.elapsed() / (planned.len() as u32).max(1);
            return Ok(());
        }
        self.start_helpers(threads - 1);
        let start = Instant::now();
        let shared = &*self.shared;
        let mut work = shared.work.lock();
        work.packed.resize_with(planned.len(), || None);
        work.planned.extend(planned.drain(..));
        work.context = Some(context.clone());
        work.helpers = threads - 1;
        shared.batches.fetch_add(1, Ordering::Relaxed);
        if work.sleeping > 0 && work.helpers > 0 {
            shared.given.notify_all();
        }
        let mut own = 0;
        while !work.planned.is_empty() {
            let first = work.take(shared.threads, &mut self.own.taken);
            own += self.own.taken.len() as u32;
            drop(work);
            self.own.pack(&context);
            work = shared.work.lock();
            self.own.put(first, &mut work);
        }
        self.each = start.elapsed() / own.max(1);
        work.context = None;
        if shared.busy.load(Ordering::Acquire) > 0 {
            drop(work);
            spin(|| shared.busy.load(Ordering::Acquire) == 0);
            work = shared.work.lock();
            while shared.busy.load(Ordering::Acquire) > 0 {
                shared.finished.wait(&mut work);
            }
        }
        if work.is_broken {
            return Err(Error::internal("Packing a minibatch panicked; the reader cannot be used any more."));
        }
        for (selected, packed) in work.packed.drain(..).flatten() {
            deliver(&selected, packed);
            planned.push(selected);
        }
        Ok(())
    }

    /// Starts helpers until there are as many, if there can be.
    fn start_helpers(&mut self, wanted: usize) {
        const NAME: &str = "cntk-reader-pack";
        while self.helpers.len() < wanted {
            let (shared, number) = (Arc::clone(&self.shared), self.helpers.len());
            match thread::start(NAME, move || shared.serve(number)) {
                Ok(helper) => self.helpers.push(helper),
                Err(cause) => return thread::warn_of_missing(NAME, &cause),
            }
        }
    }
}

impl Drop for ParallelPacker {
    fn drop(&mut self) {
        self.shared.work.lock().is_closed = true;
        self.shared.batches.fetch_add(1, Ordering::Relaxed);
        self.shared.given.notify_all();
        for helper in self.helpers.drain(..) {
            // It ends after what it packs; its panics were caught.
            let _ = helper.join();
        }
    }
}
