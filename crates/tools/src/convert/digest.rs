//! A digest of data, to compare the input of a conversion with its output.

use super::data::{Batch, Data};
use cntk_reader_core::Result;
use cntk_reader_core::fingerprint::{SEED, mix};
use cntk_reader_core::stream::StreamInfo;
use std::fmt;

/// A digest of data: equal, in any format, for data with bitwise equal sequences in the same order
/// in equal streams. Keys and the order of streams do not count.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Digest {
    hash: u64,
    /// Number of sequences.
    pub sequences: u64,
    /// Number of samples in all streams.
    pub samples: u64,
    /// Number of values in all streams; of sparse streams, of the stored values.
    pub values: u64,
}

impl Digest {
    /// Reads all remaining data, and returns their digest.
    pub fn of(data: &mut Data) -> Result<Digest> {
        let mut digester = Digester::new(data.streams());
        while let Some(batch) = data.next_batch()? {
            digester.add(batch);
        }
        Ok(digester.finish())
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.hash)
    }
}

/// Computes a digest batch by batch.
pub struct Digester {
    streams: Vec<StreamHash>,
    digest: Digest,
}

struct StreamHash {
    hash: u64,
    is_sparse: bool,
    element: usize,
    sample: usize,
}

impl Digester {
    /// Creates a digester for batches with these streams.
    #[must_use]
    pub fn new(streams: &[StreamInfo]) -> Digester {
        let begin = |stream: &StreamInfo| {
            let is_sparse = stream.storage == cntk_reader_core::stream::Storage::SparseCsc;
            let (element, sample) = (stream.element.size(), stream.sample_size());
            let hash = mix(SEED, u64::from(is_sparse) << 8 | element as u64, sample as u64);
            StreamHash { hash: hash_bytes(hash, stream.name.as_bytes()), is_sparse, element, sample }
        };
        Digester { streams: streams.iter().map(begin).collect(), digest: Digest::default() }
    }

    /// Adds the next batch.
    pub fn add(&mut self, batch: &Batch) {
        self.digest.sequences += batch.keys.len() as u64;
        for (stream, column) in self.streams.iter_mut().zip(&batch.columns) {
            self.digest.samples += column.samples();
            self.digest.values += (column.values.len() / stream.element) as u64;
            let (mut values, mut indices, mut counts) =
                (&column.values[..], &column.indices[..], column.counts.iter());
            // Hash by sequence, so that the digest does not depend on batches.
            for &length in &column.lengths {
                let mut hash = mix(stream.hash, u64::from(length), 0);
                let mut taken = length as usize * stream.sample;
                if stream.is_sparse {
                    taken = 0;
                    for &count in counts.by_ref().take(length as usize) {
                        hash = mix(hash, u64::from(count), 1);
                        taken += count as usize;
                    }
                    let (own, rest) = indices.split_at(taken);
                    hash = own.iter().fold(hash, |hash, &index| mix(hash, index as u64, 2));
                    indices = rest;
                }
                let (own, rest) = values.split_at(taken * stream.element);
                stream.hash = hash_bytes(hash, own);
                values = rest;
            }
        }
    }

    /// Returns the digest of everything added.
    #[must_use]
    pub fn finish(self) -> Digest {
        let mut hashes: Vec<u64> = self.streams.iter().map(|stream| stream.hash).collect();
        hashes.sort_unstable();
        let hash = hashes.into_iter().fold(SEED, |hash, stream| mix(hash, stream, self.digest.sequences));
        Digest { hash, ..self.digest }
    }
}

/// Adds bytes to a hash, 16 at a time.
fn hash_bytes(hash: u64, bytes: &[u8]) -> u64 {
    let (blocks, rest) = bytes.as_chunks::<16>();
    let words = |block: &[u8; 16]| {
        let number = u128::from_le_bytes(*block);
        (number as u64, (number >> 64) as u64)
    };
    let hash = blocks.iter().fold(hash, |hash, block| {
        let (low, high) = words(block);
        mix(hash, low, high)
    });
    let mut last = [0; 16];
    last[..rest.len()].copy_from_slice(rest);
    let (low, high) = words(&last);
    mix(mix(hash, low, high), bytes.len() as u64, 3)
}
