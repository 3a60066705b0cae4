//! Greedy first fit: finds for each sequence the first parallel row with room for it.
//!
//! The plain search looks at row after row, which takes time proportional to sequences times rows: a minibatch of 20000
//! sequences would spend longer on it than on the copying. Here the rows' free steps are the leaves of a tree whose nodes
//! hold the largest value below them. The first leaf that is large enough is found by taking, from the root down, the
//! first child that is. Nodes have 16 children, one cache line, which two to four vector instructions compare at once.

use super::layout::{GAP, Layout, Record};

/// Children of a node.
const FAN: usize = 16;

/// The rows of a minibatch that is being laid out. Kept from minibatch to minibatch for its memory.
#[derive(Debug, Default)]
pub(super) struct FirstFit {
    /// `levels[0]`: free steps by row; each next level: the largest value of every 16 of the level below. The last one
    /// has 16 entries. Entries behind the last row are empty rows too: they are never reached, because sequence `i`
    /// finds room in row `i` at the latest.
    levels: Vec<Vec<u32>>,
    /// Levels in use.
    depth: usize,
    steps: u32,
    rows: usize,
}

impl FirstFit {
    /// Starts with empty rows of `steps` steps, for `sequences` sequences.
    fn begin(&mut self, steps: u32, sequences: usize) {
        self.steps = steps;
        self.rows = 0;
        self.depth = 0;
        let mut nodes = sequences;
        loop {
            let groups = nodes.div_ceil(FAN).max(1);
            if self.levels.len() == self.depth {
                self.levels.push(Vec::new());
            }
            let level = &mut self.levels[self.depth];
            level.clear();
            level.resize(groups * FAN, steps);
            self.depth += 1;
            if groups == 1 {
                return;
            }
            nodes = groups;
        }
    }

    /// Takes `length` steps (at most all of a row) of the first row with that room: the row, and the first step.
    fn place(&mut self, length: u32) -> (usize, u32) {
        let mut node = 0;
        for level in self.levels[..self.depth].iter().rev() {
            let children = &level[node * FAN..][..FAN];
            // All comparisons at once, then the first that holds: no branch depends on the data.
            let fits =
                children.iter().enumerate().fold(0, |fits, (i, &free)| fits | u32::from(free >= length) << i);
            node = node * FAN + fits.trailing_zeros() as usize;
        }
        let row = node;
        self.rows = self.rows.max(row + 1);
        let begin = self.steps - self.levels[0][row];
        self.levels[0][row] -= length;
        for depth in 1..self.depth {
            let group = node / FAN;
            let largest = self.levels[depth - 1][group * FAN..][..FAN].iter().fold(0, |a, &b| a.max(b));
            if std::mem::replace(&mut self.levels[depth][group], largest) == largest {
                break;
            }
            node = group;
        }
        (row, begin)
    }

    /// Lays sequences of these lengths (none of them 0) out: as many steps as the longest has, records of the sequences
    /// in order, then a gap for each row that is not full.
    pub fn lay_out(&mut self, lengths: &[u32], layout: &mut Layout) {
        layout.clear();
        let longest = lengths.iter().fold(0, |a, &b| a.max(b));
        let shortest = lengths.iter().fold(u32::MAX, |a, &b| a.min(b));
        layout.steps = longest as usize;
        if longest == shortest {
            // Every sequence fills a row of its own.
            layout.rows = lengths.len();
            let end = u64::from(longest);
            layout.records.extend((0..lengths.len() as u64).map(|id| Record { id, row: id, begin: 0, end }));
            return;
        }
        self.begin(longest, lengths.len());
        layout.records.extend(lengths.iter().zip(0..).map(|(&length, id)| {
            let (row, begin) = self.place(length);
            Record { id, row: row as u64, begin: i64::from(begin), end: u64::from(begin + length) }
        }));
        layout.rows = self.rows;
        let end = u64::from(longest);
        for (&free, row) in self.levels[0][..self.rows].iter().zip(0..).filter(|(free, _)| **free > 0) {
            layout.records.push(Record { id: GAP, row, begin: i64::from(longest - free), end });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The definition: row after row.
    fn naive(lengths: &[u32]) -> Layout {
        let steps = lengths.iter().copied().max().unwrap_or(0);
        let mut used: Vec<u32> = Vec::new();
        let mut records = Vec::new();
        for (id, &length) in lengths.iter().enumerate() {
            let row = used.iter().position(|&used| used + length <= steps).unwrap_or(used.len());
            if row == used.len() {
                used.push(0);
            }
            let (begin, end) = (i64::from(used[row]), u64::from(used[row] + length));
            records.push(Record { id: id as u64, row: row as u64, begin, end });
            used[row] += length;
        }
        for (row, &used) in used.iter().enumerate().filter(|(_, used)| **used < steps) {
            records.push(Record { id: GAP, row: row as u64, begin: i64::from(used), end: u64::from(steps) });
        }
        Layout { steps: steps as usize, rows: used.len(), records, right_splice: 0 }
    }

    fn fast(fit: &mut FirstFit, lengths: &[u32]) -> Layout {
        let mut layout = Layout::default();
        fit.lay_out(lengths, &mut layout);
        layout
    }

    #[test]
    fn rows_fill_from_the_first() {
        let fit = &mut FirstFit::default();
        let layout = fast(fit, &[3, 1, 2]);
        assert_eq!((layout.steps, layout.rows), (3, 2));
        assert_eq!(
            layout.records.iter().map(|r| (r.id, r.row, r.begin, r.end)).collect::<Vec<_>>(),
            [(0, 0, 0, 3), (1, 1, 0, 1), (2, 1, 1, 3)]
        );
        let layout = fast(fit, &[2, 4, 1]);
        assert_eq!((layout.steps, layout.rows), (4, 2));
        assert_eq!(
            layout.records.iter().map(|r| (r.id, r.row, r.begin, r.end)).collect::<Vec<_>>(),
            [(0, 0, 0, 2), (1, 1, 0, 4), (2, 0, 2, 3), (GAP, 0, 3, 4)]
        );
        let layout = fast(fit, &[1, 3, 1, 2]);
        assert_eq!((layout.steps, layout.rows), (3, 3));
        assert_eq!(
            layout.records.iter().map(|r| (r.id, r.row, r.begin, r.end)).collect::<Vec<_>>(),
            [(0, 0, 0, 1), (1, 1, 0, 3), (2, 0, 1, 2), (3, 2, 0, 2), (GAP, 0, 2, 3), (GAP, 2, 2, 3)]
        );
    }

    #[test]
    fn depths_of_the_tree() {
        let fit = &mut FirstFit::default();
        for count in [0, 1, 15, 16, 17, 255, 256, 257, 4096, 4097] {
            let lengths: Vec<u32> = (0..count).map(|i| 1 + i * 7919 % 23).collect();
            assert_eq!(fast(fit, &lengths), naive(&lengths), "{count}");
            let ones = vec![1; count as usize];
            assert_eq!(fast(fit, &ones), naive(&ones), "{count}");
        }
    }

    proptest! {
        #[test]
        fn same_as_the_definition(
            many in proptest::collection::vec(proptest::collection::vec(1u32..40, 0..600), 1..4),
        ) {
            let fit = &mut FirstFit::default();
            for lengths in &many {
                prop_assert_eq!(fast(fit, lengths), naive(lengths));
            }
        }
    }
}
