//! A digest of data, to compare the input of a conversion with its output, and parts with the
//! whole.

use super::data::{Batch, Data};
use cntk_reader_core::Result;
use cntk_reader_core::fingerprint::{SEED, mix};
use cntk_reader_core::stream::StreamInfo;
use std::fmt;

/// A digest of data: equal, in any format, for data with bitwise equal sequences in the same order
/// in equal streams. Keys and the order of streams do not count.
///
/// The hash is a polynomial with a coefficient for each sequence, so the digest of the whole
/// follows from the digests of its parts: see [`Digest::append`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Digest {
    /// The value of the polynomial, less than [`PRIME`].
    hash: u64,
    /// Number of sequences.
    pub sequences: u64,
    /// Number of samples in all streams.
    pub samples: u64,
    /// Number of values in all streams; of sparse streams, of the stored values.
    pub values: u64,
}

/// The modulus of the polynomial, a Mersenne prime.
const PRIME: u64 = (1 << 61) - 1;

/// The place at which the polynomial is evaluated: digits of pi, below the modulus.
const BASE: u64 = 0x0a30_8d31_3198_a2e0;

impl Digest {
    /// Reads all remaining data, and returns their digest.
    pub fn of(data: &mut Data) -> Result<Digest> {
        let mut digester = Digester::new(data.streams());
        while let Some(batch) = data.next_batch()? {
            digester.add(batch);
        }
        Ok(digester.finish())
    }

    /// Returns the digest with this text and these numbers; `None` if the text is no digest.
    #[must_use]
    pub fn from_text(text: &str, sequences: u64, samples: u64, values: u64) -> Option<Digest> {
        let hash = u64::from_str_radix(text, 16).ok().filter(|&hash| hash < PRIME && text.len() == 16)?;
        Some(Digest { hash, sequences, samples, values })
    }

    /// Appends data that follow, given their digest.
    pub fn append(&mut self, next: &Digest) {
        self.hash = sum(product(self.hash, power(next.sequences)), next.hash);
        self.sequences += next.sequences;
        self.samples += next.samples;
        self.values += next.values;
    }
}

fn product(a: u64, b: u64) -> u64 {
    (u128::from(a) * u128::from(b) % u128::from(PRIME)) as u64
}

fn sum(a: u64, b: u64) -> u64 {
    (a + b) % PRIME
}

/// Returns a power of the base.
fn power(mut exponent: u64) -> u64 {
    let (mut result, mut square) = (1, BASE);
    while exponent > 0 {
        if exponent & 1 == 1 {
            result = product(result, square);
        }
        square = product(square, square);
        exponent >>= 1;
    }
    result
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.hash)
    }
}

/// Computes a digest batch by batch.
pub struct Digester {
    streams: Vec<Stream>,
    digest: Digest,
    /// For each sequence of a batch, the sum of its hashes in all streams.
    hashes: Vec<u64>,
}

struct Stream {
    /// Hash of its name, storage and types.
    identity: u64,
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
            let identity = hash_bytes(hash, stream.name.as_bytes());
            Stream { identity, is_sparse, element, sample }
        };
        Digester {
            streams: streams.iter().map(begin).collect(),
            digest: Digest::default(),
            hashes: Vec::new(),
        }
    }

    /// Adds the next batch.
    pub fn add(&mut self, batch: &Batch) {
        self.hashes.clear();
        self.hashes.resize(batch.keys.len(), 0);
        for (stream, column) in self.streams.iter().zip(&batch.columns) {
            self.digest.samples += column.samples();
            self.digest.values += (column.values.len() / stream.element) as u64;
            let (mut values, mut indices, mut counts) =
                (&column.values[..], &column.indices[..], column.counts.iter());
            for (&length, total) in column.lengths.iter().zip(&mut self.hashes) {
                let mut hash = mix(stream.identity, u64::from(length), 0);
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
                *total = sum(*total, hash_bytes(hash, own) % PRIME);
                values = rest;
            }
        }
        self.digest.sequences += batch.keys.len() as u64;
        let hash = self.hashes.iter().fold(self.digest.hash, |hash, &own| sum(product(hash, BASE), own));
        self.digest.hash = hash;
    }

    /// Returns the digest of everything added.
    #[must_use]
    pub fn finish(self) -> Digest {
        self.digest
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::convert::Column;

    fn digest(values: &[f32]) -> Digest {
        let mut digester = Digester::new(&[StreamInfo::dense("x", &[1])]);
        // The digest does not depend on batches.
        for own in values.chunks(3) {
            let column = Column {
                lengths: vec![1; own.len()],
                values: own.iter().flat_map(|value| value.to_ne_bytes()).collect(),
                ..Column::default()
            };
            digester.add(&Batch { keys: vec![String::new(); own.len()], columns: vec![column] });
        }
        digester.finish()
    }

    #[test]
    fn parts_have_the_digest_of_the_whole_in_their_order_alone() {
        let values: Vec<f32> = (0..50).map(|number| (number * number % 17) as f32).collect();
        let whole = digest(&values);
        for cut in [0, 1, 20, 49, 50] {
            let [mut first, mut last] = [&values[..cut], &values[cut..]].map(digest);
            let before = first;
            first.append(&last);
            assert_eq!(first, whole, "{cut}");
            last.append(&before);
            assert_eq!(last == whole, cut % 50 == 0, "{cut}");
        }
        let mut changed = values.clone();
        changed.swap(3, 4);
        assert_ne!(digest(&changed), whole);
        let text = whole.to_string();
        assert_eq!(Digest::from_text(&text, 50, 50, 50), Some(whole));
        assert_eq!(Digest::from_text("ffffffffffffffff", 50, 50, 50), None);
    }
}
