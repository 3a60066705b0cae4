//! The minibatches of an epoch, one by one.

use crate::{Minibatch, Reader};
use cntk_reader_core::{Error, ErrorKind, Result};
use std::iter::FusedIterator;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;
use std::time::Duration;

/// The minibatches from the current position to the end of the epoch, returned by [`Reader::epoch`]
/// and [`Reader::rest_of_epoch`].
///
/// It yields only minibatches with data, except for readers in lockstep
/// ([`ReaderOptions::lockstep`](crate::ReaderOptions::lockstep)), where every worker gets the same
/// number of minibatches, some of them possibly without data.
///
/// An error in the data does not end the epoch: the next minibatch continues past the sequences
/// that could not be delivered; in text, these are all sequences of the chunk with the error. The
/// iterator ends after errors that no later read can recover from ([`ErrorKind::State`],
/// [`ErrorKind::Internal`]), and after a file that could not be read or a lack of memory
/// ([`ErrorKind::Io`], [`ErrorKind::Memory`]); after such an error [`Reader::rest_of_epoch`]
/// retries the minibatch that failed. A missing file is not retried: the next minibatch continues
/// past it.
///
/// Dropping it leaves the reader at its position, and [`Reader::rest_of_epoch`] continues from
/// there.
#[must_use = "an epoch is read by iterating over it"]
#[derive(Debug)]
pub struct EpochIter<'r> {
    reader: &'r mut Reader,
    cursor: EpochCursor,
}

/// A loop over an epoch that does not borrow the reader, returned by [`Reader::epoch_cursor`] and
/// [`Reader::rest_cursor`]. It is for objects that cannot borrow a reader because others hold it
/// too, such as objects of another language.
///
/// It yields the same minibatches as [`EpochIter`]. A reader has one position, so it serves only
/// the cursor or iterator that it returned last; using an earlier one is an error of kind
/// [`ErrorKind::State`].
///
/// ```no_run
/// # let reader = cntk_reader::Reader::builder().config_file("digits.cntk")?.open()?;
/// use cntk_reader::{Epoch, EpochCursor, Minibatch, Reader, Result};
/// use std::sync::{Arc, Mutex};
///
/// /// The iterator of another language.
/// struct Loop {
///     reader: Arc<Mutex<Reader>>,
///     cursor: EpochCursor,
/// }
///
/// impl Loop {
///     fn next(&mut self) -> Option<Result<Minibatch>> {
///         self.cursor.next(&mut self.reader.lock().expect("no panic"))
///     }
/// }
///
/// let reader = Arc::new(Mutex::new(reader));
/// let epoch = Epoch::sweeps(1).minibatch_size(256);
/// let cursor = reader.lock().expect("no panic").epoch_cursor(epoch)?;
/// let mut minibatches = Loop { reader: Arc::clone(&reader), cursor };
/// while let Some(minibatch) = minibatches.next() {
///     println!("{} sequences", minibatch?.sequences());
/// }
/// # Ok::<(), cntk_reader::Error>(())
/// ```
#[must_use = "an epoch is read by iterating over it"]
#[derive(Debug)]
pub struct EpochCursor {
    /// Unique in the process.
    number: u64,
    is_over: bool,
}

impl EpochCursor {
    pub(super) fn new() -> EpochCursor {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        EpochCursor { number: 1 + COUNT.fetch_add(1, Ordering::Relaxed), is_over: false }
    }

    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// Returns the next minibatch; `None` at the end, and after the errors that end an
    /// [`EpochIter`].
    pub fn next(&mut self, reader: &mut Reader) -> Option<Result<Minibatch>> {
        match self.advance(reader, |reader| reader.next().map(Poll::Ready)) {
            Poll::Ready(next) => next,
            Poll::Pending => Some(Err(Error::internal("A wait without a limit has ended."))),
        }
    }

    /// Like [`EpochCursor::next`], but waits no longer than `patience`; see
    /// [`Reader::next_within`].
    pub fn next_within(
        &mut self,
        reader: &mut Reader,
        patience: Duration,
    ) -> Poll<Option<Result<Minibatch>>> {
        self.advance(reader, |reader| reader.next_within(patience))
    }

    fn advance(
        &mut self,
        reader: &mut Reader,
        next: impl FnOnce(&mut Reader) -> Result<Poll<Option<Minibatch>>>,
    ) -> Poll<Option<Result<Minibatch>>> {
        if self.is_over {
            return Poll::Ready(None);
        }
        match reader.check_cursor(self.number).and_then(|()| next(reader)) {
            Ok(next) => {
                self.is_over = matches!(next, Poll::Ready(None));
                next.map(|step| step.map(Ok))
            }
            Err(error) => {
                self.is_over =
                    matches!(error.kind(), ErrorKind::State | ErrorKind::Internal) || error.may_pass();
                Poll::Ready(Some(Err(error)))
            }
        }
    }
}

impl<'r> EpochIter<'r> {
    pub(super) fn new(reader: &'r mut Reader, cursor: EpochCursor) -> Self {
        EpochIter { reader, cursor }
    }

    /// Returns the reader, to save a checkpoint between two minibatches:
    ///
    /// ```no_run
    /// # let mut reader = cntk_reader::Reader::builder().config_file("digits.cntk")?.open()?;
    /// # let epoch = cntk_reader::Epoch::sweeps(1).minibatch_size(256);
    /// let mut minibatches = reader.epoch(epoch)?;
    /// while let Some(minibatch) = minibatches.next() {
    ///     let minibatch = minibatch?;
    ///     // ... train ...
    ///     // The previous checkpoint survives if the process is killed while writing.
    ///     let checkpoint = minibatches.reader().checkpoint()?;
    ///     std::fs::write("position.new", checkpoint).expect("writing the checkpoint");
    ///     std::fs::rename("position.new", "position.bin").expect("renaming the checkpoint");
    /// }
    /// # Ok::<(), cntk_reader::Error>(())
    /// ```
    #[must_use]
    pub fn reader(&self) -> &Reader {
        self.reader
    }

    /// Returns the reader, to change sizes or workers between two minibatches.
    #[must_use]
    pub fn reader_mut(&mut self) -> &mut Reader {
        self.reader
    }
}

impl Iterator for EpochIter<'_> {
    type Item = Result<Minibatch>;

    fn next(&mut self) -> Option<Result<Minibatch>> {
        self.cursor.next(self.reader)
    }
}

impl FusedIterator for EpochIter<'_> {}
