//! The public reader.

use super::minibatch::Descriptions;
use crate::{Builder, EpochCursor, EpochIter, Minibatch};
use cntk_reader_core::stream::StreamInfo;
use cntk_reader_core::{Error, Result};
use cntk_reader_engine::reader::{
    CntkState, Epoch, EpochProgress, EpochState, Member, MemoryUse, ReadConfig, Reader as Engine, Sizes,
};
use std::fmt;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

/// Reads minibatches. Opened by a [`Builder`].
///
/// *Threads*: a reader may move between threads; its calls need exclusive access. Minibatches are
/// independent of the reader and may be used and dropped on any thread.
///
/// *Fork*: a reader belongs to the process that opened it. In a child process every call fails, and
/// dropping the reader leaks its memory rather than waiting for threads that do not exist there.
pub struct Reader {
    engine: Engine,
    descriptions: Arc<Descriptions>,
    /// The number of the cursor returned last.
    cursor: u64,
}

impl Reader {
    /// Returns a builder of a reader.
    pub fn builder() -> Builder {
        Builder::default()
    }

    pub(super) fn new(engine: Engine) -> Reader {
        let descriptions = Descriptions::new(engine.streams(), engine.shapes(), engine.corpus());
        let descriptions = Arc::new(descriptions);
        Reader { engine, descriptions, cursor: 0 }
    }

    /// Returns the streams in the order of their numbers: alphabetical for text, as in the file for
    /// binary data.
    ///
    /// Truncated minibatches with [`expand_sparse`](crate::ReaderOptions::expand_sparse) deliver
    /// sparse streams, and describe them here, as dense.
    #[must_use]
    pub fn streams(&self) -> &[StreamInfo] {
        &self.descriptions.streams
    }

    /// Returns the description of a stream. The error for an unknown name lists the names that
    /// exist.
    pub fn stream(&self, name: &str) -> Result<&StreamInfo> {
        self.descriptions.find(name).map(|number| &self.descriptions.streams[number])
    }

