//! Packs the minibatches of a burst on several threads.
//!
//! Which sequences a minibatch has is decided one minibatch after the other, and costs little. To copy them is what takes
//! time, and no minibatch needs another one for that. So each thread gets some of a burst's minibatches with all it
//! needs to pack them, and gives them back packed.

use super::WORTH_A_THREAD;
use super::place::Place;
use super::store::Resident;
use super::worker::Worker;
use crate::Result;
use crate::deserialize::Deserializer;
use crate::pack::{Batch, Desk, Packed, Recipe};
use crate::pool::Pool;
use crate::randomize::Selection;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Threads that pack, at most, the one that has the pipeline among them. Copying is soon bounded by memory.
const MOST_THREADS: usize = 4;

/// What takes less than the hand-over to another thread is packed by one alone. Tests use all threads for everything.
const WORTH_IT: Duration = if cfg!(test) { Duration::ZERO } else { WORTH_A_THREAD };

/// How many threads pack: as many as load, if there are CPUs for them.
pub(super) fn threads(pool: &Pool) -> usize {
    let cpus = std::thread::available_parallelism().map_or(1, |cpus| cpus.get());
    pool.threads().min(cpus).min(MOST_THREADS)
}

/// A minibatch whose sequences are selected.
#[derive(Default)]
pub(super) struct Plan {
    pub selection: Selection,
    /// Where the timeline stood afterwards.
    pub place: Place,
}

/// What packing reads.
#[derive(Clone)]
pub(super) struct Ground {
    pub recipe: Arc<Recipe>,
    pub deserializer: Arc<dyn Deserializer>,
    pub chunks: Resident,
}

/// One thread's part of a burst.
#[derive(Default)]
struct Share {
    ground: Option<Ground>,
    plans: Vec<Plan>,
    packed: Vec<Packed>,
    desk: Desk,
}

impl Share {
    fn pack(&mut self) {
        // Gone when this is done: the window moves when nobody looks at it.
        let Some(Ground { recipe, deserializer, chunks }) = self.ground.take() else { return };
        for Plan { selection, .. } in &self.plans {
            let batch = Batch {
                sequences: &selection.sequences,
                end_of_sweep: selection.end_of_sweep,
                end_of_epoch: selection.end_of_epoch,
                chunks: &chunks,
                fetched: None,
            };
            let mut packed = recipe.pack(&mut self.desk, &batch);
            if let Ok(minibatch) = &mut packed.minibatch {
                deserializer.reported_keys(self.desk.sequences(), false, &mut minibatch.keys);
            }
            self.packed.push(packed);
        }
    }
}

/// The threads, started when they are first needed.
pub(super) struct Crew {
    own: Share,
    helpers: Vec<Helper>,
    threads: usize,
    /// How long one thread takes for a minibatch, as the last burst had it.
    each: Duration,
}

struct Helper {
    worker: Worker<Box<Share>>,
    /// Here while there is no work.
    share: Option<Box<Share>>,
}

impl Crew {
    /// A crew of so many threads, at least one.
    pub(super) fn new(threads: usize) -> Crew {
        Crew { own: Share::default(), helpers: Vec::new(), threads, each: Duration::ZERO }
    }

    /// Packs minibatches, and hands them out in their order.
    pub(super) fn pack(
        &mut self,
        plans: &mut Vec<Plan>,
        ground: Ground,
        mut deliver: impl FnMut(&Plan, Packed),
    ) -> Result<()> {
        let is_worth_it = self.each * plans.len() as u32 >= WORTH_IT;
        let threads = if is_worth_it { self.threads.min(plans.len()).max(1) } else { 1 };
        while self.helpers.len() < threads - 1 {
            let worker = Worker::start("cntk-reader-pack", |share: &mut Box<Share>| share.pack())?;
            self.helpers.push(Helper { worker, share: Some(Box::default()) });
        }
        // The last ones go first: the helpers are to start as soon as possible.
        for i in (1..threads).rev() {
            let helper = &mut self.helpers[i - 1];
            let mut share = helper.share.take().unwrap_or_default();
            share.plans.extend(plans.drain(plans.len() * i / (i + 1)..));
            share.ground = Some(ground.clone());
            helper.worker.give(share)?;
        }
        self.own.plans.append(plans);
        self.own.ground = Some(ground);
        let start = Instant::now();
        self.own.pack();
        if !self.own.plans.is_empty() {
            self.each = start.elapsed() / self.own.plans.len() as u32;
        }
        let mut hand_out = |share: &mut Share| {
            share.plans.iter().zip(share.packed.drain(..)).for_each(|(plan, packed)| deliver(plan, packed));
            plans.append(&mut share.plans);
        };
        hand_out(&mut self.own);
        for helper in &mut self.helpers[..threads - 1] {
            let mut share = helper.worker.take()?;
            hand_out(&mut share);
            helper.share = Some(share);
        }
        Ok(())
    }
}
