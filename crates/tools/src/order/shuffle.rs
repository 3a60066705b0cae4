//! Measures of how well an order mixes the data.

use super::{Distribution, OrderedMinibatch, OrderedSequence};
use cntk_reader_core::fingerprint::{SEED, mix};

/// Measures of how well the sequences of minibatches are mixed, and a digest of their order.
///
/// A perfect shuffle may read a sequence at any time: the mean
/// [displacement](Shuffle::displacement) and the mean distance of [neighbours](Shuffle::neighbours)
/// are a third of the samples. Without randomization, displacements are 0 and neighbours are one
/// sequence apart.
#[derive(Debug, Clone, Default)]
pub struct Shuffle {
    displacement: Distribution,
    neighbours: Distribution,
    successions: u64,
    chunks: Distribution,
    digest: u64,
    last: Option<OrderedSequence>,
    seen: Vec<u32>,
}

impl Shuffle {
    /// Adds the next minibatch.
    pub fn add(&mut self, minibatch: &OrderedMinibatch) {
        for sequence in &minibatch.sequences {
            self.displacement.add(sequence.place.abs_diff(sequence.read_at));
            if let Some(last) = self.last.filter(|last| last.sweep == sequence.sweep) {
                self.neighbours.add(sequence.place.abs_diff(last.place));
                self.successions += u64::from(sequence.number == last.number + 1);
            }
            self.last = Some(*sequence);
            self.digest = mix(self.digest ^ SEED, sequence.number, u64::from(sequence.samples));
        }
        if !minibatch.sequences.is_empty() {
            self.seen.clear();
            self.seen.extend(minibatch.sequences.iter().map(|sequence| sequence.chunk));
            self.seen.sort_unstable();
            self.seen.dedup();
            self.chunks.add(self.seen.len() as u64);
        }
    }

    /// Returns the number of sequences added.
    #[must_use]
    pub fn sequences(&self) -> u64 {
        self.displacement.count()
    }

    /// Returns for each sequence the number of samples between its place in the data and its place
    /// in the order of its sweep.
    #[must_use]
    pub fn displacement(&self) -> &Distribution {
        &self.displacement
    }

    /// Returns for each pair of sequences that are read one after the other in a sweep the number
    /// of samples between their starts in the data.
    #[must_use]
    pub fn neighbours(&self) -> &Distribution {
        &self.neighbours
    }

    /// Returns the number of pairs of sequences that follow each other in the order and, in the
    /// same direction, in the data. A perfect shuffle has one such pair per sweep.
    #[must_use]
    pub fn successions(&self) -> u64 {
        self.successions
    }

    /// Returns for each minibatch that is not empty the number of chunks with its sequences.
    #[must_use]
    pub fn chunks(&self) -> &Distribution {
        &self.chunks
    }

    /// Returns a digest of the sequences, by their number in the data and their length, and of
    /// their order. It does not depend on the ends of minibatches, and is equal on all machines and
    /// in all versions.
    #[must_use]
    pub fn digest(&self) -> u64 {
        self.digest
    }
}
