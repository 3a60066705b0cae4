//! The packers' source of sequences.

use cntk_reader_core::Result;
use cntk_reader_core::format::Chunk;
use cntk_reader_core::format::fetched::Fetched;
use cntk_reader_core::sequence::{SequenceId, SequenceKey};
use cntk_reader_core::stream::LateShapes;
use std::sync::Arc;

/// A source of sequences: a timeline together with its loaded chunks.
pub trait Feed {
    /// Selects the next sequences, at most `global` samples of all workers and `local` samples of
    /// this worker, and loads their chunks.
    fn next(&mut self, global: u64, local: u64) -> Result<LoadedSelection<'_>>;

    /// Counts invalid sequences that were left out. With `delivers`, fails if the total exceeds the
    /// reader's limit. Packers set `delivers` for each selection that still has data, even if
    /// `sequences` is 0. (CNTK 2.7 does not check the limit while there is no data.)
    fn count_invalid(&mut self, sequences: u64, delivers: bool) -> Result<()>;

    /// Returns the chunk of the sequence at `position` of the last selection, to be kept beyond the
    /// selection. Called at most once for each sequence.
    fn keep(&mut self, position: usize) -> Option<Arc<dyn Chunk>>;

    /// Frees the data fetched for the last selection, except for kept chunks.
    fn release(&mut self) {}

    /// Appends the keys of sequences.
    fn keys(&self, sequences: &[SequenceId], keys: &mut Vec<SequenceKey>);
}

/// A selection by a [`Feed`]: sequences whose chunks are in memory.
pub struct LoadedSelection<'a> {
    /// The sequences, in order.
    pub sequences: &'a [SequenceId],
    /// The end of a sweep was reached or crossed.
    pub end_of_sweep: bool,
    /// The end of the epoch was reached.
    pub end_of_epoch: bool,
    /// The loaded chunks, by chunk id. Only the chunks of `sequences` are guaranteed to be present.
    pub chunks: &'a [Option<Arc<dyn Chunk>>],
    /// For sequences that are fetched individually: their data, by position in `sequences`, and the
    /// shapes discovered so far.
    pub fetched: Option<(&'a [Fetched], &'a LateShapes)>,
}

impl<'a> LoadedSelection<'a> {
    /// Returns the chunk of the sequence `id`, which is at `position` of `sequences`.
    pub(crate) fn chunk(&self, position: usize, id: SequenceId) -> Option<&'a dyn Chunk> {
        match self.fetched {
            Some((fetched, _)) => fetched.get(position).map(|fetched| fetched as &dyn Chunk),
            None => self.chunks.get(id.chunk as usize)?.as_deref(),
        }
    }
}
