//! How far workers read for a minibatch, which differs between releases of CNTK.

/// How far a worker reads for a minibatch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Pace {
    /// Until the next of its own sequences does not fit, as CNTK 2.1 to 2.7.
    #[default]
    Own,
    /// As far as a single worker would, so that each worker's minibatch is its share of one common
    /// minibatch. A share may be empty.
    Lockstep,
    /// As the betas of CNTK 2.0: until the minibatch is full, or the next sequence does not fit
    /// into it or the epoch. In random order, only the first sequence of all workers together may
    /// exceed the limits, so a minibatch may be empty.
    Beta,
}

impl Pace {
    /// Whether, in random order, an oversized sequence is taken only if it comes first among all
    /// workers' sequences. Otherwise, it is taken if it comes first among this worker's.
    pub(crate) fn counts_all(self) -> bool {
        self != Pace::Own
    }

    /// Returns the number of this worker's samples at which to stop, given its limit `local`.
    pub(crate) fn full_at(self, local: u64) -> u64 {
        if self == Pace::Beta { local } else { u64::MAX }
    }

    /// Returns the limit on the samples of all workers in a minibatch, given that the epoch has
    /// `left` more.
    pub(crate) fn within(self, global: u64, left: u64) -> u64 {
        if self == Pace::Beta { global.min(left) } else { global }
    }
}
