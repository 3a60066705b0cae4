//! What a source of chunks says about its data, and about the errors that it has counted, beside the data themselves.

use super::check::{ChunkCheck, Finding};
use crate::error::Location;
use crate::sequence::{ChunkId, SequenceId};

/// Messages of a source of chunks. A wrapper answers for the sources that it wraps, method by method.
pub trait Diagnostics {
    /// Checks a chunk without keeping its data: all that reading it would report, of which at most the first `most` findings
    /// are listed. `None` if the format cannot do that, and chunks have to be [loaded](super::check::check_loaded). Called from
    /// a thread of the library's pool.
    fn check(&self, chunk: ChunkId, most: usize) -> Option<ChunkCheck>;

    /// Where the data of a sequence in a stream lie, as far as that is known: file, line and offset. For messages only: the
    /// file may be read to count its lines.
    fn location(&self, sequence: SequenceId, stream: usize) -> Location;

    /// Forgets the errors that its chunks have [counted](super::Chunk::commit_errors), because the reader continues as a new
    /// one would.
    fn forget_errors(&self);

    /// Legal content that is rarely meant, as notes of a check. A reader that is opened logs them as warnings.
    fn remarks(&self) -> Vec<Finding>;

    /// Called when the end of a sweep was delivered. Logs a summary of the warnings that were not written one by one.
    fn end_sweep(&self);
}

/// The diagnostics of a source that has nothing to say.
pub struct NoDiagnostics;

impl Diagnostics for NoDiagnostics {
    fn check(&self, _chunk: ChunkId, _most: usize) -> Option<ChunkCheck> {
        None
    }

    fn location(&self, _sequence: SequenceId, _stream: usize) -> Location {
        Location::default()
    }

    fn forget_errors(&self) {}

    fn remarks(&self) -> Vec<Finding> {
        Vec::new()
    }

    fn end_sweep(&self) {}
}
