//! One minibatch: its buffers, layouts, keys and flags.

use super::buffer::{self, Buffer, Shelf};
use super::layout::{Layout, Record};
use crate::memory::{Held, Meter};
use crate::sequence::SequenceKey;
use std::sync::Weak;

/// What a read delivers. Owns its memory, which goes back to the reader's pool when it is dropped.
#[derive(Debug, Default)]
pub struct Minibatch {
    /// It reaches or crosses the end of a sweep.
    pub end_of_sweep: bool,
    /// It is the last of the epoch (or, without streams, comes after the last).
    pub end_of_epoch: bool,
    /// One entry per stream, or none if there is no data.
    pub streams: Vec<StreamMinibatch>,
    /// The key of each sequence, by its number in the layouts.
    pub keys: Vec<SequenceKey>,
    /// Where its memory goes.
    pub(super) home: Weak<Shelf>,
    /// Counts its memory.
    pub(super) held: Held,
}

impl Minibatch {
    /// A minibatch without data.
    pub fn empty(end_of_sweep: bool, end_of_epoch: bool) -> Minibatch {
        let mut minibatch = Minibatch::default();
        minibatch.end_of_sweep = end_of_sweep;
        minibatch.end_of_epoch = end_of_epoch;
        minibatch
    }
}

impl Minibatch {
    /// Makes room for the records and keys of so many sequences, in an empty minibatch, and for half as many again, so
    /// that sizes settle. No row has more than one gap, and no more rows are made than there are sequences.
    pub(super) fn make_room(&mut self, sequences: usize) {
        fn grow<T>(list: &mut Vec<T>, needed: usize) {
            if list.capacity() < needed {
                list.reserve(needed + needed / 2);
            }
        }
        grow(&mut self.keys, sequences);
        self.streams.iter_mut().for_each(|stream| grow(&mut stream.layout.records, 2 * sequences));
    }
}

impl Minibatch {
    /// Counts the memory that it has now in its pool's meter.
    pub(super) fn count_memory(&mut self, meter: &Meter) {
        let streams = self
            .streams
            .iter()
            .map(|stream| stream.data.capacity() + stream.layout.records.capacity() * size_of::<Record>());
        let bytes = streams.sum::<usize>() + self.keys.capacity() * size_of::<SequenceKey>();
        self.held.update(meter, bytes);
    }
}

impl Drop for Minibatch {
    fn drop(&mut self) {
        buffer::recycle(self);
    }
}

/// One stream's part of a minibatch.
#[derive(Debug, Default)]
pub struct StreamMinibatch {
    /// Which columns belong to which sequence.
    pub layout: Layout,
    /// Dense: `columns * sample_size` values, column-major; gap columns hold zeros.
    /// Sparse: one block `u64 nnz | nnz values | nnz i32 rows | columns+1 i32 column starts` (CNTK's own block).
    pub data: Buffer,
}

impl StreamMinibatch {
    /// Number of stored values, if the data is a sparse block.
    pub fn nnz(&self) -> usize {
        let mut count = [0; 8];
        count.copy_from_slice(&self.data.bytes()[..8]);
        u64::from_ne_bytes(count) as usize
    }
}
