//! Options for the order of sequences.

/// Order of sequences.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// The data's own order.
    InOrder,
    /// Randomization in windows: rolling if the sequences are known in advance, otherwise tumbling.
    Block {
        /// How far sequences move.
        window: WindowSize,
        /// Added to the sweep's number to give its seed.
        seed: u64,
    },
}

/// Size of a randomization window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WindowSize {
    /// In chunks: from 1 to 2^32-1.
    Chunks(u64),
    /// In samples. 0 gives the smallest window, one chunk.
    Samples(u64),
}
