//! The minibatches of an epoch, one by one.

use super::{Minibatch, Reader};
use crate::{ErrorKind, Result};
use std::iter::FusedIterator;

/// The minibatches from here to the end of the epoch: what [`Reader::epoch`] and [`Reader::rest_of_epoch`] give.
///
/// Only minibatches with data are given, except by readers in lockstep
/// ([`ReaderOptions::lockstep`](crate::ReaderOptions::lockstep)): there each worker gets as many minibatches as the others, and
/// some may be without data.
///
/// An error in the data does not end the epoch: the next minibatch continues past the sequences
/// that could not be delivered. After errors that no later read can recover from
/// ([`ErrorKind::State`], [`ErrorKind::Internal`]) there is no next one, and none after a file that
/// could not be read, or memory that was missing ([`ErrorKind::Io`], [`ErrorKind::Memory`]):
/// [`Reader::rest_of_epoch`] tries to deliver the minibatch that failed. A file that is missing
/// stays so: the next minibatch continues past it.
///
/// Dropping it leaves the reader where it is, and [`Reader::rest_of_epoch`] continues from there.
#[must_use = "an epoch is read by iterating over it"]
#[derive(Debug)]
pub struct EpochIter<'r> {
    reader: &'r mut Reader,
    is_over: bool,
}

impl<'r> EpochIter<'r> {
    pub(super) fn new(reader: &'r mut Reader) -> Self {
        EpochIter { reader, is_over: false }
    }

    /// The reader, to save a checkpoint between two minibatches:
    ///
    /// ```no_run
    /// # let mut reader = cntk_reader::Reader::builder().config_file("digits.cntk")?.open()?;
    /// # let epoch = cntk_reader::Epoch::sweeps(1).minibatch_size(256);
    /// let mut minibatches = reader.epoch(epoch)?;
    /// while let Some(minibatch) = minibatches.next() {
    ///     let minibatch = minibatch?;
    ///     // ... train ...
    ///     // A process that is killed while it writes leaves the checkpoint of before.
    ///     std::fs::write("position.new", minibatches.reader().checkpoint()?).expect("writing the checkpoint");
    ///     std::fs::rename("position.new", "position.bin").expect("renaming the checkpoint");
    /// }
    /// # Ok::<(), cntk_reader::Error>(())
    /// ```
    #[must_use]
    pub fn reader(&self) -> &Reader {
        self.reader
    }

    /// The reader, to change sizes or workers between two minibatches.
    #[must_use]
    pub fn reader_mut(&mut self) -> &mut Reader {
        self.reader
    }
}

impl Iterator for EpochIter<'_> {
    type Item = Result<Minibatch>;

    fn next(&mut self) -> Option<Result<Minibatch>> {
        while !self.is_over {
            let is_step = self.reader.reads_a_step();
            match self.reader.read() {
                Ok(minibatch) => {
                    self.is_over = minibatch.end_of_epoch();
                    if is_step || !minibatch.is_empty() {
                        return Some(Ok(minibatch));
                    }
                }
                Err(error) => {
                    self.is_over =
                        matches!(error.kind(), ErrorKind::State | ErrorKind::Internal) || error.may_pass();
                    return Some(Err(error));
                }
            }
        }
        None
    }
}

impl FusedIterator for EpochIter<'_> {}
