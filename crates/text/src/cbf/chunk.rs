//! A loaded chunk: its bytes, and the locations of the sequences in them.
//!
//! Randomized sequences come from all over the window, so every lookup waits for main memory.
//! Tables are therefore few and small: locations of values are computed from the numbers of
//! preceding samples and values, and properties shared by all sequences have no table.

use super::BinaryFile;
use cntk_reader_core::Result;
use cntk_reader_core::cpu::prefetch;
use cntk_reader_core::format::buffer::ChunkBuffer;
use cntk_reader_core::format::{Ahead, LeafChunk, Lengths, Loaded};
use cntk_reader_core::memory::compact::implied;
use cntk_reader_core::memory::room;
use cntk_reader_core::sequence::{SequenceView, SparseView, ValueForm, ViewKind};
use std::sync::Arc;

/// The data of a chunk.
pub struct BinaryChunk {
    pub(super) shared: Arc<BinaryFile>,
    pub(super) data: ChunkBuffer,
    /// One per stream. The layouts have checked that all locations are within `data`.
    pub(super) streams: Vec<ChunkStream>,
}

/// Locations of the sequences of a stream in a chunk's bytes.
#[derive(Debug)]
pub enum ChunkStream {
    /// Dense values, sequence after sequence from `start` on. `head` bytes, which are ignored,
    /// precede the values of each sequence.
    Dense { start: usize, head: usize, samples: Samples },
    /// Sparse values.
    Sparse {
        samples: Samples,
        /// Number of values before each sample, and finally the number of all values. `None` if
        /// every sample has one value, and no sequence has more than [`implied::LONGEST`] samples.
        offsets: Option<Vec<u32>>,
        entries: Entries,
    },
}

/// Numbers of samples in sequences.
#[derive(Debug, Clone)]
pub enum Samples {
    /// All sequences have this number.
    Every(u32),
    /// Number of samples before each sequence, and finally the number of all samples. Streams share
    /// the table if possible.
    Before(Arc<Vec<u32>>),
}

impl Samples {
    /// Returns the first sample of a sequence, and the sample after its last one.
    #[inline(always)]
    fn range(&self, index: usize) -> (usize, usize) {
        (self.before(index), self.before(index + 1))
    }

    /// Number of samples before a sequence; at the index past the last sequence, the number of all
    /// samples.
    #[inline(always)]
    pub fn before(&self, index: usize) -> usize {
        match self {
            &Samples::Every(count) => index * count as usize,
            Samples::Before(sequence_offsets) => sequence_offsets[index] as usize,
        }
    }

    /// Number of samples in a sequence.
    pub fn of(&self, index: usize) -> u32 {
        let (first, end) = self.range(index);
        (end - first) as u32
    }

    /// Creates samples from declared lengths, whose sum must fit 32 bits; `earlier` are the samples
    /// of another stream, to be shared.
    pub fn declared(lengths: Lengths<'_>, earlier: Option<&Samples>) -> Result<Samples> {
        let Lengths::Each(lengths) = lengths else { return Ok(Samples::Every(1)) };
        let every = lengths.first().copied().unwrap_or(0);
        if lengths.iter().all(|&length| length == every) {
            return Ok(Samples::Every(every));
        }
        let mut offsets = room::with_capacity(lengths.len() + 1, room::CHUNK)?;
        let sequence_offsets = lengths.iter().scan(0, |before, &length| {
            *before += length;
            Some(*before)
        });
        offsets.extend(std::iter::once(0).chain(sequence_offsets));
        Ok(Samples::new(offsets, earlier))
    }

    /// Creates samples from a table like that of [`Samples::Before`]; `earlier` are the samples of
    /// another stream, to be shared.
    pub fn new(sequence_offsets: Vec<u32>, earlier: Option<&Samples>) -> Samples {
        let every = sequence_offsets.get(1).copied().unwrap_or(0);
        if sequence_offsets.windows(2).all(|pair| pair[1] - pair[0] == every) {
            return Samples::Every(every);
        }
        match earlier {
            Some(Samples::Before(same)) if **same == sequence_offsets => Samples::Before(Arc::clone(same)),
            _ => Samples::Before(Arc::new(sequence_offsets)),
        }
    }
}

/// Locations of the values of a sparse stream and their indices.
#[derive(Debug, Clone, Copy)]
pub enum Entries {
    /// Sequence after sequence from `start` on: its values of `value_size` bytes each, then its
    /// indices of `index_size` bytes each. A `value_size` of 0 means that all values are 1, and no
    /// sequence has more than [`implied::LONGEST`] of them.
    Each { start: usize, value_size: usize, index_size: usize },
    /// All values of the chunk from `values` on, and all indices from `indices` on, both at full
    /// size.
    Together { values: usize, indices: usize },
}

impl ChunkStream {
    /// Numbers of samples in the sequences.
    pub fn samples(&self) -> &Samples {
        match self {
            ChunkStream::Dense { samples, .. } | ChunkStream::Sparse { samples, .. } => samples,
        }
    }
}

