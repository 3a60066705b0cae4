//! The minibatches of an epoch, one by one.

use crate::{Minibatch, Reader};
use cntk_reader_core::{Error, ErrorKind, Result};
use std::iter::FusedIterator;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;
use std::time::Duration;

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
    cursor: EpochCursor,
}

/// A loop over an epoch, apart from the reader: what [`Reader::epoch_cursor`] and
/// [`Reader::rest_cursor`] give. It is for objects that cannot borrow a reader because others hold
/// it too, such as those of another language.
///
/// It gives what [`EpochIter`] gives. A reader has one position, so it serves the cursor or
/// iterator that it gave last; for another one that is an error of the kind [`ErrorKind::State`].
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
/// let cursor = reader.lock().expect("no panic").epoch_cursor(Epoch::sweeps(1).minibatch_size(256))?;
/// let mut minibatches = Loop { reader: Arc::clone(&reader), cursor };
/// while let Some(minibatch) = minibatches.next() {
///     println!("{} sequences", minibatch?.sequences());
/// }
/// # Ok::<(), cntk_reader::Error>(())
/// ```
#[must_use = "an epoch is read by iterating over it"]
#[derive(Debug)]
pub struct EpochCursor {
    /// No other cursor of the process has it.
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

    /// The next minibatch; `None` at the end, and after the errors that end an [`EpochIter`].
    pub fn next(&mut self, reader: &mut Reader) -> Option<Result<Minibatch>> {
        match self.advance(reader, |reader| reader.next().map(Poll::Ready)) {
            Poll::Ready(next) => next,
            Poll::Pending => Some(Err(Error::internal("A wait without a limit has ended."))),
        }
    }

    /// [`EpochCursor::next`], which waits no longer than `patience`: see [`Reader::next_within`].
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
        self.cursor.next(self.reader)
    }
}

impl FusedIterator for EpochIter<'_> {}
