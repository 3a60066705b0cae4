//! Minibatch layout: which columns belong to which sequence.

/// Id of a record that marks a gap: columns without data.
pub const GAP: u64 = u64::MAX;

/// A run of time steps in one lane that belongs to one sequence, or to none (a gap).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
#[non_exhaustive]
pub struct Record {
    /// Number of the sequence within the minibatch, from 0, or [`GAP`].
    pub id: u64,
    /// The lane, from 0.
    pub lane: u64,
    /// Step at which the sequence begins; negative if it began in an earlier minibatch (truncated mode).
    pub begin: i64,
    /// One past the step at which it ends; more than the number of steps if it continues in a later minibatch (truncated
    /// mode).
    pub end: u64,
}

impl Record {
    /// Whether the record marks columns without data.
    pub fn is_gap(&self) -> bool {
        self.id == GAP
    }
}

/// Layout of one stream's minibatch: `steps * lanes` columns. Step `t` of lane `s` is column `t * lanes + s`, or `s * steps + t`
/// if the layout is sequence-major.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Layout {
    /// Time steps (CNTK's T): the length of a lane.
    pub steps: usize,
    /// Parallel sequences (CNTK's S). Each lane holds one sequence, or several one after the other.
    pub lanes: usize,
    /// Cover every column exactly once, except that a sequence-major layout has no records of gaps.
    pub records: Vec<Record>,
    /// Steps by which truncated minibatches overlap; 0 in the other modes.
    pub right_splice: u64,
    /// Lanes come one after the other instead of steps: each sequence has a lane of its own, and its samples are next to
    /// each other. Minibatches of whole sequences have binary streams like this
    /// ([`StreamInfo::is_binary`](crate::stream::StreamInfo::is_binary)).
    pub sequence_major: bool,
}

impl Layout {
    /// Removes all columns; the list of records keeps its memory.
    pub fn clear(&mut self) {
        self.steps = 0;
        self.lanes = 0;
        self.right_splice = 0;
        self.sequence_major = false;
        self.records.clear();
    }

    /// Lays out sequences of these lengths sequence-major.
    pub(super) fn sequence_major(&mut self, lengths: &[u32]) {
        self.clear();
        self.steps = lengths.iter().fold(0, |a, &b| a.max(b)) as usize;
        self.lanes = lengths.len();
        self.sequence_major = true;
        let record = |(id, &length): (u64, &u32)| Record { id, lane: id, begin: 0, end: length.into() };
        self.records.extend((0..).zip(lengths).map(record));
    }

    /// Makes this a copy of `other` in the memory it already has, if that suffices.
    pub(super) fn copy_from(&mut self, other: &Layout) {
        self.steps = other.steps;
        self.lanes = other.lanes;
        self.right_splice = other.right_splice;
        self.sequence_major = other.sequence_major;
        self.records.clone_from(&other.records);
    }

    /// The column of a step of a lane.
    pub fn column(&self, step: usize, lane: usize) -> usize {
        if self.sequence_major { lane * self.steps + step } else { step * self.lanes + lane }
    }

    /// Number of columns, gaps included.
    pub fn columns(&self) -> usize {
        self.steps * self.lanes
    }

    /// Number of samples: columns with data.
    pub fn samples(&self) -> usize {
        self.counts().0
    }

    /// Numbers of samples and of sequences with data, in one pass: both are asked for with every minibatch.
    pub fn counts(&self) -> (usize, usize) {
        let (mut samples, mut sequences) = (0, 0);
        for record in &self.records {
            let is_data = u64::from(!record.is_gap());
            let inside = record.end.min(self.steps as u64) as i64 - record.begin.max(0);
            samples += inside.max(0) as u64 * is_data;
            sequences += is_data;
        }
        (samples as usize, sequences as usize)
    }
}
