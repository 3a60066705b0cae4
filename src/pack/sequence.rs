//! Packing whole sequences side by side, in as few parallel rows as first fit finds.

use super::buffer::BufferPool;
use super::first_fit::FirstFit;
use super::limits::Limits;
use super::minibatch::Minibatch;
use super::{Batch, Feed, PackConfig, Packer, Queue, check_view, write};
use crate::deserialize::{Ahead, Chunk, Loaded};
use crate::error::ExceptionClass;
use crate::memory::Meter;
use crate::sequence::{SequenceId, SequenceView};
use crate::stream::{Storage, StreamInfo};
use crate::{Error, ErrorKind, Result};
use std::sync::Arc;

/// How many sequences are looked up together: their cache misses then overlap, where one look-up after the other would
/// wait for each. On randomized sequences of words in a window of 200 MB this delivers a third more samples per second.
const TOGETHER: usize = 32;

/// Packs whole sequences, of any length or of one sample each. Streams of different lengths get different layouts.
pub struct SequencePacker {
    recipe: Arc<Recipe>,
    local_timeline: bool,
    limits: Option<Limits>,
    desk: Desk,
}

/// What packing one minibatch takes beside its sequences. Threads that pack share it; each has a [`Desk`] of its own.
#[derive(Clone)]
pub struct Recipe {
    streams: Vec<StreamInfo>,
    frames: bool,
}

/// The working memory of one thread.
#[derive(Default)]
pub struct Desk {
    /// The thread gets the minibatches again that it filled before: their memory is in its processor's caches.
    pool: BufferPool,
    fit: FirstFit,
    /// The minibatch's sequences, without those left out.
    sequences: Vec<SequenceId>,
    /// What was found out about them, by stream.
    inputs: Vec<Input<'static>>,
    /// Invalid ones among those left out.
    invalid: u64,
}

/// What [`Recipe::pack`] made.
pub struct Packed {
    /// The minibatch, without the keys of its sequences.
    pub minibatch: Result<Minibatch>,
    /// Invalid sequences that were left out.
    pub invalid: u64,
    /// Some sequences were not left out.
    pub delivers: bool,
}

/// One stream of the minibatch to be packed.
#[derive(Default)]
struct Input<'a> {
    lengths: Vec<u32>,
    views: Vec<SequenceView<'a>>,
}

/// Hands the memory of a list on to a list of views into another batch.
fn recycle<'b>(mut views: Vec<SequenceView<'_>>) -> Vec<SequenceView<'b>> {
    views.clear();
    // Collecting the items of a list into a list of items of the same layout takes place in the first one's memory.
    // There are no items; only the lifetime changes.
    views.into_iter().map(|_| unreachable!("the list is empty")).collect()
}

impl SequencePacker {
    /// A packer for these streams. With `local_timeline` each worker fills its share of the minibatch size.
    pub fn new(streams: Vec<StreamInfo>, local_timeline: bool) -> SequencePacker {
        SequencePacker::with(Recipe { streams, frames: false }, local_timeline)
    }

    /// The same for frames: one step, one row a sample. Refuses sequences of more than one sample.
    pub fn of_frames(streams: Vec<StreamInfo>, local_timeline: bool) -> SequencePacker {
        SequencePacker::with(Recipe { streams, frames: true }, local_timeline)
    }

    /// Counts the memory of its minibatches.
    #[must_use]
    pub(crate) fn metered(mut self, meter: &Meter) -> SequencePacker {
        self.desk = Desk::metered(meter);
        self
    }

    fn with(recipe: Recipe, local_timeline: bool) -> SequencePacker {
        SequencePacker { recipe: Arc::new(recipe), local_timeline, limits: None, desk: Desk::default() }
    }
}

impl Desk {
    /// A desk whose minibatches' memory is counted.
    pub(crate) fn metered(meter: &Meter) -> Desk {
        Desk { pool: BufferPool::metered(meter), ..Desk::default() }
    }

    /// The sequences of the minibatch packed last.
    pub fn sequences(&self) -> &[SequenceId] {
        &self.sequences
    }

    /// The first pass: looks every sequence up and leaves the invalid ones out.
    fn survey<'a>(&mut self, batch: &Batch<'a>, inputs: &mut [Input<'a>]) -> Result<()> {
        self.sequences.clear();
        self.invalid = 0;
        for input in inputs.iter_mut() {
            input.lengths.clear();
        }
        for (i, &id) in batch.sequences.iter().enumerate() {
            if i % TOGETHER == 0 && batch.fetched.is_none() {
                let next = &batch.sequences[i..batch.sequences.len().min(i + TOGETHER)];
                prefetch(batch, next, Ahead::Far);
                prefetch(batch, next, Ahead::Near);
            }
            let Some(chunk) = batch.chunk(i, id) else {
                return Err(Error::internal("The chunk of a sequence is not in memory."));
            };
            let kept = self.sequences.len();
            let mut invalid = false;
            for (stream, input) in inputs.iter_mut().enumerate() {
                match chunk.sequence(stream, id.index) {
                    Loaded::Data(view) => {
                        write::prefetch_first(&view);
                        input.lengths.push(view.samples);
                        input.views.push(view);
                    }
                    Loaded::Skipped => {}
                    Loaded::Invalid => invalid = true,
                }
            }
            if inputs.iter().all(|input| input.views.len() > kept) {
                self.sequences.push(id);
                continue;
            }
            self.invalid += u64::from(invalid);
            for input in inputs.iter_mut() {
                input.lengths.truncate(kept);
                input.views.truncate(kept);
            }
        }
        Ok(())
    }
}

