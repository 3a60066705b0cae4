//! Packs whole sequences side by side, in lanes assigned by first fit.

use super::explain::Explain;
use super::feed::Feed;
use super::limits::{Limits, PackConfig, about_small_size};
use super::memory::MinibatchMemory;
use super::minibatch::{Minibatch, MinibatchPool};
use super::packer::{Packer, Queue};
use super::spec::{PackScratch, PackSpec, Packed};
use cntk_reader_core::format::Chunk;
use cntk_reader_core::runtime::helpers::{Helpers, Team};
use cntk_reader_core::runtime::log::{Level, Logger};
use cntk_reader_core::sequence::SequenceId;
use cntk_reader_core::stream::StreamInfo;
use cntk_reader_core::{Error, Result};
use std::sync::Arc;

/// Packs whole sequences, of any length or of one sample each. Streams of different lengths get
/// different layouts.
pub struct SequencePacker {
    spec: Arc<PackSpec>,
    local_timeline: bool,
    /// Whether a size too small for all workers was warned about; warn once, not in each epoch.
    has_warned: bool,
    limits: Option<Limits>,
    scratch: PackScratch,
    helpers: Helpers,
}

impl SequencePacker {
    /// Creates a packer for these streams. With `local_timeline`, each worker fills its share of
    /// the minibatch size.
    pub(crate) fn new(streams: Vec<StreamInfo>, local_timeline: bool) -> SequencePacker {
        SequencePacker::with(PackSpec::new(streams, false), local_timeline)
    }

    /// Creates a packer for frames: each sequence must be one sample, and minibatches have one step
    /// and one lane per sample.
    pub(crate) fn of_frames(streams: Vec<StreamInfo>, local_timeline: bool) -> SequencePacker {
        SequencePacker::with(PackSpec::new(streams, true), local_timeline)
    }

    /// Makes errors about single sequences name their location.
    #[must_use]
    pub(crate) fn explained(mut self, explain: Explain) -> SequencePacker {
        if let Some(spec) = Arc::get_mut(&mut self.spec) {
            spec.explain(explain);
        }
        self
    }

    /// Counts the packer's minibatches towards `memory`.
    #[must_use]
    pub(crate) fn of_memory(mut self, memory: &MinibatchMemory) -> SequencePacker {
        self.scratch = PackScratch::of(MinibatchPool::of_memory(memory));
        self
    }

    /// Sets the number of threads that copy large minibatches, at least one.
    ///
    /// With two threads, minibatches of 64 images are decoded 1.9 times as fast as with one.
    #[must_use]
    pub(crate) fn copied_by(self, threads: usize) -> SequencePacker {
        SequencePacker { helpers: Helpers::new(threads), ..self }
    }

    fn with(spec: PackSpec, local_timeline: bool) -> SequencePacker {
        SequencePacker {
            spec: Arc::new(spec),
            local_timeline,
            has_warned: false,
            limits: None,
            scratch: PackScratch::default(),
            helpers: Helpers::new(1),
        }
    }
}

impl Packer for SequencePacker {
    fn check(&self, config: &PackConfig) -> Result<()> {
        Limits::of(config, self.local_timeline).map(drop)
    }

    fn configure(&mut self, config: &PackConfig) -> Result<()> {
        self.limits = Some(Limits::of(config, self.local_timeline)?);
        let warning = about_small_size(config).filter(|_| self.local_timeline && !self.has_warned);
        if let Some(warning) = warning {
            self.has_warned = true;
            Logger::new(Level::Warning as u32).write(Level::Warning, &warning);
        }
        Ok(())
    }

    fn reset(&mut self) {}

    /// Rejected sequences are consumed: the next read continues after them.
    fn read(&mut self, feed: &mut dyn Feed) -> Result<Minibatch> {
        let Some(limits) = self.limits else {
            return Err(Error::state("The packer has no sizes yet."));
        };
        let loaded = feed.next(limits.global, limits.local)?;
        if let Some((_, shapes)) = loaded.fetched {
            Arc::make_mut(&mut self.spec).complete(shapes);
        }
        let threads = self.helpers.most();
        let mut team = (threads > 1).then_some(Team { helpers: &mut self.helpers, threads });
        let packed = self.spec.pack(&mut self.scratch, &loaded, team.as_mut());
        let Packed { minibatch, invalid, delivers } = packed;
        // An excess of invalid sequences takes precedence over packing errors, which come later in
        // CNTK. (The selection borrows the feed, so it cannot be called earlier.)
        feed.release();
        feed.count_invalid(invalid, delivers)?;
        let mut minibatch = minibatch?;
        feed.keys(self.scratch.sequences(), &mut minibatch.keys);
        Ok(minibatch)
    }

    fn spec(&self) -> Option<(&Arc<PackSpec>, Limits)> {
        self.limits.map(|limits| (&self.spec, limits))
    }

    fn queued(&self, queues: &mut Vec<Queue>) -> Result<()> {
        queues.clear();
        Ok(())
    }

    fn requeue(
        &mut self,
        _queues: &[Queue],
        _chunk: &mut dyn FnMut(SequenceId) -> Result<Arc<dyn Chunk>>,
    ) -> Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod differential;
#[cfg(test)]
mod fetched;
#[cfg(test)]
mod tests;
