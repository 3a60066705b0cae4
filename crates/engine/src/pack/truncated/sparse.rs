//! Sparse streams of truncated minibatches that stay sparse.
//!
//! A column's place depends on the number of values before it, hence on all lanes. Therefore the
//! lanes only record the runs of samples that they take, and the streams are written once all runs
//! are known.

use crate::pack::minibatch::StreamMinibatch;
use crate::pack::{block, check};
use cntk_reader_core::format::{Chunk, Loaded};
use cntk_reader_core::memory::compact::widen;
use cntk_reader_core::sequence::{SequenceView, SparseView};
use cntk_reader_core::stream::{Storage, StreamInfo};
use cntk_reader_core::{Error, Result};
use std::ops::Range;
use std::sync::Arc;

/// Consecutive samples of a sequence in one lane.
pub(super) struct Run {
    /// Keeps the data in memory after the sequence has left its slot.
    pub chunk: Arc<dyn Chunk>,
    /// The sequence's number in its chunk.
    pub index: u32,
    pub samples: Range<usize>,
    /// The column of the first sample. The next one is as many columns later as there are lanes.
    pub column: usize,
}

impl Run {
    /// Returns the sequence in a sparse stream, and the offsets of the run's samples. The packer
    /// has checked their sizes.
    fn find(&self, stream: usize) -> Result<(SequenceView<'_>, SparseView<'_>, &[u32])> {
        let Loaded::Data(view) = self.chunk.sequence(stream, self.index) else {
            return Err(Error::internal("A sequence has vanished from its chunk."));
        };
        let Some(&sparse) = view.sparse() else {
            return Err(Error::internal("A chunk has a dense sequence of a sparse stream."));
        };
        Ok((view, sparse, &sparse.offsets[self.samples.start..=self.samples.end]))
    }
}

/// Writes the runs of all lanes to stream `number`, whose layout has its steps and lanes. Columns
/// without a sample are empty.
pub(super) fn write(
    runs: &[Run],
    number: usize,
    info: &StreamInfo,
    stream: &mut StreamMinibatch,
) -> Result<()> {
    let mut count = 0;
    for run in runs {
        let (_, _, offsets) = run.find(number)?;
        count += offsets.first().zip(offsets.last()).map_or(0, |(first, last)| (last - first) as usize);
    }
    check::count_of_values(count)?;
    let element = info.element.size();
    let lanes = stream.layout.lanes;
    let (_, out) = stream.allocate(Storage::SparseCsc, info.element, info.sample_size(), count)?;
    let block::SparseParts { values, indices, offsets: columns } = block::begin_sparse(out, element, count);
    columns.fill([0; 4]);
    for run in runs {
        let (_, _, offsets) = run.find(number)?;
        for (column, pair) in columns[run.column..].chunks_mut(lanes).zip(offsets.windows(2)) {
            column[0] = (pair[1] - pair[0]).to_ne_bytes();
        }
    }
    let mut first = 0u32;
    for column in columns.iter_mut() {
        let count = u32::from_ne_bytes(*column);
        *column = first.to_ne_bytes();
        first += count;
    }
    for run in runs {
        let (view, sparse, offsets) = run.find(number)?;
        let (stored, index) = (view.form.size(element), sparse.index_size());
        for (column, pair) in columns[run.column..].chunks(lanes).zip(offsets.windows(2)) {
            let first = u32::from_ne_bytes(column[0]) as usize;
            let (from, to) = ((pair[0] - sparse.offsets[0]) as usize, (pair[1] - sparse.offsets[0]) as usize);
            let end = first + to - from;
            let entries = &view.values[from * stored..to * stored];
            widen::values(&mut values[first * element..end * element], entries, view.form, element);
            let entries = &sparse.indices[from * index..to * index];
            widen::indices(&mut indices[first * 4..end * 4], entries, sparse.narrow);
        }
    }
    Ok(())
}