impl LeafChunk for BinaryChunk {
    fn sequence(&self, stream: usize, index: u32) -> Loaded<'_> {
        let header = &self.shared.header.streams[stream];
        let ids = self.shared.ids[stream];
        let (index, data) = (index as usize, self.data.bytes());
        Loaded::Data(match &self.streams[stream] {
            ChunkStream::Dense { start, head, samples } => {
                let (first, end) = samples.range(index);
                let sample = header.sample_bytes() as usize;
                let at = start + (index + 1) * head + first * sample;
                let values = &data[at..][..(end - first) * sample];
                SequenceView {
                    samples: (end - first) as u32,
                    values,
                    form: ValueForm::Whole,
                    kind: ViewKind::Dense,
                }
            }
            ChunkStream::Sparse { samples, offsets, entries } => {
                let (first, end) = samples.range(index);
                if let (Some(element), &Entries::Each { start, index_size, .. }) = (ids, entries) {
                    return Loaded::Data(SequenceView {
                        samples: (end - first) as u32,
                        values: &data[start + first * index_size..start + end * index_size],
                        form: ValueForm::of_indices(element, index_size == 2),
                        kind: ViewKind::Dense,
                    });
                }
                let single = offsets.is_none();
                let (offsets, before) = match offsets {
                    Some(offsets) => (&offsets[first..=end], offsets[first] as usize),
                    None => (implied::offsets(end - first), first),
                };
                let count = (offsets[end - first] - offsets[0]) as usize;
                let size = header.element.size();
                let (values, indices, value_size, index_size) = match *entries {
                    Entries::Each { start, value_size, index_size } => {
                        let at = start + before * (value_size + index_size);
                        (at, at + count * value_size, value_size, index_size)
                    }
                    Entries::Together { values, indices } => {
                        (values + before * size, indices + before * 4, size, 4)
                    }
                };
                SequenceView {
                    samples: (end - first) as u32,
                    values: match value_size {
                        0 => implied::ones(count, size),
                        _ => &data[values..][..count * value_size],
                    },
                    form: if value_size == 1 { ValueForm::Byte } else { ValueForm::Whole },
                    kind: ViewKind::Sparse(SparseView {
                        indices: &data[indices..][..count * index_size],
                        narrow: index_size == 2,
                        offsets,
                        single,
                    }),
                }
            }
        })
    }

    fn prefetch(&self, index: u32, ahead: Ahead) {
        let index = index as usize;
        for stream in &self.streams {
            match (ahead, stream) {
                (Ahead::Far, stream) => {
                    if let Samples::Before(sequence_offsets) = stream.samples() {
                        prefetch::line(sequence_offsets.as_ptr().wrapping_add(index).cast());
                    }
                }
                (Ahead::Near, ChunkStream::Sparse { samples, offsets, entries }) => {
                    let first = samples.range(index).0;
                    match (offsets, entries) {
                        (Some(offsets), _) => prefetch::line(offsets.as_ptr().wrapping_add(first).cast()),
                        (None, Entries::Each { start, value_size, index_size }) => {
                            let at = start + first * (value_size + index_size);
                            prefetch::line(self.data.bytes().as_ptr().wrapping_add(at));
                        }
                        (None, Entries::Together { .. }) => {}
                    }
                }
                (Ahead::Near, ChunkStream::Dense { .. }) => {}
            }
        }
    }
}

impl Drop for BinaryChunk {
    fn drop(&mut self) {
        self.shared.common.buffers.give_back(std::mem::take(&mut self.data));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cntk_reader_core::testing::cases;
    use proptest::prelude::*;

    /// Checks all answers, and whether all sequences are known to be equal.
    fn check(samples: &Samples, lengths: &[u32], are_equal: bool) {
        assert_eq!(matches!(samples, Samples::Every(_)), are_equal, "{samples:?}");
        for index in 0..=lengths.len() {
            let before: u32 = lengths[..index].iter().sum();
            assert_eq!(samples.before(index), before as usize, "{samples:?}");
        }
        for (index, &length) in lengths.iter().enumerate() {
            let first = samples.before(index);
            assert_eq!((samples.of(index), samples.range(index)), (length, (first, first + length as usize)));
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(cases(500)) })]

        #[test]
        fn samples_match_plain_sums(lengths in proptest::collection::vec(0u32..3, 0..12)) {
            let are_equal = lengths.iter().all(|length| *length == lengths[0]);
            let sums: Vec<u32> = (0..=lengths.len()).map(|end| lengths[..end].iter().sum()).collect();
            check(&Samples::new(sums, None), &lengths, are_equal);
            check(&Samples::declared(Lengths::Each(&lengths), None).expect("memory"), &lengths, are_equal);
        }
    }

    #[test]
    fn streams_share_equal_tables() {
        check(&Samples::declared(Lengths::Ones, None).expect("memory"), &[1; 5], true);
        let first = Samples::new(vec![0, 2, 3], None);
        for (next, is_shared) in [(vec![0, 2, 3], true), (vec![0, 1, 3], false), (vec![0, 2, 3, 9], false)] {
            let lengths: Vec<u32> = next.windows(2).map(|pair| pair[1] - pair[0]).collect();
            let others = [
                Samples::new(next, Some(&first)),
                Samples::declared(Lengths::Each(&lengths), Some(&first)).expect("memory"),
            ];
            for other in others {
                check(&other, &lengths, false);
                let (Samples::Before(one), Samples::Before(other)) = (&first, &other) else {
                    panic!("tables")
                };
                assert_eq!(Arc::ptr_eq(one, other), is_shared);
            }
        }
        check(&Samples::new(vec![0, 2, 3], Some(&Samples::Every(1))), &[2, 1], false);
    }
}
