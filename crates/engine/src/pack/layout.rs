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

#[cfg(test)]
mod tests {
    use super::*;

    fn record(id: u64, lane: u64, begin: i64, end: u64) -> Record {
        Record { id, lane, begin, end }
    }

    fn layout(steps: usize, lanes: usize, records: &[Record]) -> Layout {
        Layout { steps, lanes, records: records.to_vec(), ..Layout::default() }
    }

    /// Returns number, first column, stride and length of each sequence.
    fn runs(layout: &Layout) -> Vec<(usize, usize, usize, usize)> {
        layout.runs().map(|run| (run.number, run.first, run.stride, run.samples)).collect()
    }

    /// Returns samples, sequences, longest sequence, and whether the layout is packed.
    fn extent(layout: &Layout) -> (usize, usize, usize, bool) {
        let Extent { samples, sequences, longest, is_packed } = layout.extent();
        assert_eq!(layout.samples(), samples);
        (samples, sequences, longest, is_packed)
    }

    #[test]
    fn columns_are_numbered_by_step_or_by_lane() {
        let mut layout = layout(3, 2, &[]);
        let columns =
            |layout: &Layout| [(0, 0), (1, 0), (0, 1), (2, 1)].map(|(step, lane)| layout.column(step, lane));
        assert_eq!(columns(&layout), [0, 2, 1, 5]);
        layout.sequence_major = true;
        assert_eq!(columns(&layout), [0, 1, 3, 5]);
        assert_eq!(layout.columns(), 6);
        let run = Run { number: 0, first: 1, stride: 2, samples: 3 };
        assert_eq!(run.columns().collect::<Vec<_>>(), [1, 3, 5]);
        assert_eq!(run.columns().len(), 3);
    }

    #[test]
    fn gaps_and_parts_in_other_minibatches_do_not_count() {
        let gap = record(GAP, 1, 2, 3);
        assert!(gap.is_gap() && !record(0, 1, 2, 3).is_gap());
        let whole = layout(3, 2, &[record(0, 0, 0, 3), record(1, 1, 0, 1), record(2, 1, 1, 2), gap]);
        assert_eq!(runs(&whole), [(0, 0, 2, 3), (1, 1, 2, 1), (2, 3, 2, 1)]);
        assert_eq!(extent(&whole), (5, 3, 3, false));
        let truncated = layout(3, 2, &[record(0, 0, -2, 1), record(1, 0, 1, 5), record(2, 1, 0, 3)]);
        assert_eq!(runs(&truncated), [(0, 0, 2, 1), (1, 2, 2, 2), (2, 1, 2, 3)]);
        assert_eq!(extent(&truncated), (6, 3, 3, false));
        assert_eq!(extent(&Layout::without_columns()), (0, 0, 0, true));
    }

    #[test]
    fn sequences_without_gaps_are_packed() {
        let of_lanes = |lengths: &[u32]| {
            let mut layout = Layout::default();
            layout.sequence_major(lengths);
            layout
        };
        let mut one_lane = Layout::default();
        one_lane.one_lane(&[2, 1, 3]);
        let one_step = |gap| {
            let records =
                [record(0, 0, 0, 1), record(if gap { GAP } else { 1 }, 1, 0, 1), record(2, 2, 0, 1)];
            layout(1, 3, &records)
        };
        let without_samples = layout(1, 2, &[record(0, 0, 0, 1), record(1, 1, 0, 0)]);
        for (layout, expected) in [
            (one_lane, (6, 3, 3, true)),
            (of_lanes(&[3, 2]), (5, 2, 3, true)),
            (of_lanes(&[2, 3]), (5, 2, 3, false)),
            (of_lanes(&[2, 3, 3]), (8, 3, 3, false)),
            (one_step(false), (3, 3, 1, true)),
            (one_step(true), (2, 2, 1, false)),
            (layout(2, 2, &[record(0, 0, 0, 2), record(1, 1, 0, 2)]), (4, 2, 2, false)),
            (without_samples, (1, 2, 1, true)),
        ] {
            assert_eq!(extent(&layout), expected, "{layout:?}");
        }
    }

    #[test]
    fn sequences_in_one_lane_or_in_lanes() {
        let used = || Layout { right_splice: 4, sequence_major: true, ..layout(7, 8, &[record(9, 9, 9, 9)]) };
        let mut found = used();
        found.one_lane(&[2, 1, 3]);
        assert_eq!(found, layout(6, 1, &[record(0, 0, 0, 2), record(1, 0, 2, 3), record(2, 0, 3, 6)]));
        assert_eq!(runs(&found), [(0, 0, 1, 2), (1, 2, 1, 1), (2, 3, 1, 3)]);
        let mut found = used();
        found.sequence_major(&[2, 3]);
        let records = [record(0, 0, 0, 2), record(1, 1, 0, 3)];
        assert_eq!(found, Layout { sequence_major: true, ..layout(3, 2, &records) });
        assert_eq!(runs(&found), [(0, 0, 1, 2), (1, 3, 1, 3)]);
    }

    #[test]
    fn layouts_are_reused() {
        let other = Layout { right_splice: 4, sequence_major: true, ..layout(7, 8, &[record(1, 2, 3, 4)]) };
        let mut found = layout(1, 1, &[record(0, 0, 0, 1); 5]);
        found.copy_from(&other);
        assert_eq!(found, other);
        assert!(found.records.capacity() >= 5);
        found.clear();
        assert_eq!((&found, Layout::default()), (&Layout::without_columns(), Layout::without_columns()));
        assert!(found.records.capacity() >= 5);
    }
}
