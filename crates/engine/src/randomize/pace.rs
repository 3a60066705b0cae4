//! How far workers read for a minibatch, which releases of CNTK do not agree on.

/// How far a worker reads for a minibatch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Pace {
    /// Until the next of its own sequences does not fit, as CNTK 2.1 to 2.7.
    #[default]
    Own,
    /// As far as a single worker would, so that each worker's minibatch is its share of one
    /// minibatch of all. It may be empty.
    Lockstep,
    /// As the betas of CNTK 2.0: until it is full, or the next sequence does not fit into it or
    /// into the epoch. In random order only the first sequence of any worker may be longer than
    /// that, so that a minibatch may be empty.
    Beta,
}

impl Pace {
    /// Whether, in random order, a sequence that does not fit is taken only before all others of
    /// any worker. Otherwise it is taken before this worker's others.
    pub(crate) fn counts_all(self) -> bool {
        self != Pace::Own
    }

    /// Samples after which nothing more is taken, given the most that this worker gets.
    pub(crate) fn full_at(self, local: u64) -> u64 {
        if self == Pace::Beta { local } else { u64::MAX }
    }

    /// How many samples of all workers a minibatch takes at most, given that the epoch has `left`
    /// more.
    pub(crate) fn within(self, global: u64, left: u64) -> u64 {
        if self == Pace::Beta { global.min(left) } else { global }
    }
}
