//! Lengths of sequences.

use cntk_reader_core::format::{self, ChunkTable};
use std::collections::BTreeMap;

/// The distribution of the numbers of samples of a deserializer's sequences.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Lengths {
    /// Number of sequences of each length below [`DIRECT`].
    short: Vec<u64>,
    /// Number of sequences of each greater length.
    long: BTreeMap<u32, u64>,
    /// Number of counted sequences; rounding may make it differ from `sequences`.
    counted: u64,
    sequences: u64,
    samples: u64,
}

/// Lengths below this are counted in an array.
const DIRECT: usize = 1 << 12;

impl Lengths {
    /// Counts the lengths of all sequences of a table.
    pub(super) fn of(table: &dyn ChunkTable) -> Lengths {
        let mut lengths = Lengths::default();
        for (chunk, info) in (0..).zip(table.chunks()) {
            match table.lengths(chunk) {
                format::Lengths::Ones => lengths.add(1, info.sequences.into()),
                format::Lengths::Each(each) => each.iter().for_each(|&length| lengths.add(length, 1)),
            }
        }
        lengths
    }

    /// Adds `sequences` sequences, with the lengths of `some` of them as a sample of all.
    pub(super) fn add_some(&mut self, some: &[u32], sequences: u64) {
        let Some(weight) = sequences.checked_div(some.len() as u64) else { return };
        let before = (self.sequences, self.samples);
        some.iter().for_each(|&length| self.add(length, weight));
        let counted = u128::from(weight) * some.len() as u128;
        let samples = u128::from(self.samples - before.1) * u128::from(sequences) / counted.max(1);
        self.sequences = before.0 + sequences;
        self.samples = before.1.saturating_add(u64::try_from(samples).unwrap_or(u64::MAX));
    }

    fn add(&mut self, length: u32, sequences: u64) {
        self.counted += sequences;
        self.sequences += sequences;
        self.samples += sequences * u64::from(length);
        if (length as usize) < DIRECT {
            if self.short.len() <= length as usize {
                self.short.resize(length as usize + 1, 0);
            }
            self.short[length as usize] += sequences;
        } else {
            *self.long.entry(length).or_default() += sequences;
        }
    }

    /// Returns the number of sequences.
    pub fn sequences(&self) -> u64 {
        self.sequences
    }

    /// Returns the number of samples of all sequences; an estimate if only some were seen.
    pub fn samples(&self) -> u64 {
        self.samples
    }

    /// Returns the mean length; 0 if there are no sequences.
    pub fn mean(&self) -> f64 {
        if self.sequences == 0 { 0.0 } else { self.samples as f64 / self.sequences as f64 }
    }

    /// Returns the least length that at least this fraction of the sequences, from 0 to 1, does not
    /// exceed: 0 gives the shortest sequence, 0.5 the median, 1 the longest. `None` if there are no
    /// sequences.
    pub fn quantile(&self, share: f64) -> Option<u32> {
        let rank = ((share.clamp(0.0, 1.0) * self.counted as f64).ceil() as u64).max(1);
        let mut before = 0;
        self.counts().find_map(|(length, count)| {
            before += count;
            (before >= rank).then_some(length)
        })
    }

    /// Returns each length with the number of its sequences, in ascending order. Lengths without
    /// sequences are left out.
    pub fn counts(&self) -> impl Iterator<Item = (u32, u64)> {
        let short = (0..).zip(&self.short).map(|(length, &count)| (length, count));
        let all = short.chain(self.long.iter().map(|(&length, &count)| (length, count)));
        all.filter(|&(_, count)| count > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_match_the_sorted_lengths() {
        let mut sorted: Vec<u32> = (0..997).map(|i| i * i % 90_000).collect();
        let mut lengths = Lengths::default();
        sorted.iter().for_each(|&length| lengths.add(length, 1));
        sorted.sort_unstable();
        assert_eq!(lengths.sequences(), 997);
        assert_eq!(lengths.samples(), sorted.iter().map(|&length| u64::from(length)).sum::<u64>());
        for percent in 0..=100u32 {
            let share = f64::from(percent) / 100.0;
            let rank = ((share * 997.0).ceil() as usize).max(1);
            assert_eq!(lengths.quantile(share), Some(sorted[rank - 1]), "{percent} %");
        }
        assert_eq!(Lengths::default().quantile(0.5), None);
    }

    #[test]
    fn sampled_lengths_are_extrapolated() {
        let mut lengths = Lengths::default();
        lengths.add_some(&[5], 100);
        lengths.add_some(&[], 0);
        lengths.add_some(&[1, 3], 1001);
        assert_eq!((lengths.sequences(), lengths.samples()), (1101, 500 + 2002));
        assert_eq!([0.0, 0.4, 0.8, 1.0].map(|share| lengths.quantile(share)), [1, 1, 3, 5].map(Some));
    }
}
