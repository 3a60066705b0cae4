//! Minibatch layout: which columns belong to which sequence.

/// Id of a record that marks a gap: columns without data.
pub const GAP: u64 = u64::MAX;

/// A run of time steps in one parallel row that belongs to one sequence, or to none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct Record {
    /// Number of the sequence within the minibatch, from 0, or [`GAP`].
    pub id: u64,
    /// Parallel row.
    pub row: u64,
    /// Step at which the sequence begins; negative if it began in an earlier minibatch (truncated).
    pub begin: i64,
    /// One behind the step at which it ends; beyond the number of steps if it goes on in a later one (truncated).
    pub end: u64,
}

impl Record {
    /// Whether the record marks columns without data.
    pub fn is_gap(&self) -> bool {
        self.id == GAP
    }
}

/// Layout of one stream's minibatch: `steps * rows` columns; step `t` of row `s` is column `t * rows + s`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Layout {
    /// Time steps (T).
    pub steps: usize,
    /// Parallel rows (S).
    pub rows: usize,
    /// Every column is covered by exactly one record.
    pub records: Vec<Record>,
    /// Overlap of truncated minibatches; 0 elsewhere.
    pub right_splice: u64,
}

impl Layout {
    /// Makes it a layout without columns; the list of records keeps its memory.
    pub fn clear(&mut self) {
        self.steps = 0;
        self.rows = 0;
        self.right_splice = 0;
        self.records.clear();
    }

    /// Makes it a copy of `other` without allocating anew.
    pub(super) fn copy_from(&mut self, other: &Layout) {
        self.steps = other.steps;
        self.rows = other.rows;
        self.right_splice = other.right_splice;
        self.records.clone_from(&other.records);
    }

    /// Number of columns, gaps included.
    pub fn columns(&self) -> usize {
        self.steps * self.rows
    }

    /// Samples with data.
    pub fn samples(&self) -> usize {
        self.counts().0
    }

    /// Samples and sequences with data, in one pass: callers ask with every minibatch.
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
