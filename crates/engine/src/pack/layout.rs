//! Minibatch layout: which columns belong to which sequence.

/// Id of a record that marks a gap: columns without data.
pub const GAP: u64 = u64::MAX;

/// A range of time steps in one lane that belongs to one sequence, or to none (a gap).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
#[non_exhaustive]
pub struct Record {
    /// Number of the sequence within the minibatch, from 0, or [`GAP`].
    pub id: u64,
    /// The lane, from 0.
    pub lane: u64,
    /// Step at which the sequence begins; negative if it began in an earlier minibatch (truncated
    /// mode).
    pub begin: i64,
    /// One past the last step; more than the number of steps if the sequence continues in a later
    /// minibatch (truncated mode).
    pub end: u64,
}

impl Record {
    /// Whether the record marks columns without data.
    pub fn is_gap(&self) -> bool {
        self.id == GAP
    }
}

/// The amount of data in a layout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Extent {
    /// Columns with data.
    pub samples: usize,
    /// Sequences with data.
    pub sequences: usize,
    /// Samples of the longest sequence. Of a truncated sequence, only the part in this minibatch
    /// counts.
    pub longest: usize,
    /// Whether the sequences are stored back to back, without gaps, in the first `samples` columns.
    pub is_packed: bool,
}

/// The columns of one sequence: `samples` of them, `stride` apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Run {
    /// Number of the sequence within the minibatch.
    pub number: usize,
    /// Column of the first sample.
    pub first: usize,
    /// Distance between the columns of consecutive samples.
    pub stride: usize,
    /// Number of samples.
    pub samples: usize,
}

impl Run {
    /// Iterates over the columns in order.
    pub fn columns(self) -> impl ExactSizeIterator<Item = usize> {
        (0..self.samples).map(move |sample| self.first + sample * self.stride)
    }
}

/// Layout of one stream's minibatch: `steps * lanes` columns. Step `t` of lane `s` is column
/// `t * lanes + s`, or `s * steps + t` if the layout is sequence-major.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Layout {
    /// Time steps (CNTK's T): the length of a lane.
    pub steps: usize,
    /// Parallel sequences (CNTK's S). Each lane holds one sequence, or several in succession.
    pub lanes: usize,
    /// Records that cover every column exactly once, except that a sequence-major layout has no gap
    /// records.
    pub records: Vec<Record>,
    /// Steps by which truncated minibatches overlap; 0 in the other modes.
    pub right_splice: u64,
    /// Lanes are contiguous instead of steps: each sequence has its own lane, with its samples next
    /// to each other. Binary streams in minibatches of whole sequences use this layout
    /// ([`StreamInfo::is_binary`](cntk_reader_core::stream::StreamInfo::is_binary)).
    pub sequence_major: bool,
}

impl Layout {
    /// Returns a layout without columns.
    pub const fn without_columns() -> Layout {
        Layout { steps: 0, lanes: 0, records: Vec::new(), right_splice: 0, sequence_major: false }
    }

    /// Removes all columns but keeps the memory of the records.
    pub fn clear(&mut self) {
        self.steps = 0;
        self.lanes = 0;
        self.right_splice = 0;
        self.sequence_major = false;
        self.records.clear();
    }

    /// Lays out sequences of these lengths in sequence-major order.
    pub(super) fn sequence_major(&mut self, lengths: &[u32]) {
        self.clear();
        self.steps = lengths.iter().fold(0, |a, &b| a.max(b)) as usize;
        self.lanes = lengths.len();
        self.sequence_major = true;
        let record = |(id, &length): (u64, &u32)| Record { id, lane: id, begin: 0, end: length.into() };
        self.records.extend((0..).zip(lengths).map(record));
    }

    /// Lays out sequences of these lengths back to back in a single lane.
    pub(super) fn one_lane(&mut self, lengths: &[u32]) {
        self.clear();
        self.lanes = 1;
        let mut end = 0;
        let record = |(id, &length): (u64, &u32)| {
            let begin = end;
            end += u64::from(length);
            Record { id, lane: 0, begin: begin as i64, end }
        };
        self.records.extend((0..).zip(lengths).map(record));
        self.steps = end as usize;
    }

    /// Copies `other`, reusing memory where possible.
    pub(super) fn copy_from(&mut self, other: &Layout) {
        self.steps = other.steps;
        self.lanes = other.lanes;
        self.right_splice = other.right_splice;
        self.sequence_major = other.sequence_major;
        self.records.clone_from(&other.records);
    }

    /// Returns the column of a step of a lane.
    pub fn column(&self, step: usize, lane: usize) -> usize {
        if self.sequence_major { lane * self.steps + step } else { step * self.lanes + lane }
    }

    /// Returns the number of columns, gaps included.
    pub fn columns(&self) -> usize {
        self.steps * self.lanes
    }

    /// Returns the number of samples: columns with data.
    pub fn samples(&self) -> usize {
        self.extent().samples
    }

    /// Computes the amount of data, in one pass over the records.
    pub fn extent(&self) -> Extent {
        let mut extent = Extent { samples: 0, sequences: 0, longest: 0, is_packed: true };
        for run in self.runs() {
            extent.is_packed &= run.first == extent.samples && (run.samples <= 1 || run.stride == 1);
            extent.samples += run.samples;
            extent.sequences += 1;
            extent.longest = extent.longest.max(run.samples);
        }
        extent
    }

    /// Iterates over the sequences in the order of the records, which is by number. Of a truncated
    /// sequence, yields the part in this minibatch.
    pub fn runs(&self) -> impl Iterator<Item = Run> + '_ {
        let (step_stride, lane_stride) = if self.sequence_major { (1, self.steps) } else { (self.lanes, 1) };
        let data = self.records.iter().filter(|record| !record.is_gap());
        data.map(move |record| {
            let begin = record.begin.max(0) as usize;
            let samples = (record.end.min(self.steps as u64) as usize).saturating_sub(begin);
            let first = begin * step_stride + record.lane as usize * lane_stride;
            Run { number: record.id as usize, first, stride: step_stride, samples }
        })
    }
}
