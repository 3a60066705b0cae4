//! How sequences are put in order.

/// Order of sequences.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// The data's own order.
    InOrder,
    /// Randomization in windows: rolling ones where sequences are known beforehand, else tumbling
    /// ones.
    Block {
        /// How far sequences move.
        window: WindowSize,
        /// Added to the sweep's number to seed it.
        seed: u64,
    },
}

/// Size of a randomization window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WindowSize {
    /// In chunks: from 1 to 2^32-1.
    Chunks(u64),
    /// In samples. 0 is the least window, one chunk.
    Samples(u64),
}
