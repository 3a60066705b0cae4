//! How well an order mixes the data.

use super::{Distribution, OrderedMinibatch, OrderedSequence};
use cntk_reader_core::fingerprint::{SEED, mix};

/// How well the sequences of minibatches are mixed, and a digest of their order.
///
/// A perfect shuffle reads a sequence anywhere: the mean [displacement](Shuffle::displacement) and the mean distance of
/// [neighbours](Shuffle::neighbours) are a third of the samples. Data in their own order have displacements of 0 and neighbours
/// at a distance of one sequence.
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

    /// Number of sequences that were added.
    #[must_use]
    pub fn sequences(&self) -> u64 {
        self.displacement.count()
    }

    /// For each sequence: samples between its place in the data and its place in the order of its sweep.
    #[must_use]
    pub fn displacement(&self) -> &Distribution {
        &self.displacement
    }

    /// For each two sequences that are read one after the other in a sweep: samples between their starts in the data.
    #[must_use]
    pub fn neighbours(&self) -> &Distribution {
        &self.neighbours
    }

    /// Pairs of sequences that follow each other in the order and, in the same direction, in the data. A perfect shuffle has one
    /// such pair a sweep.
    #[must_use]
    pub fn successions(&self) -> u64 {
        self.successions
    }

    /// For each minibatch that is not empty: the number of chunks that its sequences come from.
    #[must_use]
    pub fn chunks(&self) -> &Distribution {
        &self.chunks
    }

    /// A number that depends on which sequences were added, by their number in the data and their length, and in which order. It does
    /// not depend on where minibatches end, and is equal on all machines and in all versions.
    #[must_use]
    pub fn digest(&self) -> u64 {
        self.digest
    }
}
