//! Refuses minibatches that no memory can hold, before any of their sequences is selected.

use super::epoch::{Epoch, ReadConfig};
use super::inspect::Sizes;
use crate::randomize::SIZE_UNLIMITED;
use cntk_reader_core::limits::LARGEST_MINIBATCH;
use cntk_reader_core::memory::room;
use cntk_reader_core::stream::{Storage, StreamInfo};
use cntk_reader_core::{Error, Result};

/// Bytes that a sequence takes in a minibatch beside its values, at least: its id, key, views and
/// records.
const OF_SEQUENCE: u128 = 64;

/// Samples that are packed without a look at the memory.
const FEW: u64 = 1 << 20;

/// Facts about the data.
pub(super) struct Capacity<'a> {
    pub streams: &'a [StreamInfo],
    pub sizes: Sizes,
    /// The chunks list their sequences when they are loaded.
    pub is_listed: bool,
}

impl Capacity<'_> {
    /// Checks the minibatches of an epoch. Those of truncated sequences are checked by their
    /// packer.
    pub(super) fn check(&self, epoch: &Epoch, read: &ReadConfig) -> Result<()> {
        let size = read.minibatch_size.min(LARGEST_MINIBATCH);
        if size <= FEW {
            return Ok(());
        }
        let timeline = epoch.timeline();
        let span = match self.sizes.samples {
            Some(sweep) if !read.cross_sweeps => sweep,
            Some(sweep) => timeline.span(sweep).map_or(0, |span| span.end - span.start),
            None if timeline.is_in_sweeps() => return Ok(()),
            None => timeline.samples,
        };
        if self.is_listed && size == LARGEST_MINIBATCH && span >= SIZE_UNLIMITED {
            let message = format!("A minibatch of {} samples is never full.", read.minibatch_size);
            let detail = "The data are repeated without end, so all of it would be read again and again. Set a smaller minibatch size, \
                          or an epoch that ends.";
            return Err(Error::argument(message).with_detail(detail));
        }
        let share = (size / read.workers.max(1)).max(1);
        room::check(u128::from(share.min(span)) * self.sample(), room::MINIBATCH)
    }

    /// Bytes of a sample, at least.
    fn sample(&self) -> u128 {
        let is_single = self.sizes.samples.is_some() && self.sizes.samples == self.sizes.sequences;
        let bytes = |stream: &StreamInfo| match stream.storage {
            Storage::Dense if !stream.has_late_shape() => {
                stream.sample_size() as u128 * stream.element.size() as u128
            }
            _ => 0,
        };
        match is_single {
            true => OF_SEQUENCE + self.streams.iter().map(bytes).sum::<u128>(),
            // Streams may have fewer samples than a sequence counts.
            false => self.streams.iter().map(bytes).min().unwrap_or(0),
        }
    }
}
