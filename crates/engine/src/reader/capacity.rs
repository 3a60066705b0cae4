//! Rejects minibatches that exceed any memory, before their sequences are selected.

use super::epoch::{Epoch, ReadConfig};
use super::inspect::Sizes;
use crate::randomize::SIZE_UNLIMITED;
use cntk_reader_core::limits::LARGEST_MINIBATCH;
use cntk_reader_core::memory::room;
use cntk_reader_core::stream::{Storage, StreamInfo};
use cntk_reader_core::{Error, Result};

/// Minimum size in bytes of a sequence in a minibatch besides its values: its id, key, views and
/// records.
const OF_SEQUENCE: u128 = 64;

/// Minibatch size in samples up to which memory is not checked.
const FEW: u64 = 1 << 20;

/// The facts about the data that determine the size of a minibatch.
pub(super) struct Capacity<'a> {
    pub streams: &'a [StreamInfo],
    pub sizes: Sizes,
    /// Chunks list their sequences only when loaded.
    pub is_listed: bool,
}

impl Capacity<'_> {
    /// Checks the minibatches of an epoch. The truncated packer checks its own.
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
            let detail = "The data are repeated endlessly, so they would be read again and again. Set a smaller minibatch size, \
                          or an epoch that ends.";
            return Err(Error::argument(message).with_detail(detail));
        }
        let share = (size / read.workers.max(1)).max(1);
        room::check(u128::from(share.min(span)) * self.sample(), room::MINIBATCH)
    }

    /// Returns the minimum size of a sample in bytes.
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
            // A stream may have fewer samples than its sequence counts as.
            false => self.streams.iter().map(bytes).min().unwrap_or(0),
        }
    }
}