    /// Starts an epoch and returns its minibatches.
    pub fn epoch(&mut self, epoch: Epoch) -> Result<EpochIter<'_>> {
        let cursor = self.epoch_cursor(epoch)?;
        Ok(EpochIter::new(self, cursor))
    }

    /// Starts the epoch after the current one and returns its minibatches: the first call starts
    /// epoch 0, the next one epoch 1, and so on. `epoch` sets minibatch size, workers and flags.
    ///
    /// After [`Reader::restore`] the first call continues with the rest of the checkpoint's epoch,
    /// unless the end of that epoch was already reported. It is an error if the current epoch has
    /// another size: use [`Reader::epoch`] with [`Epoch::index`] to say which one to start.
    ///
    /// ```no_run
    /// # let mut reader = cntk_reader::Reader::builder().config_file("digits.cntk")?.open()?;
    /// use cntk_reader::Epoch;
    ///
    /// let sweep = Epoch::sweeps(1).minibatch_size(256);
    /// loop {
    ///     for minibatch in reader.next_epoch(sweep)? {
    ///         let minibatch = minibatch?;
    ///     }
    ///     if reader.current_epoch().is_some_and(|(index, _)| index == 9) {
    ///         break;
    ///     }
    /// }
    /// # Ok::<(), cntk_reader::Error>(())
    /// ```
    pub fn next_epoch(&mut self, epoch: Epoch) -> Result<EpochIter<'_>> {
        let cursor = self.next_epoch_cursor(epoch)?;
        Ok(EpochIter::new(self, cursor))
    }

    /// Starts an epoch like [`Reader::next_epoch`], for a loop that does not borrow the reader.
    pub fn next_epoch_cursor(&mut self, epoch: Epoch) -> Result<EpochCursor> {
        let (read, ..) = epoch.numbers();
        check_size(&read)?;
        self.engine.start_next_epoch(&epoch)?;
        Ok(self.rest_cursor())
    }

    /// Returns the number of the current epoch, from 0, and its progress; `None` before the first
    /// one. Restoring a checkpoint makes the checkpoint's epoch current.
    #[must_use]
    pub fn current_epoch(&self) -> Option<(u64, EpochState)> {
        self.engine.current_epoch().map(|(epoch, state)| (epoch.numbers().3, state))
    }

    /// Returns the minibatches from the current position to the end of the epoch, after
    /// [`Reader::restore`] or a loop that was left early.
    pub fn rest_of_epoch(&mut self) -> EpochIter<'_> {
        let cursor = self.rest_cursor();
        EpochIter::new(self, cursor)
    }

    /// Starts an epoch like [`Reader::epoch`], for a loop that does not borrow the reader.
    pub fn epoch_cursor(&mut self, epoch: Epoch) -> Result<EpochCursor> {
        let (read, ..) = epoch.numbers();
        check_size(&read)?;
        self.engine.start_epoch(&epoch)?;
        Ok(self.rest_cursor())
    }

    /// Returns the minibatches of [`Reader::rest_of_epoch`], for a loop that does not borrow the
    /// reader. Earlier cursors become invalid.
    pub fn rest_cursor(&mut self) -> EpochCursor {
        let cursor = EpochCursor::new();
        self.cursor = cursor.number();
        cursor
    }

    /// Fails unless this is the cursor returned last.
    pub(super) fn check_cursor(&self, number: u64) -> Result<()> {
        match self.cursor == number {
            true => Ok(()),
            false => Err(Error::state("Another loop over the reader was started: this one cannot continue.")
                .with_detail("A reader has one position. Use the cursor or iterator that it returned last.")),
        }
    }

    /// Returns the next step of the epoch: a minibatch with data or, in lockstep, one that all
    /// workers take part in. At the end of the epoch every call returns `None`.
    #[expect(clippy::should_implement_trait, reason = "an error does not end the steps of a reader")]
    pub fn next(&mut self) -> Result<Option<Minibatch>> {
        let step = self.engine.next()?;
        Ok(step.map(|minibatch| Minibatch::new(minibatch, &self.descriptions)))
    }

    /// Like [`Reader::next`], but waits no longer than `patience`. A pending result loses nothing:
    /// a later call delivers the minibatch that this one waited for. Meanwhile one of the reader's
    /// threads continues reading, and the caller can do something else, such as checking for
    /// signals.
    ///
    /// ```no_run
    /// # let mut reader = cntk_reader::Reader::builder().config_file("digits.cntk")?.open()?;
    /// # let epoch = cntk_reader::Epoch::sweeps(1).minibatch_size(256);
    /// use std::task::Poll;
    /// use std::time::Duration;
    ///
    /// let _ = reader.epoch(epoch)?;
    /// loop {
    ///     match reader.next_within(Duration::from_millis(50))? {
    ///         Poll::Ready(Some(minibatch)) => println!("{} sequences", minibatch.sequences()),
    ///         Poll::Ready(None) => break,
    ///         Poll::Pending => println!("still waiting"),
    ///     }
    /// }
    /// # Ok::<(), cntk_reader::Error>(())
    /// ```
    ///
    /// It may wait longer after a call that failed or was cancelled, which is rolled back first,
    /// and if the system cannot start another thread.
    pub fn next_within(&mut self, patience: Duration) -> Result<Poll<Option<Minibatch>>> {
        let step = self.engine.next_within(patience)?;
        Ok(step.map(|step| step.map(|minibatch| Minibatch::new(minibatch, &self.descriptions))))
    }

    /// Waits until the next minibatch, or an error in its place, is available without waiting, but
    /// no longer than `patience`. Returns whether [`Reader::read`] or [`Reader::next`] can be
    /// called without waiting; `next` still waits where this worker has no share of a minibatch.
    /// See also [`Reader::next_within`].
    pub fn wait(&mut self, patience: Duration) -> Result<bool> {
        self.engine.wait(patience)
    }

    /// Reads the next minibatch, like CNTK's GetMinibatch. The result may have no data, and past
    /// the end of the epoch it never has any: check [`Minibatch::is_step`] and
    /// [`Minibatch::end_of_epoch`]. [`Reader::epoch`] and [`Reader::next`] are easier to use.
    pub fn read(&mut self) -> Result<Minibatch> {
        let minibatch = self.engine.read()?;
        Ok(Minibatch::new(minibatch, &self.descriptions))
    }

    /// Changes minibatch size, workers and flags between two minibatches, at the current position.
    /// In truncated mode the rest of any sequence that was begun is dropped, as in CNTK.
    pub fn configure(&mut self, config: ReadConfig) -> Result<()> {
        check_size(&config)?;
        self.engine.configure(&config)
    }

    /// Returns the minibatch size, workers and flags in force, including those of a restored
    /// checkpoint.
    pub fn config(&self) -> Result<ReadConfig> {
        self.engine.config()
    }

    /// Returns the position after the last minibatch read, as opaque bytes. Every mode resumes
    /// exactly.
    ///
    /// ```no_run
    /// # let mut reader = cntk_reader::Reader::builder().config_file("digits.cntk")?.open()?;
    /// # let mut another = cntk_reader::Reader::builder().config_file("digits.cntk")?.open()?;
    /// let bytes = reader.checkpoint()?;
    /// // Later, in another process perhaps, over the same data and configuration:
    /// another.restore(&bytes)?;
    /// for minibatch in another.rest_of_epoch() {
    ///     let minibatch = minibatch?;
    /// }
    /// # Ok::<(), cntk_reader::Error>(())
    /// ```
    pub fn checkpoint(&self) -> Result<Vec<u8>> {
        self.engine.checkpoint()
    }

    /// Continues where [`Reader::checkpoint`] was called, in the epoch of the checkpoint. A new
    /// reader becomes the worker that took the checkpoint; a reader that has started an epoch keeps
    /// its own worker number. A checkpoint of other data or another configuration, or one that this
    /// worker cannot continue exactly, is refused with an error that says what differs; the reader
    /// is then unchanged.
    pub fn restore(&mut self, checkpoint: &[u8]) -> Result<()> {
        self.engine.restore(checkpoint)
    }

    /// Like [`Reader::restore`], for data whose values were changed on purpose, for example to
    /// correct some of them. The sequences must have the same keys and lengths.
    pub fn restore_over_changed_values(&mut self, checkpoint: &[u8]) -> Result<()> {
        self.engine.restore_over_changed_values(checkpoint)
    }

    /// Returns how much data there is. With several deserializers, only sequences that all of them
    /// have are counted.
    #[must_use]
    pub fn sizes(&self) -> Sizes {
        self.engine.sizes()
    }

    /// Returns the deserializers in their order, each with its sizes. The first one is primary.
    #[must_use]
    pub fn members(&self) -> &[Member] {
        self.engine.members()
    }

    /// Returns the progress of the epoch, for a progress bar.
    ///
    /// ```no_run
    /// # let mut reader = cntk_reader::Reader::builder().config_file("digits.cntk")?.open()?;
    /// let progress = reader.progress()?;
    /// match progress.expected {
    ///     Some(expected) => println!("{} of {expected} samples", progress.delivered),
    ///     None => println!("{} samples", progress.delivered),
    /// }
    /// # Ok::<(), cntk_reader::Error>(())
    /// ```
    pub fn progress(&self) -> Result<EpochProgress> {
        self.engine.progress()
    }

    /// Returns the memory that the reader holds.
    #[must_use]
    pub fn memory(&self) -> MemoryUse {
        self.engine.memory()
    }

    /// Suggests a chunk size, in bytes, with which this many workers share the data evenly; for
    /// [`CtfDeserializer::chunk_size`](crate::CtfDeserializer::chunk_size).
    #[must_use]
    pub fn suggest_chunk_size(&self, workers: u64) -> u64 {
        self.engine.suggest_chunk_size(workers)
    }

    /// Returns CNTK's checkpoint state: named numbers, for programs that keep CNTK's own
    /// checkpoints. Where minibatches leave parts of sequences for later, as in truncated mode, it
    /// does not resume exactly; [`Reader::checkpoint`] does.
    #[must_use]
    pub fn cntk_state(&self) -> CntkState {
        self.engine.state()
    }

    /// Restores [`Reader::cntk_state`] in the current epoch. Unknown names are ignored; a missing
    /// name is an error.
    pub fn restore_cntk_state(&mut self, state: &[(&str, u64)]) -> Result<()> {
        self.engine.set_state(state)
    }
}

/// Fails with a hint if the minibatch size is not set.
fn check_size(read: &ReadConfig) -> Result<()> {
    if read.minibatch_size > 0 {
        return Ok(());
    }
    let detail = "Set the minibatch size of the epoch to a number of samples over all workers, such as 256.";
    Err(Error::argument("The minibatch size is 0.").with_detail(detail))
}

impl fmt::Debug for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader")
            .field("streams", &self.streams())
            .field("config", &self.config().ok())
            .finish()
    }
}
