//! Windows and segments, shared by both orders of a local timeline.

use crate::randomize::WorkerConfig;
use cntk_reader_core::Result;
use cntk_reader_core::format::Listing;
use cntk_reader_core::sequence::{ChunkId, SequenceId};

/// Number of chunks to prefetch after the segment.
pub(super) const AHEAD: usize = 2;

/// A local timeline's access to the chunks.
pub trait Chunks {
    /// Starts loading a chunk unless it is loaded or loading already.
    fn expect(&mut self, chunk: ChunkId);

    /// Waits for a chunk and returns its list of sequences.
    fn list(&mut self, chunk: ChunkId) -> Result<Listing<'_>>;

    /// Releases all chunks except these, which are in ascending order.
    fn keep(&mut self, chunks: &[ChunkId]);
}

/// A position on a local timeline: the numbers in CNTK's checkpoints.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LocalPosition {
    /// Start of the current window. The meaning of the two numbers depends on the order.
    pub window: [u64; 2],
    /// Number of sweep ends passed.
    pub sweeps: u64,
    /// Samples delivered to this worker.
    pub samples: u64,
    /// Entries of the window (sequences and markers) passed.
    pub entries: u64,
}

/// A point between two chunks of a sweep, within a window.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cursor {
    /// Position in the order of chunks.
    pub at: u64,
    pub sweep: u64,
    /// The part of the window's size that is left.
    pub budget: i64,
}

/// The successor of a segment.
#[derive(Debug, Clone, Copy)]
pub(super) enum Next {
    Segment(Cursor),
    /// The window is complete; the next one begins here.
    Window([u64; 2]),
}

/// The part of a window that lies within one sweep.
pub(super) struct Segment {
    /// Start of its window.
    pub window: [u64; 2],
    /// Entries of the window before the segment.
    pub begin: u64,
    pub sequences: Vec<(SequenceId, u32)>,
    /// The chunks of its sequences.
    pub chunks: Vec<ChunkId>,
    /// The segment reaches the end of the sweep: a marker follows its sequences.
    pub ends_sweep: bool,
    /// The seed of its shuffle; `None` once it is shuffled.
    pub seed: Option<u64>,
    pub next: Next,
}

impl Segment {
    pub fn entries(&self) -> u64 {
        self.sequences.len() as u64 + u64::from(self.ends_sweep)
    }

    pub fn end(&self) -> u64 {
        self.begin + self.entries()
    }

    pub fn has(&self, position: &LocalPosition) -> bool {
        self.window == position.window && (self.begin..self.end()).contains(&position.entries)
    }
}

/// An order of chunks and of the sequences in a window.
pub(super) trait Windows: Send {
    /// Returns CNTK's names for the two numbers that locate a window.
    fn keys(&self) -> [&'static str; 2];

    /// Returns the first window of a sweep.
    fn first_of(&self, sweep: u64) -> [u64; 2];

    /// Returns the start of a window's first segment, or `None` if there is no such window.
    fn start(&self, window: [u64; 2]) -> Option<Cursor>;

    /// Adds the chunks of a segment that are known before it is produced, and returns their
    /// successor.
    fn plan(&mut self, from: Cursor, workers: &WorkerConfig, chunks: &mut Vec<ChunkId>) -> Next;

    /// Fills in a segment, except for `window` and `begin`. `sequences` and `chunks` must be empty.
    fn produce(
        &mut self,
        from: Cursor,
        workers: &WorkerConfig,
        chunks: &mut dyn Chunks,
        segment: &mut Segment,
    ) -> Result<()>;

    /// Shuffles a produced segment.
    fn shuffle(&mut self, segment: &mut Segment);

    /// Adds the first [`AHEAD`] of this worker's chunks after a segment; chunks of the next sweep
    /// only if `across` is set.
    fn ahead(&self, next: Next, workers: &WorkerConfig, across: bool, chunks: &mut Vec<ChunkId>);

    /// Called when the workers have changed.
    fn reshape(&mut self);

    /// Returns the number of chunks if all of them were listed and all are empty.
    fn empty_chunks(&self) -> Option<u32>;

    /// Whether, as far as known so far, no segment has a sequence of this worker.
    fn is_barren(&self, workers: &WorkerConfig) -> bool;
}
