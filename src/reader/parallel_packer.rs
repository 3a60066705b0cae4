//! Packs the minibatches of a batch on several threads.
//!
//! Which sequences a minibatch has is decided one minibatch after the other, and costs little. To copy them is what takes
//! time, and no minibatch needs another one for that. So all threads take what is to be packed from one list, a few minibatches
//! at a time: nobody waits for a thread that has not begun, so helpers that are slow to wake up cost nothing.

use super::handoff;
use super::position::ReaderPosition;
use super::store::Resident;
use crate::deserialize::ChunkSource;
use crate::memory::Meter;
use crate::pack::{LoadedSelection, PackScratch, PackSpec, Packed};
use crate::pool::Pool;
use crate::randomize::Selection;
use crate::sync::thread::JoinHandle;
use crate::sync::{Condvar, Mutex, spin};
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

/// How many threads pack: as many as load, if there are CPUs for them.
pub(super) fn threads(pool: &Pool) -> usize {
    let cpus = std::thread::available_parallelism().map_or(1, |cpus| cpus.get());
    pool.threads().min(cpus).min(MOST_THREADS)
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
#[derive(Default)]
struct Shared {
    work: Mutex<Work>,
    /// There is something to pack, or the packer is gone.
    given: Condvar,
    /// No helper packs any more.
    finished: Condvar,
    /// How many batches there were: what helpers look at before they sleep.
    batches: AtomicU32,
    /// How many helpers pack now: what the packer looks at before it sleeps.
    busy: AtomicU32,
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
    sleeping: usize,
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
    fn new(meter: &Meter) -> Worker {
        Worker { scratch: PackScratch::metered(meter), taken: Vec::new(), packed: Vec::new() }
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
    /// What a helper does, until the packer is gone.
    fn help(&self, mut worker: Worker, threads: usize) {
        let mut work = self.work.lock();
        loop {
            if let (Some(context), false) = (&work.context, work.planned.is_empty()) {
                let context = context.clone();
                let first = work.take(threads, &mut worker.taken);
                self.busy.fetch_add(1, Ordering::Relaxed);
                drop(work);
                let ended = catch_unwind(AssertUnwindSafe(|| worker.pack(&context)));
                drop(context);
                work = self.work.lock();
                worker.put(first, &mut work);
                work.is_broken |= ended.is_err();
                if self.busy.fetch_sub(1, Ordering::Release) == 1 {
                    self.finished.notify_all();
                }
                if ended.is_err() {
                    return;
                }
                continue;
            }
            if work.is_closed {
                return;
            }
            // A next batch mostly comes sooner than a sleeping thread wakes up.
            let before = self.batches.load(Ordering::Relaxed);
            drop(work);
            let comes = spin(|| self.batches.load(Ordering::Relaxed) != before);
            work = self.work.lock();
            if !comes && work.planned.is_empty() && !work.is_closed {
                work.sleeping += 1;
                self.given.wait(&mut work);
                work.sleeping -= 1;
            }
        }
    }
}

/// The threads, started when they are first needed.
pub(super) struct ParallelPacker {
    own: Worker,
    helpers: Vec<JoinHandle<()>>,
    shared: Arc<Shared>,
    threads: usize,
    /// How long one thread takes for a minibatch, as the last batch had it.
    each: Duration,
    meter: Meter,
}

impl ParallelPacker {
    /// A packer with this many threads, at least one: the caller's and helpers. `meter` counts the memory of minibatches.
    pub(super) fn new(threads: usize, meter: &Meter) -> ParallelPacker {
        let (own, meter) = (Worker::new(meter), meter.clone());
        let shared = Arc::default();
        ParallelPacker { own, helpers: Vec::new(), shared, threads, each: Duration::ZERO, meter }
    }

    /// Packs minibatches, and hands them out in their order.
    pub(super) fn pack(
        &mut self,
        planned: &mut Vec<PlannedMinibatch>,
        context: PackContext,
        mut deliver: impl FnMut(&PlannedMinibatch, Packed),
    ) -> Result<()> {
        // Tests use all threads for everything.
        let (count, took) = (planned.len(), self.each * planned.len() as u32);
        let is_worth_it = count > 1 && (cfg!(test) || handoff::is_worth_it(took, count));
        if is_worth_it {
            self.start_helpers();
        }
        let start = Instant::now();
        if !is_worth_it || self.helpers.is_empty() {
            planned.iter().for_each(|planned| deliver(planned, context.pack(planned, &mut self.own.scratch)));
            self.each = start.elapsed() / (planned.len() as u32).max(1);
            return Ok(());
        }
        let shared = &*self.shared;
        let mut work = shared.work.lock();
        work.packed.resize_with(planned.len(), || None);
        work.planned.extend(planned.drain(..));
        work.context = Some(context.clone());
        shared.batches.fetch_add(1, Ordering::Relaxed);
        if work.sleeping > 0 {
            shared.given.notify_all();
        }
        let mut own = 0;
        while !work.planned.is_empty() {
            let first = work.take(self.threads, &mut self.own.taken);
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

    fn start_helpers(&mut self) {
        const NAME: &str = "cntk-reader-pack";
        while self.helpers.len() + 1 < self.threads {
            let (shared, worker, threads) =
                (Arc::clone(&self.shared), Worker::new(&self.meter), self.threads);
            match thread::start(NAME, move || shared.help(worker, threads)) {
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
