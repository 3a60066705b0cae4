//! A loaded chunk: the bytes as read, and where in them sequences are.

use super::Shared;
use crate::deserialize::{Chunk, Loaded};
use crate::sequence::{SequenceView, SparseView};
use std::sync::Arc;

/// The data of a chunk.
pub struct BinaryChunk {
    pub(super) shared: Arc<Shared>,
    pub(super) data: Vec<u8>,
    /// By stream. All places are within `data`, which whoever makes them has checked.
    pub(super) parts: Vec<Part>,
}

/// Where the sequences of a stream are.
#[derive(Debug)]
pub enum Part {
    /// Every sequence has as many samples; values of the first begin at `first`, those of each next one `stride` further.
    Even { first: usize, stride: usize, samples: u32 },
    /// Where the values of each sequence begin. The number of samples stands in the four bytes before.
    Dense(Vec<usize>),
    /// Sparse values.
    Sparse {
        /// For each sequence and behind the last one, the number of samples before.
        firsts: Vec<u32>,
        /// For each sample and behind the last one, the number of values before.
        starts: Vec<u32>,
        places: Places,
    },
}

/// Where sparse values and their rows are.
#[derive(Debug)]
pub enum Places {
    /// Where the values of each sequence begin; its rows follow them.
    Each(Vec<usize>),
    /// All values of the chunk one after the other, and all rows.
    Together { values: usize, rows: usize },
}

impl Chunk for BinaryChunk {
    fn sequence(&self, stream: usize, index: u32) -> Loaded<'_> {
        let header = &self.shared.header.streams[stream];
        let index = index as usize;
        let (samples, begin) = match &self.parts[stream] {
            &Part::Even { first, stride, samples } => (samples, first + index * stride),
            Part::Dense(places) => (count_before(&self.data, places[index]), places[index]),
            Part::Sparse { firsts, starts, places } => {
                let (first, end) = (firsts[index] as usize, firsts[index + 1] as usize);
                let starts = &starts[first..=end];
                let (from, to) = (starts[0] as usize, starts[end - first] as usize);
                let (count, size) = (to - from, header.element.size());
                let (values, rows) = match places {
                    Places::Each(places) => (places[index], places[index] + count * size),
                    Places::Together { values, rows } => (values + from * size, rows + from * 4),
                };
                return Loaded::Data(SequenceView {
                    samples: (end - first) as u32,
                    values: &self.data[values..][..count * size],
                    sparse: Some(SparseView { rows: &self.data[rows..][..count * 4], starts }),
                });
            }
        };
        let size = samples as usize * header.sample_bytes() as usize;
        Loaded::Data(SequenceView { samples, values: &self.data[begin..][..size], sparse: None })
    }
}

/// The number of samples in front of a sequence's values.
fn count_before(data: &[u8], place: usize) -> u32 {
    data[..place].last_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes))
}

impl Drop for BinaryChunk {
    fn drop(&mut self) {
        self.shared.buffers.give_back(std::mem::take(&mut self.data));
    }
}
