//! A loaded chunk: its bytes, and where in them sequences are.
//!
//! Randomized sequences come from all over the window, so that each look-up waits for main memory. Hence tables are few
//! and small: where values are follows from the numbers of samples and values before, and what is the same for all
//! sequences has no table.

use super::Shared;
use super::buffer::Buffer;
use crate::compact::implied;
use crate::deserialize::{Ahead, Chunk, Lengths, Loaded};
use crate::prefetch;
use crate::sequence::{SequenceView, SparseView, ValueForm};
use std::sync::Arc;

/// The data of a chunk.
pub struct BinaryChunk {
    pub(super) shared: Arc<Shared>,
    pub(super) data: Buffer,
    /// By stream. All places are within `data`, which whoever makes them has checked.
    pub(super) parts: Vec<Part>,
}

/// Where the sequences of a stream are.
#[derive(Debug)]
pub enum Part {
    /// Dense values: those of each sequence follow `head` bytes, one sequence the other, from `start` on.
    Dense { start: usize, head: usize, samples: Samples },
    /// Sparse values.
    Sparse {
        samples: Samples,
        /// For each sample and behind the last one, the number of values before. `None` if every sample has one, and no
        /// sequence more than [`implied::LONGEST`] samples.
        starts: Option<Vec<u32>>,
        places: Places,
    },
}

/// How many samples sequences have.
#[derive(Debug, Clone)]
pub enum Samples {
    /// All the same number.
    Every(u32),
    /// For each sequence and behind the last one, the number of samples before. Streams share them where they can.
    Before(Arc<Vec<u32>>),
}

impl Samples {
    /// The first sample of a sequence and the one behind its last.
    #[inline(always)]
    fn range(&self, index: usize) -> (usize, usize) {
        (self.before(index), self.before(index + 1))
    }

    /// Samples before a sequence, or before the place behind the last one.
    #[inline(always)]
    pub fn before(&self, index: usize) -> usize {
        match self {
            &Samples::Every(count) => index * count as usize,
            Samples::Before(firsts) => firsts[index] as usize,
        }
    }

    /// Samples of a sequence.
    pub fn of(&self, index: usize) -> u32 {
        let (first, end) = self.range(index);
        (end - first) as u32
    }

    /// As many as declared, whose sum fits 32 bits; `earlier` are those of another stream.
    pub fn declared(lengths: Lengths<'_>, earlier: Option<&Samples>) -> Samples {
        let Lengths::Each(lengths) = lengths else { return Samples::Every(1) };
        let every = lengths.first().copied().unwrap_or(0);
        if lengths.iter().all(|&length| length == every) {
            return Samples::Every(every);
        }
        let firsts = lengths.iter().scan(0, |before, &length| {
            *before += length;
            Some(*before)
        });
        Samples::new(std::iter::once(0).chain(firsts).collect(), earlier)
    }

    /// From the number of samples before each sequence and behind the last one; `earlier` are those of another stream.
    pub fn new(firsts: Vec<u32>, earlier: Option<&Samples>) -> Samples {
        let every = firsts.get(1).copied().unwrap_or(0);
        if firsts.windows(2).all(|pair| pair[1] - pair[0] == every) {
            return Samples::Every(every);
        }
        match earlier {
            Some(Samples::Before(same)) if **same == firsts => Samples::Before(Arc::clone(same)),
            _ => Samples::Before(Arc::new(firsts)),
        }
    }
}

/// Where sparse values and their rows are.
#[derive(Debug, Clone, Copy)]
pub enum Places {
    /// Sequence after sequence from `start` on: its values, then its rows, of so many bytes each. Values of no bytes are 1,
    /// and no sequence has more than [`implied::LONGEST`] of them.
    Each { start: usize, value: usize, row: usize },
    /// All values of the chunk one after the other, and all rows, of full size.
    Together { values: usize, rows: usize },
}

impl Part {
    /// How many samples the sequences have.
    pub fn samples(&self) -> &Samples {
        match self {
            Part::Dense { samples, .. } | Part::Sparse { samples, .. } => samples,
        }
    }
}

impl Chunk for BinaryChunk {
    fn sequence(&self, stream: usize, index: u32) -> Loaded<'_> {
        let header = &self.shared.header.streams[stream];
        let (index, data) = (index as usize, self.data.bytes());
        Loaded::Data(match &self.parts[stream] {
            Part::Dense { start, head, samples } => {
                let (first, end) = samples.range(index);
                let sample = header.sample_bytes() as usize;
                let place = start + (index + 1) * head + first * sample;
                let values = &data[place..][..(end - first) * sample];
                SequenceView { samples: (end - first) as u32, values, form: ValueForm::Whole, sparse: None }
            }
            Part::Sparse { samples, starts, places } => {
                let (first, end) = samples.range(index);
                let single = starts.is_none();
                let (starts, from) = match starts {
                    Some(starts) => (&starts[first..=end], starts[first] as usize),
                    None => (implied::starts(end - first), first),
                };
                let count = (starts[end - first] - starts[0]) as usize;
                let size = header.element.size();
                let (values, rows, value, row) = match *places {
                    Places::Each { start, value, row } => {
                        let place = start + from * (value + row);
                        (place, place + count * value, value, row)
                    }
                    Places::Together { values, rows } => (values + from * size, rows + from * 4, size, 4),
                };
                SequenceView {
                    samples: (end - first) as u32,
                    values: match value {
                        0 => implied::ones(count, size),
                        _ => &data[values..][..count * value],
                    },
                    form: if value == 1 { ValueForm::Byte } else { ValueForm::Whole },
                    sparse: Some(SparseView {
                        indices: &data[rows..][..count * row],
                        narrow: row == 2,
                        offsets: starts,
                        single,
                    }),
                }
            }
        })
    }

    fn prefetch(&self, index: u32, ahead: Ahead) {
        let index = index as usize;
        for part in &self.parts {
            match (ahead, part) {
                (Ahead::Far, part) => {
                    if let Samples::Before(firsts) = part.samples() {
                        prefetch::line(firsts.as_ptr().wrapping_add(index).cast());
                    }
                }
                (Ahead::Near, Part::Sparse { samples, starts, places }) => {
                    let first = samples.range(index).0;
                    match (starts, places) {
                        (Some(starts), _) => prefetch::line(starts.as_ptr().wrapping_add(first).cast()),
                        (None, Places::Each { start, value, row }) => {
                            let place = start + first * (value + row);
                            prefetch::line(self.data.bytes().as_ptr().wrapping_add(place));
                        }
                        (None, Places::Together { .. }) => {}
                    }
                }
                (Ahead::Near, Part::Dense { .. }) => {}
            }
        }
    }
}

impl Drop for BinaryChunk {
    fn drop(&mut self) {
        self.shared.buffers.give_back(std::mem::take(&mut self.data));
    }
}
