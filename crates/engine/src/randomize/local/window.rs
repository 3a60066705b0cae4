//! Windows and the segments they are produced in: what the two orders of a local timeline have in common.

use crate::randomize::WorkerConfig;
use cntk_reader_core::Result;
use cntk_reader_core::format::Listing;
use cntk_reader_core::sequence::{ChunkId, SequenceId};

/// Number of chunks that are loaded ahead of the segment.
pub(super) const AHEAD: usize = 2;

/// Access to the chunks, as a local timeline needs it.
pub trait Chunks {
    /// Begins to load a chunk, unless it is loaded or being loaded.
    fn expect(&mut self, chunk: ChunkId);

    /// Waits for a chunk and lists its sequences.
    fn list(&mut self, chunk: ChunkId) -> Result<Listing<'_>>;

    /// Releases all chunks except these, which are in ascending order.
    fn keep(&mut self, chunks: &[ChunkId]);
}

/// Where a local timeline stands: the numbers of CNTK's checkpoints.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LocalPosition {
    /// Where the current window begins. The order defines what the two numbers mean.
    pub window: [u64; 2],
    /// Number of ends of sweeps that were passed.
    pub sweeps: u64,
    /// Samples that this worker received.
    pub samples: u64,
    /// Entries of the window, sequences and markers, that were passed.
    pub entries: u64,
}

/// A point between two chunks of a sweep, on the way through a window.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cursor {
    /// Position in the order of chunks.
    pub at: u64,
    pub sweep: u64,
    /// The rest of the window's size.
    pub budget: i64,
}

/// What follows a segment.
#[derive(Debug, Clone, Copy)]
pub(super) enum Next {
    Segment(Cursor),
    /// The window is complete; the next one begins here.
    Window([u64; 2]),
}

/// A part of a window that lies within one sweep.
pub(super) struct Segment {
    /// Where its window begins.
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
    /// CNTK's names of the two numbers that say where a window begins.
    fn keys(&self) -> [&'static str; 2];

    /// The first window of a sweep.
    fn first_of(&self, sweep: u64) -> [u64; 2];

    /// Where the first segment of a window begins, or `None` if there is no such window.
    fn start(&self, window: [u64; 2]) -> Option<Cursor>;

    /// Adds the chunks of a segment, as far as they are known before it is produced, and returns what will follow them.
    fn plan(&mut self, from: Cursor, workers: &WorkerConfig, chunks: &mut Vec<ChunkId>) -> Next;

    /// Fills in everything of a segment except its window and begin. `sequences` and `chunks` must be empty.
    fn produce(
        &mut self,
        from: Cursor,
        workers: &WorkerConfig,
        chunks: &mut dyn Chunks,
        segment: &mut Segment,
    ) -> Result<()>;

    /// Shuffles a segment that was produced.
    fn shuffle(&mut self, segment: &mut Segment);

    /// Adds the first [`AHEAD`] of this worker's chunks after a segment; chunks of the next sweep only if `across` is set.
    fn ahead(&self, next: Next, workers: &WorkerConfig, across: bool, chunks: &mut Vec<ChunkId>);

    /// Takes note that the workers have changed.
    fn reshape(&mut self);

    /// The number of chunks, if all of them were listed and none has a sequence.
    fn empty_chunks(&self) -> Option<u32>;

    /// Whether no segment has a sequence of this worker, as far as is known by now.
    fn is_barren(&self, workers: &WorkerConfig) -> bool;
}
