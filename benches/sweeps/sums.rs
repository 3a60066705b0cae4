//! Sums over data that do not depend on their order. Writer and reader must agree on them.

use crate::random::mix;
use std::fmt;

/// The sums of a stream.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StreamSums {
    /// Number of samples.
    pub samples: u64,
    /// Number of values: all of a dense stream, the stored ones of a sparse stream.
    pub values: u64,
    /// Sum of `(row + 1) * value` modulo 2^64, with values scaled to whole numbers.
    pub weighted: u64,
}

/// The sums of all data.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sums {
    /// Sums of each stream.
    pub streams: Vec<StreamSums>,
    /// Number of sequences.
    pub sequences: u64,
    /// Sum over all sequences of a hash of the weighted sums of their streams. Detects samples of
    /// different sequences that are delivered together.
    pub pairing: u64,
}

impl Sums {
    /// Creates the sums of empty data with this number of streams.
    pub fn new(streams: usize) -> Self {
        Sums { streams: vec![StreamSums::default(); streams], ..Sums::default() }
    }

    /// Adds a sequence.
    pub fn add_sequence(&mut self, streams: &[StreamSums]) {
        self.sequences += 1;
        let mut hash = 0u64;
        for (total, stream) in self.streams.iter_mut().zip(streams) {
            total.samples += stream.samples;
            total.values += stream.values;
            total.weighted = total.weighted.wrapping_add(stream.weighted);
            hash = mix(hash.wrapping_add(stream.weighted).wrapping_add(1));
        }
        self.pairing = self.pairing.wrapping_add(hash);
    }

    /// Adds the sums of another part of the data.
    pub fn add(&mut self, other: &Sums) {
        for (total, part) in self.streams.iter_mut().zip(&other.streams) {
            total.samples += part.samples;
            total.values += part.values;
            total.weighted = total.weighted.wrapping_add(part.weighted);
        }
        self.sequences += other.sequences;
        self.pairing = self.pairing.wrapping_add(other.pairing);
    }

    /// Returns the samples of a sweep: the largest count of any stream.
    pub fn samples(&self) -> u64 {
        self.streams.iter().map(|stream| stream.samples).max().unwrap_or(0)
    }
}

impl fmt::Display for Sums {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:016x}", self.sequences, self.pairing)?;
        for StreamSums { samples, values, weighted } in &self.streams {
            write!(f, " | {samples} {values} {weighted:016x}")?;
        }
        Ok(())
    }
}

impl StreamSums {
    /// Adds a value of a sample.
    #[inline]
    pub fn add_value(&mut self, row: u32, value: i64) {
        self.values += 1;
        self.weighted = self.weighted.wrapping_add((i64::from(row) + 1).wrapping_mul(value) as u64);
    }
}
