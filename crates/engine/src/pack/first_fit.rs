//! Greedy first fit: places each sequence in the first lane with enough free steps.
//!
//! A linear search takes time proportional to sequences times lanes: more than the copying for a
//! minibatch of 20,000 sequences. Here, the lanes' free steps are the leaves of a tree in which
//! each node holds the maximum of its children. Descending from the root, always to the first child
//! that is large enough, leads to the first lane that is. Nodes have 16 children, one cache line,
//! which one to four vector instructions compare.
//!
//! The first 16 lanes, enough for most minibatches, are tried before the tree and kept in
//! registers: loading a vector right after storing one of its lanes stalls for some 20 cycles. This
//! makes later sweeps over series and words 6 to 16 % faster.

use super::layout::{GAP, Layout, Record};
use cntk_reader_core::Result;
use cntk_reader_core::cpu::processor::{InstructionSet, Processor, dispatch};
use cntk_reader_core::memory::room;

/// Number of children of a node.
const FAN: usize = 16;

/// The lanes of a minibatch that is being laid out. Reused across minibatches to keep its memory.
#[derive(Debug, Default)]
pub(super) struct FirstFit {
    /// `levels[0]` holds the free steps of each lane; each further level holds the maximum of every
    /// 16 entries of the level below. The last level has 16 entries. Entries past the last lane
    /// count as empty lanes but are never reached, because sequence `i` fits into lane `i` at the
    /// latest. [`place_all`] handles the first 16 lanes outside the tree, in which they have no
    /// free steps.
    levels: Vec<Vec<u32>>,
    /// Number of levels in use.
    depth: usize,
    steps: u32,
    lanes: usize,
}

impl FirstFit {
    /// Restarts with empty lanes of `steps` steps, enough for `sequences` sequences.
    fn begin(&mut self, steps: u32, sequences: usize) -> Result<()> {
        self.steps = steps;
        self.lanes = 0;
        self.depth = 0;
        let mut nodes = sequences;
        loop {
            let groups = nodes.div_ceil(FAN).max(1);
            if self.levels.len() == self.depth {
                self.levels.push(Vec::new());
            }
            let level = &mut self.levels[self.depth];
            level.clear();
            room::resize(level, groups * FAN, steps, room::MINIBATCH)?;
            self.depth += 1;
            if groups == 1 {
                break;
            }
            nodes = groups;
        }
        if self.depth > 1 {
            self.levels[1][0] = 0;
        }
        Ok(())
    }

    /// Reserves `length` steps, which must not exceed a lane, in the tree's first lane with enough
    /// free steps. Returns the lane and the first step.
    #[inline(always)]
    fn place(&mut self, length: u32) -> (usize, u32) {
        let mut node = 0;
        for level in self.levels[..self.depth].iter().rev() {
            let children = &level.as_chunks::<FAN>().0[node];
            node = node * FAN + at_least(children, length).trailing_zeros() as usize;
        }
        let lane = node;
        self.lanes = self.lanes.max(lane + 1);
        let begin = self.steps - self.levels[0][lane];
        self.levels[0][lane] -= length;
        for depth in 1..self.depth {
            let group = node / FAN;
            let largest = self.levels[depth - 1][group * FAN..][..FAN].iter().fold(0, |a, &b| a.max(b));
            if std::mem::replace(&mut self.levels[depth][group], largest) == largest {
                break;
            }
            node = group;
        }
        (lane, begin)
    }

    /// Lays out sequences of these lengths, none of which may be 0. The layout has the steps of the
    /// longest sequence, one record per sequence in order, then a gap for each lane that is not
    /// full. The caller should reserve room for the records.
    pub fn lay_out(&mut self, lengths: &[u32], layout: &mut Layout) -> Result<()> {
        layout.clear();
        let longest = lengths.iter().fold(0, |a, &b| a.max(b));
        let shortest = lengths.iter().fold(u32::MAX, |a, &b| a.min(b));
        layout.steps = longest as usize;
        if longest == shortest {
            // Every sequence fills a separate lane.
            layout.lanes = lengths.len();
            let end = u64::from(longest);
            layout.records.extend((0..lengths.len() as u64).map(|id| Record { id, lane: id, begin: 0, end }));
            return Ok(());
        }
        self.begin(longest, lengths.len())?;
        place_all(Processor::detect(), self, lengths, &mut layout.records);
        layout.lanes = self.lanes;
        let end = u64::from(longest);
        for (&free, lane) in self.levels[0][..self.lanes].iter().zip(0..).filter(|(free, _)| **free > 0) {
            layout.records.push(Record { id: GAP, lane, begin: i64::from(longest - free), end });
        }
        Ok(())
    }
}

dispatch! {
    /// Places sequences of these lengths in empty lanes, and appends their records.
    fn place_all(fit: &mut FirstFit, lengths: &[u32], records: &mut Vec<Record>) = place_all_with;
}

