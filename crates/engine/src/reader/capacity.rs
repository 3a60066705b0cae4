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
        room::check(self.least(epoch, read)?, room::MINIBATCH)
    }

    /// Returns the minimum size of a full minibatch in bytes, or 0 if it is small or unknown.
    fn least(&self, epoch: &Epoch, read: &ReadConfig) -> Result<u128> {
        let size = read.minibatch_size.min(LARGEST_MINIBATCH);
        if size <= FEW {
            return Ok(0);
        }
        let timeline = epoch.timeline();
        let span = match self.sizes.samples {
            Some(sweep) if !read.cross_sweeps => sweep,
            Some(sweep) => timeline.span(sweep).map_or(0, |span| span.end - span.start),
            None if timeline.is_in_sweeps() => return Ok(0),
            None => timeline.samples,
        };
        if self.is_listed && size == LARGEST_MINIBATCH && span >= SIZE_UNLIMITED {
            let message = format!("A minibatch of {} samples is never full.", read.minibatch_size);
            let detail = "The data are repeated endlessly, so they would be read again and again. Set a smaller minibatch size, \
                          or an epoch that ends.";
            return Err(Error::argument(message).with_detail(detail));
        }
        let share = (size / read.workers.max(1)).max(1);
        Ok(u128::from(share.min(span)) * self.sample())
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

#[cfg(test)]
mod tests {
    use super::*;
    use cntk_reader_core::ErrorKind;
    use cntk_reader_core::stream::UNKNOWN_DIMENSION;

    fn sizes(samples: Option<u64>, sequences: Option<u64>) -> Sizes {
        let mut sizes = Sizes::default();
        (sizes.samples, sizes.sequences) = (samples, sequences);
        sizes
    }

    #[test]
    fn sample_has_the_bytes_of_dense_streams() {
        let streams = [
            StreamInfo::dense("a", &[3, 2]),
            StreamInfo::sparse("b", &[100]),
            StreamInfo::dense("c", &[UNKNOWN_DIMENSION]),
            StreamInfo::dense("d", &[5]),
        ];
        for (streams, sizes, expected) in [
            (&streams[..], sizes(Some(9), Some(9)), 64 + 24 + 20),
            // A stream may have one sample for a whole sequence.
            (&streams[..], sizes(Some(9), Some(8)), 0),
            (&streams[..], sizes(None, None), 0),
            (&streams[..1], sizes(Some(9), Some(8)), 24),
            (&streams[3..], sizes(None, None), 20),
            (&[], sizes(None, None), 0),
        ] {
            let capacity = Capacity { streams, sizes, is_listed: false };
            assert_eq!(capacity.sample(), expected, "{sizes:?}");
        }
    }

    #[test]
    fn minibatch_is_bounded_by_size_share_and_epoch() {
        let streams = [StreamInfo::dense("a", &[4])];
        let few = 1 << 20;
        let (sweep, unknown) = (sizes(Some(10 * few), Some(few)), sizes(None, None));
        let read = ReadConfig::new;
        let one = Epoch::sweeps(1);
        for (sizes, epoch, read, samples) in [
            (sweep, one, read(few), 0),
            (sweep, one, read(few + 1), few + 1),
            (sweep, one, read(u64::MAX), 10 * few),
            (sweep, Epoch::sweeps(3).index(2), read(u64::MAX), 30 * few),
            // The sweep ends the minibatch.
            (sweep, Epoch::sweeps(3), read(u64::MAX).cross_sweeps(false), 10 * few),
            (sweep, Epoch::samples(7 * few), read(u64::MAX), 7 * few),
            (sweep, Epoch::unlimited(), read(u64::MAX), LARGEST_MINIBATCH),
            (sweep, Epoch::unlimited(), read(6 * few).worker(0, 3), 2 * few),
            (sweep, Epoch::unlimited(), read(6 * few).worker(0, u64::MAX), 1),
            (unknown, one, read(u64::MAX), 0),
            (unknown, Epoch::samples(7 * few), read(u64::MAX).cross_sweeps(false), 7 * few),
        ] {
            let capacity = Capacity { streams: &streams, sizes, is_listed: false };
            let least = capacity.least(&epoch, &read).expect("a minibatch that ends");
            assert_eq!(least, u128::from(samples) * 16, "{epoch:?} {read:?}");
            assert!(capacity.check(&epoch, &read).is_ok() || least > 1 << 33);
        }
    }

    #[test]
    fn endless_minibatches_of_listing_chunks_are_rejected() {
        let capacity = |is_listed| Capacity { streams: &[], sizes: sizes(None, None), is_listed };
        let largest = ReadConfig::new(LARGEST_MINIBATCH + 5);
        for (is_listed, epoch, read, is_ok) in [
            (true, Epoch::unlimited(), largest, false),
            (false, Epoch::unlimited(), largest, true),
            (true, Epoch::samples(SIZE_UNLIMITED - 1), largest, true),
            (true, Epoch::unlimited(), ReadConfig::new(LARGEST_MINIBATCH - 1), true),
        ] {
            assert_eq!(capacity(is_listed).least(&epoch, &read).is_ok(), is_ok, "{epoch:?} {read:?}");
        }
        let error = capacity(true).check(&Epoch::unlimited(), &largest).expect_err("endless");
        let message = format!("A minibatch of {} samples is never full.", LARGEST_MINIBATCH + 5);
        assert_eq!((error.kind(), error.message()), (ErrorKind::InvalidArgument, &*message));
    }

    #[test]
    fn more_than_the_memory_is_rejected() {
        let streams = [StreamInfo::dense("a", &[1 << 40])];
        let capacity = Capacity { streams: &streams, sizes: sizes(None, None), is_listed: false };
        let error = capacity.check(&Epoch::unlimited(), &ReadConfig::new(1 << 30)).expect_err("too large");
        assert_eq!(error.kind(), ErrorKind::Memory);
    }
}