impl Recipe {
    /// Packs one minibatch.
    pub fn pack(&self, desk: &mut Desk, batch: &Batch<'_>) -> Packed {
        let mut inputs: Vec<Input<'_>> = std::mem::take(&mut desk.inputs);
        inputs.resize_with(self.streams.len(), Input::default);
        let minibatch = desk.survey(batch, &mut inputs).and_then(|()| self.copy(desk, batch, &inputs));
        desk.inputs = inputs
            .into_iter()
            .map(|input| Input { lengths: input.lengths, views: recycle(input.views) })
            .collect();
        Packed { minibatch, invalid: desk.invalid, delivers: !desk.sequences.is_empty() }
    }

    /// The second pass: lays out and copies.
    fn copy(&self, desk: &mut Desk, batch: &Batch<'_>, inputs: &[Input<'_>]) -> Result<Minibatch> {
        if desk.sequences.is_empty() {
            return Ok(Minibatch::empty(batch.end_of_sweep, batch.end_of_epoch));
        }
        let mut minibatch = desk.pool.take(self.streams.len());
        minibatch.make_room(desk.sequences.len());
        minibatch.end_of_sweep = batch.end_of_sweep;
        minibatch.end_of_epoch = batch.end_of_epoch;
        for (i, (info, input)) in self.streams.iter().zip(inputs).enumerate() {
            let nnz = self.check(info, input).map_err(|error| error.in_stream(&info.name))?;
            let (before, rest) = minibatch.streams.split_at_mut(i);
            let Some(stream) = rest.first_mut() else { continue };
            match inputs.iter().zip(before).find(|(other, _)| other.lengths == input.lengths) {
                Some((_, same)) => stream.layout.copy_from(&same.layout),
                None => desk.fit.lay_out(&input.lengths, &mut stream.layout),
            }
            let element = info.element.size();
            let columns = stream.layout.columns();
            let size = match info.storage {
                Storage::Dense => columns.checked_mul(info.sample_size() * element),
                Storage::SparseCsc => write::block_size(nnz, element, columns),
            };
            let Some(size) = size else {
                return Err(Error::data("The minibatch is too large.").in_stream(&info.name));
            };
            stream.data.resize(size).map_err(|error| error.in_stream(&info.name))?;
            let out = stream.data.bytes_mut();
            match info.storage {
                Storage::Dense => {
                    write::dense(out, &stream.layout, &input.views, info.sample_size() * element, element);
                }
                Storage::SparseCsc => write::sparse(out, &stream.layout, &input.views, element, nnz)?,
            }
        }
        desk.pool.count(&mut minibatch);
        Ok(minibatch)
    }

    /// Holds one stream's sequences against its description, so that copying cannot fail. Returns the number of their
    /// values if the stream is sparse.
    fn check(&self, info: &StreamInfo, input: &Input<'_>) -> Result<usize> {
        let (element, sample_size) = (info.element.size(), info.sample_size());
        let mut nnz = 0;
        for view in &input.views {
            if self.frames && view.samples != 1 {
                return Err(Error::data(format!(
                    "Detected a non-frame sequence of size {} in frame mode.",
                    view.samples
                )));
            }
            if view.samples == 0 {
                return Err(empty_sequence());
            }
            if view.sparse.is_some() != (info.storage == Storage::SparseCsc) {
                return Err(Error::internal("A chunk's storage is not its stream's."));
            }
            nnz += check_view(view, element, sample_size)?;
        }
        if nnz > i32::MAX as usize {
            return Err(Error::data(format!(
                "Minibatch NNZ count ({nnz}) exceeds the maximum allowed value ({})",
                i32::MAX
            )));
        }
        Ok(nnz)
    }
}

impl Packer for SequencePacker {
    fn configure(&mut self, config: &PackConfig) -> Result<()> {
        self.limits = Some(Limits::of(config, self.local_timeline)?);
        Ok(())
    }

    fn reset(&mut self) {}

    /// Sequences that were refused are consumed: the next read goes on behind them.
    fn read(&mut self, feed: &mut dyn Feed) -> Result<Minibatch> {
        let Some(limits) = self.limits else {
            return Err(Error::state("The packer has no sizes yet."));
        };
        let batch = feed.next(limits.global, limits.local)?;
        if let Some((_, shapes)) = batch.fetched {
            shapes.complete(&mut Arc::make_mut(&mut self.recipe).streams);
        }
        let Packed { minibatch, invalid, delivers } = self.recipe.pack(&mut self.desk, &batch);
        // Comes before an error of the packing, which in CNTK comes later. (The batch borrows the feed, so the feed
        // can only be asked now.)
        feed.release();
        feed.count_invalid(invalid, delivers)?;
        let mut minibatch = minibatch?;
        feed.keys(&self.desk.sequences, &mut minibatch.keys);
        Ok(minibatch)
    }

    fn recipe(&self) -> Option<(&Arc<Recipe>, Limits)> {
        self.limits.map(|limits| (&self.recipe, limits))
    }

    fn queued(&self, queues: &mut Vec<Queue>) {
        queues.clear();
    }

    fn requeue(
        &mut self,
        _queues: &[Queue],
        _chunk: &mut dyn FnMut(SequenceId) -> Result<Arc<dyn Chunk>>,
    ) -> Result<()> {
        Ok(())
    }
}

/// Asks for what the look-ups of these sequences will read.
fn prefetch(batch: &Batch<'_>, sequences: &[SequenceId], ahead: Ahead) {
    for id in sequences {
        if let Some(chunk) = batch.chunk(0, *id) {
            chunk.prefetch(id.index, ahead);
        }
    }
}

/// CNTK 2.7's error for a sequence without samples.
pub(super) fn empty_sequence() -> Error {
    let message = "AddSequence: Sequences must be a least one frame long.";
    Error::new(ErrorKind::Data, ExceptionClass::Logic, message)
}

#[cfg(test)]
mod tests;
