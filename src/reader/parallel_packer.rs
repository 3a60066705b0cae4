//! Packs the minibatches of a batch on several threads.
//!
//! Which sequences a minibatch has is decided one minibatch after the other, and costs little. To copy them is what takes
//! time, and no minibatch needs another one for that. So each thread gets some of a batch's minibatches with all it
//! needs to pack them, and gives them back packed.

use super::handoff::{HandoffThread, WORTH_A_THREAD};
use super::position::ReaderPosition;
use super::store::Resident;
use crate::Result;
use crate::deserialize::ChunkSource;
use crate::memory::Meter;
use crate::pack::{LoadedSelection, PackScratch, PackSpec, Packed};
use crate::pool::Pool;
use crate::randomize::Selection;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The most threads that pack, the one that has the pipeline among them. Copying is soon bounded by memory.
///
/// Measured gain in later sweeps over 400 MB, minibatches of 256, a caller that does nothing else: with 4 threads pixels
/// take 0.7 to 0.85 of the time that one thread takes, dense decimals 0.9; words and bags gain nothing, and with 2 threads
/// bags have taken up to a fifth longer.
const MOST_THREADS: usize = 4;

/// Packing that takes less time than handing it over is done by one thread alone. Tests use all threads for everything.
const WORTH_IT: Duration = if cfg!(test) { Duration::ZERO } else { WORTH_A_THREAD };

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

/// One thread's part of a batch.
#[derive(Default)]
struct PackJob {
    context: Option<PackContext>,
    planned: Vec<PlannedMinibatch>,
    packed: Vec<Packed>,
    scratch: PackScratch,
}

impl PackJob {
    fn metered(meter: &Meter) -> PackJob {
        PackJob { scratch: PackScratch::metered(meter), ..PackJob::default() }
    }

    fn pack(&mut self) {
        // Dropped when this is done: the window may only move when no thread uses its chunks.
        let Some(PackContext { spec, deserializer, chunks }) = self.context.take() else { return };
        for PlannedMinibatch { selection, .. } in &self.planned {
            let loaded = LoadedSelection {
                sequences: &selection.sequences,
                end_of_sweep: selection.end_of_sweep,
                end_of_epoch: selection.end_of_epoch,
                chunks: &chunks,
                fetched: None,
            };
            let mut packed = spec.pack(&mut self.scratch, &loaded);
            if let Ok(minibatch) = &mut packed.minibatch {
                deserializer.reported_keys(self.scratch.sequences(), false, &mut minibatch.keys);
            }
            self.packed.push(packed);
        }
    }
}

/// The threads, started when they are first needed.
pub(super) struct ParallelPacker {
    own: PackJob,
    helpers: Vec<Helper>,
    threads: usize,
    /// How long one thread takes for a minibatch, as the last batch had it.
    each: Duration,
    meter: Meter,
}

struct Helper {
    thread: HandoffThread<Box<PackJob>>,
    /// Here while there is no work.
    job: Option<Box<PackJob>>,
}

impl ParallelPacker {
    /// A packer with this many threads, at least one: the caller's and helpers. `meter` counts the memory of minibatches.
    pub(super) fn new(threads: usize, meter: &Meter) -> ParallelPacker {
        let (own, meter) = (PackJob::metered(meter), meter.clone());
        ParallelPacker { own, helpers: Vec::new(), threads, each: Duration::ZERO, meter }
    }

    /// Packs minibatches, and hands them out in their order.
    pub(super) fn pack(
        &mut self,
        planned: &mut Vec<PlannedMinibatch>,
        context: PackContext,
        mut deliver: impl FnMut(&PlannedMinibatch, Packed),
    ) -> Result<()> {
        let is_worth_it = self.each * planned.len() as u32 >= WORTH_IT;
        let wanted = if is_worth_it { self.threads.min(planned.len()).max(1) } else { 1 };
        while self.helpers.len() < wanted - 1 {
            let pack = |job: &mut Box<PackJob>| job.pack();
            let Some(thread) = HandoffThread::start("cntk-reader-pack", pack) else { break };
            self.helpers.push(Helper { thread, job: Some(Box::new(PackJob::metered(&self.meter))) });
        }
        let threads = wanted.min(self.helpers.len() + 1);
        // The last ones go first: the helpers are to start as soon as possible.
        for i in (1..threads).rev() {
            let helper = &mut self.helpers[i - 1];
            let mut job = helper.job.take().unwrap_or_else(|| Box::new(PackJob::metered(&self.meter)));
            job.planned.extend(planned.drain(planned.len() * i / (i + 1)..));
            job.context = Some(context.clone());
            helper.thread.give(job)?;
        }
        self.own.planned.append(planned);
        self.own.context = Some(context);
        let start = Instant::now();
        self.own.pack();
        if !self.own.planned.is_empty() {
            self.each = start.elapsed() / self.own.planned.len() as u32;
        }
        let mut hand_out = |job: &mut PackJob| {
            job.planned
                .iter()
                .zip(job.packed.drain(..))
                .for_each(|(planned, packed)| deliver(planned, packed));
            planned.append(&mut job.planned);
        };
        hand_out(&mut self.own);
        for helper in &mut self.helpers[..threads - 1] {
            let mut job = helper.thread.take()?;
            hand_out(&mut job);
            helper.job = Some(job);
        }
        Ok(())
    }
}
