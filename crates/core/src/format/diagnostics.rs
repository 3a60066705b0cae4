//! Diagnostics of a source of chunks: checks, locations in files, remarks and counted errors.

use super::check::{ChunkCheck, Finding};
use crate::corpus::Corpus;
use crate::error::Location;
use crate::sequence::{ChunkId, SequenceId, SequenceKey};

/// Diagnostics of a source of chunks. No method has a default, so a wrapper cannot forget to ask
/// the source that it wraps.
pub trait Diagnostics {
    /// Checks a chunk without keeping its data. Reports everything that reading it would, and lists
    /// the first `most` findings. Returns `None` if the format cannot check, so that the chunk has
    /// to be loaded and examined. Called on a thread of the library's pool.
    fn check(&self, chunk: ChunkId, most: usize) -> Option<ChunkCheck>;

    /// Returns the file, line and offset of a sequence's data in a stream, where they are known.
    /// For messages only: it may read the file to count its lines.
    fn location(&self, sequence: SequenceId, stream: usize) -> Location;

    /// A key as it appears in messages.
    fn key_text(&self, key: SequenceKey, corpus: &Corpus) -> String;

    /// Forgets the errors that its chunks have [counted](super::ChunkErrors::commit), because the
    /// reader continues as a new one would.
    fn forget_errors(&self);

    /// Valid content that is rarely intended, as notes of a check. Opening a reader logs them as
    /// warnings.
    fn remarks(&self) -> Vec<Finding>;

    /// Called when the end of a sweep has been delivered. Logs a summary of the warnings that were
    /// not logged one by one.
    fn end_sweep(&self);
}

/// Diagnostics of a format that counts no errors and logs no warnings: it only knows where
/// sequences are. Checks load its chunks.
pub trait LeafDiagnostics {
    /// See [`Diagnostics::location`].
    fn location(&self, sequence: SequenceId, stream: usize) -> Location;
}

impl<D: LeafDiagnostics> Diagnostics for D {
    fn check(&self, _chunk: ChunkId, _most: usize) -> Option<ChunkCheck> {
        None
    }

    fn location(&self, sequence: SequenceId, stream: usize) -> Location {
        LeafDiagnostics::location(self, sequence, stream)
    }

    fn key_text(&self, key: SequenceKey, corpus: &Corpus) -> String {
        corpus.text_of(key)
    }

    fn forget_errors(&self) {}

    fn remarks(&self) -> Vec<Finding> {
        Vec::new()
    }

    fn end_sweep(&self) {}
}

/// Diagnostics of a source that offers none.
pub struct NoDiagnostics;

impl LeafDiagnostics for NoDiagnostics {
    fn location(&self, _sequence: SequenceId, _stream: usize) -> Location {
        Location::default()
    }
}
