//! Where packers get their sequences.

use cntk_reader_core::Result;
use cntk_reader_core::format::Chunk;
use cntk_reader_core::format::fetched::Fetched;
use cntk_reader_core::sequence::{SequenceId, SequenceKey};
use cntk_reader_core::stream::LateShapes;
use std::sync::Arc;

/// A source of sequences: the timeline, with the chunks that it needs in memory.
pub trait Feed {
    /// Selects the next sequences, at most `global` samples of all workers and `local` samples of this worker, and makes
    /// sure that their chunks are loaded.
    fn next(&mut self, global: u64, local: u64) -> Result<LoadedSelection<'_>>;

    /// Counts sequences that turned out to be invalid and were left out. With `delivers` it fails if the total exceeds what
    /// the reader tolerates. Packers set `delivers` for each selection that still has data, also where `sequences` is 0.
    /// (CNTK 2.7 does not compare the total with its limit while there is no data.)
    fn count_invalid(&mut self, sequences: u64, delivers: bool) -> Result<()>;

    /// The chunk of the sequence at `position` of the last selection, to be kept after the selection is gone. Called at most
    /// once for each sequence.
    fn keep(&mut self, position: usize) -> Option<Arc<dyn Chunk>>;

    /// Frees what was fetched for the last selection, except for what was kept.
    fn release(&mut self) {}

    /// Appends the keys of sequences.
    fn keys(&self, sequences: &[SequenceId], keys: &mut Vec<SequenceKey>);
}

/// What a [`Feed`] hands out: sequences whose chunks are in memory.
pub struct LoadedSelection<'a> {
    /// The sequences, in order.
    pub sequences: &'a [SequenceId],
    /// The end of a sweep was reached or crossed.
    pub end_of_sweep: bool,
    /// The end of the epoch was reached.
    pub end_of_epoch: bool,
    /// The loaded chunks, by chunk id. Only the chunks of `sequences` are certain to be present.
    pub chunks: &'a [Option<Arc<dyn Chunk>>],
    /// For sequences that are fetched one by one: their data, by position in `sequences`, and the shapes that the data
    /// have revealed so far.
    pub fetched: Option<(&'a [Fetched], &'a LateShapes)>,
}

impl<'a> LoadedSelection<'a> {
    /// The chunk of the sequence `id`, which is at `position` of `sequences`.
    pub(crate) fn chunk(&self, position: usize, id: SequenceId) -> Option<&'a dyn Chunk> {
        match self.fetched {
            Some((fetched, _)) => fetched.get(position).map(|fetched| fetched as &dyn Chunk),
            None => self.chunks.get(id.chunk as usize)?.as_deref(),
        }
    }
}