/// See [`place_all`].
#[inline(always)]
fn place_all_with<S: InstructionSet>(_: S, fit: &mut FirstFit, lengths: &[u32], records: &mut Vec<Record>) {
    // Free and used steps of the first lanes. `free` stays in registers because it is never indexed
    // with a runtime value; `used` is.
    let (mut free, mut used) = ([fit.steps; FAN], [0; FAN]);
    for (&length, id) in lengths.iter().zip(0..) {
        let fits = at_least(&free, length);
        let (lane, begin) = if fits == 0 {
            fit.place(length)
        } else {
            let first = fits.trailing_zeros();
            for (free, lane) in free.iter_mut().zip(0..) {
                *free -= if lane == first { length } else { 0 };
            }
            let lane = first as usize;
            let begin = used[lane];
            used[lane] += length;
            fit.lanes = fit.lanes.max(lane + 1);
            (lane, begin)
        };
        let (begin, end) = (i64::from(begin), u64::from(begin + length));
        records.push(Record { id, lane: lane as u64, begin, end });
    }
    fit.levels[0][..FAN].copy_from_slice(&free);
}

/// Returns a bit for each number that is at least `least`. Branch-free, so that it is vectorized.
#[inline(always)]
fn at_least(numbers: &[u32; FAN], least: u32) -> u32 {
    numbers.iter().zip(0..).fold(0, |bits, (&number, i)| bits | u32::from(number >= least) << i)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// First fit by its definition: a linear search over the lanes.
    fn reference(lengths: &[u32]) -> Layout {
        let steps = lengths.iter().copied().max().unwrap_or(0);
        let mut used: Vec<u32> = Vec::new();
        let mut records = Vec::new();
        for (id, &length) in lengths.iter().enumerate() {
            let lane = used.iter().position(|&used| used + length <= steps).unwrap_or(used.len());
            if lane == used.len() {
                used.push(0);
            }
            let (begin, end) = (i64::from(used[lane]), u64::from(used[lane] + length));
            records.push(Record { id: id as u64, lane: lane as u64, begin, end });
            used[lane] += length;
        }
        for (lane, &used) in used.iter().enumerate().filter(|(_, used)| **used < steps) {
            records.push(Record {
                id: GAP,
                lane: lane as u64,
                begin: i64::from(used),
                end: u64::from(steps),
            });
        }
        Layout { steps: steps as usize, lanes: used.len(), records, right_splice: 0, sequence_major: false }
    }

    fn fast(fit: &mut FirstFit, lengths: &[u32]) -> Layout {
        let mut layout = Layout::default();
        fit.lay_out(lengths, &mut layout).expect("memory");
        layout
    }

    #[test]
    fn lanes_fill_from_the_first() {
        let fit = &mut FirstFit::default();
        let layout = fast(fit, &[3, 1, 2]);
        assert_eq!((layout.steps, layout.lanes), (3, 2));
        assert_eq!(
            layout.records.iter().map(|r| (r.id, r.lane, r.begin, r.end)).collect::<Vec<_>>(),
            [(0, 0, 0, 3), (1, 1, 0, 1), (2, 1, 1, 3)]
        );
        let layout = fast(fit, &[2, 4, 1]);
        assert_eq!((layout.steps, layout.lanes), (4, 2));
        assert_eq!(
            layout.records.iter().map(|r| (r.id, r.lane, r.begin, r.end)).collect::<Vec<_>>(),
            [(0, 0, 0, 2), (1, 1, 0, 4), (2, 0, 2, 3), (GAP, 0, 3, 4)]
        );
        let layout = fast(fit, &[1, 3, 1, 2]);
        assert_eq!((layout.steps, layout.lanes), (3, 3));
        assert_eq!(
            layout.records.iter().map(|r| (r.id, r.lane, r.begin, r.end)).collect::<Vec<_>>(),
            [(0, 0, 0, 1), (1, 1, 0, 3), (2, 0, 1, 2), (3, 2, 0, 2), (GAP, 0, 2, 3), (GAP, 2, 2, 3)]
        );
    }

    #[test]
    fn tree_depths() {
        let fit = &mut FirstFit::default();
        for count in [0, 1, 15, 16, 17, 255, 256, 257, 4096, 4097] {
            let lengths: Vec<u32> = (0..count).map(|i| 1 + i * 7919 % 23).collect();
            assert_eq!(fast(fit, &lengths), reference(&lengths), "{count}");
            let ones = vec![1; count as usize];
            assert_eq!(fast(fit, &ones), reference(&ones), "{count}");
        }
    }

    proptest! {
        #[test]
        fn matches_the_definition(
            many in proptest::collection::vec(proptest::collection::vec(1u32..40, 0..600), 1..4),
        ) {
            let fit = &mut FirstFit::default();
            for lengths in &many {
                prop_assert_eq!(fast(fit, lengths), reference(lengths));
            }
        }
    }
}
