//! The modes of packing minibatches.

/// The modes of packing minibatches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Packing {
    /// Whole sequences in parallel lanes.
    Sequence,
    /// Single samples.
    Frame,
    /// Truncated back-propagation through time.
    Truncated {
        /// Steps of a minibatch; 2^64-1 means "all". 0 means the minibatch size of each epoch.
        length: u64,
        /// Overlap of minibatches of one sequence, at most the length.
        right_splice: u64,
    },
}
